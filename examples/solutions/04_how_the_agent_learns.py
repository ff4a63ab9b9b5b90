# %% [markdown]
# # Solutions of lesson 4: How the agent learns
#
# The task and the settings are those of the lesson.

# %%
from dataclasses import replace

import pandas as pd

from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.evaluation.toy import toy_task
from relax_plugin.teaching.learning import WatchedReLAX

task = toy_task("network")
config = ReLAXConfig(training="model", steps=100, episodes=64, updates_per_step=2, batch=64, start_pool=512)
config = replace(config, validate_every=10, shaping=3.0, demonstrations=0)
off = replace(config, shaping=0.0, steps=50, episodes=32, hidden=32)


def history(chosen, seed=0):
    agent = ReLAX(task.model, task.space, max_changes=2, effort="policy", config=chosen, seed=seed, progress=False)
    return agent.fit(task.X_train).history_


# %% [markdown]
# ## Exercise 1: No exploration
#
# Without exploration an agent only sees what its first, untrained policy does. If that happens to win in all regions,
# it learns from there, and needs no luck. If it never wins in some region, nothing ever tells it to go elsewhere. In so
# few steps the usual share of random actions changes little; with random actions alone it sees all regions.

# %%
greedy = replace(off, exploration_start=0.0, exploration_end=0.0)
random = replace(off, exploration_start=1.0, exploration_end=1.0)
ends = pd.DataFrame(
    {
        name: [history(chosen, seed).frame()["validity"].iloc[-1] for seed in range(3)]
        for name, chosen in {"as usual": off, "never exploring": greedy, "always exploring": random}.items()
    }
)
print(ends.round(2))
print(ends.mean().round(3).to_dict())
assert ends["never exploring"].mean() < ends["always exploring"].mean()

# %% [markdown]
# ## Exercise 2: Uniform replay
#
# The panel lies on the dotted line, and it must: with the exponent 0 all priorities are 1, so any tenth of the moves
# gets a tenth of the draws (but for the rounding of a tenth of them).

# %%
uniform = history(replace(config, priority_exponent=0.0)).frame()["top_tenth"]
prioritised = history(config).frame()["top_tenth"]
print(pd.DataFrame({"uniform": uniform, "prioritised": prioritised}).round(3))
assert (uniform - 0.1).abs().max() < 0.001
assert (prioritised > 0.15).all()

# %% [markdown]
# ## Exercise 3: A snapshot is an agent
#
# The rows are others: validation takes rows of the training data that were set aside, we took test rows. Both say the
# same about the course of the training, and neither is exact with so few rows.

# %%
explainer = WatchedReLAX(task.model, task.space, max_changes=2, effort="policy", config=config, progress=False)
explainer.fit(task.X_train)
found = {}
for step in explainer.snapshots_:
    with explainer.at(step):
        found[step] = explainer.explain(task.X_test[:50]).found.mean()
validity = explainer.history_.frame().set_index("step")["validity"]
print(pd.DataFrame({"50 test rows": found, "validation rows": validity}).round(3))
kept = int(explainer.history_.frame().set_index("step")["objective"].idxmax())
assert found[kept] > found[0] + 0.2
assert found[kept] == explainer.explain(task.X_test[:50]).found.mean()  # the agent that was kept is that snapshot
