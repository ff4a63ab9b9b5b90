"""The playground: what its page shows is what the environment, the agent and the explainers say."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.unpacked import unpack

from relax_plugin import ReLAX, ReLAXConfig, make_explainer
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.history import History
from relax_plugin.cli import main
from relax_plugin.search.state import Episodes
from relax_plugin.teaching import play as module
from relax_plugin.teaching.play import FREE, MOMENTS, NOBODY, Playground, moments, page_data, play, render
from relax_plugin.teaching.rollouts import action_names

LARGEST_PAGE = 2_000_000  # bytes; how well the steps can be packed depends on the agent
CHECKED = 25  # points stepped by hand


@pytest.fixture(scope="module")
def playground() -> Playground:
    return play("trees", seed=0)


@pytest.fixture(scope="module")
def page(playground: Playground) -> str:
    return render(playground)


AGENTS = [(trained, held) for held in ("", "income", "debt") for trained in ("untrained", "kept")]


def led_by(playground: Playground, trained: int) -> ReLAX:
    with playground.explainer.at(trained) as agent:
        return copy.copy(agent)


def moment(playground: Playground, word: str) -> int:
    return {"untrained": 0, "kept": playground.kept}[word]


def steps_of(playground: Playground, trained: int, held: str = FREE) -> pd.DataFrame:
    steps = playground.steps
    return steps[(steps["trained"] == trained) & (steps["held"] == held)]


def call(held: str) -> dict[str, Any]:
    return {"immutable": [held]} if held else {}


@pytest.mark.slow
@pytest.mark.parametrize(("word", "held"), AGENTS)
def test_paths_end_where_the_policy_of_the_explainer_does(playground, word, held) -> None:
    trained = moment(playground, word)
    result = led_by(playground, trained).explain(playground.points, **call(held))
    steps = steps_of(playground, trained, held)
    reached = playground.points.to_numpy(copy=True)
    feature = playground.explainer.observer_.actions.feature[steps["action"]]
    reached[steps["point"], feature] = steps["to"]
    found = result.found[:, 0]
    same = (reached == result.values[:, 0]).all(axis=1)[found]
    assert same.mean() > 0.999  # single precision: a batch of other rows may round to the next number
    last = steps.groupby("point").last()
    assert ((last["goal"] == 1).to_numpy() == result.found[last.index, 0]).mean() > 0.999
    told = playground.told("policy", held, trained)
    assert (told["rows"] == result.rows_queried).mean() > 0.999
    if held:
        position = playground.task.space.names.index(held)
        assert position not in feature and np.array_equal(told[held], playground.points[held])
    elif word == "kept":
        untrained = led_by(playground, 0).explain(playground.points)
        assert result.found.mean() > untrained.found.mean()


@pytest.mark.slow
@pytest.mark.parametrize(("word", "held"), [("untrained", ""), ("kept", ""), ("kept", "income")])
def test_rewards_and_values_are_those_of_the_environment_stepped_by_hand(playground, word, held) -> None:
    trained = moment(playground, word)
    led = led_by(playground, trained)
    observer, blackbox = led.observer_, led.blackbox_
    steps = steps_of(playground, trained, held).set_index(["point", "step"])
    several = steps.index.get_level_values("point")[steps.index.get_level_values("step") == 1]
    some = [] if held else several[:: len(several) // 9]
    for point in [*np.linspace(0, len(playground.points) - 1, CHECKED).astype(int), *some]:
        row = playground.points.iloc[[point]]
        before = blackbox.confirm(row)
        goal = led.goal_.bind(blackbox, before)
        values = led.space_.values(row)
        limits = led.space_.limits(values=values, **call(held))
        start = Episodes.begin(values, before, goal, limits, observer.max_changes)
        env = CounterfactualEnv(start, observer, blackbox, led.config_, width=1)
        states, info = env.reset(seed=0, options={"starts": [0]})
        for step in range(observer.max_changes):
            told = steps.loc[(point, step)]
            assert told[["income", "debt"]].tolist() == env.episodes.values[0].tolist()
            q, v = led.agent_.evaluate(states, info["allowed"])
            for k, name in enumerate(action_names(led.observer_.actions)):
                expected = q[0, k] if info["allowed"][0, k] else np.nan
                assert told[f"Q {name}"] == pytest.approx(expected, abs=1e-5, nan_ok=True)  # single precision
            taken = told["action"]
            assert taken == q[0].argmax()
            states, reward, met, over, info = env.step(([taken], v[0, [taken]]))
            assert told["to"] == info["values"][0, observer.actions.feature[taken]]
            assert told["reward"] == pytest.approx(reward[0])
            assert told["goal"] == met[0]
            assert told["goal"] + told["distance"] == pytest.approx(told["reward"])
            assert told["distance"] < 0
            chance = blackbox.ask(info["values"]).scores[0, goal.wanted[0]][0]
            assert told["probability after"] == pytest.approx(chance)
            if met[0] or over[0]:
                break
        assert (point, step + 1) not in steps.index


@pytest.mark.slow
@pytest.mark.parametrize("held", ["", "income", "debt"])
def test_answers_are_those_of_the_explainers(playground, held) -> None:
    task = playground.task
    some = playground.points.iloc[::37]
    agent = led_by(playground, playground.kept)
    greedy = make_explainer("greedy", task.model, task.space).fit(task.X_train)
    for explainer, method in ((greedy, "greedy"), (agent, "policy")):
        told = playground.told(method, held).iloc[::37]
        result = explainer.explain(some, **call(held))
        assert np.array_equal(told[["income", "debt"]], result.values[:, 0])
        assert told["found"].tolist() == result.found[:, 0].tolist()
        assert np.array_equal(told["L0"], result.sparsity[:, 0], equal_nan=True)
        assert np.allclose(told["L1"], result.proximity[:, 0], equal_nan=True)
        apart = told["rows"].to_numpy() - result.rows_queried  # small batches ask about a query once, by its trees
        assert ((apart == 0) | (apart == 1)).all()
        assert held or result.found.mean() > 0.9


@pytest.mark.slow
def test_the_tree_of_the_page_is_the_policys(playground, page) -> None:
    tree = playground.explainer.policy_tree()
    assert tree == playground.tree
    assert tree.fidelity > tree.baseline + 0.2
    assert tree._repr_html_() in page


@pytest.mark.slow
def test_untrained_agent_is_the_one_training_begins_with_and_the_kept_one_is_delivered(playground, monkeypatch) -> None:
    task, explainer = playground.task, playground.explainer
    trained, kept = explainer.agent_.weights, explainer.snapshots_[playground.kept]
    assert all((kept[name] == weight).all() for name, weight in trained.items())
    monkeypatch.setattr("relax_plugin.agent.training.train", lambda *_, **__: History())
    fresh = ReLAX(task.model, task.space, config=ReLAXConfig(training="model"), seed=0).fit(task.X_train)
    weights = explainer.snapshots_[0]
    assert all((weights[name] == weight).all() for name, weight in fresh.agent_.weights.items())
    assert any((weights[name] != weight).any() for name, weight in trained.items())


@pytest.mark.slow
def test_moments_are_few_and_have_the_first_the_kept_and_the_last(playground) -> None:
    shown = sorted(set(playground.steps["trained"]))
    known = list(playground.explainer.snapshots_)
    assert len(shown) == MOMENTS < len(known)
    assert {0, playground.kept, known[-1]} <= set(shown) <= set(known)
    assert moments(playground.explainer, most=1) == sorted({0, playground.kept, known[-1]})
    shares = [playground.told("policy", trained=trained)["found"].mean() for trained in shown]
    assert shares[0] < min(shares[1:])  # it learns
    data = page_data(playground)
    assert data["moments"][data["kept"]] == {
        "trained": playground.kept,
        "name": f"after {playground.kept} training steps",
    }


@pytest.mark.slow
def test_every_point_of_the_grid_is_a_row_the_space_accepts(playground) -> None:
    points, space = playground.points, playground.task.space
    assert len(points) == 91 * 61
    values = space.values(points)
    assert np.array_equal(space.limits().round_to_grid(values), values)
    assert not points.duplicated().any()
    assert [*points.min(), *points.max()] == [10.0, 0.0, 100.0, 60.0]


@pytest.mark.slow
def test_packed_numbers_are_the_numbers_rounded(playground) -> None:
    data = page_data(playground)
    assert len(data["steps"]) == 3 * MOMENTS and len(data["answers"]) == 3 * (MOMENTS + 1)
    for key, (trained, held) in {"0": (0, ""), f"{playground.kept} debt": (playground.kept, "debt")}.items():
        frame = steps_of(playground, trained, held)
        columns = {name: unpack(column) for name, column in data["steps"][key].items()}
        for name in ("point", "action", "goal"):
            assert np.array_equal(columns[name], frame[name])
        assert np.allclose(columns["to"], frame["to"], atol=1e-9)
        assert np.allclose(columns["reward"] - columns["goal"], frame["distance"], atol=0.51e-3)
        for name in ("reward", "probability after", "Q income up", "Q debt down"):
            assert np.allclose(columns[name], frame[name], atol=0.51e-3, equal_nan=True), name
        labels = np.array(data["classes"])[columns["answer after"].astype(int)]
        assert labels.tolist() == frame["answer after"].tolist()
    start = steps_of(playground, playground.kept).query("step == 0")
    assert np.allclose(unpack(data["start"]["probability"]), start["probability"], atol=0.51e-3)
    assert np.array(data["classes"])[unpack(data["start"]["answer"]).astype(int)].tolist() == start["answer"].tolist()


@pytest.mark.slow
def test_page_is_one_small_file_that_loads_nothing(page) -> None:
    assert len(page.encode()) < LARGEST_PAGE
    assert "Content-Security-Policy" in page and "default-src 'none'" in page
    addresses = set(re.findall(r"https?://[^\s\"'<)]*", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "a name space is no address"
    assert not re.search(r"<(?:script|img|iframe|link)[^>]*(?:src|href)=[\"'](?!data:)", page)
    assert "@import" not in page and "url(" not in page


@pytest.mark.slow
def test_page_says_what_it_was_computed_with(playground, page) -> None:
    text = re.sub(r"<[^>]*>", "", page.partition('<script type="application/json"')[0])
    config = playground.explainer.config_
    assert f"λ = {config.distance_weight:g} " in text
    assert "grid of 5,551 points" in text and "snaps" in text
    assert f"{playground.explainer.fit_rows_:,} rows" in text
    assert "a random forest of 30 trees" in text
    assert f"tries up to {playground.greedy.quantiles} values" in text


@pytest.mark.slow
def test_page_says_first_what_an_answer_takes_beside_greedy_search(playground, page) -> None:
    first = re.search(r"</h1>\s*<p[^>]*>(.*?)</p>", page, re.S)[1]
    rows, greedy = (playground.told(method)["rows"].mean() for method in ("policy", "greedy"))
    assert rows < greedy / 2
    assert first.startswith(f"<b>{rows:.0f} model rows an answer, where greedy search takes {greedy:.0f}</b>")


@pytest.mark.slow
def test_legend_names_every_mark_of_a_path(page) -> None:
    legend = re.search(r'<ul class="legend".*?</ul>', page, re.S)[0]
    assert all(f'class="{mark}"' in legend for mark in ("path-head", "own-head", "greedy-head", "failed"))


@pytest.mark.slow
def test_same_playground_gives_the_same_page(playground, page) -> None:
    assert render(playground) == page


@pytest.mark.slow
def test_command_writes_the_page_whole(playground, page, tmp_path: Path, monkeypatch, capsys) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(module, "play", lambda *arguments: asked.append(arguments) or playground)
    file = tmp_path / "lecture.html"
    assert main(["play", "--output", str(file), "--model", "trees", "--seed", "3"]) == 0
    assert asked == [("trees", 3)]
    assert file.read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["lecture.html"]
    assert str(file) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--output", "{folder}"], "in a folder that exists"),
        (["--output", "{folder}/nowhere/page.html"], "in a folder that exists"),
        (["--output", "{folder}/page.html", "--model", "treees"], "did you mean 'trees'"),
        (["--output", "{folder}/page.html", "--seed", "-1"], "seed is -1"),
    ],
)
def test_command_refuses_with_a_sentence(arguments, sentence, tmp_path: Path, capsys) -> None:
    assert main(["play", *(argument.format(folder=tmp_path) for argument in arguments)]) == 2
    assert sentence in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_tidy_frames_have_one_line_a_point_and_step(playground) -> None:
    assert not playground.steps.duplicated(["trained", "held", "point", "step"]).any()
    assert not playground.answers.duplicated(["trained", "held", "method", "point"]).any()
    assert isinstance(playground.steps, pd.DataFrame) and set(playground.steps["step"]) == {0, 1}
    assert set(playground.steps.query("held != ''")["step"]) == {0}
    sizes = playground.answers.groupby(["trained", "held", "method"]).size()
    assert (sizes == len(playground.points)).all() and len(sizes) == 3 * (MOMENTS + 1)
    assert (playground.answers["trained"] == NOBODY).equals(playground.answers["method"] == "greedy")
    json.dumps(page_data(playground), allow_nan=False)
