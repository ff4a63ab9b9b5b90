# %% [markdown]
# # 5. Global and Local
#
# The paper has two kinds of agent (section 4.4). **Global**: one agent, trained once, for all rows. **Local**: an agent
# of its own for each row, trained when that row is to be explained, on points around it. Local can suit itself to
# the row; Global is there at once. What does each cost, and what is it worth?
#
# We let the agents play by their policy alone, as in the paper (`effort="policy"`). By default this package also
# searches and takes back what is not needed, which helps both and would hide the difference. One thing is not as in the
# paper: Local delivers the best counterfactual that it saw in fine-tuning, or Global's if that is better, not what its
# policy finds at the end (deviation 12 in `relax_plugin/agent/config.py`).

# %% [markdown]
# ## The toy: one agent for all
#
# The two features of lessons 3 and 4. An arrow leads from each of ten people to the counterfactual, a cross is one
# without.

# %%
# %matplotlib inline
import copy
from dataclasses import replace

import numpy as np
import pandas as pd

from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.evaluation.toy import toy_task
from relax_plugin.pages.plane import plane
from relax_plugin.teaching.learning import learning_curves

config = ReLAXConfig(training="model", steps=100, episodes=64, updates_per_step=2, batch=64)
config = replace(config, start_pool=512)


def trained(task, variant, max_changes, chosen=config, seed=0):
    options = {"variant": variant, "max_changes": max_changes, "config": chosen, "seed": seed}
    return ReLAX(task.model, task.space, effort="policy", progress=False, **options).fit(task.X_train)


toy = toy_task("network")
people = toy.X_test[:10]
global_agent = trained(toy, "global", 2)
global_answers = global_agent.explain(people)
plane(toy, global_answers, "Global")

# %% [markdown]
# ## The toy: one agent for each
#
# Local begins with Global's weights and fine-tunes a copy of them for each person: half of its games start at the
# person, half at points within one standard deviation. The best counterfactual of the person that it sees on the way
# is its answer, unless Global's own was better: fewest changes first, then nearest. Global is trained already, so that
# a copy of it needs only another `variant`.

# %%
local_agent = copy.copy(global_agent).set_params(variant="local")
local_answers = local_agent.explain(people)
plane(toy, local_answers, "Local")

# %% [markdown]
# Local's arrows are shorter: it has tried many points around each person, while Global's network has to draw one smooth
# rule for all. Person by person (lower is nearer):

# %%
table = pd.DataFrame({"Global": global_answers.proximity[:, 0], "Local": local_answers.proximity[:, 0]})
nearer = (table["Local"] < table["Global"]) | (table["Global"].isna() & table["Local"].notna())
print(f"found, of {len(table)}: {table.notna().sum().to_dict()}")
print(f"Local is nearer, or the only one to find something, for {nearer.sum()} of {len(table)} people")
table.round(2).T

# %% [markdown]
# ## What it costs
#
# Model rows are the price that counts when the model is slow or must be paid for. Global asked many in training and
# then hardly any; Local asks many for every person.

# %%
costs = pd.DataFrame(
    {
        "rows in training": [global_agent.fit_rows_, local_agent.fit_rows_],
        "rows a person": [global_answers.rows_queried.mean(), local_answers.rows_queried.mean()],
        "seconds a person": [global_answers.seconds / len(people), local_answers.seconds / len(people)],
    },
    index=["Global", "Local"],
)
each = costs["rows a person"]
print(f"after training, one person costs Global {each['Global']:.1f} model rows and Local {each['Local']:.0f},")
print(f"{each['Local'] / each['Global']:.0f} times as many")
costs.round(3)

# %% [markdown]
# ## What pretraining buys: sonar
#
# Why train a Global agent at all if Local has its own? Because Local need not begin from nothing. `pretrained=False`
# makes it begin with random weights. To see a difference we take data with many features, the echoes of sonar, of
# which at most five may change. Local gets few and many fine-tuning steps, with and without pretraining, for six rows
# and three seeds.

# %%
sonar = load_task("sonar/mlp")
rows = sonar.X_test[:6]
print(f"{len(sonar.space)} features, {len(sonar.X_train)} training rows")
measured = []
for seed in range(3):
    for setting, pretrained in (("pretrained", True), ("from scratch", False)):
        agent = trained(sonar, "local", 5, replace(config, steps=60, pretrained=pretrained), seed)
        for steps in (2, 6, 16):
            # Read when a row is explained: no new fit is needed.
            agent.config_ = replace(agent.config_, local_steps=steps)
            answers = agent.explain(rows)
            measured.append(
                {
                    "setting": setting,
                    "seed": seed,
                    "step": steps,
                    "validity": answers.found.mean(),
                    "changes": np.nanmean(answers.sparsity) if answers.found.any() else np.nan,
                    "rows a query": answers.rows_queried.mean(),
                }
            )
measured = pd.DataFrame(measured)
learning_curves(measured, columns=("validity", "changes"))

# %%
means = measured.drop(columns="seed").groupby(["step", "setting"], sort=False)
table = means.agg(lambda values: values.mean(skipna=False))  # no mean of changes where a seed found nothing
gap = table["validity"].unstack("setting")
gap = gap["pretrained"] - gap["from scratch"]
print(f"what pretraining adds to validity after few steps: {gap.iloc[0]:+.2f}")
print(f"and after many: {gap.iloc[-1]:+.2f}")
table.round(2)

# %% [markdown]
# Pretraining is a head start. With few steps it decides: from scratch there is not enough time to win a single game
# for some rows. The more steps Local gets, the less it matters where it began: it learns its one row from that row.
# (Some of the head start is Global's own answer, which a pretrained Local has before its first step. Where a seed found
# nothing at all, a point is missing in the right panel, and the table has no mean of the changes.)
#
# So the choice depends on how many rows you will ask about and what a model row costs. Many rows and a costly model:
# Global. A few rows that matter: Local, pretrained if there is a Global agent anyway.
#
# ## What to remember
#
# - Global: train once, then a handful of model rows for each query. Local: no rule for all, but on the toy hundreds of
#   rows for each person.
# - Local is never worse than the Global agent it began with: the better of both answers is delivered.
# - Pretraining saves steps, above all where there are many features and few steps.

# %% [markdown]
# ## Exercise 1: Never worse
#
# Explain 40 people of the toy with Global and with Local. Check that Local finds a counterfactual wherever Global does,
# with as few or fewer changes, and that where the number of changes is the same it is as near or nearer.

# %% [markdown]
# ## Exercise 2: Where do they break even?
#
# Global costs its training once, then a few rows a person. Local from scratch (`pretrained=False`) costs little at
# first and many rows a person. From how many people on is Global cheaper in model rows? Compute it from measured
# numbers for the toy.

# %% [markdown]
# ## Exercise 3: What a search makes of it
#
# Explain the six sonar rows with Global and the default `effort="search"` instead of its policy alone. Compare what
# is found, how many features change, and the model rows with those of Global's policy and of Local. Is an agent for
# each row still worth it?
