# %% [markdown]
# # 6. Comparing explainers
#
# Which method is best? Measured carelessly, the one that gives up is. This lesson measures a few methods alike, and
# shows what to look at first, and what learning is worth.
#
# The question is not only for research: whoever chooses an explainer for a product asks it too.

# %% [markdown]
# ## A benchmark in ten lines
#
# A *plan* says which tasks, which methods, which random seeds, and how many test rows. A task is a data set with a
# model trained on it. Here it is breast cancer data (some integers describe a sample of cells) and a random forest.

# %%
# %matplotlib inline
import tempfile

from relax_plugin import ReLAXConfig
from relax_plugin.evaluation import metrics, tables
from relax_plugin.evaluation.judge import Method
from relax_plugin.evaluation.runner import Plan, run
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.pages import plots

load_task("breast_cancer/rf").space

# %% [markdown]
# The methods:
#
# - `greedy` tries many values of every feature, keeps the best, and goes on. No learning, only search.
# - `nearest-ct` takes the nearest training row of the other class; `reverted=True` takes back what is not needed.
# - `relax` looks for answers in a small copy of the model, learned from some hundred of its answers, and asks the model
#   about the most promising ones; here with two budgets of model rows a query.
# - `relax:effort=policy` is the agent of the paper alone, without any search. It is trained in such a copy here, to ask
#   the model less.
# - `gives up` is greedy search that is allowed one change only. Remember it.

# %%
methods = [
    Method("relax", "relax-global", {"max_queries": 12}),
    Method("relax:max_queries=40", "relax-global", {"max_queries": 40}),
    Method("relax:effort=policy", "relax-global", {"effort": "policy", "config": ReLAXConfig(training="surrogate")}),
    "greedy",
    Method("gives up", "greedy", {"max_changes": 1}),
    "nearest-ct:reverted=True",
]
plan = Plan(tasks=["breast_cancer/rf"], methods=methods, seeds=[0], rows=100)
rows = run(plan, tempfile.mkdtemp())
print(f"{len(rows)} rows: one for each method and person")

# %% [markdown]
# `run` writes to a folder. Killed and started again, it does what is missing. The judge trusts nobody: every answer is
# asked of the model again and held against every constraint, and the judge counts the model rows itself.
#
# ## The table
#
# `L0` is the number of features changed, `L1` the distance in standard deviations, `rows` the model rows a query.

# %%
table = tables.summary(rows).droplevel("task")
table[["validity", "L0", "L1", "rows", "training rows"]].round(2)

# %% [markdown]
# ## Why validity comes first
#
# Look at `L0` and `L1` alone: the best method is *gives up*. It changes fewest features and stays closest, because it
# answers only the easy cases. Its validity, the share of **all** people with a valid answer, tells the truth.
#
# Means over the answered cases must not be compared across methods that answered different cases. The remedy: compare
# on the **common** rows, those that every method solved.

# %%
table[["validity", "L0", "L0 common", "L1", "L1 common", "common"]].round(2)

# %% [markdown]
# On the common rows *gives up* has no advantage over `greedy` and `relax` any more. Note how few common rows there are:
# one method that gives up spoils the comparison for all. So leave such a method out, and compare the others again.

# %%
honest = rows[rows["method"] != "gives up"]
tables.summary(honest).droplevel("task")[["validity", "L0 common", "L1 common", "common", "rows"]].round(2)

# %% [markdown]
# ## The trade-off curve
#
# One picture shows validity and sparsity together. At k on the horizontal axis: which share of **all** people is solved
# with at most k changes? Higher is better, everywhere. Nobody can look good by giving up: that curve stays low.

# %%
plots.tradeoff(rows)

# %% [markdown]
# ## Why greedy search is hard to beat
#
# The usual summary is one ratio: features changed by ReLAX, divided by features changed by greedy search, on the rows
# that both solved. Below 1, ReLAX is sparser.

