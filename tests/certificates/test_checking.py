"""Certificates are checked by other code than made them: what holds passes, and whatever was altered is refused."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.certificates.allowed import on_grid
from relax_plugin.certificates.checking import check
from relax_plugin.certificates.proving import thresholds_of
from relax_plugin.certificates.words import checksum
from relax_plugin.errors import CertificateError
from relax_plugin.trees.floor import certify

RNG = np.random.default_rng(0)
WHOLE = pd.DataFrame(RNG.integers(0, 9, (300, 4)), columns=list("abcd"))
LABELS = np.where(WHOLE["a"] + WHOLE["b"] + 0.3 * WHOLE["c"] > 9, "yes", "no")
MIXED = WHOLE.assign(x=(WHOLE["a"] * 0.37).round(2), town=RNG.choice(["Rome", "Bonn", "Oslo"], 300))
SMOOTH = pd.DataFrame(RNG.normal(size=(300, 3)), columns=list("uvw"))


def chances(rows: Any) -> Any:
    """A plain function as a model."""
    return 1.0 / (1.0 + np.exp(8.5 - np.asarray(rows, dtype=float)[:, :2].sum(axis=1)))


def forest(rows: pd.DataFrame = WHOLE, trees: int = 10) -> Any:
    return RandomForestClassifier(trees, max_depth=5, random_state=0).fit(rows, LABELS)


def explained(model: Any, rows: pd.DataFrame = WHOLE, count: int = 8, method: str = "greedy", **said: Any) -> Any:
    explainer = make_explainer(method, model, FeatureSpace.infer(rows, **said)).fit(rows)
    return explainer, explainer.explain(rows[:count])


@cache
def certificate() -> tuple[Any, dict[str, Any]]:
    """A forest and a certificate of an answer that changes two features, proved to be the fewest."""
    model = forest()
    explainer, result = explained(model, count=60)
    certified = certify(result, explainer)
    row = next(
        i
        for i in range(len(certified))
        if certified.certificate(i)["claim"] != "found" and certified.certificate(i).get("changes") == 2
    )
    return model, certified.certificate(row)


def resealed(told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "sha256": checksum(told)}


def passes(result: Counterfactuals, model: Any) -> set[str]:
    """The claims of all certificates, each checked from its text; what is not proved again is an error."""
    claims = set()
    for row in range(len(result)):
        checked = check(json.loads(json.dumps(result.certificate(row))), model)
        assert checked.proved, checked
        claims.add(checked.claim)
    return claims


@pytest.mark.slow
def test_a_forest_passes_and_its_proofs_are_shown_again() -> None:
    model = forest()
    explainer, result = explained(model)
    claims = passes(certify(result, explainer), model)
    assert {"closest"} <= claims


@pytest.mark.slow
def test_a_pipeline_passes() -> None:
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(encode, RandomForestClassifier(5, max_depth=4, random_state=0)).fit(MIXED, LABELS)
    explainer, result = explained(model, MIXED, 5)
    assert passes(certify(result, explainer), model) <= {"found", "fewest", "closest"}


@pytest.mark.slow
def test_a_callable_passes() -> None:
    _, result = explained(chances, WHOLE, 6)
    assert passes(result, chances) <= {"found", "fewest"}


@pytest.mark.slow
def test_the_answers_of_relax_pass() -> None:
    model = forest()
    explainer, result = explained(model, method="relax-global")
    assert passes(certify(result, explainer), model)


@pytest.mark.slow
def test_arrays_gaps_groups_formulas_and_rules_pass() -> None:
    array = WHOLE.to_numpy(dtype=float)
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(array, LABELS)
    explainer = make_explainer("greedy", model).fit(array)
    assert passes(explainer.explain(array[:6]), model)

    rows = WHOLE.assign(red=(WHOLE["d"] > 4).astype(int), blue=(WHOLE["d"] <= 4).astype(int)).astype({"c": float})
    rows["total"] = rows["a"] + rows["b"]
    rows.loc[::7, "c"] = np.nan
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(rows, LABELS)
    said = {"one_hot": {"colour": ["red", "blue"]}, "derived": {"total": "a + b"}, "rules": ["a <= was(a) + 6"]}
    _, result = explained(model, rows, 8, **said)
    assert result.found.any()
    assert passes(result, model)


@pytest.mark.slow
def test_goals_of_regressors_and_of_probabilities_pass() -> None:
    numbers = RandomForestRegressor(5, max_depth=4, random_state=0).fit(WHOLE, WHOLE["a"] * 3.0)
    explainer = make_explainer("greedy", numbers, goal=Goal.shift(4.0)).fit(WHOLE)
    assert passes(explainer.explain(WHOLE[:4]), numbers)
    assert passes(explainer.explain(WHOLE[:4], goal=Goal.between(2.0, [9.0, 10.0, 11.0, 12.0])), numbers)
    model = LogisticRegression().fit(WHOLE, LABELS)
    explainer = make_explainer("greedy", model).fit(WHOLE)
    assert passes(explainer.explain(WHOLE[:4], goal=Goal.flip(min_probability=0.7)), model)
    assert passes(explainer.explain(WHOLE[:4], goal=Goal.to("yes", raise_by=0.05)), model)


@pytest.mark.slow
def test_what_is_impossible_is_shown_again_row_by_row() -> None:
    model = forest()
    explainer = make_explainer("greedy", model).fit(WHOLE)
    certified = certify(explainer.explain(WHOLE[:8], vary=["d"]), explainer)
    unsolved = int(np.argmin(certified.found[:, 0]))
    checked = check(certified.certificate(unsolved), model)
    assert checked.claim == "impossible" and checked.proved
    wrong = copy.deepcopy(certified.certificate(unsolved))
    wrong["asked"]["vary"] = ["a", "b", "c", "d"]
    with pytest.raises(CertificateError, match=r"claims 'impossible', but .* meets the goal"):
        check(resealed(wrong), model)


def numbers_in(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a certificate has digits."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from numbers_in(value, (*path, key))
    elif not isinstance(data, bool) and any(letter.isdecimal() for letter in str(data)):
        yield path


def altered(told: dict[str, Any], path: tuple[Any, ...], which: Any = max) -> dict[str, Any]:
    """The certificate with the last digit of one value changed, or the first one that is not 0."""
    other = copy.deepcopy(told)
    place: Any = other
    for key in path[:-1]:
        place = place[key]
    text = str(place[path[-1]])
    digits = [i for i, letter in enumerate(text) if letter.isdecimal()]
    at = which([i for i in digits if text[i] != "0"] or digits)
    changed = f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
    place[path[-1]] = type(place[path[-1]])(changed)
    return other


def test_every_single_digit_that_is_altered_is_noticed() -> None:
    model, told = certificate()
    paths = list(numbers_in(told))
    assert len(paths) > 40
    for path in paths:
        with pytest.raises(CertificateError):
            check(altered(told, path), model)


@pytest.mark.parametrize(
    "path",
    [
        ("answer", 0, 1),
        ("answer", 1, 1),
        ("changes",),
        ("distance",),
        ("word",),
        ("version",),
        ("model", "answers"),
        ("model", "scores", 0),
        ("scores_before", 0),
        ("scores_after", 1),
        ("asked", "max_changes"),
        ("space", "features", "scale", 0),
        ("space", "features", "high", "all"),
    ],
    ids=str,
)
def test_an_altered_digit_under_a_right_checksum_is_refused_too(path: tuple[Any, ...]) -> None:
    model, told = certificate()
    wrong = altered(told, path, min)
    if path == ("asked", "max_changes"):
        wrong["asked"]["max_changes"] = 1
    if path == ("space", "features", "scale", 0):  # of a feature that the answer changes
        changed = told["space"]["features"]["name"].index(told["answer"][0][0])
        wrong = altered(told, ("space", "features", "scale", changed), min)
    with pytest.raises(CertificateError):
        check(resealed(wrong), model)


def test_an_answer_off_its_grid_is_refused() -> None:
    model, told = certificate()
    wrong = copy.deepcopy(told)
    wrong["answer"][0][1] += 0.25
    wrong["answer_dtypes"] = {"all": "float64"}
    with pytest.raises(CertificateError, match="off its grid"):
        check(resealed(wrong), model)
    del wrong["answer_dtypes"]
    with pytest.raises(CertificateError, match="its dtype int64 does not hold"):
        check(resealed(wrong), model)


@pytest.mark.parametrize(
    ("step", "anchor", "dtype", "number", "held"),
    [
        (0.1, 0.0, "float64", 0.3, True),
        (0.1, 0.0, "float64", 0.1 + 0.2, False),
        (0.1, 0.0, "float64", 0.35, False),
        (1.0, 0.0, "int64", 4.0, True),
        (1.0, 0.0, "int64", 4.5, False),
        (5.0, 2.0, "int64", 12.0, True),
        (5.0, 2.0, "int64", 10.0, False),
        (0.1, 0.0, "float32", float(np.float32(0.3)), True),
        (0.1, 0.0, "float32", 0.3, False),
        (0.25, 0.1, "float64", 0.85, True),
        (1 / 3, 0.0, "float64", 2 / 3, True),
    ],
)
def test_whether_a_number_is_on_the_grid(step: float, anchor: float, dtype: str, number: float, held: bool) -> None:
    from relax_plugin.table.columns import Feature

    kind: Any = "integer" if dtype == "int64" else "continuous"
    feature = Feature("x", kind, np.dtype(dtype), -100.0, 100.0, step=step, anchor=anchor)
    assert on_grid(feature, number) == held


def breaking(told: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The certificate with constraints that its answer breaks."""
    other = copy.deepcopy(told)
    if "rules" in changed:
        other["rules"] = changed["rules"]
    other["asked"] |= changed.get("asked", {})
    return resealed(other)


