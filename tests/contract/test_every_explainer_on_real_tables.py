"""Tables as people have them, through every explainer: missing cells, groups of columns, dates, derived columns, rules.

An explainer answers, and then everything holds on the delivered cells; or it says why it is skipped.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from contract.test_every_explainer import QUICK as SMALL
from reference.every_explainer import ON_NETWORKS, ON_TREES
from reference.every_explainer import QUICK as AT_ONCE
from reference.loans import Table, tables
from xgboost import XGBClassifier

from relax_plugin import FeatureSpace, list_explainers, make_explainer
from relax_plugin.errors import UnsupportedError

QUICK = {**SMALL, "cfrl": {"steps": 150}}  # with fewer, its plausible answers are too few

# Which tables each explainer that looks inside the model can answer; the others answer all.
ANSWERED = {
    **dict.fromkeys(ON_TREES, ("missing numbers",)),
    **dict.fromkeys(ON_NETWORKS, ("rules",)),
}


def explained(name: str, table: Table, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = make_explainer(name, table.model, table.space, **QUICK.get(name, {}), **options)
        return explainer.fit(table.rows).explain(table.queries)


KINDS = tuple(tables())


def kinds_of_required(name: str) -> set[str]:
    """Where plausible answers are required of an explainer: on two tables that it can answer, others for the next."""
    answered, place = ANSWERED.get(name, KINDS), list_explainers().index(name)
    return {answered[place % len(answered)], answered[(place + 3) % len(answered)]}


@pytest.mark.parametrize(
    ("name", "kind", "plausible"),
    [
        pytest.param(name, kind, plausible, marks=() if name in AT_ONCE else pytest.mark.slow)
        for name in list_explainers()
        for kind in KINDS
        for plausible in (None, "require")
        if plausible is None or kind in kinds_of_required(name)
    ],
)
def test_what_is_found_is_sound_or_the_method_says_why_it_is_skipped(
    name: str, kind: str, plausible: str | None
) -> None:
    table = tables()[kind]
    if kind not in ANSWERED.get(name, (kind,)):
        with pytest.raises(UnsupportedError, match="skipped because it "):
            explained(name, table, plausible=plausible)
        return
    found = explained(name, table, plausible=plausible)
    assert table.broken(found) == []
    assert found.found[:, 0].sum() >= (9 if plausible else 10)
    assert (found.statuses[~found.found] != "").all()
    if plausible:
        assert found.plausibility["plausible"][found.found[:, 0]].all()


@pytest.mark.parametrize("name", ["feat-tweak", "focus", "mace"])
def test_trees_over_one_hot_columns_are_looked_into(name: str) -> None:
    table = tables()["groups"]
    model = XGBClassifier(n_estimators=5).fit(table.rows, table.model.predict(table.rows))
    options = {"iterations": 50} if name == "focus" else {}
    found = make_explainer(name, model, table.space, **options).fit(table.rows).explain(table.queries)
    assert found.found[:, 0].sum() >= 5
    assert replace(table, model=model).broken(found) == []


@pytest.mark.parametrize("name", ON_TREES)
def test_trees_over_columns_derived_from_several_are_not_read(name: str) -> None:
    table = tables()["derived"]
    model = XGBClassifier(n_estimators=5).fit(table.rows, table.model.predict(table.rows))
    with pytest.raises(UnsupportedError, match="columns that are features, and 'total' is derived from others"):
        make_explainer(name, model, table.space).fit(table.rows)


class TakesGaps(torch.nn.Module):
    """Standardises, and takes a missing number for the mean."""

    def __init__(self, mean: Any, scale: Any) -> None:
        super().__init__()
        self.mean, self.scale = (torch.tensor(np.asarray(one), dtype=torch.float32) for one in (mean, scale))
        self.linear = torch.nn.Linear(len(mean), 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[-0.1, -1.0, -1.0, -1.0], [0.1, 1.0, 1.0, 1.0]]))
            self.linear.bias.zero_()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.nan_to_num((rows - self.mean) / self.scale))


@pytest.mark.parametrize("name", ON_NETWORKS)
def test_a_network_that_takes_missing_numbers_is_followed_with_them(name: str) -> None:
    rows = tables()["missing numbers"].rows
    module = TakesGaps(rows.mean(), rows.std())
    queries = rows[rows.isna().any(axis=1)].iloc[:20]
    found = make_explainer(name, module).fit(rows).explain(queries)
    frame = found.frame
    before = queries.iloc[frame["query_id"].to_numpy()]
    assert len(frame) >= 18
    assert (frame[rows.columns].isna().to_numpy() == before.isna().to_numpy()).all()
    tensors = [torch.tensor(part[rows.columns].to_numpy(dtype=np.float32)) for part in (before, frame)]
    answers = [module(part).argmax(dim=1).numpy() for part in tensors]
    assert (answers[0] != answers[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lore", "dice-random", "dice-genetic"])
def test_a_missing_number_may_be_filled_in_where_the_space_says_so(name: str) -> None:
    rows = tables()["missing numbers"].rows

    class NeedsSalary:
        _estimator_type, classes_ = "classifier", np.array([0, 1])

        def predict_proba(self, rows: pd.DataFrame) -> Any:
            chance = np.where(rows["salary"].isna(), 0.1, np.where(rows["salary"] > 2500, 0.9, 0.2))
            return np.column_stack([1 - chance, chance])

        def predict(self, rows: pd.DataFrame) -> Any:
            return self.predict_proba(rows).argmax(axis=1)

    queries = rows[rows["salary"].isna()].iloc[:5]
    space = FeatureSpace.infer(rows, fill_missing=["salary"])
    found = make_explainer(name, NeedsSalary(), space, **QUICK.get(name, {})).fit(rows).explain(queries)
    assert found.found.all()
    assert (found.frame["salary"] > 2500).all()
    others = rows.columns.drop("salary")
    kept = make_explainer(name, NeedsSalary(), **QUICK.get(name, {})).fit(rows).explain(queries)
    assert not kept.found.any()
    assert (found.frame[others].isna().to_numpy() == queries[others].isna().to_numpy()).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lore", "dice-random", "dice-kdtree", "greedy"])
def test_a_category_that_training_did_not_have_can_be_left(name: str) -> None:
    table = tables()["missing"]
    queries = table.queries.assign(town="Paris")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = make_explainer(name, table.model, table.space, **QUICK.get(name, {})).fit(table.rows)
        found = explainer.explain(queries)
    assert found.found[:, 0].sum() >= 10
    assert set(found.frame["town"]) <= {"Paris", "Bonn", "Oslo", "Rome"}
    answers = [table.model.predict(part) for part in (queries, found.frame[queries.columns])]
    assert (answers[0][found.frame["query_id"]] != answers[1]).all()
