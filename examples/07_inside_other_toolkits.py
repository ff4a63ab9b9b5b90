# %% [markdown]
# # 7. Inside other toolkits
#
# Your code is written for DiCE, InterpretML or SHAP already. The explainer can sit inside each of them, and one of them
# gives it a new use: Shapley values that start from a counterfactual.
#
# The task is the one of lesson 6: samples of cells, described by integers, and a random forest that says whether
# the tumour is malignant (1) or not (0). It is fitted once, and all
# three toolkits use the same explainer.

# %%
# %matplotlib inline
import dice_ml
import matplotlib.pyplot as plt
import pandas as pd
import shap
from interpret.ext.blackbox import ReLAX as InterpretReLAX
from matplotlib.figure import Figure

from relax_plugin import ReLAX
from relax_plugin.adapters.dice import ReLAXDice
from relax_plugin.adapters.shap import CounterfactualShap, compare_with_shap
from relax_plugin.evaluation.tasks import load_task

task = load_task("breast_cancer/rf")
model, X_train = task.model, task.X_train
malignant = task.X_test[model.predict(task.X_test) == 1]
sample = malignant.iloc[[0]]
explainer = ReLAX(model, task.space, seed=0).fit(X_train)
print(*explainer.explain(sample).sentences())
sample

# %% [markdown]
# ## DiCE
#
# DiCE wants its own descriptions of data and model. After that, one line is different from DiCE as you know it. (With a
# name, `Dice(data, model, method="relax")` of `relax_plugin.adapters.dice` fits one of its own.)

# %%
data = dice_ml.Data(
    dataframe=X_train.assign(answer=task.y_train), continuous_features=list(X_train), outcome_name="answer"
)
inside_dice = ReLAXDice(data, dice_ml.Model(model=model, backend="sklearn"), explainer)
examples = inside_dice.generate_counterfactuals(sample, total_CFs=3, desired_class="opposite")
examples.cf_examples_list[0].final_cfs_df

# %% [markdown]
# Each line is one counterfactual, in DiCE's own format. DiCE's parameters work as they do in DiCE. For some samples,
# let only those features vary that the first answer changed, and one of them only within a range.

# %%
few = explainer.explain(sample).changes()["feature"].tolist()
narrow = inside_dice.generate_counterfactuals(
    malignant[:5], total_CFs=1, features_to_vary=few, permitted_range={few[0]: [1, 5]}
)
tables = {number: example.final_cfs_df for number, example in enumerate(narrow.cf_examples_list)}
found = {number: table for number, table in tables.items() if table is not None and len(table)}
print("may vary:", *few)
print("samples without a counterfactual under these rules:", *(tables.keys() - found.keys() or ["none"]))
pd.concat(found, names=["sample", "line"])

# %% [markdown]
# The first column is the number of the sample. A sample for which nothing is found under these rules has no line.

# %% [markdown]
# ## InterpretML
#
# InterpretML finds the class by itself, since the package announces it: `interpret.ext.blackbox` is InterpretML's list
# of plug-ins. It is used like its own `ShapKernel` or `LimeTabular`.

# %%
inside_interpret = InterpretReLAX(model, X_train, explainer=explainer)
explanation = inside_interpret.explain_local(malignant[:20], task.y_test[malignant.index[:20]])
explanation.selector.head()

# %% [markdown]
# In a notebook `interpret.show(explanation)` opens its page, which needs scripts. What it draws is `explanation.data`,
# which we draw ourselves: on the left one sample, a bar being the size of a change in standard deviations; on the
# right the summary of all, how often each feature is changed.

# %%
one, all_of_them = explanation.data(0), explanation.data()
figure = Figure(figsize=(9, 3.2), layout="constrained")
left, right = figure.subplots(1, 2, sharey=True)
left.barh(one["names"], one["scores"], color="#0072B2")
left.set_title(f"{one['perf']['predicted']} to {one['counterfactuals'][0]['predicted']}: size of the change")
right.barh(all_of_them["names"], [100 * share for share in all_of_them["scores"]], color="#0072B2")
right.set_title(f"{all_of_them['found']} of {all_of_them['rows']} rows: % that change it")
left.invert_yaxis()
figure

