# %% [markdown]
# # Solutions of lesson 1: One person, three lines
#
# The data and the model are those of the lesson.

# %%
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from relax_plugin import FeatureSpace, ReLAX
from relax_plugin.datasets import load

german = load("german")
words = {name: german.words[name] for name in ("status", "savings", "employment", "housing")}
X = german.X[["status", "duration", "amount", "savings", "employment", "housing", "age"]].replace(words)
y = german.y.map({0: "granted", 1: "refused"})
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
columns = make_column_transformer((OneHotEncoder(sparse_output=False), list(words)), remainder="passthrough")
model = make_pipeline(columns, RandomForestClassifier(100, min_samples_leaf=3, random_state=0)).fit(X_train, y_train)

space = FeatureSpace.infer(X_train, immutable=["age"])
explainer = ReLAX(model, space, seed=0).fit(X_train)
answers = model.predict(X_test)
refused, granted = X_test[answers == "refused"], X_test[answers == "granted"]

# %% [markdown]
# ## Exercise 1: Somebody else

# %%
person = refused.loc[[refused["duration"].idxmax()]]
answer = explainer.explain(person)
parts = [f"your {change.feature} were {change.to}" for change in answer.changes().itertuples()]
print(f"You would get the loan if {' and '.join(parts)}.")
assert answer.found.all()
assert len(parts) == answer.sparsity[0, 0]
assert model.predict(answer.frame[X.columns])[0] == "granted"

# %% [markdown]
# ## Exercise 2: The other way
#
# A granted loan takes more changes to be refused: most people of the data paid back, and the model grants by habit.
# A refusal hangs by the thinner thread.

# %%
changed = pd.Series(
    {
        "refused": explainer.explain(refused).sparsity.mean(),
        "granted": explainer.explain(granted[:100]).sparsity.mean(),
    },
    name="features changed, mean",
)
print(changed)
assert changed["refused"] < changed["granted"]

# %% [markdown]
# ## Exercise 3: Another model
#
# Only the model is new, with its own preparation of the numbers; the three lines stay. It does not even refuse this
# person, so that the answer says what would lose the loan. Counterfactuals explain a model, and two models can decide
# for different reasons.

# %%
scaled = make_column_transformer((OneHotEncoder(sparse_output=False), list(words)), remainder=StandardScaler())
linear = make_pipeline(scaled, LogisticRegression(max_iter=1000)).fit(X_train, y_train)
person = refused.iloc[[1]]
of_forest = explainer.explain(person)
of_linear = ReLAX(linear, space, seed=0).fit(X_train).explain(person)
print(f"forest {model.score(X_test, y_test):.0%}, linear {linear.score(X_test, y_test):.0%} right")
print("forest:", *of_forest.sentences())
print("linear:", *of_linear.sentences())
assert linear.predict(person)[0] == "granted"
assert of_linear.found.all()
assert of_linear.sentences() != of_forest.sentences()
assert linear.predict(of_linear.frame[X.columns])[0] == "refused"
