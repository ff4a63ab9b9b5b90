"""The report of the reproduction."""
