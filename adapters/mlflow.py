"""MLflow's face: a fitted explainer logged with its model as a flavour, which loads again without pickled code of ours.

The folder of a logged explainer holds `explainer.safetensors`, which is data and runs nothing, and `model/`, which
MLflow's own flavour of the model's library wrote. `mlflow.pyfunc.load_model` puts the two together.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

import relax_plugin
from relax_plugin.base import CounterfactualExplainer, fitted, make_explainer
from relax_plugin.errors import InputError, MissingExtraError, UnknownNameError, UnsupportedError, did_you_mean

FLAVOR = "relax"  # its name in the file MLmodel
DATA, EXPLAINER, MODEL = "relax", "explainer.safetensors", "model"  # the folder, and what is in it

# By the package that a model's class comes from, the module of MLflow that writes and reads such models.
FLAVORS = {"lightgbm": "lightgbm", "sklearn": "sklearn", "torch": "pytorch", "xgboost": "xgboost"}
PARAMETERS = ("n", "max_changes", "vary")  # of `explain` that a call of a loaded model may give


def save_model(
    explainer: CounterfactualExplainer,
    path: str | Path,
    *,
    model_flavor: str | None = None,
    model_options: Mapping[str, Any] | None = None,
    input_example: Any = None,
    signature: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    mlflow_model: Any = None,
    training_rows: bool = True,
) -> None:
    """Write a fitted explainer and its model as an MLflow model into a new folder.

    Parameters
    ----------
    explainer : ReLAX
        Fitted; other methods learn nothing that a file could hold.
    path : path
        Of a folder that is not there yet.
    model_flavor : str, optional
        MLflow's flavour of the model, such as "sklearn", where its class does not tell.
    model_options : mapping, optional
        Arguments for `save_model` of that flavour, such as ``{"serialization_format": "cloudpickle"}``. Without them
        MLflow writes what needs no pickle: sklearn and lightgbm by skops, xgboost by UBJSON. The `skops_trusted_types`
        of a scikit-learn model are by default the classes of scikit-learn in it, such as the nodes of a tree; those of
        other packages have to be named. A torch module needs
        ``{"serialization_format": "pickle"}``: the traced one that comes back otherwise cannot be put into eval mode.
    input_example : rows, optional
        Kept with the model; what later calls hand in is held against its columns and dtypes.
    signature : mlflow.models.ModelSignature, optional
        In place of the one that the example and `PARAMETERS` make.
    pip_requirements : list of str, optional
        In place of this package and the model's library, at the versions that are installed.
    metadata : mapping, optional
        Kept in MLmodel.
    mlflow_model : mlflow.models.Model, optional
        The MLmodel that is begun; `log_model` gives one.
    training_rows : bool
        Whether the training rows, which a search begins from, are kept with it.
    """
    mlflow = library()
    explainer = fitted(explainer)
    if not hasattr(explainer, "save"):
        raise UnsupportedError(f"{type(explainer).__name__} learns nothing that a file could hold; log a ReLAX.")
    model = explainer.blackbox_.model
    name = flavor_of(model, model_flavor)
    inner = _module(name)
    needed = list(_requirements(inner) if pip_requirements is None else pip_requirements)
    whole = mlflow.models.Model() if mlflow_model is None else mlflow_model
    whole.add_flavor(FLAVOR, version=relax_plugin.__version__, model_flavor=name)
    with TemporaryDirectory() as folder:
        data = Path(folder) / DATA
        data.mkdir()
        explainer.save(data / EXPLAINER, training_rows=training_rows)
        options = {**_trusted(name, model, model_options or {}), **(model_options or {})}
        inner.save_model(model, str(data / MODEL), pip_requirements=needed, **options)
        mlflow.pyfunc.save_model(
            str(path),
            loader_module=__name__,
            data_path=str(data),
            mlflow_model=whole,
            signature=_signature(explainer, input_example) if signature is None else signature,
            input_example=input_example,
            pip_requirements=needed,
            metadata=None if metadata is None else dict(metadata),
        )


def log_model(
    explainer: CounterfactualExplainer,
    name: str = "counterfactuals",
    *,
    model_flavor: str | None = None,
    model_options: Mapping[str, Any] | None = None,
    input_example: Any = None,
    signature: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    registered_model_name: str | None = None,
    training_rows: bool = True,
) -> Any:
    """Log a fitted explainer and its model to the active run, or to a new one; MLflow's `ModelInfo` comes back.

    What the other arguments mean says `save_model`; with `registered_model_name` it becomes a version in the registry.
    """
    return library().models.Model.log(
        artifact_path=None,
        name=name,
        flavor=import_module(__name__),
        registered_model_name=registered_model_name,
        metadata=None if metadata is None else dict(metadata),
        explainer=explainer,
        model_flavor=model_flavor,
        model_options=model_options,
        input_example=input_example,
        signature=signature,
        pip_requirements=pip_requirements,
        training_rows=training_rows,
    )


def load_model(model_uri: str) -> CounterfactualExplainer:
    """The explainer itself, with its model, from where `log_model` or `save_model` put them."""
    loaded = library().pyfunc.load_model(str(model_uri))
    return explainer_of(loaded)


def explainer_of(loaded: Any) -> CounterfactualExplainer:
    """The explainer in what `mlflow.pyfunc.load_model` gave."""
    try:
        explainer = loaded.get_raw_model()
    except (AttributeError, NotImplementedError):
        explainer = None
    if not isinstance(explainer, CounterfactualExplainer):
        told = "this model is no logged explainer; log one by relax_plugin.adapters.mlflow.log_model(explainer)."
        raise InputError(told)
    return explainer


class CounterfactualModel:
    """What `mlflow.pyfunc.load_model` wraps: rows in, records of counterfactuals out.

    Parameters
    ----------
    explainer : CounterfactualExplainer
        Fitted.
    """

    def __init__(self, explainer: CounterfactualExplainer) -> None:
        self.explainer = explainer

    def get_raw_model(self) -> CounterfactualExplainer:
        """The explainer, for whoever wants more than records."""
        return self.explainer

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """A record for each row, as `Counterfactuals.to_dict` writes it: the query, the answer, its counterfactuals.

        Parameters
        ----------
        model_input : DataFrame or array
        params : mapping, optional
            `n`, `max_changes` and `vary` of `explain`.
        """
        given = dict(params or {})
        for name in given:
            if name not in PARAMETERS:
                raise UnknownNameError(f"there is no parameter {name!r}; {did_you_mean(name, PARAMETERS)}")
        if given.get("vary") is not None:
            given["vary"] = self._names(given["vary"])
        records: list[dict[str, Any]] = self.explainer.explain(model_input, **given).to_dict()["queries"]
        return records

    def _names(self, texts: Any) -> list[Any]:
        """Names of features of texts, which is all that MLflow passes on: columns may be called by numbers."""
        names = {str(name): name for name in self.explainer.space_.names}
        return [names.get(str(text), text) for text in texts]


def _load_pyfunc(path: str) -> CounterfactualModel:
    """What MLflow calls to load the folder of a logged explainer."""
    whole, name = Path(path), _flavor_of_folder(Path(path))
    model = _module(name).load_model(str(whole / MODEL))
    agent: Any = type(make_explainer("relax-global", model))  # the one method with files; they know the variant
    return CounterfactualModel(agent.load(whole / EXPLAINER, model=model))


def _flavor_of_folder(data: Path) -> str:
    library()
    told = import_module("mlflow.models").Model.load(str(data / MODEL)).flavors
    known = [name for name in FLAVORS.values() if name in told]
    if not known:
        raise InputError(f"{data / MODEL} has the flavours {', '.join(told)}; one of {', '.join(FLAVORS)} is needed.")
    return known[0]


def flavor_of(model: Any, named: str | None = None) -> str:
    """MLflow's flavour of a model: the one that is named, or that of the package of its class or of a base of it."""
    if named is not None:
        if named not in FLAVORS.values():
            raise UnknownNameError(f"model_flavor is {named!r}; {did_you_mean(named, FLAVORS.values())}")
        return named
    for base in type(model).__mro__:
        package = base.__module__.partition(".")[0]
        if package in FLAVORS:
            return FLAVORS[package]
    told = f"MLflow has no flavour for a {type(model).__module__}.{type(model).__name__}"
    raise UnsupportedError(f"{told} that is known here; name one of {', '.join(FLAVORS.values())} by model_flavor=.")


