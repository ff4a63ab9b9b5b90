"""The claims of the paper, and what decides them."""
