"""What a cell holds is what was promised: dtypes, bounds, grids and decimals to the last bit."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from relax_plugin import CounterfactualExplainer, FeatureSpace, ReLAXConfig, make_explainer
from relax_plugin.errors import ConstraintError, InputError, TableNote, UnknownCategoryError
from relax_plugin.evaluation.metrics import violations
from relax_plugin.problem import Proposals

RNG = np.random.default_rng(7)
TINY = ReLAXConfig(steps=4, episodes=16, hidden=8, start_pool=64, query_budget=200)


def by(column, edge):
    """A model that says 1 above an edge of one column."""

    def model(rows):
        above = np.asarray(rows[column] if isinstance(rows, pd.DataFrame) else rows[:, column], dtype=float) > edge
        return np.column_stack([~above, above]).astype(float)

    return model


# Whole numbers beyond 2^53.


def test_large_integers_that_may_vary_are_refused_by_name():
    rows = pd.DataFrame({"stamp": np.array([2**62, 2**62 + 5, 2**63 - 1]), "a": [0.5, 1.5, 2.5]})
    with pytest.raises(InputError, match=r"feature 'stamp' is 9223372036854775808 in row 2; .* immutable"):
        FeatureSpace.infer(rows)
    space = FeatureSpace.infer(rows[["a"]].assign(stamp=[1, 2, 3]))
    with pytest.raises(InputError, match=r"feature 'stamp' is .* in row 1"):
        space.values(rows[["a", "stamp"]].assign(stamp=[1, 2**60, 3]))
    for bound in (2**60, 2**53):
        with pytest.raises(ConstraintError, match="holds only"):
            FeatureSpace.infer(rows[["a"]].assign(stamp=[1, 2, 3]), bounds={"stamp": (0, bound)})


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64"])
def test_large_integers_that_may_not_vary_are_delivered_exactly(dtype):
    rows = pd.DataFrame({"id": pd.array([2**62 + 1, 2**60 + 3, 2**53 + 1, 5], dtype=dtype), "a": [0.5, 1.5, 2.5, 3.5]})
    space = FeatureSpace.infer(rows, immutable=["id"])
    result = make_explainer("greedy", by("a", 2), space).fit(rows).explain(rows)
    assert result.found.all()
    assert result.frame["id"].tolist() == [2**62 + 1, 2**60 + 3, 2**53 + 1, 5] and result.frame["id"].dtype == dtype
    array = make_explainer("greedy", by("a", 2), space).fit(rows).explain(rows).to_array()
    assert [int(cell) for cell in array[:, 0, 0]] == [2**62 + 1, 2**60 + 3, 2**53 + 1, 5]


def test_the_model_is_asked_with_integers_also_beside_large_ones():
    rows = np.array([[1, 2**63 - 1, 3], [9, 2**60 + 3, 5], [4, 2**60, 3]], dtype=np.int64)
    kinds, smallest = set(), []

    def model(asked):
        kinds.add(str(asked.dtype))
        smallest.append(asked[:, 1].min())
        return by(0, 4)(asked)

    for categorical in ([], ["x2"]):
        space = FeatureSpace.infer(rows, immutable=["x1"], categorical=categorical)
        assert make_explainer("greedy", model, space).fit(rows).explain(rows).found.all()
    assert kinds == {"int64"} and min(smallest) > 0


# Grids.


@pytest.mark.parametrize(
    ("low", "step"), [(0.16097819104817823, 20.0), (0.0, 1e-13), (-3e-12, 1e-13), (1e9, 1e-3), (0.1, 1 / 3)]
)
def test_a_grid_of_any_size_keeps_its_bounds_and_its_points(low, step):
    numbers = low + step * np.array([0.0, 3.3, 7.7, 10.4])
    space = FeatureSpace.infer(pd.DataFrame({"a": numbers}), continuous=["a"], steps={"a": step})
    limits = space.limits()
    start = np.full((400, 1), numbers[1])
    projected = limits.project(numbers[0] + (numbers[-1] - numbers[0]) * RNG.uniform(-0.5, 1.5, (400, 1)), start)
    assert projected.min() >= numbers.min() and projected.max() <= numbers.max()
    steps = (projected - numbers[0]) / step
    assert np.abs(steps - np.rint(steps)).max() < 1e-4 and len(np.unique(projected)) == 11
    assert (limits.project(projected, start) == projected).all(), "a point of the grid stays where it is"
    assert limits.kept(projected, start).all() and (violations(space, limits, start, projected) == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("step", [1e-13, 1e-5, 1e-3, 0.1, 1 / 3, 7.0])
@pytest.mark.parametrize("size", [1, 30, 1e3, 8e4, 1e12])
def test_ends_and_projections_keep_bounds_also_where_the_dtype_is_coarser_than_the_step(dtype, step, size):
    if dtype == "float16" and size > 1e4:
        return
    numbers = (RNG.normal(0, 1, 30) * size).astype(dtype)
    space = FeatureSpace.infer(pd.DataFrame({"a": numbers}), continuous=["a"], steps={"a": step})
    for _ in range(30):
        low, high = np.sort(RNG.uniform(float(numbers.min()), float(numbers.max()), 2))
        limits, start = space.limits(bounds={"a": (low, high)}), RNG.choice(numbers, 5).astype(float)[:, None]
        projected = limits.project(RNG.normal(0, size, (5, 1)), start)
        for cells in (*limits.span(start), projected):
            assert ((cells == start) | ((cells >= low) & (cells <= high))).all()
            assert (cells.astype(dtype) == cells).all() and limits.kept(cells, start).all()
            assert (violations(space, limits, start, cells) == 0).all()


@pytest.mark.parametrize("decimals", [1, 4, 7, 9, 12])
def test_changed_cells_keep_as_many_decimals_as_the_column_has(decimals):
    numbers = np.round(RNG.uniform(0, 1, 200), decimals)
    rows = pd.DataFrame({"a": numbers})
    result = make_explainer("greedy", by("a", 0.43219876)).fit(rows).explain(rows[:30])
    assert result.found.all()
    changed = result.frame["a"].to_numpy()
    assert (np.round(changed, decimals) == changed).all(), "0.027190132812499997 is not how the column is written"
    assert all(len(repr(number).split(".")[-1]) <= decimals or "e" in repr(number) for number in changed.tolist())


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [("float16", [999, 1000, 60]), ("float32", [1_999_999, 2_000_001, 5]), ("float64", [4e15, 3, 1e6])],
)
def test_whole_numbers_in_a_float_column_are_integers_however_large(dtype, numbers):
    feature = FeatureSpace.infer(pd.DataFrame({"a": np.array(numbers, dtype=dtype)})).features[0]
    assert (feature.kind, feature.step) == ("integer", 1.0)


def test_numbers_of_all_digits_have_no_grid():
    for dtype in ("float64", "float32"):
        space = FeatureSpace.infer(pd.DataFrame({"a": RNG.uniform(0, 1, 200).astype(dtype)}))
        assert space.features[0].step is None


def test_what_leaves_bounds_or_grid_is_not_kept_though_projection_were_wrong():
    """`kept` looks at each constraint itself: a fault of `project` does not pass it."""
    rows = pd.DataFrame({"a": [0.0, 0.5, 1.0], "b": [0, 4, 8], "c": [1.5, 2.5, 7.25]})
    space = FeatureSpace.infer(rows, steps={"b": 2}, increase_only=["c"])
    limits, start = space.limits(), np.array([[0.5, 4.0, 2.5]])
    good = [[0.7, 4, 2.5], [0.5, 6, 2.5], [0.5, 4, 2.75]]
    bad = [[0.75, 4, 2.5], [1.1, 4, 2.5], [0.1 * 3, 4, 2.5], [0.5, 5, 2.5], [0.5, 10, 2.5], [0.5, 4, 2.25], [0.5, 4, 8]]
    assert [bool(limits.kept(np.array([row], dtype=float), start)[0]) for row in good + bad] == [True] * 3 + [False] * 7


# Short floats.


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bounds", [(-1.1, 2.3), (-0.3, 0.7)])
@pytest.mark.parametrize("decimals", [1, None])
def test_a_bound_holds_for_the_cell_as_it_is_stored(dtype, bounds, decimals):
    numbers = RNG.normal(0, 1, 80)
    numbers = (numbers if decimals is None else numbers.round(decimals)).astype(dtype)
    rows = pd.DataFrame({"a": numbers, "b": RNG.normal(0, 1, 80).astype(dtype)})
    space = FeatureSpace.infer(rows, bounds={"a": bounds})
    result = make_explainer("greedy", by("a", 0.0), space).fit(rows).explain(rows, n=2)
    query, changed = result.frame["query_id"], result.frame["a"].to_numpy(dtype=np.float64)
    moved = changed != rows["a"].to_numpy(dtype=np.float64)[query]
    assert result.frame["a"].dtype == dtype and moved.any()
    assert changed[moved].min() >= bounds[0] and changed[moved].max() <= bounds[1], "compared as float64"


def test_the_ends_of_float32_data_can_be_reached():
    rows = pd.DataFrame({"a": np.array([-1.1, 0.3, 2.3], dtype=np.float32)})
    low, high = FeatureSpace.infer(rows).limits().span(np.array([[np.float64(np.float32(0.3))]]))
    assert (np.float32(low[0, 0]), np.float32(high[0, 0])) == (np.float32(-1.1), np.float32(2.3))


@pytest.mark.parametrize("name", ["greedy", "relax-global", "nearest-ct", "move-table"])
def test_counterfactuals_of_half_precision_differ_as_delivered(name):
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({f"x{j}": rng.uniform(100, 104, 80).astype(np.float16) for j in range(2)})
    options = {"config": TINY, "progress": False} if name.startswith("relax") else {}
    result = make_explainer(name, by("x0", 102.0), **options).fit(rows).explain(rows[:20], n=4)
    assert (result.frame.dtypes[["x0", "x1"]] == np.float16).all()
    assert not result.frame.drop(columns="cf_id").duplicated().any()
    assert (result.frame["x0"] > 102).tolist() == (rows["x0"].to_numpy()[result.frame["query_id"]] <= 102).tolist()


# Cells of other kinds.


def test_cells_of_an_object_array_stay_the_objects_they_were():
    rows = np.array([[1, 2.5, "a"], [2.5, 1, "b"], [3, 0, "a"], [0, 3, "b"]] * 5, dtype=object)
    result = make_explainer("greedy", by(0, 1.5)).fit(rows).explain(rows[:4])
    assert result.found.all()
    delivered = result.space.restore(result.values[:, 0], rows[:4])
    for row, query in zip(delivered, rows[:4], strict=True):
        same = [j for j in range(3) if row[j] == query[j]]
        assert len(same) == 2 and all(type(row[j]) is type(query[j]) for j in same)


def test_the_model_is_asked_with_the_dtypes_of_the_training_rows():
    seen = set()

    def model(rows):
        seen.add(tuple(map(str, rows.dtypes)))
        return by("a", 1)(rows)

    rows = pd.DataFrame({"a": [0.5, 1.5, 2.5], "text": pd.Series(["x", "y", "x"], dtype=object)})
    make_explainer("greedy", model).fit(rows).explain(rows)
    assert seen == {("float64", "object")}

    kinds = set()

    def array_model(rows):
        kinds.add(str(rows.dtype))
        return by(0, 4)(rows)

    numbers = np.array([[1], [5], [9]], dtype=object)
    make_explainer("greedy", array_model).fit(numbers).explain(numbers)
    assert kinds == {"object"}


def test_decimal_numbers_are_carried_and_not_taken_for_categories():
    rows = pd.DataFrame({"price": [Decimal("1.5"), Decimal("2.5")], "a": [1, 2]})
    with pytest.warns(TableNote, match=r"carried to the model as they are, and never changed: 'price' \(object\)"):
        space = FeatureSpace.infer(rows)
    assert [f.carried for f in space.features] == [True, False]
    with pytest.raises(ConstraintError, match=r"bounds names feature 'price' .*astype\(float\)"):
        FeatureSpace.infer(rows, bounds={"price": (1, 2)})


def test_a_column_of_lists_is_carried_and_a_list_among_categories_is_named():
    rows = pd.DataFrame({"tags": [["a"], ["b", "c"]], "a": [1, 2]})
    with pytest.warns(TableNote, match="'tags'"):
        assert FeatureSpace.infer(rows).features[0].carried
    with pytest.raises(InputError, match=r"feature 'tags' is \['a'\] in row 0, a list"):
        FeatureSpace.infer(rows, categorical=["tags"])
    space = FeatureSpace.infer(pd.DataFrame({"tags": pd.Series(["a", "b"], dtype=object), "a": [1, 2]}))
    with pytest.raises(UnknownCategoryError, match=r"feature 'tags' is \['a'\] in row 0, but"):
        space.values(rows)
    with pytest.warns(UserWarning, match=r"feature 'tags' is \['a'\] in row 0 and has 1 more unseen category, but"):
        known, values = space.taking_in(rows)
    assert known.restore(values, rows)["tags"].tolist() == [["a"], ["b", "c"]]


def test_a_column_that_names_rows_is_carried_with_a_warning():
    names = [f"customer {i}" for i in range(2000)]
    for count in (2000, 60):
        with pytest.warns(UserWarning, match=f"'who' has {count} different texts in {count} rows: it names rows"):
            space = FeatureSpace.infer(pd.DataFrame({"who": names[:count], "a": range(count)}))
        assert space.features[0].carried and not space.features[1].carried
    many = pd.DataFrame({"who": names[:1200] + names[:800]})
    with pytest.warns(UserWarning, match="'who' has 1200 categories in 2000 rows"):
        assert not FeatureSpace.infer(many).features[0].carried
    with pytest.warns(UserWarning, match="'who' has 60 categories in 60 rows"):
        assert not FeatureSpace.infer(pd.DataFrame({"who": names[:60]}), categorical=["who"]).features[0].carried


def test_ordinary_categories_and_immutable_identifiers_are_worth_none(recwarn):
    names = [f"customer {i}" for i in range(2000)]
    FeatureSpace.infer(pd.DataFrame({"who": names}), immutable=["who"])
    FeatureSpace.infer(pd.DataFrame({"town": names[:100] * 20, "few": ["a", "b"] * 1000}))
    assert not recwarn.list


class Unsure(CounterfactualExplainer):
    """Offers one row that is no number, and leaves such numbers where it offers nothing."""

    def _fit(self, values, rng):
        pass

    def _generate(self, problem, n, rng):
        made = Proposals.empty(problem, n)
        made.values[:, :, 0] = np.nan
        made.offered[:, 0] = True
        made.values[:, -1, 1] = np.inf
        return made


def test_what_is_no_number_is_neither_found_nor_shown_as_an_attempt():
    rows = pd.DataFrame({"a": RNG.normal(0, 1, 30), "b": RNG.integers(0, 5, 30)})
    result = Unsure(by("a", 0.0)).fit(rows).explain(rows[:10], n=3)
    assert not result.found.any() and np.isfinite(result.values).all()
    assert (result.values == result.start[:, None]).all()
