"""What alibi's explainer is told and gives: arguments without a place here, `params`, explanations, files of `save`.

alibi's own files are pickled code (dill). Here an explainer is a folder with JSON and the safetensors of the agent:
loading runs nothing.
"""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relax_plugin.base import CounterfactualExplainer, make_explainer
from relax_plugin.errors import InputError, NotFittedError, UnsupportedError
from relax_plugin.results import Counterfactuals

SETTINGS, AGENT = "explainer.json", "agent.safetensors"

# Arguments of `CounterfactualRLTabular` about its autoencoder, its networks and their training.
SET_ASIDE = (
    *("encoder", "decoder", "encoder_preprocessor", "decoder_inv_preprocessor", "coeff_sparsity", "coeff_consistency"),
    *("weight_num", "weight_cat", "latent_dim", "backend"),
    *("act_noise", "act_low", "act_high", "replay_buffer_size", "batch_size", "num_workers", "shuffle"),
    *("exploration_steps", "update_every", "update_after", "train_steps", "reward_func", "postprocessing_funcs"),
    *("conditional_func", "conditional_vector", "callbacks", "actor", "critic", "optimizer_actor", "optimizer_critic"),
    *("lr_actor", "lr_critic", "actor_hidden_dim", "critic_hidden_dim", "sparsity_loss", "consistency_loss"),
)


@dataclass
class Explanation:
    """What `explain` gives: `meta` and `data`, whose keys are attributes too (`explanation.cf["X"]`)."""

    meta: dict[str, Any]
    data: dict[str, Any]
    counterfactuals: Counterfactuals | None = field(default=None, repr=False, compare=False)  # not in the JSON

    def __post_init__(self) -> None:
        self.__dict__.update({**self.data, **self.meta})

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def to_json(self) -> str:
        """`meta` and `data` as JSON text, arrays as lists and what JSON does not know as text."""
        plain = {"meta": self.meta, "data": self.data}
        return json.dumps(plain, default=lambda value: value.tolist() if hasattr(value, "tolist") else repr(value))

    @classmethod
    def from_json(cls, jsonrepr: str) -> "Explanation":
        """Read what `to_json` wrote; arrays stay lists, as with alibi."""
        read = json.loads(jsonrepr)
        if not isinstance(read, dict) or not {"meta", "data"} <= set(read):
            raise InputError("this JSON is no explanation: an object with 'meta' and 'data' is needed.")
        return cls(read["meta"], read["data"])


def set_aside(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without a place here, None where not given; one warning names those that were."""
    aside = {name: given[name] for name in SET_ASIDE}
    said = [name for name, value in aside.items() if value is not None]
    if said:
        text = f"no autoencoder is needed, and nothing is trained by it: {', '.join(said)} are set aside."
        warnings.warn(text, stacklevel=3)
    return aside


def described(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as `meta` shows them: what JSON does not know by its name, as alibi does."""
    return {name: _plain(value) for name, value in params.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return getattr(value, "__name__", None) or str(type(value))


def write(folder: str | Path, settings: Mapping[str, Any], explainer: CounterfactualExplainer | None) -> None:
    """Write the settings of a face, and its fitted explainer without the model, into a folder."""
    if explainer is None:
        raise NotFittedError("this explainer is not fitted; call fit(X) before save.")
    if not hasattr(explainer, "save"):
        raise UnsupportedError(
            f"{type(explainer).__name__} learns nothing that a file could hold; fit it again instead."
        )
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    explainer.save(Path(folder) / AGENT)


def read(folder: str | Path) -> dict[str, Any]:
    """The settings that `write` wrote."""
    path = Path(folder) / SETTINGS
    if not path.is_file():
        raise InputError(f"{folder} has no {SETTINGS}; give the folder that `save` wrote.")
    settings = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(settings, dict) or not {"meta", "category_map", "ranges", "regression"} <= set(settings):
        raise InputError(f"{path} is not what `save` writes.")
    return settings


def read_explainer(folder: str | Path, model: Any) -> CounterfactualExplainer:
    """The explainer that `write` wrote, for its model."""
    agent: Any = type(make_explainer("relax-global", model))  # the one method with files; they know the variant
    explainer: CounterfactualExplainer = agent.load(Path(folder) / AGENT, model=model)
    return explainer
