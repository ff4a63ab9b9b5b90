# %% [markdown]
# # Solutions of lesson 5: Global and Local
#
# Tasks, settings and helper are those of the lesson.

# %%
import copy
from dataclasses import replace

import numpy as np
import pandas as pd

from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.evaluation.toy import toy_task

config = ReLAXConfig(training="model", steps=100, episodes=64, updates_per_step=2, batch=64, start_pool=512)


def trained(task, variant, max_changes, chosen=config):
    options = {"variant": variant, "max_changes": max_changes, "config": chosen}
    return ReLAX(task.model, task.space, effort="policy", seed=0, progress=False, **options).fit(task.X_train)


toy = toy_task("network")
global_agent = trained(toy, "global", 2)
local_agent = copy.copy(global_agent).set_params(variant="local")

# %% [markdown]
# ## Exercise 1: Never worse

# %%
people = toy.X_test[:40]
ours, theirs = global_agent.explain(people), local_agent.explain(people)
both = ours.found[:, 0]
same = both & (ours.sparsity[:, 0] == theirs.sparsity[:, 0])
print(f"found: Global {ours.found.sum()}, Local {theirs.found.sum()} of {len(people)}")
print(f"as many changes for {same.sum()}, of which {(theirs.proximity < ours.proximity)[same, 0].sum()} are nearer")
assert theirs.found[both].all()
assert (theirs.sparsity[both] <= ours.sparsity[both]).all()
assert (theirs.proximity[same] <= ours.proximity[same]).all()
assert (theirs.proximity[same] < ours.proximity[same]).any()

# %% [markdown]
# ## Exercise 2: Where do they break even?
#
# Both costs are straight lines over the number of people; they cross where what Global spent in training equals what
# Local spent more on the people. From the next whole number on Global is cheaper.

# %%
scratch = trained(toy, "local", 2, replace(config, pretrained=False))
each_global, each_scratch = (agent.explain(people).rows_queried.mean() for agent in (global_agent, scratch))


def total(agent, each, count):
    return agent.fit_rows_ + count * each


crossing = (global_agent.fit_rows_ - scratch.fit_rows_) / (each_scratch - each_global)
first = int(np.floor(crossing)) + 1
print(f"training: Global {global_agent.fit_rows_:,} rows, scratch {scratch.fit_rows_:,}")
print(f"a person: Global {each_global:.1f} rows, scratch {each_scratch:.1f}; Global is cheaper from {first} people on")
assert scratch.fit_rows_ < 0.2 * global_agent.fit_rows_
assert each_scratch > 10 * each_global
assert total(global_agent, each_global, first) < total(scratch, each_scratch, first)
assert total(global_agent, each_global, first - 1) >= total(scratch, each_scratch, first - 1)

# %% [markdown]
# ## Exercise 3: What a search makes of it
#
# The search adds greedy changes and near training rows to the paths of the agent, and evaluates all of them. With
# `max_queries=12` it does so on a surrogate model, and the model itself evaluates only the most promising ones. With it
# Global finds more than by its policy alone, changes less and stays nearer on the rows that both solve, and asks a
# fraction of the rows that Local asks. Beside such a search, an agent for each row is seldom worth its price. Without
# one it finds more: in the paper Local has the higher validity, but it changes more features there, and mostly lies
# farther away.

# %%
sonar = load_task("sonar/mlp")
agent = trained(sonar, "global", 5)  # once: Local begins with it
explainers = {
    "Global, policy": agent,
    "Global, search": ReLAX(sonar.model, sonar.space, max_queries=12, seed=0, progress=False).fit(sonar.X_train),
    "Local, policy": copy.copy(agent).set_params(variant="local"),
}
answers, lines = {}, {}
for name, explainer in explainers.items():
    found = answers[name] = explainer.explain(sonar.X_test[:6])
    lines[name] = [
        found.found.mean(),
        np.nanmean(found.sparsity),
        np.nanmean(found.proximity),
        found.rows_queried.mean(),
    ]
table = pd.DataFrame(lines, index=["found", "changes", "distance", "rows a query"]).T
print(table.round(2))
assert table.loc["Global, search", "found"] >= table.loc["Global, policy", "found"]
policy, search = answers["Global, policy"], answers["Global, search"]
both = policy.found & search.found
assert search.sparsity[both].mean() < policy.sparsity[both].mean()
assert search.proximity[both].mean() < policy.proximity[both].mean()
assert table.loc["Global, search", "rows a query"] < 0.5 * table.loc["Local, policy", "rows a query"]
