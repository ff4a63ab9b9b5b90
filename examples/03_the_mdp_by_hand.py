# %% [markdown]
# # 3. The MDP by hand
#
# ReLAX finds a counterfactual by playing a game: one move changes one feature, and the game is won when the model's
# answer turns. In the language of reinforcement learning that game is a *Markov decision process*, MDP for short: it
# has **states**, **actions** and **rewards** (section 4.1 of the paper). Here we play it ourselves, move by move, with
# a model of only two features, so that everything can be printed and drawn. No agent yet: that is lesson 4.

# %% [markdown]
# ## The model
#
# A bank grants or refuses a loan by income and debt, both in thousand. Its model is a small neural network. (The first
# line lets pictures appear in a notebook.)

# %%
# %matplotlib inline
import numpy as np
import pandas as pd

from relax_plugin.evaluation.toy import toy_task
from relax_plugin.teaching.rollouts import action_names, environment_of, episodes_picture, follow

task = toy_task("network")
person = pd.DataFrame({"income": [30.0], "debt": [40.0]})
right = task.model.score(task.X_test, task.y_test)
print(f"{right:.0%} of {len(task.X_test)} test rows are judged rightly")
print(f"the person with income 30 and debt 40 is {task.model.predict(person)[0]}")

# %% [markdown]
# ## The state
#
# `environment_of` makes the environment of the paper, with one game for each row it is given. It is an environment of
# *gymnasium*, the usual toolkit of reinforcement learning: `reset` begins a game and gives the first state, `step`
# makes a move. Many games can be played side by side, so everything comes as a batch; ours is a batch of one.
#
# In the paper the state is s = (x, f): the row as it is now, and which features were changed so far. A network needs
# these as numbers, and a few more, without which it could not know how far it may go and what is wanted.

# %%
env = environment_of(task, person, max_changes=2)
states, info = env.reset(options={"starts": [0]})

meaning = ["x: income", "x: debt", "f: income used", "f: debt used"]
meaning += ["room up: income", "room up: debt", "room down: income", "room down: debt"]
meaning += ["changes left (share)"]
meaning += ["wanted: granted", "wanted: refused", "score: granted", "score: refused", "gap to the goal"]
pd.Series(states[0], index=meaning, name="first state").round(2).to_frame()

# %% [markdown]
# The first two numbers are the person, in standard deviations from the mean of the training rows. `room up` and `room
# down` say how far each feature may go, up and down, from where the game began; a move does not change them. The last
# five are the goal and the model's answer. *Granted* is wanted. The scores are the logarithms of the model's
# probabilities, minus the mean of both, and the gap is the score of the other answer minus that of the wanted one:
# positive until the goal is met. Scores and gap are in units of the gap at the beginning, so that here the gap begins
# with 1.
#
# ## The actions
#
# An action has two parts. First the agent chooses *what* to change. These are the discrete actions, and
# `info["allowed"]` says which of them it may take now:

# %%
pd.DataFrame({"action": action_names(env.observer.actions), "allowed": info["allowed"][0]})

# %% [markdown]
# Then it chooses *how much*: a number from 0 to 1, the share of the way to the end of the feature's range. (The paper
# has one action for each feature and a signed number that is added to it. Two directions with a share each were easier
# to learn; `relax_plugin/agent/config.py` lists this and all other deviations from the paper.)
#
# ## The first move
#
# Income may go up to 100, so from 30 there are 70 to go. To reach 70 we take four sevenths of the way.

# %%
INCOME_UP, DEBT_DOWN = 0, 3
before = person.iloc[0]
states, reward, met, over, info = env.step((np.array([INCOME_UP]), np.array([4 / 7])))
after = pd.Series(info["values"][0], index=["income", "debt"])
first_reward = reward[0]
print(f"the row is now {after.to_dict()}")
print(f"goal met: {met[0]}, game over: {over[0]}, reward: {first_reward:.4f}")

# %% [markdown]
# The income is used now, so neither of its actions is allowed any more: a feature is changed at most once. That is how
# a counterfactual stays short.

# %%
pd.DataFrame({"action": action_names(env.observer.actions), "allowed": info["allowed"][0]})

# %% [markdown]
# ## The reward, computed by hand
#
# The paper's reward for a move is
#
#     r = 1 - λ (d_now - d_before)    if the model's answer is now the wanted one
#     r =   - λ (d_now - d_before)    otherwise
#
# where d is the distance of the row from the person we began with: the sum over the features of |change| in standard
# deviations. So every move costs as much as it leads away, and winning pays 1. λ says how dear distance is. Let us
# compute the reward of our move and compare.

# %%
weight = env.config.distance_weight  # λ
scale = pd.Series(task.space.scale, index=["income", "debt"])  # standard deviations


def distance(row):
    return ((row - before).abs() / scale).sum()


