# %% [markdown]
# # 8. Constraints of real life
#
# Real tables have gaps, columns that depend on each other, changes that are dear, and rows that no person could be.
# Four words for it: *missing values*, *rules*, *costs* and *plausibility*. Each is said once, and kept by every answer.
#
# Lesson 2 asked what may change. This one asks what can be **true** afterwards.

# %% [markdown]
# ## A table as it comes
#
# The Adult data: answers of people to the American census of 1994. The model guesses whether somebody earns more than
# 50,000 dollars a year. It is boosted trees (LightGBM), for which a missing cell is one more kind of cell.

# %%
# %matplotlib inline
import pandas as pd

from relax_plugin import FeatureSpace, ReLAX
from relax_plugin.datasets import load
from relax_plugin.evaluation.tasks import split_task

adult = load("adult")
model, (X_train, X_test, y_train, y_test) = split_task("adult/lgbm")
answers = {0: "at most 50,000", 1: "more than 50,000"}
model.fit(X_train, y_train.map(answers))

low = X_test[model.predict(X_test) == answers[0]]
people = low[:30]
print(
    f"{len(X_train)} training rows; {model.score(X_test, y_test.map(answers)):.0%} of the test rows are judged rightly"
)
X_train.isna().sum()[lambda gaps: gaps > 0].to_frame("missing cells")

# %% [markdown]
# ## Without a word
#
# We say nothing about the columns, but how they are called, and ask for thirty people. (`labels` are words for
# people, in the place of names and codes; the embedded data bring theirs along.)

# %%
labels = adult.constraints["labels"]
naive = ReLAX(model, FeatureSpace.infer(X_train, labels=labels), seed=0).fit(X_train)
free = naive.explain(people)
print(*free.sentences()[:3], sep="\n")
free.changes()["feature"].value_counts().to_frame("changes")

# %% [markdown]
# *Have capital gains*, says the model: who has them is rich. As advice it is useless, so we forbid both columns of
# capital for the moment, as in lesson 2.

# %%
capital = ["capital-gain", "capital-loss"]
without = naive.explain(people, immutable=capital)
print(*without.sentences()[:9], sep="\n")

# %% [markdown]
# Every one of these rows was checked on the model, and the model does give the other answer. Read them again: could
# they be **true**? Four things go wrong, and pandas can count them.

# %%
level = {name: number for number, name in enumerate(adult.constraints["ordered"]["education"], start=1)}
nobodys = list(adult.constraints["immutable"])
print("what nobody is told to change:", *nobodys, sep="\n  ")


def faults(found):
    """The share of the answers that could not be true, by the fault."""
    after = found.frame
    before = found.queries.iloc[after["query_id"]]
    years, steps = after["age"] - before["age"], after["education"].map(level) - before["education"].map(level)
    changed = (after[nobodys] != before[nobodys]) & ~(after[nobodys].isna() & before[nobodys].isna())
    return {
        "solved": found.found.mean(),
        "another person": changed.any(axis=1).mean(),
        "two educations": (after["education"].map(level) != after["education-num"]).mean(),
        "younger": (years < 0).mean(),
        "a degree in no time": ((steps > 0) & (years < 2)).mean(),
    }


pd.Series(faults(without)).map("{:.0%}".format).to_frame("nothing said")

# %% [markdown]
# *Two educations* is the most instructive one. The table holds education twice, as a word and as a number. The model
# may look at either; the search found that to change one of them is enough. No such row exists.

# %% [markdown]
# ## Saying what is true
#
# We say it step by step, and count again.
#
# - `immutable`: who somebody is.
# - `ordered` and `derived`: education is a scale, and the number is *computed* from the word. A derived column is never
#   chosen: it follows, and is no change of its own.
# - `increase_only` and `bounds`: nobody becomes younger, or forgets a degree, or is told to work without pay.
# - `rules`: sentences between columns. `was(age)` is the person's own value. A row that breaks a rule is never
#   delivered; where a change would break one, another column of the rule goes along.

