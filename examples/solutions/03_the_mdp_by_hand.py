# %% [markdown]
# # Solutions of lesson 3: The MDP by hand
#
# The person, the environment and the two moves are those of the lesson.

# %%
import numpy as np
import pandas as pd

from relax_plugin import ReLAXConfig
from relax_plugin.evaluation.toy import toy_task
from relax_plugin.teaching.rollouts import action_names, environment_of, follow

task = toy_task("network")
person = pd.DataFrame({"income": [30.0], "debt": [40.0]})
env = environment_of(task, person, max_changes=2)
INCOME_UP, DEBT_DOWN = 0, 3


def our_two_moves(states, allowed):
    income_is_free = allowed[:, INCOME_UP]
    return np.where(income_is_free, INCOME_UP, DEBT_DOWN), np.where(income_is_free, 4 / 7, 0.5)


def one_move(action, share):
    return lambda states, allowed: (np.full(len(allowed), action), np.full(len(allowed), share))


game = follow(env, our_two_moves)
assert game["met"].tolist() == [False, False, True]

# %% [markdown]
# ## Exercise 1: How dear may distance be?
#
# The return is 1 - λ d, so it is 0 at λ = 1 / d. If λ is larger, winning this game costs more than it pays: the best
# an agent could do is the smallest of all moves, and it would learn to give up.

# %%
gone = (game.iloc[-1][["income", "debt"]].astype(float) - person.iloc[0]).abs().to_numpy()
far = float((gone / task.space.scale).sum())
dear = follow(environment_of(task, person, config=ReLAXConfig(distance_weight=1 / far)), our_two_moves)
dearer = follow(environment_of(task, person, config=ReLAXConfig(distance_weight=2 / far)), our_two_moves)
print(f"λ = {1 / far:.4f}: return {dear['reward'].sum():.6f}; twice that: {dearer['reward'].sum():.3f}")
assert abs(dear["reward"].sum()) < 1e-12
assert dearer["reward"].sum() < 0

# %% [markdown]
# ## Exercise 2: One move is enough
#
# Income alone does it, if it goes far enough up. In standard deviations that is a shorter way than our two moves
# together, so the return is higher, and one feature less is changed. The debt alone cannot: at an income of 30 even a
# debt of 0 is refused.

# %%
shares = np.linspace(0.01, 1.0, 100)
won = [share for share in shares if follow(env, one_move(INCOME_UP, share)).iloc[1]["met"]]
single = follow(env, one_move(INCOME_UP, won[0]))
print(f"income up by {won[0]:.0%} of the way: {single.iloc[1]['income']:.1f}, return {single['reward'].sum():.4f}")
print(f"our two moves: return {game['reward'].sum():.4f}")
assert single.iloc[1]["met"] and single.iloc[1]["answer"] == "granted"
assert single["reward"].sum() > game["reward"].sum()
assert not any(follow(env, one_move(DEBT_DOWN, share)).iloc[1]["met"] for share in shares)

# %% [markdown]
# ## Exercise 3: The paper's own actions
#
# Income ranges over 90, debt over 60: the moves are +40 of 90 and -20 of 60.

# %%
signed = environment_of(task, person, config=ReLAXConfig(actions="signed"))
assert len(action_names(signed.observer.actions)) == 2


def signed_moves(states, allowed):
    return np.where(allowed[:, 0], 0, 1), np.where(allowed[:, 0], 40 / 90, -20 / 60)


again = follow(signed, signed_moves)
print(again)
assert np.allclose(again["reward"][1:], game["reward"][1:], atol=1e-12)
assert again[["income", "debt"]].equals(game[["income", "debt"]])