by_hand = -weight * (distance(after) - 0.0)
print(f"λ = {weight}, distance now {distance(after):.4f}")
print(f"by hand {by_hand:.6f}, environment {first_reward:.6f}")
assert abs(by_hand - first_reward) < 1e-12

# %% [markdown]
# ## The second move
#
# Still refused: the debt is too large for that income. We go half of the way down to a debt of 0.

# %%
states, reward, met, over, info = env.step((np.array([DEBT_DOWN]), np.array([0.5])))
last = pd.Series(info["values"][0], index=["income", "debt"])
second_reward = reward[0]
by_hand = 1 - weight * (distance(last) - distance(after))
print(f"the row is now {last.to_dict()}, goal met: {met[0]}")
print(f"the model says {task.model.predict(last.to_frame().T)[0]}")
print(f"by hand {by_hand:.6f}, environment {second_reward:.6f}")
assert abs(by_hand - second_reward) < 1e-12

# %% [markdown]
# The game is won. The sum of the rewards of a game is its *return*. The distances in between cancel, and what remains
# is 1 minus λ times the distance of the counterfactual: whoever seeks the highest return seeks a valid counterfactual
# that lies near. That is why this game is the right one to play.

# %%
total = first_reward + second_reward
print(f"return {total:.6f}; 1 - λ d = {1 - weight * distance(last):.6f}")
assert abs(total - (1 - weight * distance(last))) < 1e-12

# %% [markdown]
# ## The game as a picture
#
# `follow` plays whole games by a *policy*: a function that is given the states and the allowed actions and returns
# the moves. Ours makes the two moves from above. The result is a table with a row for each moment.


# %%
def our_two_moves(states, allowed):
    income_is_free = allowed[:, INCOME_UP]
    return np.where(income_is_free, INCOME_UP, DEBT_DOWN), np.where(income_is_free, 4 / 7, 0.5)


game = follow(env, our_two_moves)
game

# %% [markdown]
# Orange is where the model grants, blue is where it refuses, the stronger the surer it is; small marks are training
# rows. Each move is an arrow with its reward beside it. Since a move changes one feature, arrows lie or stand.

# %%
episodes_picture(task, game, "Our two moves")

# %% [markdown]
# ## Somebody who does not think
#
# Ten people, and a policy that rolls dice: a random allowed action, a random share of the way. A cross is a game that
# ended without the goal.

# %%
rng = np.random.default_rng(0)


def dice(states, allowed):
    return np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1), rng.random(len(allowed))


ten = environment_of(task, task.X_test[:10], max_changes=2)
games = follow(ten, dice)
returns = games.groupby("query_id")["reward"].sum()
print(f"mean return of the dice: {returns.mean():.3f}")
episodes_picture(task, games, "The dice")

# %% [markdown]
# Some games are won by luck. To win them all, and by short ways, one would have to know where the other colour is.
#
# ## A hint on the way
#
# Before the goal is met, the reward says only that we are getting farther away. Nothing says that we are getting
# *warmer*. The model's score can: `info["shaping"]` says by how much the last move lessened the gap to the goal. Its
# unit is a usual gap, with our one game the gap at the beginning. What goes beyond the goal counts as well, since the
# model is then surer of the wanted answer; one move counts as one whole gap at most. The hint is no part of the paper's
# reward; training adds it where the model gives scores.

# %%
env.reset(options={"starts": [0]})
for name, action, share in (("income up", INCOME_UP, 4 / 7), ("debt down", DEBT_DOWN, 0.5)):
    _, reward, _, _, info = env.step((np.array([action]), np.array([share])))
    print(f"{name}: reward {reward[0]:.3f}, moved the score by {info['shaping'][0]:.0%} of the first gap")

# %% [markdown]
# By its reward the first move looked bad: it cost something and won nothing. The hint says that it led far. The second
# move closed what was left of the gap and went on beyond the goal, so that both together are more than the whole gap.
#
# ## What to remember
#
# - State: the row as it is now, and the features used. Action: which feature, and how much. Each feature once.
# - Reward: 1 for meeting the goal, minus λ for the distance gone. The return is 1 - λ d for a valid counterfactual.
# - The game ends when the goal is met or no change is left. Then nothing more is asked of the model.

# %% [markdown]
# ## Exercise 1: How dear may distance be?
#
# For which λ is the return of our two moves exactly 0? Make an environment with that λ
# (`environment_of(task, person, config=ReLAXConfig(distance_weight=...))`) and check it. What would an agent learn if
# λ were larger still?

# %% [markdown]
# ## Exercise 2: One move is enough
#
# Find a single move that turns the answer for our person. Is its return higher than that of our two moves? Why can the
# debt alone not do it?

# %% [markdown]
# ## Exercise 3: The paper's own actions
#
# With `ReLAXConfig(actions="signed")` there is one action for each feature, and its number from -1 to 1 is a share of
# the feature's *whole* range, upwards or downwards. Play the same game with signed actions, and check that the rewards
# are the same.