# %%
said = {"nothing": {}}
said["who one is"] = {"immutable": nobodys}
said["one education"] = said["who one is"] | {
    "ordered": {"education": list(level)},
    "derived": {"education-num": "place(education)"},
}
said["no way back"] = said["one education"] | {
    "increase_only": ["age", "education"],
    "decrease_only": ["capital-loss"],
    "bounds": {"hours-per-week": (10, 60), "workclass": adult.constraints["bounds"]["workclass"]},  # paid work
}
said["rules"] = said["no way back"] | {
    "rules": [
        "age <= was(age) + 10",  # what takes longer is no plan
        "education <= was(education) or age >= was(age) + 2",  # a degree takes two years at least,
        "place(education) - place(was(education)) <= age - was(age)",  # and each step one
    ]
}
lines = {}
for what, constraints in said.items():
    explainer = ReLAX(model, FeatureSpace.infer(X_train, labels=labels, **constraints), seed=0).fit(X_train)
    answer = explainer.explain(people, immutable=capital)
    lines[what] = faults(answer)
pd.DataFrame(lines).T.style.format("{:.0%}")

# %% [markdown]
# Read it line by line. Forbid one fault, and the search takes the next: as soon as the education has to be a true one,
# degrees are given away in no time. In the last line no fault is left, and fewer people have an answer. Did the rules
# make the explainer worse? No: what went was no answer. **A share of solved people means nothing until you know what
# was allowed.**
#
# From here on `explainer` is that of the last line.

# %%
print(*answer.sentences()[:9], sep="\n")

# %% [markdown]
# Look for a degree among them: age went along with it. That change was not needed for the model. It was needed for the
# sentence to be true.
#
# A rule can also belong to one call, such as for somebody who cannot work many more hours. In backticks stand names
# that Python would misread.

# %%
rule = "`hours-per-week` <= was(`hours-per-week`) + 5"
fewer = explainer.explain(people, immutable=capital, rules=[rule])
print(f"solved: {answer.found.mean():.0%}, with at most 5 more hours {fewer.found.mean():.0%}")

# %% [markdown]
# ## Missing values
#
# Some people did not tell what their occupation is. What should an answer do with such a cell? There are two readings.
#
# - *We do not know it, and it stays so.* That is the default: a missing cell reaches the model as it is, and no answer
#   fills it in.
# - *It can be filled in*: somebody may take up an occupation, or may just tell us. `fill_missing` names such columns,
#   and to fill in a cell counts as a change.

# %%
untold = low[low["occupation"].isna()][:20]
filling = FeatureSpace.infer(X_train, labels=labels, **said["rules"], fill_missing=["occupation", "workclass"])
stays = explainer.explain(untold, immutable=capital)
filled = ReLAX(model, filling, seed=0).fit(X_train).explain(untold, immutable=capital)
print("a gap is left missing in every answer:", bool(stays.frame["occupation"].isna().all()))
print(f"solved: {stays.found.mean():.0%} if gaps stay, {filled.found.mean():.0%} if they may be filled in")
filled.changes().query("feature == 'occupation'")["to"].value_counts().to_frame("filled in")

# %% [markdown]
# Be careful with the second reading. If the model has learned that people who do not tell are poor, *telling* changes
# its answer, and nothing about the person has changed. That is worth knowing of a model. It is no advice.

# %% [markdown]
# ## Costs
#
# So far capital was forbidden. In life little is forbidden, and much is dear. `costs` is a price list: what one
# standard deviation of a number costs, or another category. What is not named costs 1. The distance (ℓ_dist in the
# glossary) is then the sum of the prices. `objective="closest"` asks for the **cheapest** answer, not for that with
# the fewest changes.

