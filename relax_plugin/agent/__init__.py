"""ReLAX itself: the paper's decision process, networks, replay, curiosity, training, Global and Local."""
