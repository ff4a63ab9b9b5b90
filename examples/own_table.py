"""Write wine.csv and model.joblib into the folder you are in: a table and a model for who has none at hand.

178 wines of three growers (scikit-learn's `load_wine`, no data set of this package), each with the number of a bottle,
and a random forest that tells the grower. Your own table and model take the place of both.
"""

import joblib
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

table = load_wine(as_frame=True).frame
table["grower"] = table.pop("target").map({0: "Barolo", 1: "Grignolino", 2: "Barbera"})
table.insert(0, "bottle", [f"B{number:03}" for number in range(1, len(table) + 1)])
table.to_csv("wine.csv", index=False)
model = RandomForestClassifier(random_state=0).fit(table.drop(columns=["bottle", "grower"]), table["grower"])
joblib.dump(model, "model.joblib")
print(f"wine.csv: {len(table)} rows, {table.shape[1]} columns. model.joblib: {len(model.estimators_)} trees.")