def test_a_broken_constraint_is_refused_by_a_sentence() -> None:
    model, told = certificate()
    name, cell = told["answer"][0]
    start = told["query"][told["space"]["features"]["name"].index(name)]
    against = "decrease_only" if cell > start else "increase_only"
    for changed, match in (
        ({"rules": [[f"{name} == was({name})", None]]}, "rule .* is broken"),
        ({"asked": {"immutable": [name]}}, f"feature '{name}' is changed, and may not"),
        ({"asked": {"vary": [other for other in "abcd" if other != name]}}, "may not change"),
        ({"asked": {against: [name]}}, "against its direction"),
        ({"asked": {"bounds": [[name, [start, start]]]}}, "outside of"),
        ({"asked": {"max_changes": 1}}, "at most 1 may be"),
    ):
        with pytest.raises(CertificateError, match=match):
            check(breaking(told, **changed), model)


def test_another_model_is_refused() -> None:
    model, told = certificate()
    other = RandomForestClassifier(10, max_depth=5, random_state=1).fit(WHOLE, LABELS)
    with pytest.raises(CertificateError, match="the model is another one"):
        check(told, other)
    with pytest.raises(CertificateError, match="the model is another one"):
        check(told, DecisionTreeClassifier(random_state=0).fit(WHOLE, LABELS))
    with pytest.raises(CertificateError):
        check(told, RandomForestClassifier(10, max_depth=5, random_state=0).fit(WHOLE[["a", "b"]], LABELS))
    assert check(told, model).proved


