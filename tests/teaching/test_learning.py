"""Pictures of learning: snapshots are the agents of their moments, and pages and animations hold every picture."""

import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.errors import InputError
from relax_plugin.evaluation.toy import toy_task
from relax_plugin.teaching.learning import (
    WatchedReLAX,
    learning_curves,
    learning_slider,
    paths_over_time,
    small_multiples,
)
from relax_plugin.teaching.rollouts import environment_of, follow, policy_of
from relax_plugin.teaching.slider import Slider

TASK = toy_task("network")
QUERIES = TASK.X_test[:6]
SHORT = ReLAXConfig(training="model", steps=24, episodes=32, updates_per_step=2, batch=32, hidden=16, start_pool=256)
SHORT = replace(SHORT, validate_every=8, demonstrations=0)
OPTIONS = {"max_changes": 2, "effort": "policy", "config": SHORT, "progress": False}


@pytest.fixture(scope="module")
def explainer() -> WatchedReLAX:
    return WatchedReLAX(TASK.model, TASK.space, seed=2, **OPTIONS).fit(TASK.X_train)


@pytest.fixture(scope="module")
def paths(explainer) -> pd.DataFrame:
    return paths_over_time(TASK, explainer, QUERIES)


def equal(one, other):
    return all((one[name] == other[name]).all() for name in one)


@pytest.mark.slow
def test_watching_changes_nothing(explainer) -> None:
    unwatched = ReLAX(TASK.model, TASK.space, seed=2, **OPTIONS).fit(TASK.X_train)
    assert equal(explainer.agent_.weights, unwatched.agent_.weights)
    kept = [name for name in unwatched.history_.frame() if name != "seconds"]
    assert unwatched.history_.frame()[kept].equals(explainer.history_.frame()[kept])
    np.testing.assert_array_equal(unwatched.explain(QUERIES).values, explainer.explain(QUERIES).values)


def test_there_is_a_snapshot_of_every_validation_and_the_kept_one_is_the_agent(explainer) -> None:
    assert list(explainer.snapshots_) == [0, 8, 16, 24]
    kept = int(explainer.history_.frame().set_index("step")["objective"].idxmax())
    same = [step for step, weights in explainer.snapshots_.items() if equal(weights, explainer.agent_.weights)]
    assert same == [kept]


def test_the_last_snapshot_is_the_trained_agent_where_the_last_is_the_best() -> None:
    """Validated once, at the end: there is nothing else to keep."""
    config = replace(SHORT, validate_every=100)
    one = WatchedReLAX(TASK.model, TASK.space, **{**OPTIONS, "config": config}).fit(TASK.X_train)
    assert list(one.snapshots_) == [0, 24]
    assert equal(one.snapshots_[24], one.agent_.weights)
    assert not equal(one.snapshots_[0], one.agent_.weights)


def test_a_snapshot_acts_inside_the_with_only(explainer) -> None:
    trained = explainer.agent_
    with explainer.at(0):
        assert equal(explainer.agent_.weights, explainer.snapshots_[0])
        untrained = explainer.explain(TASK.X_test).found.mean()
    assert explainer.agent_ is trained
    assert explainer.explain(TASK.X_test).found.mean() > untrained
    with pytest.raises(InputError, match=r"no snapshot at step 5; there are \[0, 8, 16, 24\]"), explainer.at(5):
        pass


def test_paths_over_time_are_the_games_of_each_snapshot(explainer, paths) -> None:
    assert list(dict.fromkeys(paths["trained"])) == [0, 8, 16, 24]
    env = environment_of(TASK, QUERIES, observer=explainer.observer_, config=explainer.config_)
    with explainer.at(16):
        again = follow(env, policy_of(explainer.agent_))
    part = paths[paths["trained"] == 16].drop(columns="trained").reset_index(drop=True)
    pd.testing.assert_frame_equal(part, again)
    assert not part.equals(paths[paths["trained"] == 0].drop(columns="trained").reset_index(drop=True))


@pytest.mark.slow
def test_small_multiples_have_a_panel_for_each_moment_with_its_own_arrows(paths) -> None:
    figure = small_multiples(TASK, paths)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title().partition("\n")[0] for axes in panels] == [
        "untrained",
        "after 8 training steps",
        "after 16 training steps",
        "after 24 training steps",
    ]
    for axes, (_, part) in zip(panels, paths.groupby("trained"), strict=True):
        tips = [text.xy for text in axes.texts if getattr(text, "arrow_patch", None) is not None]
        np.testing.assert_array_equal(tips, part[part["step"] > 0][["income", "debt"]])
    assert len(small_multiples(TASK, paths, moments=[0, 24]).axes) == 2
    assert "as it learns" in figure.get_suptitle()
    with pytest.raises(InputError, match=r"no paths after \[7\] training steps"):
        small_multiples(TASK, paths, moments=[0, 7])


def pictures(count=3) -> Slider:
    figures = [Figure(figsize=(1.5, 1.0)) for _ in range(count)]
    for i, figure in enumerate(figures):
        figure.text(0.5, 0.5, str(i))
    return Slider(figures, [f"<moment> {i}" for i in range(count)], "A & B </script>")


@pytest.mark.slow
def test_the_page_holds_every_picture_and_fetches_nothing(paths, tmp_path) -> None:
    page = learning_slider(TASK, paths).save(tmp_path / "new" / "page.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert re.search(r'type="range" min="0" max="3"', page)
    assert "after 16 training steps" in page
    assert not re.search(r"https?:|src=\"(?!data:)|<link", page)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]  # nothing half-written is left


def test_what_is_written_in_labels_is_no_markup() -> None:
    page = pictures().page()
    assert "<moment>" not in page
    assert page.count("</script>") == 1
    assert "A &amp; B &lt;/script&gt;" in page
    assert page == pictures().page()  # the same pictures, the same page
    assert pictures()._repr_html_() in page


def test_the_animation_has_a_frame_for_each_picture(tmp_path) -> None:
    path = pictures(3).save(tmp_path / "learning.gif")
    with Image.open(io.BytesIO(path.read_bytes())) as animation:
        assert animation.n_frames == 3
        assert animation.info["loop"] == 0


def test_a_slider_without_pictures_or_of_an_unknown_kind_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"name it \.html or \.gif"):
        pictures().save(tmp_path / "learning.mp4")
    with pytest.raises(InputError, match="0 pictures and 0 labels"):
        Slider([], [], "")
    with pytest.raises(InputError, match="3 pictures and 2 labels"):
        Slider(pictures().figures, ["a", "b"], "")
    assert not list(tmp_path.iterdir())


def test_learning_curves_are_means_over_seeds_for_each_setting() -> None:
    rows = [
        {"setting": setting, "seed": seed, "step": step, "validity": 0.1 * step + 0.02 * seed, "return": seed - 3.0}
        for setting in ("off", "on")
        for seed in range(3)
        for step in (1, 2, 3)
    ]
    figure = learning_curves(pd.DataFrame(rows), columns=("return", "validity"))
    returns, validity = figure.axes
    assert [line.get_label() for line in validity.lines] == ["off", "on"]
    np.testing.assert_allclose(validity.lines[0].get_ydata(), [0.12, 0.22, 0.32])
    np.testing.assert_allclose(returns.lines[1].get_ydata(), [-2.0] * 3)
    edges = returns.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == (-3.0, -1.0)  # a return is no share: its band is not cut at 0
    assert "3 seeds" in figure.get_suptitle()
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in validity.lines}
    assert len({marker for _, marker, _ in looks}) == len({colour for colour, _, _ in looks}) == 2
