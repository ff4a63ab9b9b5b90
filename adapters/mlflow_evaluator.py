"""Counterfactual metrics for `mlflow.models.evaluate`: an evaluator that MLflow finds by its entry point, "relax".

What the explainer calls found is asked of the model again, and held against every constraint by the judge's own code
(`relax_plugin.evaluation`). MLflow loads every evaluator there is, so what takes long to import is imported in use.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from relax_plugin.errors import MissingExtraError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    from relax_plugin.arrays import Booleans, Floats, Integers, Values
    from relax_plugin.base import CounterfactualExplainer
    from relax_plugin.results import Counterfactuals

try:
    from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator
except ImportError as missing:
    raise MissingExtraError("MLflow's evaluator needs mlflow: pip install 'relax-plugin[mlflow]'.") from missing

MODEL_TYPE = "counterfactual"  # for the `model_type` of mlflow.models.evaluate
PREFIX = "metric_prefix"  # as MLflow's own evaluators call it
ASKED = (  # what the configuration may say to `explain`
    *("goal", "n", "vary", "bounds", "immutable", "increase_only", "decrease_only", "max_changes", "rules", "costs"),
    *("objective", "plausible"),
)
NEIGHBOURS = 5  # training rows of the reached answer that plausibility is measured by, as the judge does


class CounterfactualEvaluator(ModelEvaluator):  # type: ignore[misc]
    """Explains the rows of a data set with a logged explainer, and logs how good the counterfactuals are."""

    name = "relax"

    @classmethod
    def can_evaluate(cls, *, model_type: Any, evaluator_config: Any, **_later: Any) -> bool:
        """Whether this evaluator is for such models; others are left to MLflow's own."""
        return bool(model_type == MODEL_TYPE)

    def evaluate(
        self, *, model: Any = None, dataset: Any, run_id: str, evaluator_config: Any = None, **_unused: Any
    ) -> EvaluationResult:
        """Log metrics, and the counterfactuals as tables, to the run.

        Parameters
        ----------
        model : mlflow.pyfunc.PyFuncModel
            Of `relax_plugin.adapters.mlflow.log_model`.
        dataset : mlflow.data.evaluation_dataset.EvaluationDataset
            Its features are the queries; labels, if there are any, are not needed.
        run_id : str
        evaluator_config : mapping, optional
            Arguments of `explain` for this evaluation (`ASKED`), and `metric_prefix`, which begins every name.
        """
        from relax_plugin.adapters.mlflow import explainer_of

        config = _checked(evaluator_config or {})
        prefix = str(config.pop(PREFIX, "") or "")
        explainer = explainer_of(model)
        result = explainer.explain(dataset.features_data, **config)
        examined = Examined(explainer, result)
        metrics = {f"{prefix}{name}": value for name, value in examined.metrics().items()}
        client = import_module("mlflow").MlflowClient()
        measure = import_module("mlflow.entities").Metric
        now = import_module("mlflow.utils.time").get_current_time_millis()
        client.log_batch(run_id, metrics=[measure(name, value, now, 0) for name, value in metrics.items()])
        tables = {"counterfactuals": result.frame, "instances": examined.instances()}
        return EvaluationResult(metrics, _logged(client, run_id, prefix, tables), run_id)


def _checked(config: Mapping[str, Any]) -> dict[str, Any]:
    for name in config:
        if name not in (*ASKED, PREFIX):
            told = did_you_mean(name, (*ASKED, PREFIX))
            raise UnknownNameError(f"evaluator_config has {name!r}, which this evaluator does not know; {told}")
    return dict(config)


