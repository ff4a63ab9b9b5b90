"""The what-if page: a row as a form, what may change, and the answer as it would be. On this machine only."""
