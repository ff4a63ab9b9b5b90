"""Facts about FeatureSpace: what is read off the data, exact round trips, the projection, and what is refused."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_plugin.errors import (
    ColumnError,
    ConstraintError,
    InputError,
    UnknownCategoryError,
    UnknownNameError,
)
from relax_plugin.features import FeatureSpace

few = settings(deadline=None, max_examples=30)

SIZES = ["small", "medium", "large", "giant"]


def mixed() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": np.array([20, 35, 50, 65], dtype=np.int8),
            "income": [1000.25, 2500.5, 4000.0, 1234.75],
            "owns": [True, False, True, False],
            "town": pd.array(["Rome", "Bonn", "Rome", "Oslo"], dtype="str"),
            "size": pd.Categorical(["small", "large", "small", "medium"], categories=SIZES, ordered=True),
            "colour": pd.Categorical(["red", "red", "blue", "blue"]),
            "rooms": pd.array([1, 2, 3, 4], dtype="Int64"),
            "rate": pd.array([0.5, 0.25, 0.75, 1.0], dtype="Float32"),
            "score": np.array([0.1, 0.2, 0.7, 0.4], dtype=np.float32),
        },
        index=["p", "q", "r", "s"],
    )


def feature(space: FeatureSpace, name: str) -> Any:
    return space.features[space.names.index(name)]


def same_bits(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Equal dtypes, index and cells, telling -0.0 from 0.0."""
    pd.testing.assert_frame_equal(a, b, check_exact=True)
    return all(repr(x) == repr(y) for name in a for x, y in zip(a[name], b[name], strict=True))


# What is read off the data.


def test_kinds_are_read_off_the_dtypes() -> None:
    space = FeatureSpace.infer(mixed())
    kinds = {f.name: f.kind for f in space.features}
    assert kinds == {
        "age": "integer",
        "income": "continuous",
        "owns": "categorical",
        "town": "categorical",
        "size": "categorical",
        "colour": "categorical",
        "rooms": "integer",
        "rate": "continuous",
        "score": "continuous",
    }
    assert space.container == "frame"


def test_bounds_are_the_extremes_of_the_data() -> None:
    space = FeatureSpace.infer(mixed())
    assert (feature(space, "income").low, feature(space, "income").high) == (1000.25, 4000.0)
    assert (feature(space, "age").low, feature(space, "age").high) == (20.0, 65.0)


def test_decimals_of_the_data_become_the_step() -> None:
    frame = pd.DataFrame({"tenths": [0.1, 0.2, 0.5], "whole": [1.0, 2.0, 7.0], "any": [1 / 3, 0.5, np.pi]})
    space = FeatureSpace.infer(frame, continuous=["any"])
    assert feature(space, "tenths").step == pytest.approx(0.1)
    assert feature(space, "any").step is None
    assert (feature(space, "whole").kind, feature(space, "whole").step) == ("integer", 1.0)


def test_whole_numbers_named_continuous_have_no_step() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"a": [1.0, 2.0, 7.0]}), continuous=["a"])
    assert (space.features[0].kind, space.features[0].step) == ("continuous", None)


def test_an_integer_dtype_stays_integer_even_if_named_continuous() -> None:
    assert FeatureSpace.infer(pd.DataFrame({"a": [1, 2, 7]}), continuous=["a"]).features[0].kind == "integer"


def test_numbers_named_categorical_become_categories() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"code": [7, 3, 7]}), categorical=["code"])
    assert (space.features[0].kind, space.features[0].categories) == ("categorical", (3, 7))


def test_an_ordered_categorical_keeps_its_order_and_an_unseen_level_may_not_be_chosen() -> None:
    size = feature(FeatureSpace.infer(mixed()), "size")
    assert size.ordered
    assert size.categories == tuple(SIZES)
    assert size.choices == (True, True, True, False)
    assert not feature(FeatureSpace.infer(mixed()), "colour").ordered


def test_an_object_column_of_several_types_is_categorical() -> None:
    frame = pd.DataFrame({"a": pd.Series([1, "one", 1, 2.5], dtype=object)})
    space = FeatureSpace.infer(frame)
    assert set(space.features[0].categories) == {1, "one", 2.5}
    assert space.restore(space.values(frame), frame)["a"].tolist() == [1, "one", 1, 2.5]


