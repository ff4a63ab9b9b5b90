"""Facts about the words for columns and codes of the embedded tables."""

import pytest

from relax_plugin import datasets

EMBEDDED = ("breast_cancer", "diabetes", "boston", "german", "adult")


@pytest.mark.parametrize("name", EMBEDDED)
def test_every_column_has_words_of_its_own(name: str) -> None:
    dataset = datasets.load(name)
    labels = dataset.space.labels
    assert set(labels) == set(dataset.X.columns)
    told = [own for own, _ in labels.values()]
    assert all(told) and len(set(told)) == len(told)


def test_every_code_of_german_has_words_and_no_two_codes_the_same() -> None:
    german = datasets.load("german")
    assert list(german.words) == list(german.constraints["categorical"])
    for column, words in german.words.items():
        assert set(german.X[column]) <= set(words)
        assert len(set(words.values())) == len(words)


@pytest.mark.slow
def test_words_of_a_column_of_codes_are_the_same_in_the_space() -> None:
    adult = datasets.load("adult")
    assert set(adult.words) == {"workclass", "education", "marital-status", "occupation", "relationship"}
    assert all(adult.space.labels[column][1] == words for column, words in adult.words.items())


def test_a_code_of_the_code_book_that_no_row_has_is_no_error() -> None:
    german = datasets.load("german")
    assert "A47" in german.words["purpose"] and "A47" not in set(german.X["purpose"])


def test_words_that_one_writes_into_are_not_those_of_the_next_load() -> None:
    first = datasets.load("german")
    first.constraints["labels"]["status"][1]["A11"] = "changed"
    assert datasets.load("german").words["status"]["A11"] == "overdrawn"
    assert datasets.load("german").words["status"] is not datasets.load("german").words["status"]
