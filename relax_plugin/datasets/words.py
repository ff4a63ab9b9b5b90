"""Words for the columns and the codes of the embedded files, as `labels` of `FeatureSpace.infer` has them."""

from typing import Any

Words = dict[str, Any]  # of a column: words for it, or a pair of these and of words for its codes

BREAST_CANCER: Words = {
    "Cl.thickness": "clump thickness (1 to 10)",
    "Cell.size": "uniformity of cell size (1 to 10)",
    "Cell.shape": "uniformity of cell shape (1 to 10)",
    "Marg.adhesion": "marginal adhesion (1 to 10)",
    "Epith.c.size": "size of single epithelial cells (1 to 10)",
    "Bare.nuclei": "bare nuclei (1 to 10)",
    "Bl.cromatin": "bland chromatin (1 to 10)",
    "Normal.nucleoli": "normal nucleoli (1 to 10)",
    "Mitoses": "mitoses (1 to 10)",
}

DIABETES: Words = {
    "pregnant": "pregnancies",
    "glucose": "glucose two hours after a drink (mg/dl)",
    "pressure": "diastolic blood pressure (mm Hg)",
    "triceps": "skin fold at the triceps (mm)",
    "insulin": "insulin two hours after a drink (µU/ml)",
    "mass": "body mass index (kg/m²)",
    "pedigree": "diabetes in the family (score)",
    "age": "age (years)",
}

BOSTON: Words = {
    "crim": "crimes a person",
    "zn": "land for lots over 25,000 square feet (%)",
    "indus": "land for industry (%)",
    "chas": "at the Charles River (1: yes)",
    "nox": "nitric oxides (parts in 10 million)",
    "rm": "rooms a dwelling",
    "age": "homes built before 1940 (%)",
    "dis": "distance to employment centres (weighted)",
    "rad": "access to radial highways (index)",
    "tax": "property tax ($ for $10,000)",
    "ptratio": "pupils a teacher",
    "b": "1000 (share of Black residents - 0.63)²",
    "lstat": "residents of lower status (%)",
}

GERMAN: Words = {
    "status": (
        "checking account (DM)",
        {"A11": "overdrawn", "A12": "below 200", "A13": "200 or more", "A14": "no account"},
    ),
    "duration": "duration (months)",
    "credit_history": (
        "earlier credits",
        {
            "A30": "none, or all paid back",
            "A31": "all at this bank paid back",
            "A32": "paid back so far",
            "A33": "delays in the past",
            "A34": "critical, or credits at other banks",
        },
    ),
    "purpose": (
        "purpose",
        {
            "A40": "new car",
            "A41": "used car",
            "A42": "furniture",
            "A43": "radio or television",
            "A44": "household appliances",
            "A45": "repairs",
            "A46": "education",
            "A47": "vacation",
            "A48": "retraining",
            "A49": "business",
            "A410": "other",
        },
    ),
    "amount": "amount (DM)",
    "savings": (
        "savings (DM)",
        {"A61": "below 100", "A62": "below 500", "A63": "below 1000", "A64": "1000 or more", "A65": "unknown"},
    ),
    "employment": (
        "years with the employer",
        {"A71": "none", "A72": "< 1 year", "A73": "< 4 years", "A74": "< 7 years", "A75": "7 years or more"},
    ),
    "rate": "instalment (% of disposable income, in steps of 1 to 4)",
    "personal": (
        "marital status and sex",
        {
            "A91": "man, divorced or separated",
            "A92": "woman, divorced, separated or married",
            "A93": "man, single",
            "A94": "man, married or widowed",
            "A95": "woman, single",
        },
    ),
    "debtors": ("other debtors", {"A101": "none", "A102": "co-applicant", "A103": "guarantor"}),
    "residence": "time at the address (in steps of 1 to 4)",
    "property": (
        "property",
        {
            "A121": "real estate",
            "A122": "building society savings or life insurance",
            "A123": "car or other",
            "A124": "unknown or none",
        },
    ),
    "age": "age (years)",
    "plans": ("other instalment plans", {"A141": "at a bank", "A142": "at stores", "A143": "none"}),
    "housing": ("housing", {"A151": "rent", "A152": "own", "A153": "free"}),
    "credits": "credits at this bank",
    "job": (
        "job",
        {
            "A171": "unemployed, or unskilled and not resident",
            "A172": "unskilled, resident",
            "A173": "skilled, or official",
            "A174": "management, self-employed or highly qualified",
        },
    ),
    "liable": "people to provide for",
    "telephone": ("telephone", {"A191": "none", "A192": "in the customer's name"}),
    "foreign": ("foreign worker", {"A201": "yes", "A202": "no"}),
}

