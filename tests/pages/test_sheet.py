"""The sheet of a card: the more there is on it, the smaller the letters; whether it fits is tried in a browser."""

import numpy as np
from reference.readable import explained
from reference.tiny import gaussian_rows, two_class_probabilities

from relax_plugin import make_explainer
from relax_plugin.pages.card import SIZES, cards, letters_for


def test_a_short_card_has_large_letters_and_a_long_one_smaller():
    (short,) = cards(explained(), np.array([0]))
    assert letters_for(short) == SIZES[0]
    X = gaussian_rows(60, 60)
    (long,) = cards(make_explainer("greedy", two_class_probabilities).fit(X).explain(X[:1], n=10), np.array([0]))
    assert SIZES[-1] <= letters_for(long) < SIZES[0]


def test_letters_never_grow_with_what_is_added():
    (card,) = cards(explained(), np.array([0]))
    last = SIZES[0]
    for count in (10, 40, 80, 160):
        points = letters_for(card | {"values": card["values"] * count})
        assert points <= last
        last = points
    assert last == SIZES[-1]
