# %% [markdown]
# # Solutions of lesson 7: Inside other toolkits

# %%
import numpy as np
import pandas as pd
from interpret.ext.blackbox import ReLAX as InterpretReLAX

from relax_plugin import ReLAX
from relax_plugin.adapters.shap import CounterfactualShap
from relax_plugin.evaluation.tasks import load_task

task = load_task("breast_cancer/rf")
model, X_train = task.model, task.X_train
malignant = task.X_test[model.predict(task.X_test) == 1]
explainer = ReLAX(model, task.space, seed=0).fit(X_train)


def score(rows):
    """The probability of malignant."""
    return model.predict_proba(rows)[:, 1]


# %% [markdown]
# ## Exercise 1: The sum

# %%
values = CounterfactualShap(explainer)(malignant)
found = values.counterfactuals
after = found.frame[X_train.columns]
assert found.found.all()
difference = score(malignant) - score(after)
print(f"largest error of the sum: {np.abs(values.values.sum(axis=1) - difference).max():.1e}")
assert np.allclose(values.values.sum(axis=1), difference)
unchanged = after.to_numpy() == malignant.to_numpy()
assert unchanged.any()
assert (values.values[unchanged] == 0).all()

# %% [markdown]
# ## Exercise 2: By hand
#
# Start from the counterfactual, put the sample's values back in both possible orders, and take the mean.

# %%
position = int(np.flatnonzero(found.sparsity[:, 0] == 2)[0])
x, y = malignant.iloc[position], after.iloc[position]
a, b = found.changes().query("query_id == @position")["feature"]
only_a, only_b = y.copy(), y.copy()
only_a[a], only_b[b] = x[a], x[b]
f_none, f_a, f_b, f_both = score(pd.DataFrame([y, only_a, only_b, x]))
value_a = ((f_a - f_none) + (f_both - f_b)) / 2
value_b = ((f_b - f_none) + (f_both - f_a)) / 2
print(f"{a}: {value_a:.3f}, {b}: {value_b:.3f}")
assert np.isclose(value_a, values.values[position, X_train.columns.get_loc(a)])
assert np.isclose(value_b, values.values[position, X_train.columns.get_loc(b)])
assert np.isclose(value_a + value_b, f_both - f_none)

# %% [markdown]
# ## Exercise 3: Another method in the same place
#
# One argument is different. The answers are about as sparse: see lesson 6.

# %%
some = malignant[:20]
changed = pd.Series(
    {
        "relax": InterpretReLAX(model, X_train, explainer=explainer).explain_local(some).data()["changes"],
        "greedy": InterpretReLAX(model, X_train, explainer="greedy").explain_local(some).data()["changes"],
    },
    name="features changed, mean",
)
print(changed)
assert np.isclose(changed["relax"], explainer.explain(some).sparsity.mean())  # its own answers, passed on
assert abs(changed["relax"] - changed["greedy"]) < 0.5