def _signature(explainer: CounterfactualExplainer, example: Any) -> Any:
    models, types = import_module("mlflow.models"), import_module("mlflow.types.schema")
    most = len(explainer.space_) if explainer.max_changes is None else int(explainer.max_changes)
    free = [str(feature.name) for feature in explainer.space_.features if not feature.immutable]
    params = types.ParamSchema(
        [
            types.ParamSpec("n", "long", 1),
            types.ParamSpec("max_changes", "long", most),
            types.ParamSpec("vary", "string", free, (-1,)),
        ]
    )
    rows = pd.DataFrame(example) if isinstance(example, list) else example
    return models.ModelSignature(None if rows is None else models.infer_signature(rows).inputs, None, params)


def _requirements(inner: Any) -> list[str]:
    """This package and what the flavour of the model needs, at the installed versions; nothing is run to find out."""
    needed = [f"relax-plugin=={relax_plugin.__version__}", *inner.get_default_pip_requirements()]
    with suppress(ImportError):  # by which models of sklearn and lightgbm are read, if it is there
        needed.append(f"skops=={import_module('skops').__version__}")
    return needed


def _trusted(flavor: str, model: Any, options: Mapping[str, Any]) -> dict[str, list[str]]:
    if flavor != "sklearn" or options.get("serialization_format", "skops") != "skops":
        return {}
    skops = import_module("skops.io")
    unknown = skops.get_untrusted_types(data=skops.dumps(model))
    return {"skops_trusted_types": [name for name in unknown if name.startswith("sklearn.")]}


def _module(flavor: str) -> Any:
    return import_module(f"mlflow.{flavor}")


def library() -> Any:
    """MLflow, with the parts that are used here."""
    try:
        for part in ("models", "pyfunc"):
            import_module(f"mlflow.{part}")
        return import_module("mlflow")
    except ImportError as missing:
        raise MissingExtraError("MLflow's face needs mlflow: pip install 'relax-plugin[mlflow]'.") from missing