def test_columns_of_an_array_are_called_x0_x1() -> None:
    space = FeatureSpace.infer(np.array([[0.5, 1.0], [1.5, 2.0]]))
    assert (space.names, space.container) == (["x0", "x1"], "array")


def test_an_object_array_keeps_numbers_numeric() -> None:
    space = FeatureSpace.infer(np.array([[1.5, "a"], [2.5, "b"]], dtype=object))
    assert [f.kind for f in space.features] == ["continuous", "categorical"]


def test_a_constant_column_has_scale_one() -> None:
    assert FeatureSpace.infer(pd.DataFrame({"a": [0.5, 0.5]})).features[0].scale == 1.0


def test_the_repr_names_every_feature_and_its_rule() -> None:
    bounds = {"town": ["Rome", "Oslo"]}
    text = repr(FeatureSpace.infer(mixed(), immutable=["age"], increase_only=["income"], bounds=bounds))
    assert all(name in text for name in mixed())
    assert "never ['Bonn']" in text
    assert "immutable" in text
    assert "increase only" in text


# Exact round trips.


def test_unchanged_rows_come_back_bit_identical() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    assert same_bits(space.restore(space.values(frame), frame), frame)


def test_only_the_changed_cell_differs() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    for name, value, wanted in [("age", 21, 21), ("town", 0, "Bonn"), ("size", 1, "medium"), ("rooms", 4, 4)]:
        values = space.values(frame)
        values[0, space.names.index(name)] = value
        delivered = space.restore(values, frame)
        assert delivered.loc["p", name] == wanted
        expected = frame.copy()
        expected.loc["p", name] = wanted
        assert same_bits(delivered, expected)


def test_minus_zero_and_float32_cells_survive() -> None:
    frame = pd.DataFrame({"a": [-0.0, 1.5], "b": np.array([0.1, 0.2], dtype=np.float32)})
    space = FeatureSpace.infer(frame)
    values = space.values(frame)
    values[1] = [0.5, 0.1]
    delivered = space.restore(values, frame)
    assert np.signbit(delivered["a"][0])
    assert delivered["b"].dtype == np.float32
    assert delivered["b"][0] == np.float32(0.1)
    assert delivered["b"][1] == np.float32(0.1)


def test_integers_beyond_float_precision_survive() -> None:
    large = 2**53 + 1
    frame = pd.DataFrame({"id": [large, 5], "a": [0.5, 1.5]})
    space = FeatureSpace.infer(frame, immutable=["id"])
    values = space.values(frame)
    values[0, 1] = 1.5
    assert space.restore(values, frame)["id"][0] == large


@few
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=6), st.sampled_from(["float32", "float64"]))
def test_every_float_survives_its_own_round_trip(numbers: list[float], dtype: str) -> None:
    frame = pd.DataFrame({"a": np.array(numbers, dtype=dtype)})
    space = FeatureSpace.infer(frame)
    assert same_bits(space.restore(space.values(frame), frame), frame)


def test_arrays_come_back_as_arrays_of_their_dtype() -> None:
    for dtype in (np.float32, np.float64, np.int16):
        rows = np.array([[1, 2], [3, 4]], dtype=dtype)
        space = FeatureSpace.infer(rows)
        values = space.values(rows)
        values[0, 0] = 3
        delivered = space.restore(values, rows)
        assert isinstance(delivered, np.ndarray)
        assert delivered.dtype == dtype
        assert delivered.tolist() == [[3, 2], [3, 4]]


def test_a_query_of_whole_numbers_can_take_a_fraction() -> None:
    frame = pd.DataFrame({"a": [0.25, 0.5, 3.75], "b": [1.5, 2.5, 3.5]})
    space = FeatureSpace.infer(frame)
    query = pd.DataFrame({"a": [1, 2], "b": [2, 3]}, index=["u", "v"])
    delivered = space.restore(np.array([[0.25, 2.0], [2.0, 3.0]]), query)
    assert delivered["a"].tolist() == [0.25, 2.0]
    assert delivered["b"].dtype == query["b"].dtype
    assert delivered.index.tolist() == ["u", "v"]
    space = FeatureSpace.infer(frame.to_numpy())
    assert space.restore(np.array([[0.25, 2.0]]), np.array([[1, 2]])).tolist() == [[0.25, 2.0]]  # type: ignore[union-attr]