def test_a_distance_is_compared_relative_to_its_size() -> None:
    """With scales so large that every distance is next to nothing, no distance is the nearest all the same."""
    model, told = certificate()
    wrong = copy.deepcopy(told)
    wrong["space"]["features"]["scale"] = {"all": 1e15}
    wrong |= {"claim": "closest", "distance": 0.0}
    wrong["word"] = f"{told['word'].replace('fewest', 'closest', 1)}, and none that changes 2 features is closer"
    with pytest.raises(CertificateError, match=r"the distance of the answer is .*, but 0\.0 is told"):
        check(resealed(wrong), model)


def test_a_model_of_tiny_numbers_is_told_from_another_one() -> None:
    numbers = 1e-9 * WHOLE["a"]
    models = [RandomForestRegressor(5, max_depth=4, random_state=seed).fit(WHOLE, numbers) for seed in (0, 1)]
    told = make_explainer("greedy", models[0], goal=Goal.shift(2e-9)).fit(WHOLE).explain(WHOLE[:1]).certificate(0)
    assert check(told, models[0]).claim == told["claim"]
    with pytest.raises(CertificateError, match="the model is another one"):
        check(told, models[1])


@cache
def impossible() -> tuple[Any, dict[str, Any]]:
    """A forest and a certificate that no change of `d` is enough."""
    model = forest()
    explainer = make_explainer("greedy", model).fit(WHOLE)
    certified = certify(explainer.explain(WHOLE[:8], vary=["d"]), explainer)
    told = certified.certificate(int(np.argmin(certified.found[:, 0])))
    assert told["claim"] == "impossible"
    return model, told


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"max_changes": -1}, "max_changes is -1"),
        ({"max_changes": 0}, "max_changes is 0"),
        ({"max_changes": True}, "max_changes is True"),
        ({"max_changes": 1.5}, r"max_changes is 1\.5"),
        ({"vary": ["nobody"]}, "vary .*'nobody'"),
        ({"immutable": ["nobody"]}, "immutable .*'nobody'"),
        ({"increase_only": ["nobody"]}, "increase_only .*'nobody'"),
        ({"bounds": [["nobody", [0, 1]]]}, "bounds .*'nobody'"),
        ({"bounds": [["d", [5, 1]]]}, "give finite low <= high"),
        ({"bounds": [["d", [[5], [1]]]]}, "'d'"),
        ({"increase_only": ["d"], "decrease_only": ["d"]}, "both increase_only and decrease_only"),
        ({"objective": "none"}, "objective is 'none'"),
        ({"plausible": "maybe"}, "plausible is 'maybe'"),
        ({"further_models": -1}, "further_models is -1"),
    ],
    ids=str,
)
def test_constraints_that_no_call_could_have_had_are_refused(asked: dict[str, Any], match: str) -> None:
    model, told = impossible()
    with pytest.raises(CertificateError, match=match):
        check(breaking(told, asked=asked), model)


