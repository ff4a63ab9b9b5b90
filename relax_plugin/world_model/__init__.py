"""The copy of the model: what it learns from, how it predicts, and the search in imagination that it allows."""

LEAST_QUERY_BUDGET = 200  # model rows below which no world model is worth its name
MOST_QUERY_BUDGET = 100_000  # all of them are asked, and the world model is fitted to them at once
SEARCH_BUDGET = 1000  # model rows of a fit for a search, which asks the model itself at every step
SEARCH_ROWS = 12  # model rows of a search for one query, the query itself and the confirmation included
LONGER_ROWS = 24  # the same where the least distance is looked for, or rules hold: there is more to find


def rows_of_search(given: int | None, longer: bool) -> int:
    """Model rows of a search for one query: as given, or as many as suit what is looked for."""
    if given is None:
        return LONGER_ROWS if longer else SEARCH_ROWS
    return given
