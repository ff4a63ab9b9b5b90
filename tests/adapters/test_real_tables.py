"""Tables as people have them through the faces: missing cells, groups of columns, dates, derived columns, rules."""

import json
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dice_ml
import numpy as np
import pandas as pd
import pytest
from raiutils.exceptions import UserConfigValidationException
from reference.loans import JOBS, TOWNS, Table, tables

from relax_plugin import FeatureSpace, make_explainer
from relax_plugin.adapters.alibi import ReLAXTabular
from relax_plugin.adapters.carla import ReLAXRecourse
from relax_plugin.adapters.dice import Dice, ReLAXDice
from relax_plugin.adapters.interpret import ReLAX as Interpreted
from relax_plugin.adapters.shap import CounterfactualShap, compare_with_shap
from relax_plugin.errors import InputError

every_table = pytest.mark.parametrize("kind", list(tables()))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def greedy(table: Table) -> Any:
    return make_explainer("greedy", table.model, table.space).fit(table.rows)


def sound(table: Table, frame: pd.DataFrame, queries: Any) -> None:
    """What a face delivers keeps everything: `frame` has a row for each of the `queries`."""
    found = SimpleNamespace(frame=frame.reset_index(drop=True).assign(query_id=np.asarray(queries)))
    assert len(frame) >= 10
    assert table.broken(found) == []  # type: ignore[arg-type]


# DiCE


def dice_of(table: Table, explainer: Any, **more: Any) -> ReLAXDice:
    numbers = [name for name in table.rows if table.rows[name].dtype.kind in "iuf"]
    rows = table.rows.assign(y=table.model.predict(table.rows))
    data = dice_ml.Data(dataframe=rows, continuous_features=numbers, outcome_name="y")
    return ReLAXDice(data, dice_ml.Model(model=table.model, backend="sklearn"), explainer, **more)


def delivered(explanations: Any) -> tuple[pd.DataFrame, list[int]]:
    frames = [example.final_cfs_df for example in explanations.cf_examples_list]
    known = [query for query, frame in enumerate(frames) if frame is not None]
    return pd.concat([frames[query].iloc[:1] for query in known]).drop(columns="y"), known


@pytest.mark.slow
@every_table
def test_an_explainer_with_its_own_space_serves_dice(kind: str) -> None:
    table = tables()[kind]
    explanations = dice_of(table, greedy(table)).generate_counterfactuals(table.queries, 1)
    sound(table, *delivered(explanations))
    explanations.to_json()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["missing", "missing numbers", "carried"])
def test_dices_data_tell_of_missing_cells_and_dates(kind: str) -> None:
    table = tables()[kind]
    face = dice_of(table, "greedy", options={"plausible": "prefer"})
    assert face.explainer.plausible == "prefer"
    explanations = face.generate_counterfactuals(table.queries, 1)
    sound(table, *delivered(explanations))
    if kind == "missing":
        town = face.explainer.space_.features[face.explainer.space_.names.index("town")]
        assert set(town.categories) == set(TOWNS)


def test_options_of_the_face_reach_the_explainer() -> None:
    table = tables()["rules"]
    exp = dice_of(table, "greedy")
    made = Dice(exp.data_interface, exp.model, method="greedy", options={"plausible": "require", "max_changes": 2})
    assert (made.explainer.plausible, made.explainer.max_changes) == ("require", 2)


def test_a_query_that_lacks_what_no_row_lacks_is_refused_as_by_dice() -> None:
    table = tables()["rules"]
    with pytest.raises(UserConfigValidationException, match="should not have any missing values"):
        dice_of(table, "greedy").generate_counterfactuals(table.queries.assign(salary=np.nan), 1)


def test_columns_of_a_group_vary_together_in_dice() -> None:
    table = tables()["groups"]
    face = dice_of(table, greedy(table))
    columns = [*JOBS, "salary", "bonus"]
    frame, queries = delivered(face.generate_counterfactuals(table.queries, 1, features_to_vary=columns))
    fixed = ["age", "years"]
    assert (frame[fixed].to_numpy() == table.queries[fixed].iloc[queries].to_numpy()).all()
    assert (frame[JOBS].sum(axis=1) == 1).all()
    with pytest.raises(InputError, match="'job_clerk', which is part of a one-hot group"):
        face.generate_counterfactuals(table.queries, 1, permitted_range={"job_clerk": [0, 1]})


# interpret


@pytest.mark.slow
@every_table
def test_interpret_shows_a_feature_for_each_of_the_space(kind: str) -> None:
    table = tables()[kind]
    face = Interpreted(table.model, table.rows, feature_names=list(table.rows), explainer="greedy", space=table.space)
    explanation = face.explain_local(table.queries, plausible="prefer")
    assert table.broken(explanation.counterfactuals) == []
    assert explanation.counterfactuals.found[:, 0].sum() >= 10
    names = [str(name) for name in table.space.names]
    for row in explanation.data(-1)["specific"]:
        assert row["names"] == names and len(row["values"]) == len(row["scores"]) == len(names)
    if kind == "groups":
        said = [row["values"][-1] for row in explanation.data(-1)["specific"]]
        assert said == [JOBS[code].removeprefix("job_") for code in table.queries[JOBS].to_numpy().argmax(axis=1)]
    assert len(explanation.selector) == len(table.queries)
    for key in (None, 0, 11):
        explanation.visualize(key)