def test_a_query_with_fewer_categories_can_take_another_one() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"c": pd.Categorical(["red", "blue", "green"])}))
    query = pd.DataFrame({"c": pd.Categorical(["red", "red"])})
    green = space.features[0].categories.index("green")
    red = space.features[0].categories.index("red")
    assert space.restore(np.array([[green], [red]], dtype=float), query)["c"].tolist() == ["green", "red"]


def test_a_longer_text_is_not_cut_to_the_width_of_the_array() -> None:
    space = FeatureSpace.infer(np.array([["a", "x"], ["longer", "y"]]))
    assert space.restore(np.array([[1.0, 0.0]]), np.array([["a", "x"]])).tolist() == [["longer", "x"]]  # type: ignore[union-attr]


def test_the_model_is_asked_in_the_dtypes_of_training() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    asked = space.model_input(space.values(frame))
    pd.testing.assert_frame_equal(asked, frame.reset_index(drop=True), check_exact=True)


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["a", "b", "c", "d", "e"]])
@pytest.mark.parametrize("fractions", [False, True], ids=["as in training", "fractions where training had none"])
def test_the_array_is_what_the_frame_gives(names: list[str], fractions: bool) -> None:
    kinds = {"a": "float64", "b": "float32", "c": "int64", "d": "int8", "e": "uint16"}
    rows = pd.DataFrame({name: np.array([1, 2, 100]).astype(kinds[name]) for name in names})
    space = FeatureSpace.infer(rows)
    values = space.values(rows) + (0.1 if fractions else 0.0)
    array, frame = space.model_array(values), space.model_input(values)
    assert isinstance(frame, pd.DataFrame)
    assert array.dtype == frame.to_numpy().dtype
    assert array.tolist() == frame.to_numpy().tolist()
    before = values.tolist()
    array[:] = 0
    assert values.tolist() == before


def test_values_that_are_read_are_written_as_they_were() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    values = space.values(frame)
    assert same_bits(space.restore(values, frame), frame)
    pd.testing.assert_frame_equal(space.model_input(values), frame.reset_index(drop=True))


def test_standardised_numbers_have_mean_0_and_deviation_1() -> None:
    frame = mixed()[["age", "income"]]
    space = FeatureSpace.infer(frame)
    standardised = space.standardise(space.values(frame))
    assert standardised.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert standardised.std(axis=0) == pytest.approx([1, 1])


def test_in_an_encoded_row_what_is_missing_counts_as_the_mean() -> None:
    frame = mixed()[["age", "income"]]
    space = FeatureSpace.infer(frame)
    values = space.values(frame)
    values[0, 1] = space.missing_codes[1]
    assert space.encoded(values)[0].tolist() == [space.standardise(values)[0, 0], 0.0]
    assert space.encoded(values)[1:].tolist() == space.one_hot(values)[1:].tolist()


def test_one_hot_has_one_column_a_category() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    seen = space.one_hot(space.values(frame))
    assert seen.shape == (4, space.encoded_width) == (4, 5 + 2 + 3 + 4 + 2)
    assert (seen[:, 5:].sum(axis=1) == 4).all()


def test_a_changed_category_counts_one_and_numbers_count_in_deviations() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    start = space.values(frame)[:1]
    other = start.copy()
    other[0, space.names.index("size")] = 2
    assert space.distance(other, start) == pytest.approx([1.0])
    other[0, space.names.index("age")] += frame["age"].to_numpy(float).std()
    assert space.distance(other, start) == pytest.approx([2.0])


@pytest.mark.parametrize("container", ["frame", "array"])
def test_a_space_survives_json(container: str) -> None:
    frame = mixed()
    rows = frame if container == "frame" else frame[["income", "score"]].to_numpy()
    names = {"immutable": ["age"], "increase_only": ["income"], "steps": {"rooms": 2}} if container == "frame" else {}
    space = FeatureSpace.infer(rows, **names)  # type: ignore[arg-type]
    again = FeatureSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    pd.testing.assert_frame_equal(
        pd.DataFrame(again.model_input(again.values(rows))), pd.DataFrame(space.model_input(space.values(rows)))
    )
    assert space != FeatureSpace.infer(frame[["age"]])


# The projection.


