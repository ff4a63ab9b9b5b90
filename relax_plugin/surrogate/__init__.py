"""The surrogate model: what it learns from, how it predicts, and the search of a costly model on it."""

LEAST_QUERY_BUDGET = 200  # model rows below which no surrogate model is worth its name
MOST_QUERY_BUDGET = 100_000  # all of them are asked, and the surrogate model is fitted to them at once
SEARCH_BUDGET = 1000  # model rows of a fit for a search, which asks the model itself at every step
QUERIES = 12  # model rows of a search for one query, the query itself and the confirmation included
LEAST_QUERIES, MOST_QUERIES = 5, 10**9  # that a user may set
