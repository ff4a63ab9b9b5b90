"""Evaluation: tasks, metrics, and tables over every explainer."""
