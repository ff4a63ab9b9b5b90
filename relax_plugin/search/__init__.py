"""Searching for counterfactuals: states and actions, the beam, greedy search, refinement, several answers a query."""
