"""Options under which every explainer of the registry is quick, if not good."""

from typing import Any

from relax_plugin import ReLAXConfig

SMALL = ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30)

OPTIONS: dict[str, dict[str, Any]] = {
    "relax-global": {"config": SMALL, "progress": False},
    "relax-local": {"config": SMALL, "progress": False},
    "dice-random": {"sample_size": 200},
    "lore": {"population": 200},
    "focus": {"iterations": 100, "learning_rate": 0.1},
    "nearest-ct": {"reverted": True},
    "mace": {"seconds_per_row": 1.0},
    "cfrl": {"steps": 60},
    "fastar": {"steps": 4_000, "tries": 3},
}