def test_interpret_takes_an_array_with_missing_categories() -> None:
    table = tables()["missing"]
    lacking = table.rows[table.rows["town"].isna()].iloc[:3]
    face = Interpreted(table.model, table.rows, explainer="greedy", space=table.space)
    made = face.explain_local(lacking.to_numpy(dtype=object)).counterfactuals
    assert made.found.all()
    assert made.frame["town"].isna().all()


def test_rules_and_costs_hold_for_a_call_of_interpret() -> None:
    table = tables()["groups"]
    face = Interpreted(table.model, table.rows, explainer="greedy", space=table.space)
    made = face.explain_local(
        table.queries, rules=["salary == was(salary)", "bonus <= was(bonus) + 50"]
    ).counterfactuals
    after, before = made.frame, table.queries.iloc[made.frame["query_id"].to_numpy()]
    assert made.found.any()
    assert (after["salary"].to_numpy() == before["salary"].to_numpy()).all()
    assert (after["bonus"].to_numpy() <= before["bonus"].to_numpy() + 50).all()
    dear = face.explain_local(table.queries, costs={"salary": 1000.0, "bonus": 1000.0}).counterfactuals
    assert dear.space.prices[table.space.names.index("salary")] == 1000.0


# shap


@pytest.mark.slow
@every_table
def test_shapley_values_of_features_sum_to_what_the_raw_model_says(kind: str) -> None:
    table = tables()[kind]
    explainer = greedy(table)
    made = CounterfactualShap(explainer)(table.queries)
    assert list(made.feature_names) == [str(name) for name in table.space.names]
    own = table.model.predict(table.queries).astype(int)
    frame = explainer.explain(table.queries).frame
    rows = np.arange(len(own))
    before = table.model.predict_proba(table.queries)[rows, own]
    after = table.model.predict_proba(frame[table.rows.columns])[rows, own]
    np.testing.assert_allclose(made.values.sum(axis=1), before - after, atol=1e-6)
    np.testing.assert_allclose(made.base_values, after, atol=1e-6)
    assert made.data.shape == made.values.shape
    if kind == "groups":
        assert set(made.display_data[:, -1]) <= {name.removeprefix("job_") for name in JOBS}
    if kind == "missing numbers":
        assert (np.isnan(made.data) == table.queries.isna().to_numpy()).all()
    assert len(compare_with_shap(explainer, table.queries).features) == len(table.space)


def test_shap_takes_a_category_that_training_did_not_have() -> None:
    table = tables()["missing"]
    made = CounterfactualShap(greedy(table))(table.queries.iloc[:4].assign(town="Paris"))
    assert made.found.all()
    assert set(made.display_data[:, -1]) == {"Paris"}


# alibi


@pytest.mark.slow
@every_table
def test_alibi_delivers_whole_rows(kind: str) -> None:
    table = tables()[kind]
    face = ReLAXTabular(explainer=greedy(table))
    for rows in (table.queries, table.queries.to_numpy(dtype=object)):
        explanation = face.explain(rows)
        made = pd.DataFrame(explanation.cf["X"], columns=table.rows.columns, dtype=object).astype(
            {name: dtype for name, dtype in table.rows.dtypes.items() if dtype.kind != "O"}
        )
        changed = np.flatnonzero(explanation.cf["class"][:, 0] != explanation.orig["class"][:, 0])
        sound(table, made.iloc[changed], changed)
        json.loads(explanation.to_json())


@pytest.mark.slow
def test_conditions_of_alibi_hold_for_rows_with_foreign_cells() -> None:
    table = tables()["missing"]
    queries = table.queries.iloc[:4].assign(town=["Paris", "Rome", "Madrid", "Paris"])
    conditions = [{"salary": [0, 900]}, {"salary": [-900, 900]}, {"bonus": [-300, 300]}, {}]
    explanation = ReLAXTabular(explainer=greedy(table)).explain(queries, C=conditions)
    made, town = explanation.counterfactuals, [*queries["town"]]
    assert made is not None
    for query, cell in zip(made.frame["query_id"], made.frame["town"], strict=True):
        assert cell in {town[query], *TOWNS}
    assert np.nanmin(made.frame["salary"].iloc[0] - queries["salary"].iloc[made.frame["query_id"].iloc[0]]) >= 0


# CARLA


def test_carla_takes_an_explainer_whose_groups_are_its_own() -> None:
    table = tables()["groups"]
    data = SimpleNamespace(
        df=table.rows, categorical=["job"], continuous=["age", "salary", "bonus", "years"], immutables=["age"]
    )
    model = SimpleNamespace(feature_input_order=list(table.rows), predict_proba=table.model.predict_proba, data=data)
    refused = table.queries[table.model.predict(table.queries) == 0]
    explainer = make_explainer("greedy", table.model, table.space).fit(table.rows)
    made = ReLAXRecourse(model, {"explainer": explainer}).get_counterfactuals(refused)
    assert list(made.columns) == list(table.rows) and made.index.equals(refused.index)
    assert made.notna().all(axis=None) and (table.model.predict(made) == 1).all()
    assert (made[JOBS].sum(axis=1) == 1).all() and (made["age"] == refused["age"]).all()
    torn = make_explainer("greedy", table.model, FeatureSpace.infer(table.rows)).fit(table.rows)
    with pytest.raises(InputError, match="are one feature"):
        ReLAXRecourse(model, {"explainer": torn})