# %% [markdown]
# ## SHAP: counterfactual Shapley values
#
# Shapley values share out a difference among the features: the model's score for this row, minus the score of a
# *background*. The background decides what is asked.
#
# - Ordinarily it is the average over training rows: **why is this sample more suspicious than the average one?**
# - With the counterfactual as the background: **what would each of these changes do?**
#   ([Albini et al. 2022](https://arxiv.org/abs/2110.14270))

# %%
ordinary = shap.TreeExplainer(model, X_train[:100], model_output="probability")(sample)[:, :, 1]
counterfactual = CounterfactualShap(explainer)(sample)
beside = pd.DataFrame(
    {"ordinary": ordinary.values[0], "counterfactual": counterfactual.values[0]}, index=X_train.columns
)
beside.loc["sum"] = beside.sum()
beside.loc["score of the background"] = [ordinary.base_values[0], counterfactual.base_values[0]]
beside.loc["score of the sample"] = model.predict_proba(sample)[0, 1]
beside.round(3)

# %% [markdown]
# Both columns add up: background plus sum is the model's score of the sample (the probability of *malignant*).
#
# The counterfactual column has zeros, and they are exact: what does not change has no share. It names few features, and
# they are enough to change the answer. The ordinary column gives something to nearly every feature, and does not say
# which of them would be enough, nor to which value they would have to go.
#
# The score of the counterfactual lies at the border between the two answers: no more is changed than is needed. Who
# wants a safer one says so, by `Goal.to(0, min_probability=0.8)`.


# %%
def waterfall(values):
    """SHAP's picture of one row."""
    figure = shap.plots.waterfall(values, show=False).figure
    plt.close(figure)  # else a notebook may show it twice
    return figure


waterfall(ordinary[0])

# %%
waterfall(counterfactual[0])

# %% [markdown]
# Above the ordinary values, below the counterfactual ones, both drawn by SHAP. Read from below: E[f(X)] is the score of
# the background, every bar adds the share of a feature, and f(x) at the top is the score of the sample. In the second
# picture the start is the counterfactual, so that the bars are the way back to the sample.

# %% [markdown]
# ## Do they name the same features?
#
# A counterfactual changes k features. How many of them are among the k with the largest ordinary values? `by_chance` is
# what drawing k features blindly would give. `agreement` takes all features: how often has a changed feature a larger
# ordinary value (by its size) than one that is not changed? By chance that would be a half.

# %%
some = malignant[:20]
values = shap.TreeExplainer(model, X_train[:100], model_output="probability")(some)[:, :, 1]
agreement = compare_with_shap(explainer, some, shap_values=values.values)
agreement.table[["changed", "overlap", "by_chance", "agreement"]].mean().round(3).to_frame("mean")

# %%
agreement.plot()

# %% [markdown]
# Left: the overlap for each number of changed features; the black line is chance. Right: for each feature, the mean
# size of its ordinary Shapley value, and how often the counterfactuals change it, both as a share of the largest.
#
# Over all samples the two rank the features much alike. For a single sample they agree more than by chance, and less
# than fully. Neither is wrong: they answer different questions. A feature can weigh much in the score, and yet not be
# needed to turn the answer.
#
# ## What to remember
#
# - The same explainer serves DiCE, InterpretML and SHAP, and the rest of your code stays.
# - Every face passes on what was checked on the model. A row without an answer gets none: in DiCE it has no line, so
#   keep the numbers of the samples.
# - A Shapley value is relative to a background. Say which.

# %% [markdown]
# ## Exercise 1: The sum
#
# Check for all malignant test rows that the counterfactual Shapley values sum to the score of the row minus that of its
# counterfactual, and that no unchanged feature has a share.

# %% [markdown]
# ## Exercise 2: By hand
#
# Take a sample whose counterfactual changes exactly two features. Compute both Shapley values by hand: a value is the
# mean of what the change does first and of what it does after the other change. Four model rows are enough.

# %% [markdown]
# ## Exercise 3: Another method in the same place
#
# Put `greedy` in place of ReLAX, inside InterpretML. What is different in the code, and in the mean number of
# features changed?
