# %% [markdown]
# # Solutions of lesson 8: Constraints of real life
#
# The data, the model and the feature space are those of the lesson's last line.

# %%
import numpy as np
import pandas as pd

from relax_plugin import FeatureSpace, ReLAX
from relax_plugin.datasets import load
from relax_plugin.evaluation.tasks import load_task, split_task

adult = load("adult")
model, (X_train, X_test, y_train, y_test) = split_task("adult/lgbm")
answers = {0: "at most 50,000", 1: "more than 50,000"}
model.fit(X_train, y_train.map(answers))
people = X_test[model.predict(X_test) == answers[0]][:30]
capital = ["capital-gain", "capital-loss"]
space = FeatureSpace.infer(
    X_train,
    labels=adult.constraints["labels"],
    immutable=adult.constraints["immutable"],
    ordered=adult.constraints["ordered"],
    derived=adult.constraints["derived"],
    increase_only=["age", "education"],
    decrease_only=["capital-loss"],
    bounds={"hours-per-week": (10, 60), "workclass": adult.constraints["bounds"]["workclass"]},
    rules=[
        "age <= was(age) + 10",
        "education <= was(education) or age >= was(age) + 2",
        "place(education) - place(was(education)) <= age - was(age)",
    ],
)
explainer = ReLAX(model, space, seed=0).fit(X_train)

# %% [markdown]
# ## Exercise 1: A rule of your own
#
# A rule mentions what it is about, and nothing else. A row that changes nothing keeps it.

# %%
rule = "occupation == was(occupation) or `hours-per-week` <= was(`hours-per-week`)"
without = explainer.explain(people, immutable=capital)
ruled = explainer.explain(people, immutable=capital, rules=[rule])


def broken(found):
    """The answers that change the occupation and work longer."""
    after, before = found.frame, found.queries.iloc[found.frame["query_id"]]
    other = (after["occupation"] != before["occupation"]) & after["occupation"].notna()
    return int((other & (after["hours-per-week"] > before["hours-per-week"])).sum())


lost = int((without.found & ~ruled.found).sum())
print(
    f"broken {broken(without)} times without the rule, {broken(ruled)} times with it; {lost} people lose their answer"
)
assert broken(without) > 0
assert broken(ruled) == 0
assert ruled.found.any()

# %% [markdown]
# ## Exercise 2: A price of your own
#
# A degree takes years, so it takes age along: whoever makes years dear makes degrees dear.

# %%
counts = {}
for price in (1.0, 10.0, 30.0):
    priced = explainer.explain(people, costs={"capital-gain": 10.0, "age": price}, objective="closest")
    counts[price] = priced.changes()["feature"].value_counts().reindex(["age", "education", "capital-gain"]).fillna(0)
    assert priced.found.all()
table = pd.DataFrame(counts).T.astype(int)
print(table)
assert table.loc[30.0, "age"] < table.loc[1.0, "age"]
assert table.loc[30.0, "education"] < table.loc[1.0, "education"]
assert (table["education"] <= table["age"]).all()

# %% [markdown]
# ## Exercise 3: What a gap says
#
# To the trees a gap is a sign by itself. The pipeline sees no gap: it sees the most frequent occupation, whoever
# somebody is. Neither is neutral.

# %%
told = X_test[X_test["occupation"].notna()]
silent = told.assign(occupation=np.nan).astype(told.dtypes)
frequent = told.assign(occupation=X_train["occupation"].mode()[0])
pipeline = load_task("adult/pipeline").model
for name, judge in (("trees", model), ("pipeline", pipeline)):
    fall = judge.predict_proba(told)[:, 1].mean() - judge.predict_proba(silent)[:, 1].mean()
    print(f"{name}: the probability falls by {fall:.3f} on average")
assert model.predict_proba(silent)[:, 1].mean() < model.predict_proba(told)[:, 1].mean()
assert not np.allclose(model.predict_proba(silent), model.predict_proba(frequent))
np.testing.assert_allclose(pipeline.predict_proba(silent), pipeline.predict_proba(frequent))
