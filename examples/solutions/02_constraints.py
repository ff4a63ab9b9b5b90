# %% [markdown]
# # Solutions of lesson 2: Constraints
#
# The data, the model and the feature space are those of the lesson.

# %%
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import FeatureSpace, ReLAX
from relax_plugin.datasets import load

german = load("german")
words = {name: german.words[name] for name in ("status", "savings", "employment", "housing")}
X = german.X[["status", "duration", "amount", "savings", "employment", "housing", "age"]].replace(words)
y = german.y.map({0: "granted", 1: "refused"})
X["employment"] = pd.Categorical(X["employment"], list(words["employment"].values()), ordered=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
columns = make_column_transformer((OneHotEncoder(sparse_output=False), list(words)), remainder="passthrough")
model = make_pipeline(columns, RandomForestClassifier(100, min_samples_leaf=3, random_state=0)).fit(X_train, y_train)
space = FeatureSpace.infer(
    X_train,
    immutable=["age"],
    increase_only=["employment"],
    bounds={
        "amount": (300, 18_400),
        "status": ["overdrawn", "below 200", "200 or more"],
        "savings": ["below 100", "below 500", "below 1000", "1000 or more"],
    },
    steps={"amount": 100},
)
explainer = ReLAX(model, space, seed=0).fit(X_train)
refused = X_test[model.predict(X_test) == "refused"]

# %% [markdown]
# ## Exercise 1: A limit of one's own

# %%
helped = 0
for position in range(5):
    person = refused.iloc[[position]]
    amount = int(person["amount"].iloc[0])
    answer = explainer.explain(person, vary=["amount", "duration"], bounds={"amount": (0.9 * amount, amount)})
    print(*answer.sentences())
    helped += int(answer.found.sum())
    if answer.found.all():
        assert 0.9 * amount <= answer.frame["amount"].iloc[0] <= amount
        assert set(answer.changes()["feature"]) <= {"amount", "duration"}
print(f"{helped} of 5 people can be helped")
assert helped >= 1

# %% [markdown]
# ## Exercise 2: The strongest feature

# %%
free = [name for name in X.columns if name != "age"]
solved = pd.Series({name: explainer.explain(refused, vary=[name]).found.mean() for name in free}, name="solved")
print(solved.sort_values(ascending=False).map("{:.0%}".format))
assert solved.idxmax() == "duration"
assert solved.max() <= explainer.explain(refused).found.mean()

# %% [markdown]
# ## Exercise 3: Trust, but check
#
# `query_id` is the position of the person among the queries, so that the two tables can be laid side by side.

# %%
people = refused[:20]
answer = explainer.explain(people, n=3)
after = answer.frame
before = people.iloc[after["query_id"]]  # with the index that the answers have too
print(f"{len(after)} counterfactuals for {len(people)} people")
assert len(after) > len(people)
assert (after["age"] == before["age"]).all()
assert (after["employment"].cat.codes >= before["employment"].cat.codes).all()
moved = after["amount"] != before["amount"]
assert moved.any()
assert (after.loc[moved, "amount"] % 100 == 0).all()
