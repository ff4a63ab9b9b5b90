"""The language of rules between columns: parsed, bound to columns, kept, and suggested by data."""