def test_a_limit_of_changes_beyond_the_number_of_features_costs_no_time() -> None:
    model, told = impossible()
    checked = check(breaking(told, asked={**told["asked"], "max_changes": 10**9}), model)
    assert checked.proved and checked.rows == check(told, model).rows


def not_by_w(model: Any) -> dict[str, Any]:
    """A certificate that no change of `w` is enough, whoever could have proved it."""
    result = make_explainer("greedy", model).fit(SMOOTH).explain(SMOOTH[:20], vary=["w"])
    told = next(one for one in map(result.certificate, range(20)) if one["claim"] == "not found")
    word = "proved impossible: no counterfactual exists within the limits"
    return resealed({**told, "claim": "impossible", "word": word})


def test_thresholds_of_a_model_with_a_method_of_its_own_prove_nothing() -> None:
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(SMOOTH, SMOOTH["u"] + SMOOTH["v"] > 0)
    told = not_by_w(model)
    assert check(told, model).proved
    model.predict = lambda cells: RandomForestClassifier.predict(model, cells)
    checked = check(told, model)
    assert not checked.proved and any("only recorded" in line for line in checked.checks)


def test_thresholds_that_are_not_all_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(SMOOTH, SMOOTH["u"] + SMOOTH["v"] > 0)
    real = RandomForestClassifier.predict

    def predict(self: Any, cells: Any) -> Any:
        return real(self, cells) ^ (np.asarray(cells)[:, 0] % 0.1 < 0.01)

    monkeypatch.setattr(RandomForestClassifier, "predict", predict)
    checked = check(not_by_w(model), model)
    assert not checked.proved and any("only recorded" in line for line in checked.checks)


