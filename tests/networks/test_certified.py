"""Certificates of networks: what is proved is what brute force finds, and a check that cannot show it again says so."""

import json
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from relax_plugin import Counterfactuals, FeatureSpace, make_explainer
from relax_plugin.certificates.checking import check
from relax_plugin.certificates.words import checksum
from relax_plugin.errors import CertificateError
from relax_plugin.networks.certified import certify

RNG = np.random.default_rng(2)
ROWS = pd.DataFrame(RNG.integers(0, 6, (250, 4)), columns=list("abcd"))
LABELS = np.where(ROWS["a"] + ROWS["b"] + 0.5 * ROWS["c"] > 7, "yes", "no")
SPACE = FeatureSpace.infer(ROWS, immutable=["d"])


@cache
def model() -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((10, 6), max_iter=2000, random_state=0)).fit(ROWS, LABELS)


@cache
def explained() -> Any:
    explainer = make_explainer("greedy", model(), SPACE).fit(ROWS)
    return explainer, explainer.explain(ROWS[:12])


@cache
def certified() -> Counterfactuals:
    return certify(explained()[1], explained()[0])


def fewest(row: int) -> int:
    """The fewest changes, by asking the model about every row; 4 if there is no answer."""
    start = ROWS.iloc[row].to_numpy()
    own = model().predict(ROWS.iloc[[row]])[0]
    for k in (1, 2, 3):
        for chosen in combinations(range(3), k):
            rows = np.array([start] * 6**k)
            rows[:, list(chosen)] = list(product(range(6), repeat=k))
            if (model().predict(pd.DataFrame(rows, columns=list("abcd"))) != own).any():
                return k
    return 4


@pytest.mark.slow
def test_what_is_proved_is_what_brute_force_finds() -> None:
    assert certified().proved is not None and certified().proofs is not None
    known = [fewest(row) for row in range(12)]
    assert certified().proved[:, 0].tolist() == [5 if k == 4 else k for k in known]
    assert len(set(known)) >= 2
    assert all(
        ("by bounds of the network" in text) == (k > 1) for k, text in zip(known, certified().proofs, strict=True)
    )


def two_changes() -> int:
    return next(row for row in range(12) if certified().certificate(row).get("changes", 0) > 1)


@pytest.mark.slow
def test_a_certificate_is_shown_again_by_asking_the_model() -> None:
    claims = set()
    for row in range(12):
        told = json.loads(json.dumps(certified().certificate(row)))
        checked = check(told, model())
        assert checked.proved and not any("not re-checked" in line for line in checked.checks)
        claims.add(checked.claim)
    assert "fewest" in claims and "closest" not in claims
    assert "every set of fewer features, by bounds of the network" in certified().certificate(two_changes())["shown"]


@pytest.mark.slow
def test_a_false_claim_about_a_network_is_refused() -> None:
    row = next(row for row in range(12) if fewest(row) == 1)
    told = certified().certificate(row)
    further = [name for name in "abc" if name not in dict(told["answer"])]
    ways = [[*told["answer"], [name, value]] for name in further for value in range(6)]
    ways = [way for way in ways if way[-1][1] != ROWS[way[-1][0]].iloc[row]]
    answer = next(way for way in ways if model().predict(ROWS.iloc[[row]].assign(**dict(way)))[0] == told["after"])
    rows = ROWS.iloc[[row]].assign(**dict(answer))
    values = SPACE.values(rows)
    false = {
        **{name: own for name, own in told.items() if name != "scores_after"},
        "answer": answer,
        "changes": 2,
        "distance": float(SPACE.distance(values, SPACE.values(ROWS.iloc[[row]]))[0]),
        "word": "proved fewest: no counterfactual changes fewer than 2 features",
    }
    with pytest.raises(CertificateError, match="meets the goal, which changes 1 feature"):
        check({**false, "sha256": checksum(false)}, model())


@pytest.mark.slow
def test_what_cannot_be_shown_again_says_whose_word_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    row = two_changes()
    checked = check(certified().certificate(row), model(), most_rows=0)
    assert checked.proved and checked.checks[-1].startswith("the proof: intervals over ")
    monkeypatch.setattr("relax_plugin.certificates.intervals.MOST_BOXES", 0)
    checked = check(certified().certificate(row), model(), most_rows=0)
    assert not checked.proved and "not re-checked: the prover's bounds of the network" in checked.checks
    monkeypatch.setattr("relax_plugin.networks.subsets.MOST_SUBSETS", 0)  # so that a solver is asked
    explainer, result = explained()
    solved = certify(result, explainer)
    assert solved.proved is not None and certified().proved is not None
    assert np.array_equal(solved.proved[:, 0], certified().proved[:, 0])
    told = solved.certificate(row)
    assert "by a solver's word" in told["shown"]
    checked = check(told, model(), most_rows=0)
    assert not checked.proved and "not re-checked: solver's word" in checked.checks
