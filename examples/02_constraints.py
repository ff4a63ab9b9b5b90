# %% [markdown]
# # 2. Constraints: what may change
#
# "Be ten years younger" explains a model, but helps nobody. Say which features may change, in which direction and
# range, once for all or anew at every question.
#
# There are two places for it. What is true for **everybody** belongs to the `FeatureSpace`, before training. What is
# true for **this person, today**, is said when asking, and needs no new training.

# %%
# %matplotlib inline
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import FeatureSpace, ReLAX
from relax_plugin.datasets import load
from relax_plugin.errors import ReLAXError

german = load("german")
words = {name: german.words[name] for name in ("status", "savings", "employment", "housing")}
X = german.X[["status", "duration", "amount", "savings", "employment", "housing", "age"]].replace(words)
y = german.y.map({0: "granted", 1: "refused"})

# %% [markdown]
# These are the loans of lesson 1, with one difference. A direction needs an order: *up* means something for numbers,
# but not for words. So we tell pandas how the years of employment are ordered.

# %%
X["employment"] = pd.Categorical(X["employment"], list(words["employment"].values()), ordered=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
columns = make_column_transformer((OneHotEncoder(sparse_output=False), list(words)), remainder="passthrough")
model = make_pipeline(columns, RandomForestClassifier(100, min_samples_leaf=3, random_state=0)).fit(X_train, y_train)
refused = X_test[model.predict(X_test) == "refused"]

# %% [markdown]
# ## For everybody: the feature space
#
# - `immutable`: nobody changes their age.
# - `increase_only`: years of employment grow. `decrease_only` is its mirror.
# - `bounds`: from where to where. For words, the list of those that may be chosen. Here nobody is told to close an
#   account, or to have savings that the bank does not know of.
# - `steps`: an amount of 4,137 marks is no advice. Let it be hundreds.
#
# What is not said is read off the training rows.

# %%
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
space

# %% [markdown]
# The list names every known word, also those that may not be chosen: somebody may have one already, and keep it.
#
# The explainer is fitted once, and then asked about all refused people.

# %%
explainer = ReLAX(model, space, seed=0).fit(X_train)
answer = explainer.explain(refused)
print(answer)
answer.changes()["feature"].value_counts().to_frame("changes")

# %% [markdown]
# Compare with lesson 1: *no account* was the most frequent advice there, and now nobody gets it. Other ways are found
# instead.

# %% [markdown]
# ## For this person: at the call
#
# `vary` names what may change in this call; all the rest stays. `bounds` narrows the range. Nothing has to be fitted
# anew for it.

# %%
person = refused.iloc[[2]]
person

# %%
print("free:    ", *explainer.explain(person).sentences())
print("vary:    ", *explainer.explain(person, vary=["amount", "savings"]).sentences())
print("bounds:  ", *explainer.explain(person, bounds={"duration": (24, 72)}).sentences())
both = explainer.explain(person, vary=["duration", "savings"], bounds={"duration": (24, 72)})
print("together:", *both.sentences())
print(f"the last answer took {both.seconds:.2f} s and {both.rows_queried[0]} model rows")

# %% [markdown]
# ## In which order?
#
# Under constraints one change is often not enough, and whoever has two things to do asks which comes first. `steps`
# puts the changes of one answer in order: each step is the one that brings the model nearest to the other answer, given
# those before it. The model is asked a few more rows for it, and its own score and answer stand after each step.

# %%
print(both.steps(0))

# %% [markdown]
# The probability after the first step says what half of the way is worth: mostly nothing, as long as the answer is the
# same.

# %% [markdown]
# ## What constraints cost
#
# The less may change, the fewer people can be helped. Each line is one call for all refused people, with the same
# explainer.

# %%
requests = {
    "everything": {},
    "the loan only": {"vary": ["duration", "amount"]},
    "the loan, 24 months or more": {"vary": ["duration", "amount"], "bounds": {"duration": (24, 72)}},
    "the savings only": {"vary": ["savings"]},
    "the employment only": {"vary": ["employment"]},
}
lines = []
for text, request in requests.items():
    made = explainer.explain(refused, **request)
    changed = made.sparsity[made.found]
    lines.append({"may change": text, "solved": made.found.mean(), "features changed": changed.mean()})
pd.DataFrame(lines).set_index("may change").style.format({"solved": "{:.0%}", "features changed": "{:.2f}"})

# %% [markdown]
# Read *solved* first. *Features changed* is a mean over the solved people only, so that it can look small just because
# the hard cases were given up. Lesson 6 comes back to this trap.

# %% [markdown]
# ## When nothing is possible
#
# Not every wish can be met. A row without an answer is never left out, and nothing is made up for it: it says why.

# %%
made = explainer.explain(refused, vary=["employment"])
pd.Series(made.status).value_counts().to_frame("people")

# %% [markdown]
# - *none was found within … changes*: the search ended without success. That is no proof that there is none.
# - *no feature of it may change*: these people are employed as long as the scale goes, and it may only increase.
#
# `found` is the same as yes or no, for programs. `values` has the closest attempt.

# %%
first = int((~made.found[:, 0]).argmax())
print(made.sentences()[first])

# %% [markdown]
# A wish that cannot be meant is refused with a sentence, before anything is asked of the model.

# %%
for wrong in ({"vary": ["age"]}, {"vary": ["amuont"]}, {"bounds": {"savings": ["a lot"]}}):
    try:
        explainer.explain(person, **wrong)
    except ReLAXError as error:
        print(f"{wrong}: {error}")

# %% [markdown]
# ## Several answers
#
# People differ in what is easy for them. `n=3` asks for up to three ways that are truly different: none changes all
# that another one changes and more, none nearly repeats another, and no change of any can be left out. Where no further
# one is found there are fewer, and `status` says so.

# %%
ways = explainer.explain(person, n=3)
ways

# %%
ways.plot()

# %% [markdown]
# Each colour is one way. A longer arrow is a larger change, measured in standard deviations. A dashed arrow is a
# changed category, which counts 1.

# %% [markdown]
# ## What to remember
#
# - True for everybody: `FeatureSpace.infer(immutable=, increase_only=, decrease_only=, bounds=, steps=)`.
# - True for this call: `explain(vary=, bounds=, n=)`, without a new fit.
# - What to do first: `steps`.
# - No answer is an answer: read `status`.

# %% [markdown]
# ## Exercise 1: A limit of one's own
#
# The first five refused people can each reduce their amount by at most a tenth, and change nothing but amount and
# duration. The bounds differ from person to person, so that each needs a call. How many can be helped?

# %% [markdown]
# ## Exercise 2: The strongest feature
#
# Let only one feature vary at a time. Which single feature helps most of the refused people?

# %% [markdown]
# ## Exercise 3: Trust, but check
#
# Ask for `n=3` for the first twenty refused people. Check with pandas, on `answer.frame`, that no age has changed, that
# no employment has become shorter, and that every changed amount is a multiple of 100.
