"""Facts about the embedded data sets and the waveform generator."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin import datasets
from relax_plugin.errors import InputError, UnknownNameError

SHAPES = {
    "breast_cancer": (683, 9),
    "diabetes": (768, 8),
    "sonar": (208, 60),
    "boston": (506, 13),
    "german": (1000, 20),
    "wave2": (5000, 21),
    "wave3": (5000, 21),
}


def triangle(position: int, peak: int) -> float:
    """Height of a wave of CART at one of its 21 points."""
    return float(max(6 - abs(position - peak), 0))


def test_available_names_are_the_loadable_ones() -> None:
    assert sorted(datasets.available()) == sorted(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_data_set_has_its_published_size_and_no_missing_value(name: str) -> None:
    dataset = datasets.load(name)
    assert dataset.name == name
    assert dataset.X.shape == SHAPES[name]
    assert dataset.y.shape == SHAPES[name][:1]
    assert not dataset.X.isna().any(axis=None)
    assert not dataset.y.isna().any()
    assert "target" not in dataset.X.columns
    assert not any(":" in column for column in dataset.X.columns)


@pytest.mark.parametrize("name", SHAPES)
def test_targets_are_consecutive_labels_unless_the_task_is_regression(name: str) -> None:
    dataset = datasets.load(name)
    if name == "boston":
        assert dataset.task == "regression"
        assert dataset.y.nunique() > 100
    else:
        assert dataset.task == "classification"
        assert sorted(dataset.y.unique()) == list(range(3 if name == "wave3" else 2))


@pytest.mark.parametrize("name", SHAPES)
def test_origin_attributes_the_source(name: str) -> None:
    assert any(word in datasets.load(name).origin for word in ("UCI", "StatLib", "Breiman"))


def test_boston_origin_warns_about_the_racial_share() -> None:
    assert "racial share" in datasets.load("boston").origin


def test_known_cells_are_read_unchanged() -> None:
    assert datasets.load("sonar").X.loc[0, ["V1", "V60"]].tolist() == [0.02, 0.0032]
    assert datasets.load("german").X.loc[0, ["status", "amount", "foreign"]].tolist() == ["A11", 1169, "A201"]
    assert datasets.load("boston").y[0] == 24.0


def test_numbers_keep_the_type_they_are_written_in() -> None:
    assert set(datasets.load("breast_cancer").X.dtypes) == {np.dtype("int64")}
    assert set(datasets.load("diabetes").X.dtypes) == {np.dtype("float64")}
    assert datasets.load("boston").X.dtypes["chas"] == np.dtype("int64")


def test_german_categories_are_strings_and_listed_in_its_constraints() -> None:
    german = datasets.load("german")
    strings = [column for column in german.X if not pd.api.types.is_numeric_dtype(german.X[column])]
    assert len(strings) == 13
    assert german.constraints["categorical"] == tuple(strings)
    assert all(isinstance(value, str) for value in german.X[strings].to_numpy().ravel())


def test_german_space_fixes_age_and_personal_status() -> None:
    space = datasets.load("german").space
    assert {feature.name for feature in space.features if feature.immutable} == {"age", "personal"}
    assert sum(feature.kind == "categorical" for feature in space.features) == 13


@pytest.mark.parametrize("name", SHAPES)
def test_space_has_the_columns_in_order(name: str) -> None:
    dataset = datasets.load(name)
    assert list(dataset.space.names) == list(dataset.X.columns)


def test_each_load_gives_its_own_frame() -> None:
    first = datasets.load("diabetes")
    first.X.iloc[0, 0] = -1.0
    assert datasets.load("diabetes").X.iloc[0, 0] == 6.0


def test_constraints_cannot_be_overwritten() -> None:
    with pytest.raises(TypeError):
        datasets.load("german").constraints["immutable"] = ()  # type: ignore[index]


def test_misspelt_name_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no data set 'brest_cancer'.*'breast_cancer'"):
        datasets.load("brest_cancer")


def test_waveform_classes_have_the_means_and_variances_of_cart() -> None:
    X, y = datasets.waveform(60_000, seed=3)
    peaks = {0: (11, 15), 1: (11, 7), 2: (15, 7)}
    for label, (first, second) in peaks.items():
        rows = X[y == label]
        for position in range(1, 22):
            a, b = triangle(position, first), triangle(position, second)
            assert rows[f"x{position}"].mean() == pytest.approx((a + b) / 2, abs=0.06)
            assert rows[f"x{position}"].var() == pytest.approx(1 + (a - b) ** 2 / 12, rel=0.06)


def test_waveform_points_share_one_mixing_number_per_row() -> None:
    X, y = datasets.waveform(60_000, seed=4)
    rows = X[y == 0]
    # u multiplies h1 - h2, which is 4 at point 11 and -4 at point 15: covariance -16/12.
    assert np.cov(rows["x11"], rows["x15"])[0, 1] == pytest.approx(-16 / 12, abs=0.08)


def test_waveform_classes_are_equally_likely() -> None:
    for classes in (2, 3):
        _, y = datasets.waveform(30_000, classes=classes)
        assert np.bincount(y) / len(y) == pytest.approx(np.full(classes, 1 / classes), abs=0.015)


def test_waveform_has_four_decimals() -> None:
    X, _ = datasets.waveform(100)
    assert np.array_equal(X.to_numpy(), X.to_numpy().round(4))
    assert not np.array_equal(X.to_numpy(), X.to_numpy().round(3))


def test_same_seed_same_waveform_and_another_seed_another() -> None:
    X, y = datasets.waveform(50, seed=7)
    X_again, y_again = datasets.waveform(50, seed=7)
    pd.testing.assert_frame_equal(X, X_again)
    pd.testing.assert_series_equal(y, y_again)
    assert not X.equals(datasets.waveform(50, seed=8)[0])


def test_waveform_leaves_the_global_generator_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    datasets.waveform(10)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(("rows", "classes"), [(0, 3), (10, 1), (10, 4)])
def test_impossible_waveforms_are_refused(rows: int, classes: int) -> None:
    with pytest.raises(InputError, match="but"):
        datasets.waveform(rows, classes=classes)
