# %% [markdown]
# # Solutions of lesson 6: Comparing explainers
#
# Two methods and fewer rows are enough here.

# %%
import tempfile
from itertools import combinations, product

import numpy as np
import pandas as pd

from relax_plugin.evaluation import metrics, tables
from relax_plugin.evaluation.judge import Method
from relax_plugin.evaluation.runner import Plan, run
from relax_plugin.evaluation.tasks import load_task

methods = [Method("relax", "relax-global", {"max_queries": 12}), "greedy"]
plan = Plan(tasks=["breast_cancer/rf"], methods=methods, seeds=[0], rows=40)
rows = run(plan, tempfile.mkdtemp())

# %% [markdown]
# ## Exercise 1: Look better by doing less
#
# Validity falls and L0 falls with it: the method looks sparser for doing less. On the common rows the two versions of
# the method are equal, as they should be: they give the same answers there.

# %%
lazy = rows[rows["method"] == "greedy"].assign(method="lazy greedy")
many = lazy["sparsity"] > 2
lazy.loc[many, "valid"] = False
lazy.loc[many, ["sparsity", "proximity"]] = np.nan
table = tables.summary(pd.concat([rows, lazy])).droplevel("task")[["validity", "L0", "L0 common", "common"]]
print(table.round(2))
assert table.loc["lazy greedy", "validity"] < table.loc["greedy", "validity"]
assert table.loc["lazy greedy", "L0"] < table.loc["greedy", "L0"]
assert table.loc["lazy greedy", "L0 common"] == table.loc["greedy", "L0 common"]

# %% [markdown]
# ## Exercise 2: The true optimum
#
# All values of all single features and pairs of features, in one call of the model for each row.

# %%
task = load_task("breast_cancer/rf")
values = range(1, 11)
assert all((feature.low, feature.high) == (1, 10) for feature in task.space.features)


def fewest_changes(row):
    """1 or 2 if so many changes can flip the model, 3 if more are needed."""
    before = task.model.predict(row)[0]
    for count in (1, 2):
        tried = []
        for columns in combinations(range(row.shape[1]), count):
            cells = np.array(list(product(values, repeat=count)))
            block = np.repeat(row.to_numpy(), len(cells), axis=0)
            block[:, columns] = cells
            tried.append(block)
        if (task.model.predict(pd.DataFrame(np.concatenate(tried), columns=row.columns)) != before).any():
            return count
    return 3


optimum = np.array([fewest_changes(task.X_test.iloc[[position]]) for position in range(10)])
print("optimum:", optimum)
for method, part in rows.groupby("method"):
    reached = part["sparsity"].to_numpy()[:10]
    print(f"{method}: {reached.astype(int)}, {(reached <= optimum).sum()} of 10 are as sparse as can be")
    assert (np.minimum(reached, 3) >= optimum).all()  # nobody beats the optimum
    assert (reached <= optimum).sum() >= 8

# %% [markdown]
# ## Exercise 3: A slow model
#
# For one person greedy search is quicker, for a thousand ReLAX is.

# %%
table = tables.summary(rows).droplevel("task")
minutes = {
    method: {
        people: metrics.total_rows(line["training rows"], line["rows"], people) * 0.05 / 60 for people in (1, 1000)
    }
    for method, line in table.iterrows()
}
minutes = pd.DataFrame(minutes).rename_axis("people")
print(minutes.round(1).to_string(), "minutes")
assert minutes.loc[1, "greedy"] < minutes.loc[1, "relax"]
assert minutes.loc[1000, "relax"] < minutes.loc[1000, "greedy"]