def _logged(client: Any, run_id: str, prefix: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    artifact = import_module("mlflow.models.evaluation.artifacts").CsvEvaluationArtifact
    root = client.get_run(run_id).info.artifact_uri
    made = {}
    with TemporaryDirectory() as folder:
        for name, table in tables.items():
            path = Path(folder) / f"{prefix}{name}.csv"
            table.to_csv(path, index=False)
            client.log_artifact(run_id, str(path))
            made[f"{prefix}{name}"] = artifact(uri=f"{root}/{path.name}", content=table)
    return made


class Examined:
    """The counterfactuals of one call, looked at again: the first of each query, and all for their diversity.

    Parameters
    ----------
    explainer : CounterfactualExplainer
        Fitted, whose model is asked.
    result : Counterfactuals
        What it answered.
    """

    def __init__(self, explainer: "CounterfactualExplainer", result: "Counterfactuals") -> None:
        from relax_plugin.evaluation import metrics
        from relax_plugin.evaluation.whole_rows import WholeRows

        self.measures, self.whole_rows = metrics, WholeRows
        self.result, self.space = result, result.space
        self.blackbox = explainer.blackbox_.over(self.space)
        self.training: Values = explainer.training_rows_.rows
        assert result.asked is not None  # `explain` has just put the question
        self.asked = result.asked
        frame = result.frame
        self.query, self.slot = (frame[name].to_numpy() for name in ("query_id", "cf_id"))
        self.rows = frame[self.space.columns].reset_index(drop=True)
        self.queries = self.space.frame(result.queries)
        self.values: Values = self.space.values(self.rows) if len(self.rows) else result.start[:0]
        self.before, self.after = self._answer(self.queries), self._answer(self.rows)
        self.goal = self.asked.goal.bind(self.blackbox, self.before)
        self.broken = self._broken()
        self.good: Booleans = np.asarray(self.goal.take(self.query).met(self.after) & (self.broken == 0))
        self.first: Integers = np.flatnonzero(self.slot == 0)

    def _answer(self, rows: Any) -> Any:
        if len(rows) == 0:
            return self.blackbox.ask(self.result.start[:0])
        return self.blackbox.confirm(rows.to_numpy() if self.space.container == "array" else rows, mark_refused=True)

    def _broken(self) -> "Integers":
        start = self.result.start
        limits = self.space.limits(values=start, **vars(self.asked.constraints)).take(self.query)
        broken = self.measures.violations(self.space, limits, start[self.query], self.values, self.asked.max_changes)
        kinds = self.whole_rows(self.space, self.queries.iloc[self.query], self.rows).counts()
        return np.asarray(broken + sum(kinds.values()), dtype=np.int64)

    def metrics(self) -> dict[str, float]:
        """The numbers of `relax_plugin.evaluation.metrics`; one that nothing can be averaged for is left out."""
        measures, result, first = self.measures, self.result, self.first
        valid, good = self._everywhere(self.good[first], False), self.good[first]
        start, values = result.start[self.query[first]], self.values[first]
        sparsity = measures.sparsity(start, values)
        told = self._everywhere(np.where(good, sparsity, np.nan), np.nan)
        most = min(self.asked.max_changes, len(self.space))
        curve = measures.validity_curve(valid, told, most)
        numbers = {
            "validity": measures.validity(valid),
            **{f"validity_at_{k}": share for k, share in enumerate(curve.tolist(), 1)},
            "sparsity": measures.mean_over(good, sparsity.astype(np.float64)),
            "proximity": measures.mean_over(good, measures.proximity(self.space, start, values)),
            "redundancy": measures.mean_over(good, self._redundant(start, values).astype(np.float64)),
            **self._plausibility(values, good),
            "violations": float(self.broken.sum()),
            "diversity": _mean(self._diversity()),
            "count": len(self.rows) / len(result) if len(result) else float("nan"),
            "model_rows": _mean(result.rows_queried.astype(np.float64)),
            "seconds": float(result.seconds),
        }
        return {name: float(value) for name, value in numbers.items() if np.isfinite(value)}

    def instances(self) -> Any:
        """A line for each query: its answer, whether it is solved and why not, with how many changes and how far."""
        from pandas import DataFrame

        result, valid = self.result, self._everywhere(self.good[self.first], False)
        return DataFrame(
            {
                "query_id": np.arange(len(result)),
                "before": result.before,
                "after": np.where(result.found[:, 0], result.after[:, 0].astype(object), ""),
                "valid": valid,
                "status": result.statuses[:, 0],
                "sparsity": np.where(valid, result.sparsity[:, 0], np.nan),
                "proximity": np.where(valid, result.proximity[:, 0], np.nan),
                "model_rows": result.rows_queried,
            }
        )

    def _everywhere(self, numbers: Any, nothing: Any) -> Any:
        column = np.full(len(self.result), nothing)
        column[self.query[self.first]] = numbers
        return column

    def _redundant(self, start: "Values", values: "Values") -> "Integers":
        ids = self.query[self.first]

        def meets(candidates: "Values", owner: "Integers") -> "Booleans":
            met = self.goal.take(ids[owner]).met(self.blackbox.ask(candidates, mark_refused=True))
            if self.space.rules:  # what keeps a rule is not too much
                queries = self.queries.iloc[ids[owner]]
                reverted = self.space.frame(self.space.restore(candidates, queries, start[owner]))
                met &= self.whole_rows(self.space, queries, reverted).broken_rules() == 0
            return np.asarray(met)

        return self.measures.redundancy(start, values, meets)

    def _plausibility(self, values: "Values", good: "Booleans") -> dict[str, float]:
        """How near the training rows they are; nothing, where the explainer's file holds none."""
        if len(self.training) < 2:
            return {}
        inside = self.measures.inside_box(self.space, values, self.training).astype(np.float64)
        distance = self._neighbour_distance(values, self.after.take(self.first))
        return {"inside_box": self.measures.mean_over(good, inside), "neighbour_distance": _mean(distance[good])}

    def _neighbour_distance(self, values: "Values", answer: Any) -> "Floats":
        if self.blackbox.task == "regression":
            return self.measures.neighbour_distance(self.space, values, self.training, NEIGHBOURS)
        told, distance = self.blackbox.ask(self.training, mark_refused=True), np.full(len(values), np.nan)
        for label in np.unique(answer.output):
            here = answer.output == label
            among = self.training[told.answered & (told.output == label)]
            distance[here] = self.measures.neighbour_distance(self.space, values[here], among, NEIGHBOURS)
        return distance

    def _diversity(self) -> "Floats":
        shape = self.result.found.shape
        slots, confirmed = np.repeat(self.result.start[:, None], shape[1], axis=1), np.zeros(shape, dtype=bool)
        slots[self.query, self.slot] = self.values
        confirmed[self.query, self.slot] = self.good
        return self.measures.diversity(self.space, slots, confirmed)


def _mean(numbers: "Floats") -> float:
    known = numbers[np.isfinite(numbers)]
    return float(known.mean()) if len(known) else float("nan")