@few
@given(st.data())
def test_a_projected_row_keeps_every_constraint(data: st.DataObject) -> None:
    number = st.floats(-50, 50)
    low = data.draw(st.floats(-20, 0))
    high = data.draw(st.floats(0, 20))
    step = data.draw(st.sampled_from([None, 0.1, 0.25, 3.0]))
    space = FeatureSpace.infer(
        pd.DataFrame(
            {
                "fixed": [1 / 3, 2 / 3],
                "up": [1 / 3, 7.123456789],
                "down": [1 / 3, 7.123456789],
                "grid": [1 / 3, 7.123456789],
                "count": [1, 9],
                "letter": ["a", "b"],
            }
        ),
        immutable=["fixed"],
        increase_only=["up"],
        decrease_only=["down"],
        bounds={"up": (low, high), "down": (low, high), "grid": (low, high)},
        steps={"grid": step} if step else None,
    )
    limits = space.limits()
    start = np.array([[data.draw(number) for _ in range(4)] + [round(data.draw(number)), data.draw(st.integers(0, 1))]])
    proposal = np.array([[data.draw(number) for _ in range(5)] + [data.draw(st.integers(0, 1))]])
    (row,) = limits.project(proposal, start)
    (begin,) = start
    moved = row != begin
    assert row[0] == begin[0]
    assert row[1] >= begin[1]
    assert row[2] <= begin[2]
    assert all(low - 1e-9 <= row[j] <= high + 1e-9 for j in (1, 2, 3) if moved[j])
    if step and moved[3]:
        steps = (row[3] - low) / step
        assert steps == pytest.approx(round(steps), abs=1e-6)
    assert not moved[4] or (row[4] == round(row[4]) and 1 <= row[4] <= 9)
    assert limits.kept(row[None], start).all()
    assert (limits.project(row[None], start) == row).all(), "projecting twice changes nothing more"


def test_a_proposal_equal_to_the_start_stays_although_off_the_grid_and_out_of_bounds() -> None:
    limits = FeatureSpace.infer(pd.DataFrame({"a": [0.1, 0.9]})).limits()
    start = np.array([[0.123], [5.0], [-3.0]])
    assert (limits.project(start, start) == start).all()
    assert limits.kept(start, start).all()


def test_a_move_from_an_off_grid_start_lands_on_the_grid() -> None:
    limits = FeatureSpace.infer(pd.DataFrame({"a": [0.1, 0.9]})).limits()
    assert limits.project(np.array([[0.34]]), np.array([[0.123]])).tolist() == [[0.3]]


def test_a_start_outside_the_bounds_may_come_back_in_but_not_go_further_out() -> None:
    limits = FeatureSpace.infer(pd.DataFrame({"a": [0.1, 0.9]})).limits()
    start = np.array([[5.0], [5.0]])
    assert limits.project(np.array([[7.0], [0.5]]), start).tolist() == [[0.9], [0.5]]
    low, high = limits.span(start)
    assert (low[0, 0], high[0, 0]) == (0.1, 0.9)


def test_a_start_above_the_bounds_that_may_only_increase_cannot_move() -> None:
    limits = FeatureSpace.infer(pd.DataFrame({"a": [0.1, 0.9]}), increase_only=["a"]).limits()
    start = np.array([[5.0]])
    assert limits.project(np.array([[0.5]]), start).tolist() == [[5.0]]
    assert not limits.kept(np.array([[0.5]]), start).any()
    assert [end.tolist() for end in limits.span(start)] == [[[5.0]], [[5.0]]]


def test_bounds_of_float32_columns_are_reachable() -> None:
    frame = pd.DataFrame({"a": np.array([0.1, 0.4, 0.7], dtype=np.float32)})
    space = FeatureSpace.infer(frame)
    low, high = space.limits().span(space.values(frame))
    assert np.float32(low[0, 0]) == np.float32(0.1)
    assert np.float32(high[0, 0]) == np.float32(0.7)


def test_steps_count_from_the_low_end() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"a": [10, 100]}), steps={"a": 25}, bounds={"a": (10, 100)})
    reached = space.limits().project(np.array([[24.0], [99.0]]), np.array([[10.0], [10.0]]))
    assert reached.tolist() == [[35.0], [85.0]]


