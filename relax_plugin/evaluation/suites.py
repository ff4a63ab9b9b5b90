"""Suites: fixed benchmarks by name, so that whoever runs one measures the same as everybody else.

A method joins a suite by a line of `methods`, a task by one of `tasks`. Nothing heavy is imported here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from relax_plugin.errors import UnknownNameError, did_you_mean
from relax_plugin.evaluation.plan import Plan


@dataclass(frozen=True)
class Suite:
    """A benchmark: every method on every task, seed and query, under one limit."""

    name: str
    tasks: tuple[str, ...]
    methods: tuple[str, ...]  # with options where they need some
    seeds: int
    rows: int  # the same for every method: who does not get through them in time has not
    limit: float  # seconds for fit and explain of one method on one task and seed
    max_changes: int  # for every method alike

    def plan(self) -> Plan:
        """What `runner.run` runs, with every metric."""
        return Plan(
            tasks=self.tasks,
            methods=self.methods,
            seeds=range(self.seeds),
            rows=self.rows,
            max_changes=self.max_changes,
            metrics="all",
            limit=self.limit,
        )

    def narrowed(
        self,
        tasks: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        seeds: int | None = None,
        rows: int | None = None,
        limit: float | None = None,
    ) -> "Suite":
        """The same with what is given in place of its own: to try it, not to compare with others."""
        return replace(
            self,
            tasks=self.tasks if tasks is None else tuple(tasks),
            methods=self.methods if methods is None else tuple(methods),
            seeds=self.seeds if seeds is None else seeds,
            rows=self.rows if rows is None else rows,
            limit=self.limit if limit is None else limit,
        )


FIELD = Suite(
    name="field",
    tasks=(
        # Tables people know, each with a model of another family; classifiers, since few methods do regression.
        "breast_cancer/rf",
        "diabetes/ada",
        "wave2/xgb",
        "sonar/mlp",
        "german/rf",
        "adult/lgbm",
        "adult/pipeline",
        "default/xgb",
        "default/mlp",
        "credit/xgb",
    ),
    methods=(
        # Ours: by default, the agent alone as in the paper, and asked for plausible or, as ROAR, for lasting answers.
        "relax-global",
        "relax-global:effort=policy",
        "relax-global:plausible=prefer",
        "relax-global:also=2",
        "surrogate-search",
        # Searches without an agent.
        "greedy",
        "move-table",
        "nearest-ct",
        # Other people's methods. Not here: relax-local and mace, which take more than the limit for so many rows.
        "dice-random",
        "dice-genetic",
        "dice-kdtree",
        "lore",
        "feat-tweak",
        "focus",
        "deepfool",
        "grace",
        "nice",
        "growing-spheres",
        "wachter",
        "face",
        "cfrl",
        "fastar",
        "treecf",
    ),
    seeds=2,
    rows=20,
    limit=60.0,
    max_changes=5,
)
"""The methods of the field on the tables of the field: under an hour on two cores."""

SUITES = {suite.name: suite for suite in (FIELD,)}


def suite_of(name: str) -> Suite:
    """The suite of a name."""
    if name not in SUITES:
        raise UnknownNameError(f"There is no suite {name!r}; {did_you_mean(name, list(SUITES))}")
    return SUITES[name]
