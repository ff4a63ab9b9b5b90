"""The embedded files: where each is from, and what may change in it, as a person in charge of the answers would say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from relax_plugin.datasets import words

TaskKind = Literal["classification", "regression"]


@dataclass(frozen=True)
class Source:
    """What is known of an embedded file beside its cells; `constraints` are arguments of `FeatureSpace.infer`."""

    task: TaskKind
    origin: str
    constraints: Mapping[str, Any] = field(default_factory=dict)


# Lowest first, as census takers number it: column education-num is the place in this order, in every row.
EDUCATION = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college"),
    *("Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
)

# What a credit officer or a social worker could say to a person. Nobody is told to marry, to be of another sex, race or
# country, to get younger, to unlearn, or to lose money. What is missing stays missing: to fill it in is no advice.
ADULT = {
    "immutable": ("marital-status", "relationship", "race", "sex", "native-country"),
    "increase_only": ("age", "education"),
    "decrease_only": ("capital-loss",),
    "bounds": {
        "hours-per-week": (10, 60),
        "capital-gain": (0, 41310),  # the largest but for 99999, which stands for more than can be told
        "workclass": (
            *("Federal-gov", "Local-gov", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov"),
        ),  # neither unpaid nor never at work
    },
    "ordered": {"education": EDUCATION},
    "derived": {"education-num": "place(education)"},
    "rules": (
        "age <= was(age) + 10",  # what takes longer is no plan
        "education <= was(education) or age >= was(age) + 2",  # a degree takes two years at least,
        "place(education) - place(was(education)) <= age - was(age)",  # and each step one
        'education < "Prof-school" or age >= 24',  # these two hold in every row, as do the next ones
        "`capital-gain` == 0 or `capital-loss` == 0",
        'occupation != "Priv-house-serv" or workclass == "Private"',
    ),
    "labels": words.ADULT,
}

# What a credit officer could say to a customer who is refused: be less late, pay more of the bill, spend less, take a
# lower limit. The three older statements are history, and nobody is told to be of another sex, age or family.
DEFAULT = {
    "categorical": ("SEX", "EDUCATION", "MARRIAGE"),
    "immutable": (
        *("SEX", "EDUCATION", "MARRIAGE", "AGE"),
        *(f"{name}{number}" for name in ("PAY_", "BILL_AMT", "PAY_AMT") for number in (4, 5, 6)),
    ),
    "decrease_only": ("LIMIT_BAL", "PAY_0", "PAY_2", "PAY_3", "BILL_AMT1", "BILL_AMT2", "BILL_AMT3"),
    "increase_only": ("PAY_AMT1", "PAY_AMT2", "PAY_AMT3"),
    "bounds": {
        **{f"PAY_{number}": (-1, 8) for number in (0, 2, 3)},  # not to use the card is no advice
        **{f"BILL_AMT{number}": (0, 2_000_000) for number in (1, 2, 3)},  # nor to pay before one owes
    },
    "steps": {"LIMIT_BAL": 10_000},
    "rules": (
        "LIMIT_BAL == was(LIMIT_BAL) or LIMIT_BAL >= BILL_AMT1",  # no limit falls below what is owed
        "PAY_AMT1 == was(PAY_AMT1) or PAY_AMT1 <= BILL_AMT2",  # nobody pays more than the bill before
        "PAY_AMT2 == was(PAY_AMT2) or PAY_AMT2 <= BILL_AMT3",
        "PAY_0 == was(PAY_0) or 10 * PAY_AMT1 >= BILL_AMT2",  # who is less late has paid a tenth of that at least
        "PAY_2 == was(PAY_2) or 10 * PAY_AMT2 >= BILL_AMT3",
        "PAY_3 == was(PAY_3) or 10 * PAY_AMT3 >= BILL_AMT4",
    ),
    "labels": words.DEFAULT,
}

EMBEDDED = {
    "breast_cancer": Source(
        "classification",
        "Wisconsin Breast Cancer (original), W. H. Wolberg, University of Wisconsin Hospitals; UCI Machine Learning "
        "Repository, CC BY 4.0. Target 1 is malignant. The 16 of 699 rows with a missing value were dropped.",
        {"labels": words.BREAST_CANCER},
    ),
    "diabetes": Source(
        "classification",
        "Pima Indians Diabetes, National Institute of Diabetes and Digestive and Kidney Diseases; UCI Machine Learning "
        "Repository. Target 1 is positive. Zeros that stand for missing values are kept.",
        {"labels": words.DIABETES},
    ),
    "sonar": Source(
        "classification",
        "Connectionist Bench (Sonar, Mines vs. Rocks), R. P. Gorman and T. J. Sejnowski; UCI Machine Learning "
        "Repository, CC BY 4.0. Target 1 is a mine.",
    ),
    "boston": Source(
        "regression",
        "Boston Housing, D. Harrison and D. L. Rubinfeld, Hedonic housing prices and the demand for clean air (1978); "
        "StatLib. The target is the median value of homes, in thousands of dollars. Column b encodes a racial share "
        "of the population: the data set is here to compare with the paper, not to draw conclusions about housing.",
        {"labels": words.BOSTON},
    ),
    "german": Source(
        "classification",
        "Statlog (German Credit Data), H. Hofmann, Universität Hamburg; UCI Machine Learning Repository, CC BY 4.0. "
        "Target 1 is bad credit. Column personal joins marital status and sex. Not in the paper: the mixed-type case.",
        {"immutable": ("age", "personal"), "labels": words.GERMAN},
    ),
    "adult": Source(
        "classification",
        "Adult (Census Income), B. Becker and R. Kohavi; UCI Machine Learning Repository, CC BY 4.0. Target 1 is an "
        "income of more than 50,000 dollars a year. These are the 32,561 training rows; column fnlwgt was dropped. "
        "Missing cells are as they were. Not in the paper: the case with real missing values and rules.",
        ADULT,
    ),
    "default": Source(
        "classification",
        "Default of Credit Card Clients, I-Cheng Yeh; UCI Machine Learning Repository, CC BY 4.0. Target 1 is default "
        "in the next month, October 2005. Column PAY_0 is September's. Not in the paper: the larger case with rules.",
        DEFAULT,
    ),
}