_MONTHS = ("September", "August", "July", "June", "May", "April")  # of 2005, the latest first
_NUMBERS = (0, 2, 3, 4, 5, 6)  # of the columns PAY_*, as they are published
DEFAULT: Words = {
    "LIMIT_BAL": "credit limit (NT$)",
    "SEX": ("sex", {1: "man", 2: "woman"}),
    "EDUCATION": (
        "education",
        {
            1: "graduate school",
            2: "university",
            3: "high school",
            4: "other",
            **dict.fromkeys((0, 5, 6), "unknown"),
        },
    ),
    "MARRIAGE": ("marital status", {0: "unknown", 1: "married", 2: "single", 3: "other"}),
    "AGE": "age (years)",
    **{
        f"PAY_{number}": f"months late in {month} (-1: paid in full, 0: in part, -2: card not used)"
        for number, month in zip(_NUMBERS, _MONTHS, strict=True)
    },
    **{f"BILL_AMT{at}": f"bill in {month} (NT$)" for at, month in enumerate(_MONTHS, start=1)},
    **{f"PAY_AMT{at}": f"paid in {month} (NT$)" for at, month in enumerate(_MONTHS, start=1)},
}

ADULT: Words = {
    "age": "age (years)",
    "workclass": (
        "employer",
        {
            "Federal-gov": "federal government",
            "Local-gov": "local government",
            "Never-worked": "never worked",
            "Private": "a private employer",
            "Self-emp-inc": "self-employed, incorporated",
            "Self-emp-not-inc": "self-employed, not incorporated",
            "State-gov": "state government",
            "Without-pay": "work without pay",
        },
    ),
    "education": (
        "education",
        {
            "Preschool": "preschool",
            "1st-4th": "grade 1 to 4",
            "5th-6th": "grade 5 or 6",
            "7th-8th": "grade 7 or 8",
            "9th": "grade 9",
            "10th": "grade 10",
            "11th": "grade 11",
            "12th": "grade 12, no diploma",
            "HS-grad": "high school diploma",
            "Some-college": "some college",
            "Assoc-voc": "associate degree (vocational)",
            "Assoc-acdm": "associate degree (academic)",
            "Bachelors": "bachelor's degree",
            "Masters": "master's degree",
            "Prof-school": "professional degree",
            "Doctorate": "doctorate",
        },
    ),
    "education-num": "level of education (1 to 16)",
    "marital-status": (
        "marital status",
        {
            "Divorced": "divorced",
            "Married-AF-spouse": "married to a member of the armed forces",
            "Married-civ-spouse": "married to a civilian",
            "Married-spouse-absent": "married, spouse absent",
            "Never-married": "never married",
            "Separated": "separated",
            "Widowed": "widowed",
        },
    ),
    "occupation": (
        "occupation",
        {
            "Adm-clerical": "clerical work",
            "Armed-Forces": "armed forces",
            "Craft-repair": "crafts and repair",
            "Exec-managerial": "management",
            "Farming-fishing": "farming or fishing",
            "Handlers-cleaners": "handling or cleaning",
            "Machine-op-inspct": "machine operation or inspection",
            "Other-service": "other services",
            "Priv-house-serv": "service in private households",
            "Prof-specialty": "professional specialty",
            "Protective-serv": "protective services",
            "Sales": "sales",
            "Tech-support": "technical support",
            "Transport-moving": "transport or moving",
        },
    ),
    "relationship": (
        "place in the family",
        {
            "Husband": "husband",
            "Not-in-family": "not in a family",
            "Other-relative": "other relative",
            "Own-child": "child",
            "Unmarried": "unmarried",
            "Wife": "wife",
        },
    ),
    "race": "race, as the census asked it",
    "sex": "sex, as the census asked it",
    "capital-gain": "capital gains ($ a year)",
    "capital-loss": "capital losses ($ a year)",
    "hours-per-week": "work (hours a week)",
    "native-country": "country of birth",
}

COMPAS: Words = {
    "age": "age (years)",
    "juv_fel_count": "felonies as a juvenile",
    "juv_misd_count": "misdemeanors as a juvenile",
    "juv_other_count": "other offences as a juvenile",
    "priors_count": "prior offences",
    "c_charge_degree": ("charge", {"F": "felony", "M": "misdemeanor"}),
}
