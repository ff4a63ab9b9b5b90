# %% [markdown]
# # 4. How the agent learns
#
# In lesson 3 we played the game by hand. Now an agent plays it thousands of times against the same model and learns
# from what it earns. We look at it before, during and after.

# %% [markdown]
# ## Train, and keep snapshots
#
# `WatchedReLAX` is ReLAX in every respect; it also remembers the agent's weights at each validation, every 10 steps
# here. A *step* moves 64 games forward by one move each, and is followed by two updates of the networks. The settings
# are small so that this takes a second or two.

# %%
# %matplotlib inline
from dataclasses import replace

import pandas as pd

from relax_plugin import ReLAX, ReLAXConfig
from relax_plugin.evaluation.toy import toy_task
from relax_plugin.teaching.learning import (
    WatchedReLAX,
    learning_curves,
    learning_slider,
    paths_over_time,
    small_multiples,
)
from relax_plugin.teaching.rollouts import action_names, environment_of

task = toy_task("network")
config = ReLAXConfig(training="model", steps=100, episodes=64, updates_per_step=2, batch=64)
config = replace(config, start_pool=512, validate_every=10, shaping=3.0)
config = replace(config, demonstrations=0)  # by itself: by default the agent begins with what the search engine does
options = {"max_changes": 2, "effort": "policy", "progress": False}
explainer = WatchedReLAX(task.model, task.space, config=config, **options).fit(task.X_train)
print(f"{explainer.fit_rows_:,} rows asked of the model in training")
print(f"snapshots at the training steps {list(explainer.snapshots_)}")

# %% [markdown]
# ## The same picture at several moments
#
# Ten people the agent has not seen. At every snapshot we let the policy play from each of them, without exploring:
# a full line is its first move, a dashed line its second, a cross a game that ended without the goal. One of these
# moments is the agent that is kept; how it is chosen comes below, with the training page.

# %%
history = explainer.history_.frame()
kept = explainer.kept()
print(f"the agent that is kept is the one after {kept} training steps")
paths = paths_over_time(task, explainer, task.X_test[:10])
small_multiples(task, paths, moments=sorted({0, 10, 20, 40, kept, 100}))

# %% [markdown]
# Read the titles: games won, moves made, return. At first the agent moves somewhere, since nothing has told it where
# the other answer is. Then it learns the directions, and at last that one move is often enough. In between it can get
# worse: a network that changes its mind about one region changes it about others, too. So the last agent need not be
# the best, and the one that is kept (printed above the picture) may be an earlier one.
#
# The same as a slider. In a notebook you can move it here; the file, written to the current folder, needs no network
# and no Python, and can be shown in a lecture. (`save("....gif")` writes an animation for slides.) The page of
# `relax-plugin play` has such a slider too, for a point that you drag yourself.

# %%
slider = learning_slider(task, paths)
print(f"written: {slider.save('how_the_agent_learns.html')}")
slider

# %% [markdown]
# ## What the agent knows: Q-values
#
# For a state the agent has one number for each action: the *discounted* return that it expects if it takes that action
# and goes on as well as it can. Discounted: what comes a move later counts only γ of its worth. And the reward that it
# learns from includes the hint of lesson 3, *shaping*, times a weight, so that a Q-value can be larger than 1. Beside
# it the agent has the magnitude that it would take. It takes the action with the highest Q-value. Here are both for the
# first person, untrained and as it was kept.

# %%
env = environment_of(task, task.X_test[:1], observer=explainer.observer_, config=explainer.config_)
states, info = env.reset(options={"starts": [0]})
table = pd.DataFrame({"action": action_names(env.observer.actions)})
for moment in (0, kept):
    with explainer.at(moment):
        q, magnitude = explainer.agent_.evaluate(states, info["allowed"])
    table[f"Q after {moment}"], table[f"magnitude after {moment}"] = q[0], magnitude[0]
print(f"discount (gamma) {explainer.config_.discount}, weight of the shaping {explainer.config_.shaping:g}")
print(f"the person: {task.X_test.iloc[0].to_dict()}, {task.model.predict(task.X_test[:1])[0]}")
table.round(2)

# %% [markdown]
# ## The whole policy on a few lines
#
# Two networks of numbers are no explanation. So we let a *decision tree* imitate the policy that was kept: the agent
# plays from the training rows, and the tree learns from the state which feature it changes next. Each end also says how
# far the agent goes there. How good is the imitation? That is measured on rows that the tree was not grown from, and
# beside it stands what one would reach by always naming the most common move.

# %%
tree = explainer.policy_tree()
print(tree)

# %%
tree.plot()

# %% [markdown]
# Read a path from the left to the right, and compare it with the picture of the ten people. Where the tree and the
# agent disagree, the tree is wrong: it is small so that it can be read. A deeper one (`depth=5`) agrees more often and
# says less.

