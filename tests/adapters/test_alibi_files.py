"""What swapping alibi's class asks for: its constructor as it is written, `params`, `save` and `load_explainer`."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from reference import tiny

from relax_plugin import ReLAXConfig
from relax_plugin.adapters.alibi import SET_ASIDE, ReLAXTabular, load_explainer
from relax_plugin.errors import InputError, NotFittedError, UnsupportedError

TINY = ReLAXConfig(
    training="model", steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30
)
NAMES = ["a", "b", "kind"]
KINDS = {2: ["red", "green", "blue"]}


def table(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=(n, 2)).round(2), rng.integers(0, 3, n)])


def predictor(x: np.ndarray) -> np.ndarray:
    positive = 1.0 / (1.0 + np.exp(-(x[:, 0] + x[:, 1] + (x[:, 2] == 1) - 0.5)))
    return np.column_stack([1.0 - positive, positive])


def encoder(x: np.ndarray) -> np.ndarray:
    return x


def test_the_constructor_of_alibi_is_understood_as_it_is_written_with_one_warning() -> None:
    said = {name: object() for name in SET_ASIDE}
    with pytest.warns(UserWarning, match="set aside") as caught:
        made = ReLAXTabular(predictor=predictor, feature_names=NAMES, category_map=KINDS, explainer="greedy", **said)
    assert len(caught) == 1
    assert all(name in str(caught[0].message) for name in SET_ASIDE)
    assert all(made.params[name] is value for name, value in said.items())
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="encoder, decoder, coeff_sparsity are set aside"):
        made = ReLAXTabular(predictor, encoder, encoder, None, None, 0.5, None, NAMES, KINDS, ["a"], {"b": [0.0, 1.0]})
    assert made.params["encoder"] is encoder
    assert (made.params["immutable_features"], made.params["ranges"]) == (["a"], {"b": (0.0, 1.0)})
    assert made.meta["params"]["encoder"] == "encoder"
    assert json.loads(json.dumps(made.meta)) == made.meta
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ReLAXTabular(predictor, feature_names=NAMES, category_map=KINDS)
    with pytest.raises(TypeError, match="coef_sparsity"):
        ReLAXTabular(predictor, coef_sparsity=0.5)


def test_params_follow_the_predictor() -> None:
    made = ReLAXTabular(predictor, explainer="greedy")
    made.reset_predictor(encoder)
    assert made.params["predictor"] is encoder
    assert made.meta["params"]["predictor"] == "encoder"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no autoencoder")
def test_what_is_saved_is_loaded_without_running_anything_and_answers_the_same(tmp_path: Path) -> None:
    made = ReLAXTabular(
        predictor,
        encoder=encoder,
        feature_names=NAMES,
        category_map=KINDS,
        ranges={"a": [0.0, 0.5]},
        options={"config": TINY, "progress": False},
    )
    with pytest.raises(NotFittedError):
        made.save(tmp_path)
    rows = table(20, seed=1)
    before = made.fit(table(150)).explain(rows, np.array([1]), C=[{"kind": ["red", "green"]}])
    made.save(tmp_path / "folder")
    loaded = load_explainer(tmp_path / "folder", predictor=predictor)
    assert isinstance(loaded, ReLAXTabular)
    assert loaded.meta == made.meta
    after = loaded.explain(rows, np.array([1]), C=[{"kind": ["red", "green"]}])
    assert np.array_equal(after.cf["X"], before.cf["X"])
    assert np.array_equal(after.cf["class"], before.cf["class"])
    assert (after.cf["class"] == 1).mean() > 0.5
    assert after.meta == before.meta
    assert loaded.params["predictor"] is predictor
    assert {path.suffix for path in (tmp_path / "folder").iterdir()} == {".json", ".safetensors"}
    assert ReLAXTabular.load(tmp_path / "folder", predictor).ranges == {"a": (0.0, 0.5)}


@pytest.mark.slow
def test_a_regressor_is_saved_and_loaded(tmp_path: Path) -> None:
    rows = tiny.gaussian_rows(120)
    column = lambda x: tiny.numbers(x)[:, None]  # noqa: E731
    made = ReLAXTabular(column, options={"config": TINY, "progress": False}).fit(rows)
    made.save(tmp_path)
    loaded = load_explainer(tmp_path, column)
    target = np.array([0.3])
    assert np.array_equal(loaded.explain(rows[:5], target).cf["X"], made.explain(rows[:5], target).cf["X"])


def test_what_cannot_be_saved_or_read_is_refused(tmp_path: Path) -> None:
    made = ReLAXTabular(predictor, explainer="greedy").fit(table(60))
    with pytest.raises(UnsupportedError, match="Greedy learns nothing"):
        made.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match=r"has no explainer\.json"):
        load_explainer(tmp_path, predictor)
    (tmp_path / "explainer.json").write_text("{}")
    with pytest.raises(InputError, match="is not what `save` writes"):
        load_explainer(tmp_path, predictor)
