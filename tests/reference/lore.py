"""The genetic neighbourhood of LORE for one query, one individual and one feature at a time, to compare with."""

from math import sqrt
from typing import Any

import numpy as np

from relax_plugin.baselines.lore import CROSSOVER, MUTATION, TOURNAMENT
from relax_plugin.problem import Problem


def slow_fitness(problem: Problem, query: int, individual: Any, as_wanted: bool, width: Any) -> float:
    """I[label as wanted] + (1 - d) - I[the query itself]; d joins mismatches and the Euclidean part by their shares."""
    start, categorical = problem.start[query], problem.space.is_categorical
    mismatches, squares, numbers = 0, 0.0, 0
    for j, value in enumerate(individual):
        if categorical[j]:
            mismatches += int(value != start[j])
        else:
            squares += ((value - start[j]) / width[j]) ** 2
            numbers += 1
    distance = (mismatches + (numbers * sqrt(squares / numbers) if numbers else 0.0)) / len(start)
    return as_wanted + (1.0 - distance) - all(individual == start)


def slow_neighbourhood(
    problem: Problem, query: int, genes: Any, size: int, generations: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Neighbours and whether each meets the goal; the random numbers are drawn in the order of the fast version."""
    start, features = problem.start[query], genes.shape[1]
    width = np.where(np.ptp(genes, axis=0) > 0, np.ptp(genes, axis=0), 1.0)
    groups = [[start.copy() for _ in range(size)] for _ in range(2)]
    met = [[False] * size, [False] * size]
    one, limits = np.array([query]), problem.limits.take(np.array([query]))
    for _ in range(generations):
        entrants = rng.integers(size, size=(2, size, TOURNAMENT))
        chosen: list[list[Any]] = [[], []]
        for g in range(2):
            score = [
                slow_fitness(problem, query, z, m == bool(g), width) for z, m in zip(groups[g], met[g], strict=True)
            ]
            for three in entrants[g]:
                best = max(three, key=lambda i: score[i])
                chosen[g].append(groups[g][best].copy())
        points = rng.integers(features + 1, size=(2, size // 2, 2))
        crossed = rng.random((2, size // 2, 1)) < CROSSOVER
        for g in range(2):
            for pair in range(size // 2):
                first, second = chosen[g][2 * pair], chosen[g][2 * pair + 1]
                for j in range(points[g, pair].min(), points[g, pair].max()):
                    if crossed[g, pair, 0]:
                        first[j], second[j] = second[j], first[j]
        mutated = np.flatnonzero(rng.random(2 * size) < MUTATION)
        anew = rng.random((len(mutated), features)) < MUTATION
        forced = rng.integers(features, size=len(mutated))
        donor = rng.integers(len(genes), size=anew.shape)
        for row, individual in enumerate(mutated):
            target = chosen[individual // size][individual % size]
            for j in range(features):
                if anew[row, j] or j == forced[row]:
                    proposal = start.copy()
                    proposal[j] = genes[donor[row, j], j]
                    target[j] = limits.project(proposal[None], start[None])[0, j]
        groups = chosen
        met = [[bool(problem.judge(z[None], one)[0][0]) for z in group] for group in groups]
    return np.array(groups).reshape(-1, features), np.array(met).ravel()
