"""The menu: which sets of features would do for one row, what the best answer with each is, and which cannot."""