def test_a_tenth_is_delivered_as_written() -> None:
    limits = FeatureSpace.infer(pd.DataFrame({"a": [0.1, 0.9]})).limits()
    assert limits.project(np.array([[0.1 + 0.2]]), np.array([[0.8]])).tolist() == [[0.3]]


def test_a_category_outside_the_choices_is_not_taken() -> None:
    space = FeatureSpace.infer(pd.DataFrame({"c": list("abc")}), bounds={"c": ["a", "b"]})
    limits, start = space.limits(), np.array([[0.0]])
    assert limits.project(np.array([[2.0]]), start).tolist() == [[0.0]]
    assert limits.project(np.array([[1.0]]), start).tolist() == [[1.0]]
    assert limits.project(np.array([[0.5]]), start).tolist() == [[0.0]]
    assert not limits.kept(np.array([[2.0]]), start).any()


def test_an_ordered_category_keeps_its_direction() -> None:
    space = FeatureSpace.infer(mixed()[["size"]], increase_only=["size"])
    start = np.array([[1.0]])
    assert not space.limits().kept(np.array([[0.0]]), start).any()
    assert space.limits().kept(np.array([[2.0]]), start).all()


# Constraints of one call.


def test_vary_freezes_all_other_features() -> None:
    space = FeatureSpace.infer(mixed(), immutable=["age"])
    frozen = space.limits(vary=["income", "town"]).frozen[0]
    assert [name for name, fixed in zip(space.names, frozen, strict=True) if not fixed] == ["income", "town"]


def test_bounds_of_a_call_only_narrow() -> None:
    space = FeatureSpace.infer(mixed())
    limits = space.limits(bounds={"income": (0, 2000), "age": (None, 40), "town": ["Rome"]})
    income, age = space.names.index("income"), space.names.index("age")
    assert (limits.low[0, income], limits.high[0, income]) == (1000.25, 2000.0)
    assert (limits.low[0, age], limits.high[0, age]) == (20.0, 40.0)
    first = space.category_offsets[space.names.index("town")]
    assert limits.choices[0, first : first + 3].tolist() == [False, False, True]
    assert space.limits().high[0, income] == 4000.0, "the space itself is as it was"


# What is refused.


@pytest.mark.parametrize("argument", ["categorical", "continuous", "immutable", "increase_only", "decrease_only"])
def test_an_unknown_name_is_refused_with_the_nearest_one(argument: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'income'"):
        FeatureSpace.infer(mixed(), **{argument: ["incom"]})  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", ["bounds", "steps"])
def test_an_unknown_name_in_a_mapping_is_refused(argument: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'income'"):
        FeatureSpace.infer(mixed(), **{argument: {"incom": (0, 1)}})  # type: ignore[arg-type]


def test_an_unknown_name_at_the_call_is_refused_with_the_nearest_one() -> None:
    space = FeatureSpace.infer(mixed())
    with pytest.raises(UnknownNameError, match="did you mean 'income'"):
        space.limits(vary=["incom"])
    with pytest.raises(UnknownNameError, match="did you mean 'town'"):
        space.limits(bounds={"twon": ["Rome"]})


def test_a_string_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match=r"write \['age'\]"):
        FeatureSpace.infer(mixed(), immutable="age")
    with pytest.raises(InputError, match=r"write \['age'\]"):
        FeatureSpace.infer(mixed()).limits(vary="age")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"increase_only": ["age"], "decrease_only": ["age"]}, "make it immutable"),
        ({"increase_only": ["town"]}, "have no order"),
        ({"bounds": {"age": (5, 3)}}, "finite low <= high"),
        ({"bounds": {"age": (np.nan, 3)}}, "finite low <= high"),
        ({"bounds": {"age": (np.inf, 3)}}, "finite low <= high"),
        ({"bounds": {"age": (1, 2, 3)}}, r"give \(low, high\)"),
        ({"bounds": {"age": 5}}, r"give \(low, high\)"),
        ({"bounds": {"age": (0, 300)}}, "int8 holds only"),
        ({"steps": {"town": 1}}, "which is categorical"),
        ({"steps": {"income": -1}}, "positive"),
        ({"steps": {"age": 0.5}}, "must be whole"),
    ],
)
def test_contradictory_constraints_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConstraintError, match=sentence):
        FeatureSpace.infer(mixed(), **arguments)