# %%
lists = {
    "capital costs 1": {"capital-gain": 1.0},
    "capital costs 10": {"capital-gain": 10.0},
    "capital costs 100": {"capital-gain": 100.0},
}
counts = {}
for name, costs in lists.items():
    priced = explainer.explain(people, costs=costs, objective="closest")
    counts[name] = {"people solved": priced.found.sum(), **priced.changes()["feature"].value_counts()}
pd.DataFrame(counts).fillna(0).astype(int).T

# %% [markdown]
# The dearer the capital, the fewer are sent to the stock exchange; but where nothing else helps, it is still there.
# That is the difference between a price and a prohibition: nobody loses an answer.
#
# Whose prices are these? Yours. The package cannot know what is hard for somebody: it keeps to the list, and shows it
# (`explainer.space`).

# %% [markdown]
# ## Plausibility
#
# A row can keep every rule that you thought of, and still be one of a kind: a doctorate at 27 with 60 hours of farm
# work. `plausible` asks that an answer looks like the training rows, by an outlier detector: no less so than nearly all
# of them, or than the person herself. `"prefer"` takes an implausible answer only where there is no other
# with as few changes; `"require"` takes none.
#
# A search learns to please the detector that it sees. So a second one, of another kind, judges as well
# (`independent`): no search has seen it.

# %%
judged = answer.plausibility
found, plausible = answer.found[:, 0], judged["plausible"].to_numpy()
print(f"plausible: {plausible[found].mean():.0%} of the answers under the rules")
print(f"by the independent detector: {judged['independent_plausible'][found].mean():.0%}")
odd = people[found & ~plausible]
odd

# %% [markdown]
# These are the people whose answers look like nobody's. We ask for them once more.

# %%
for asked in (False, "prefer", "require"):
    again = explainer.explain(odd, immutable=capital, plausible=asked)
    judged = again.plausibility[["plausible", "independent_plausible"]]
    print(f"plausible={asked}")
    for sentence, (by_one, by_other) in zip(again.sentences(), judged.to_numpy(), strict=True):
        print(f"  {sentence} (plausible: {by_one}, independent: {by_other})")

# %% [markdown]
# Compare the two words at the end of each line. The first is what was asked for, the second what it is worth: where
# only the first one turns, the search has learned to please its detector. And a person may lose the answer under
# `"require"`: to have none is better than to have one that nobody could live.

# %% [markdown]
# ## All of it, for one person
#
# Rules, prices and plausibility together, and in which order to act (`steps`, lesson 2).

# %%
person = people.iloc[[7]]
together = explainer.explain(person, costs={"capital-gain": 100.0}, objective="closest", plausible="prefer")
print(*together.sentences())
print(together.steps(0))

# %%
together.plot()

# %% [markdown]
# ## What to remember
#
# - An answer that the model accepts need not be one that can be true. Count.
# - True for everybody: `FeatureSpace.infer(ordered=, derived=, rules=, costs=, fill_missing=)`. True for this call:
#   `explain(rules=, costs=, objective=, plausible=)`.
# - Forbid what cannot be. Price what is hard. Leave missing what nobody knows.
# - Fewer solved people may mean better answers.

# %% [markdown]
# ## Exercise 1: A rule of your own
#
# Whoever changes the occupation begins anew, and will not work longer hours at the same time. Write that as one rule
# with `or`, ask for the thirty people with it, and check with pandas that every answer keeps it. How many people lose
# their answer?

# %% [markdown]
# ## Exercise 2: A price of your own
#
# Let years of life cost more and more: give `age` the prices 1, 10 and 30 (capital costs 10). How often is age changed
# at each price, and what becomes of education? Why do the two fall together?

# %% [markdown]
# ## Exercise 3: What a gap says
#
# Take everybody whose occupation is told, delete it, and ask the model again. How much does the probability of "more
# than 50,000" fall on average? Do the same with the model of the task `adult/pipeline`, which puts the most frequent
# occupation in the place of a gap. What does each of them make of silence?
