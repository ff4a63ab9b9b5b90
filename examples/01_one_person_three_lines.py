# %% [markdown]
# # 1. One person, three lines
#
# A bank's model refuses a loan. What would have to be different for it to grant the loan? Three lines of code answer
# that, for any model.
#
# The answer is called a *counterfactual explanation*: the same person with a few changes, and the other answer of the
# model. It says nothing about the true causes of anything. It says how **this model** decides.

# %% [markdown]
# ## The data and a model
#
# The German credit data: people who took a loan, and whether they paid it back. It is a table of codes, so we take
# some columns and put words in place of the codes. Amounts are in German marks, durations in months. (The first line
# lets pictures appear in a notebook.)

# %%
# %matplotlib inline
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
print(f"{len(X)} people; {(y == 'granted').mean():.0%} of them paid back")
X.head()

# %% [markdown]
# `status` is the state of the checking account. The bank of this lesson refuses whoever looks like the people who did
# not pay back. Its model is a random forest. It could be anything with a `predict`: from here on nobody looks inside.
#
# It is not a good model: to grant every loan would be right nearly as often. An explanation shows how a model decides,
# be it good or bad.

# %%
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
columns = make_column_transformer((OneHotEncoder(sparse_output=False), list(words)), remainder="passthrough")
model = make_pipeline(columns, RandomForestClassifier(100, min_samples_leaf=3, random_state=0)).fit(X_train, y_train)

refused = X_test[model.predict(X_test) == "refused"]
person = refused.iloc[[1]]
print(f"{model.score(X_test, y_test):.0%} of {len(X_test)} test rows are judged rightly, {len(refused)} are refused")
person

# %% [markdown]
# ## The three lines
#
# 1. What may change: read off the training rows, except that nobody can change their age.
# 2. Fit the explainer. It asks the model some questions and learns a small copy of it, in which it looks for answers.
#    Where the copy alone does not find them, an agent practises there too.
# 3. Ask it.

# %%
space = FeatureSpace.infer(X_train, immutable=["age"])
explainer = ReLAX(model, space, seed=0).fit(X_train)
answer = explainer.explain(person)

# %%
print(answer.sentences()[0])

# %% [markdown]
# This sentence is the explanation. It was checked: the changed person was given to the model itself, and its answer
# counts as found only if the model's own `predict` says so and no constraint is broken.

# %%
print(model.predict(answer.frame[X.columns]))

# %% [markdown]
# ## The same as a table
#
# `changes()` has a line for each changed cell, for programs and for people. It is the format to work on with pandas.

# %%
answer.changes()

# %% [markdown]
# In a notebook the answer shows itself: the person in the first line, then what changes. `=` is a cell that stays.

# %%
answer

# %% [markdown]
# ## The same as a picture
#
# An arrow leads from the person's value to the new one. The unit is the standard deviation of the column, so that
# months and marks can be compared: an arrow of length 1 is a usual difference between two people.

# %%
answer.plot()

# %% [markdown]
# ## Everybody at once
#
# `explain` takes all refused people in one call. That is what it was fitted for: it asks the model few
# questions about each.

# %%
everybody = explainer.explain(refused)
print(everybody)
for sentence in everybody.sentences()[:5]:
    print(sentence)

# %% [markdown]
# How often is each feature changed?

# %%
everybody.changes()["feature"].value_counts().to_frame("changes")

# %% [markdown]
# Which changes of the checking account?

# %%
changes = everybody.changes()
changes[changes["feature"] == "status"].groupby(["from", "to"]).size().to_frame("people")

# %% [markdown]
# To have *no account* is best, says the model. Nobody would give that as advice. Is it a fault of the model?

# %%
(y == "granted").groupby(X["status"]).mean().map("{:.0%}".format).to_frame("paid back")

# %% [markdown]
# No: it is in the data. People without a checking account at this bank paid back most often. (Why, the data does not
# say. Perhaps they have their account at another bank.) So the explanation shows something that an accuracy does not:
# **what the model has learned, sensible or not.** To make counterfactuals advice as well, say what may change and how:
# that is lesson 2.
#
# ## What to remember
#
# - A counterfactual is a row, close to yours, for which the model answers differently.
# - `FeatureSpace.infer`, `ReLAX(...).fit`, `explain`: three lines for any model.
# - What is delivered was checked on the model itself.
# - It explains the model, not the world.

# %% [markdown]
# ## Exercise 1: Somebody else
#
# Explain the refused person with the longest loan. Write the sentence with the words "You" and "your" for that person.

# %% [markdown]
# ## Exercise 2: The other way
#
# Explain the people to whom the loan is *granted*. What would have to be different for a refusal? Compare how many
# features change for the refused and for the granted ones. Which answer of this model hangs by a thinner thread?

# %% [markdown]
# ## Exercise 3: Another model
#
# Replace the forest by a logistic regression (which wants its numbers scaled, by a `StandardScaler`), and nothing else.
# Is the same advice given to the person of this lesson?