def test_bounds_that_name_an_unknown_category_are_refused() -> None:
    with pytest.raises(UnknownCategoryError, match="Paris"):
        FeatureSpace.infer(mixed(), bounds={"town": ["Rome", "Paris"]})


def test_bounds_of_a_call_outside_the_own_are_refused() -> None:
    with pytest.raises(ConstraintError, match="lie outside its own"):
        FeatureSpace.infer(mixed()).limits(bounds={"income": (5000, 6000)})


def test_vary_of_an_immutable_feature_is_refused() -> None:
    with pytest.raises(ConstraintError, match="immutable"):
        FeatureSpace.infer(mixed(), immutable=["age"]).limits(vary=["age"])


def test_infinite_bounds_are_open_ends() -> None:
    (age, *_) = FeatureSpace.infer(mixed()).features
    (wide, *_) = FeatureSpace.infer(mixed(), bounds={age.name: (-np.inf, np.inf)}).features
    assert wide == age
    (half, *_) = FeatureSpace.infer(mixed(), bounds={age.name: (age.low - 1, np.inf)}).features
    assert (half.low, half.high) == (age.low - 1, age.high)


@pytest.mark.parametrize("name", ["income", "town", "size", "rooms"])
def test_a_missing_value_is_taken_in_and_restored(name: str) -> None:
    frame = mixed()
    frame.loc["r", name] = None
    for space in (FeatureSpace.infer(mixed()), FeatureSpace.infer(frame)):
        known, values = space.taking_in(frame)
        place = space.names.index(name)
        assert known.is_missing(values).tolist() == [
            [row == 2 and j == place for j in range(len(space))] for row in range(len(frame))
        ]
        pd.testing.assert_frame_equal(known.restore(values, frame), frame)
        assert known.model_input(values)[name].isna().tolist() == [row == 2 for row in range(len(frame))]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_value_is_refused_with_its_feature_and_row(value: float) -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    frame.loc["q", "income"] = value
    with pytest.raises(InputError, match=r"'income' is -?inf in row 1"):
        space.values(frame)


def test_an_unseen_category_is_refused_with_what_is_known() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    frame.loc["q", "town"] = "Paris"
    with pytest.raises(UnknownCategoryError, match=r"'town' is 'Paris' in row 1, .*'Bonn', 'Oslo', 'Rome'"):
        space.values(frame)


def test_text_in_a_numeric_feature_is_refused() -> None:
    space = FeatureSpace.infer(mixed()[["income"]])
    for text in (["1", "2"], ["one", "two"]):
        for dtype in ("str", object):
            with pytest.raises(InputError, match="'income' should be numeric"):
                space.values(pd.DataFrame({"income": pd.Series(text, dtype=dtype)}))


def test_a_missing_column_is_refused_with_the_nearest_one() -> None:
    space = FeatureSpace.infer(mixed())
    with pytest.raises(ColumnError, match="'income' is missing; did you mean 'Income'"):
        space.values(mixed().rename(columns={"income": "Income"}))


def test_columns_in_another_order_are_put_in_order() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    assert (space.values(frame[frame.columns[::-1]]) == space.values(frame)).all()
    pd.testing.assert_frame_equal(space.frame(frame[frame.columns[::-1]]), frame)


def test_extra_and_duplicate_columns_are_refused() -> None:
    frame = mixed()
    space = FeatureSpace.infer(frame)
    with pytest.raises(ColumnError, match="'more' is not a feature"):
        space.values(frame.assign(more=1))
    with pytest.raises(ColumnError, match="'age' occurs twice"):
        space.values(pd.concat([frame, frame[["age"]]], axis=1))
    with pytest.raises(ColumnError, match="'age' occurs twice"):
        FeatureSpace.infer(pd.concat([frame, frame[["age"]]], axis=1))


def test_an_array_of_the_wrong_shape_is_refused() -> None:
    space = FeatureSpace.infer(np.full((3, 2), 0.5))
    with pytest.raises(ColumnError, match=r"\(rows, 2\)"):
        space.values(np.zeros((3, 3)))
    with pytest.raises(ColumnError, match=r"\(rows, features\)"):
        FeatureSpace.infer(np.zeros(3))


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="not list"):
        FeatureSpace.infer([[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="rename"):
        FeatureSpace.infer(pd.DataFrame({"query_id": [1.0, 2.0]}))
