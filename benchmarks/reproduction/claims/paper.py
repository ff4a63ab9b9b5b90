"""What the paper prints: the numbers of its tables, to stand beside ours.

Chen, Silvestri, Wang, Zhu, Ahn, Tolomei: ReLAX: Reinforcement Learning Agent eXplainer for Arbitrary Predictive
Models, CIKM 2022. Figures 3 and 4 are pictures without numbers: of them only what the text says can be compared.
"""

from typing import NamedTuple


class Printed(NamedTuple):
    """Validity and sparsity as printed, with their standard deviations where there are any."""

    validity: float
    sparsity: float
    validity_deviation: float | None = None
    sparsity_deviation: float | None = None


DATASETS = {  # Table 1: instances, features, task
    "breast_cancer": (699, 10, "classification"),
    "diabetes": (768, 8, "classification"),
    "sonar": (208, 60, "classification"),
    "wave2": (5000, 21, "classification"),
    "boston": (506, 14, "regression"),
}

MODELS = {  # Table 2: structure, accuracy or RMSE
    "breast_cancer/rf": ("100 trees", 0.99),
    "diabetes/ada": ("100 trees", 0.79),
    "wave2/xgb": ("100 trees", 0.95),
    "breast_cancer/mlp": ("64 and 128 units", 1.00),
    "sonar/mlp": ("256 and 256 units", 0.90),
    "wave2/mlp": ("100 and 200 units", 0.97),
    "boston/mlp": ("50 and 128 units", 3.36),
}

REGRESSION = {  # Table 3: by δ and method
    (0.2, "relax-global"): Printed(0.81, 3.02, 0.09, 0.17),
    (0.2, "relax-local"): Printed(0.87, 3.10, 0.05, 0.18),
    (0.4, "relax-global"): Printed(0.74, 3.09, 0.06, 0.16),
    (0.4, "relax-local"): Printed(0.81, 3.18, 0.05, 0.16),
    (0.6, "relax-global"): Printed(0.70, 3.21, 0.06, 0.12),
    (0.6, "relax-local"): Printed(0.77, 3.28, 0.03, 0.09),
}

PROXIMITY: dict[str, dict[str, float | None]] = {  # Table 4: L1 by task and method; None is the paper's N/A
    "breast_cancer/rf": {"relax-global": 4.46, "relax-local": 4.49, "lore": 4.63, "mace": 4.47},
    "breast_cancer/mlp": {"relax-global": 5.92, "relax-local": 5.87, "lore": 5.63, "mace": None},
    "diabetes/ada": {"relax-global": 4.41, "relax-local": 4.50, "lore": 4.76, "mace": None},
    "sonar/mlp": {"relax-global": 7.32, "relax-local": 7.66, "lore": 7.36, "mace": None},
    "wave2/xgb": {"relax-global": 5.93, "relax-local": 6.02, "lore": 6.60, "mace": None},
    "wave2/mlp": {"relax-global": 6.38, "relax-local": 6.50, "lore": 6.41, "mace": None},
    "boston/mlp": {"relax-global": 5.10, "relax-local": 5.36, "lore": None, "mace": None},
}

GENERATION_SECONDS = {
    "relax-global": 1500,
    "relax-local": 1320,
    "lore": 2100,
    "mace": 2280,
}  # Table 4, training included

ARCHITECTURES = {  # Table 5: accuracy, then validity (sparsity) by method
    "sonar/mlp": (
        0.88,
        {
            "relax-global": Printed(0.76, 2.95),
            "relax-local": Printed(0.90, 3.19),
            "grace": Printed(0.62, 3.32),
            "lore": Printed(0.60, 3.65),
        },
    ),
    "sonar/mlp-128": (
        0.85,
        {
            "relax-global": Printed(0.80, 2.69),
            "relax-local": Printed(0.90, 2.88),
            "grace": Printed(0.73, 2.85),
            "lore": Printed(0.76, 3.21),
        },
    ),
    "sonar/mlp-64": (
        0.79,
        {
            "relax-global": Printed(0.90, 1.88),
            "relax-local": Printed(0.95, 1.93),
            "grace": Printed(0.86, 1.90),
            "lore": Printed(0.90, 2.52),
        },
    ),
}

PRETRAINING = {  # Table 6: validity (sparsity), seconds
    "from scratch": (Printed(0.80, 3.27), 1132),
    "pretrained": (Printed(0.90, 3.19), 500),
}

COVID_ACCURACY = 0.85  # §6, XGBoost with 500 trees
COVID_COUNTRIES = 16  # of high risk in the test set
COVID_CHANGES = 1.67  # features changed on average
COVID_DISTANCE = 1.18  # L1 on average
COVID_DIRECTIONS = {  # §6, the five main changes
    "Death_rate": -1,
    "unemploy": -1,
    "Nurse_per": 1,
    "Urban_pop": -1,
    "Obe": -1,
}