def test_a_tie_of_a_forest_goes_where_predict_sends_it() -> None:
    """Of two trees that disagree `predict` takes the first class; so many a half is no answer of the second."""
    rows = pd.DataFrame({"a": np.arange(40) % 10, "b": np.arange(40) // 4})
    model = RandomForestClassifier(2, max_depth=2, random_state=3).fit(rows, (rows["a"] + rows["b"] > 9).astype(int))
    explainer = make_explainer("greedy", model, FeatureSpace.infer(rows)).fit(rows)
    every = pd.DataFrame([(a, b) for a in range(10) for b in range(10)], columns=["a", "b"])
    tied = every[(model.predict_proba(every)[:, 1] == 0.5)]
    assert len(tied) and set(model.predict(tied)) == {0}
    result = explainer.explain(rows[:40])
    row = next(i for i in range(40) if result.before[i] == 0 and result.found[i, 0])
    told = copy.deepcopy(result.certificate(row))
    start = rows.iloc[row]
    tie = tied.iloc[0]
    told["answer"] = [[name, int(tie[name])] for name in "ab" if tie[name] != start[name]]
    told["changes"], told["claim"] = len(told["answer"]), "found"
    told["word"], told["scores_after"] = f"best found within {told['rows']} model rows", [0.5, 0.5]
    distance = sum(abs(tie[name] - start[name]) / f.scale for name, f in zip("ab", result.space.features, strict=True))
    told["distance"] = float(distance)
    with pytest.raises(CertificateError, match="the model answers 0 to the answer, but 1 is told"):
        check(resealed(told), model)
    told["after"] = 0
    with pytest.raises(CertificateError, match="does not meet the goal"):
        check(resealed(told), model)
    turned = [i for i in range(40) if result.before[i] == 1 and result.found[i, 0]]
    ties = [i for i in turned if result.scores_after is not None and result.scores_after[i, 0, 1] == 0.5]
    assert ties, "answers that are a tie, which predict sends to the first class"
    assert check(result.certificate(ties[0]), model).proved


def test_a_false_proof_is_refuted_by_a_row() -> None:
    """An answer that changes more than it must, said to be the fewest."""
    model = forest()
    _, result = explained(model, count=40)
    row = next(i for i in range(40) if result.found[i, 0] and result.sparsity[i, 0] == 1)
    told = copy.deepcopy(result.certificate(row))
    free = next(name for name in "dcba" if name != told["answer"][0][0])
    place = list("abcd").index(free)
    for cell in range(9):
        other = pd.DataFrame([told["query"]], columns=list("abcd"))
        for name, new in (*told["answer"], (free, cell)):
            other[name] = new
        if cell != told["query"][place] and model.predict(other)[0] == told["after"]:
            break
    told["answer"].append([free, cell])
    told["changes"], told["claim"] = 2, "fewest"
    told["word"] = "proved fewest: no counterfactual changes fewer than 2 features"
    told["distance"] += abs(cell - told["query"][place]) / result.space.features[place].scale
    told["scores_after"] = model.predict_proba(other)[0].tolist()
    with pytest.raises(CertificateError, match=r"claims 'fewest', but .* meets the goal, which changes 1 feature"):
        check(resealed(told), model)


def test_a_proof_that_would_take_too_many_rows_is_said_to_be_recorded() -> None:
    model, told = certificate()
    checked = check(told, model, most_rows=3)
    assert not checked.proved
    assert "only recorded: it would take" in checked.checks[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tree", "forest", "boosting"])
def test_thresholds_stand_for_all_values_of_smooth_columns(kind: str) -> None:
    labels = ((SMOOTH["u"] > 0) & (SMOOTH["v"] > 0)).astype(int)  # so that many rows cannot by u alone
    model = {
        "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
        "forest": RandomForestClassifier(4, max_depth=3, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0),
    }[kind].fit(SMOOTH, labels)
    space = FeatureSpace.infer(SMOOTH)
    cuts = thresholds_of(model, space)
    assert cuts is not None and any(len(own) for own in cuts)
    explainer = make_explainer("greedy", model, space).fit(SMOOTH)
    certified = certify(explainer.explain(SMOOTH[:20], vary=["u"]), explainer)
    claims = [check(certified.certificate(row), model) for row in range(20)]
    assert all(checked.proved for checked in claims)
    assert "impossible" in {checked.claim for checked in claims}
    assert any("each side of every threshold" in line for checked in claims for line in checked.checks)
    assert thresholds_of(make_pipeline(model), space) is None


@pytest.mark.parametrize("damage", ["query", "answer", "space", "model", "goal", "asked", "rules", "before", "claim"])
def test_a_certificate_with_a_part_missing_or_of_another_kind_is_refused(damage: str) -> None:
    model, told = certificate()
    without = {name: value for name, value in told.items() if name != damage}
    for wrong in (without, told | {damage: 7}, told | {damage: []}):
        if damage == "rules" and wrong.get("rules") == []:
            continue  # it has none
        with pytest.raises(CertificateError):
            check(resealed(wrong), model)
    with pytest.raises(CertificateError, match="no certificate"):
        check({"format": "other"}, model)