# %% [markdown]
# ## The training page
#
# What was recorded at each validation, in six panels:
#
# - **return**: what a game earned on average, by the paper's reward. The agent still explores in these games, so they
#   are worse than it could.
# - **validity** and **features changed**: the policy itself, without exploring, on rows set aside for this. The agent
#   that is kept (the dashed line) is the best on these rows, not the last one. One number chooses it, `objective`: what
#   counts most is validity, then how few features change, then how short the distance is (`score` in
#   `relax_plugin/agent/training.py`).
# - **exploration ε**: the share of moves that are random. It falls by a plan.
# - **TD error**: the difference between what the agent expected of a move and what came of it, on average over a batch.
# - **priorities**: the agent learns from stored moves, and more often from those that surprised it. The panel shows how
#   many of the draws go to the tenth of the moves with the highest priorities. Without priorities it would be a tenth.

# %%
explainer.history_.plot()

# %%
columns = ["step", "return", "validity", "sparsity", "proximity", "objective", "exploration", "td_error", "top_tenth"]
history.loc[history["step"].isin([kept, 100]), columns].round(3)

# %% [markdown]
# ## Curiosity, on and off
#
# By the paper's reward alone a game pays only at its end. Whoever never wins by chance never learns. So the paper adds
# *curiosity* (section 4.3): a bonus for states and actions that the agent has seldom seen. A network learns to imitate
# a random one; where it still fails, things are new.
#
# That is the idea. In the paper's formula, though, the term of the actions is *added* to the loss L'_π, which training
# makes small: the printed sign penalises new actions. Here a positive `action_curiosity` draws the agent to what is
# new; -1, with `state_curiosity=1`, would be the printed form (deviation 3 in `relax_plugin/agent/config.py`).
#
# Does curiosity help here? We train without shaping (the hint of lesson 3), which would blur the question: three seeds
# without curiosity, three with weights of 1, both towards what is new.

# %%
off = replace(config, shaping=0.0, steps=50, episodes=32, hidden=32)
settings = {
    "without curiosity": off,
    "with curiosity": replace(off, state_curiosity=1.0, action_curiosity=1.0),
}
parts = []
for setting, chosen in settings.items():
    for seed in range(3):
        agent = ReLAX(task.model, task.space, config=chosen, seed=seed, **options)
        parts.append(agent.fit(task.X_train).history_.frame().assign(setting=setting, seed=seed))
histories = pd.concat(parts, ignore_index=True)
learning_curves(histories)

# %% [markdown]
# Lines are means, bands one standard deviation over the seeds. In numbers, over the whole training (the mean validity
# of all validations: the earlier it learns, the higher) and at its end:

# %%
of_seed = histories.groupby(["setting", "seed"], sort=False)["validity"].agg(["mean", "last"])
table = of_seed.groupby("setting", sort=False).agg(["mean", "std"])
table.columns = ["whole training", "± over seeds", "end", "± over seeds"]
difference = table["whole training"].diff().iloc[-1]
spread = of_seed["mean"].groupby("setting").std().max()
smaller = "smaller" if abs(difference) < spread else "larger"
print(f"whole training, with minus without: {difference:+.3f}")
print(f"that is {smaller} than the spread of the seeds, up to {spread:.3f}")
table.round(3)

# %% [markdown]
# Look at the difference beside the spread of the seeds before you believe in it: with one seed each, either side could
# have won. Look at the spreads as well: a setting whose seeds agree is worth something even if its mean is no better,
# but three seeds tell little about a spread. On this toy a random move often wins, so there is little to be curious
# about. On the paper's data sets five seeds show no gain either (the ablation in `docs/results/paper.md`), so the
# default weight is 0. That is a finding about these tasks, not about curiosity: where a goal takes many right moves in
# a row, it may be needed.
#
# ## What to remember
#
# - The agent plays, stores its moves, and learns from the surprising ones more often. ε falls: first it tries, then it
#   uses what it knows.
# - The best agent on rows set aside is kept, not the last.
# - A small tree shows what the agent does, and its fidelity how far to trust the tree.
# - One training run is an anecdote. Compare several seeds, and look at their spread.

# %% [markdown]
# ## Exercise 1: No exploration
#
# Train with `exploration_start=0` and `exploration_end=0` and the setting `off` of the lesson, with the seeds 0 to 2.
# Compare the validity at the end with that of the lesson. Which seeds suffer, and why not all of them?

# %% [markdown]
# ## Exercise 2: Uniform replay
#
# Switch priorities off (`priority_exponent=0`) and look at the training page. What does the last panel show now, and
# must it?

# %% [markdown]
# ## Exercise 3: A snapshot is an agent
#
# Explain 50 test rows with the agent of each snapshot (`with explainer.at(step): ...`) and print the share found, one
# line for each step. Compare it with `history_.frame()["validity"]`: why are they not the same numbers?
