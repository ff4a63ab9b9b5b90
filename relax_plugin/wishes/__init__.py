"""What a call wishes of its answers beyond the goal: plausible, valid for further models, sparse or close."""