# %%
of = {name: part.set_index("instance") for name, part in rows.groupby("method")}
ours, theirs = of["relax"], of["greedy"]
for what, column in (("L0", "sparsity"), ("L1", "proximity")):
    numbers = ours[column].to_numpy(), theirs[column].to_numpy(), ours["valid"].to_numpy(), theirs["valid"].to_numpy()
    print(f"{what} ratio: {metrics.ratio_on_common(*numbers):.3f}")
fewer = ours["sparsity"] < theirs["sparsity"]
more = ours["sparsity"] > theirs["sparsity"]
print(f"features changed by ReLAX: fewer in {fewer.sum()} cases, more in {more.sum()}, of {len(ours)}")
print(f"the very same changes in {(ours['changes'] == theirs['changes']).sum()} cases")
print(f"{(theirs['sparsity'] <= 2).mean():.0%} of the greedy answers change one or two features")

# %% [markdown]
# About 1: the same quality, often by other changes. (Another seed moves the ratios a little, up or down.)
# There is a simple reason. Most people need one or two changes. Greedy search tries *every*
# single change (of integers as few as these), so that nobody can beat it where one change is enough, and hardly anybody
# where two are. A method that claims to be much sparser than greedy search probably gave up on something, or was
# compared with a weak version of it.
#
# On this task the honest summary is: **ReLAX is as sparse as greedy search, not sparser.** Why learn anything at all?

# %% [markdown]
# ## What learning buys: fewer questions
#
# Every question to the model may cost time or money. The next picture has the price of an answer on the horizontal axis
# and its quality on the vertical one. Lower left is better. The grey line joins one method at several budgets.

# %%
plots.quality(honest)

# %% [markdown]
# ReLAX finds what greedy search finds, with far fewer rows for each person: most of its trials cost nothing, since it
# makes them in the copy. The agent alone (`effort=policy`) asks least of all, and changes more.
#
# The same as a curve: which share of the people is solved when each may cost so many rows?

# %%
plots.anytime(honest)

# %% [markdown]
# ## And what it costs: amortisation
#
# Learning costs rows too, once. So the total depends on how many people are explained. Greedy search starts cheaper and
# grows faster.

# %%
plots.amortisation(tables.summary(rows), ["relax", "relax:effort=policy", "greedy"])

# %%
relax, greedy = table.loc["relax"], table.loc["greedy"]
people = metrics.break_even(relax["training rows"], relax["rows"], greedy["training rows"], greedy["rows"])
print(f"from {people:.0f} people on, ReLAX has asked fewer model rows than greedy search")

# %% [markdown]
# For one person, learn nothing: search. For thousands of people, or a model behind a slow or paid service, fit once. If
# the model is quick and lies on your own machine, look at the clock too: asking a small forest takes little time, and
# the explainer's own arithmetic takes some.

# %%
table.loc[["relax", "greedy"], ["fit s", "ms each"]].round(1)

# %% [markdown]
# ## What to remember
#
# - Validity first, over **all** people. Then sparsity and distance, on common rows.
# - Compare with greedy search. It is simple and strong.
# - Learning buys cheap answers with an expensive beginning. Compute the break-even.
# - One task and one seed, as here, prove nothing. The README of the package has tables of more of both.

# %% [markdown]
# ## Exercise 1: Look better by doing less
#
# Take the rows of `greedy` and declare every answer that changes more than two features as not valid (set `valid` to
# False and `sparsity` and `proximity` to NaN). What happens to `validity`, `L0` and `L0 common` in `tables.summary`?

# %% [markdown]
# ## Exercise 2: The true optimum
#
# The features are integers from 1 to 10, so all changes of one or two features can simply be tried. Do it for the first
# ten test rows: what is the smallest number of changes that flips the model (or is it more than two)? How often do the
# answers of greedy search and ReLAX reach it?

# %% [markdown]
# ## Exercise 3: A slow model
#
# Suppose a model row takes 50 milliseconds. With the numbers of the table, how long do ReLAX and greedy search take for
# 1 person, and for 1,000 people, training included?
