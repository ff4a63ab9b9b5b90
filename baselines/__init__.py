"""Baselines: the methods that ReLAX is compared with, one module each."""
