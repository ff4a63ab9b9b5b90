"""The copy of the model: its layers, its networks, the rows it learns from, and the lookahead it allows."""

LEAST_QUERY_BUDGET = 200  # model rows below which no world model is worth its name
