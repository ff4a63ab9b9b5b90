"""Colours and markers: one of each for a method, in every picture, whatever else is drawn and in whichever process."""

import os
import re
import subprocess
import sys
from importlib.resources import files
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from reference import sample_rows

from relax_plugin.commands.demo import METHODS as OF_THE_DEMO
from relax_plugin.pages.palette import (
    MOST_COLOURED,
    OKABE_ITO,
    OTHERS,
    STYLES,
    greyed,
    highlighted,
    method_styles,
    series_styles,
    short_names,
    style_of,
)
from relax_plugin.pages.plots import tradeoff
from relax_plugin.registry import BUILT_IN


def test_every_method_of_the_registry_has_a_look_of_its_own() -> None:
    assert set(STYLES) == set(BUILT_IN)
    assert len({(style.colour, style.marker) for style in STYLES.values()}) == len(STYLES)


def test_methods_that_are_shown_together_have_other_colours() -> None:
    assert len({STYLES[method].colour for method in OF_THE_DEMO}) == len(OF_THE_DEMO)


def test_options_change_neither_colour_nor_marker() -> None:
    plain = STYLES["nearest-ct"]
    for method in ("nearest-ct:reverted=True", "nearest-ct:max_changes=5", "nearest-ct, alone"):
        assert (style_of(method).colour, style_of(method).marker) == (plain.colour, plain.marker)
    assert style_of("ReLAX") == style_of("relax") == STYLES["relax-global"]


def test_variants_of_one_method_in_one_picture_differ_in_dashes_and_only_the_first_is_filled() -> None:
    methods = ["greedy", *(f"greedy:rows={i}" for i in range(12))]
    styles = method_styles(methods)
    assert len({style.dashes for style in styles.values()}) == len(methods)
    assert [style.filled for style in styles.values()] == [True] + [False] * 12
    assert {style.colour for style in styles.values()} == {STYLES["greedy"].colour}


@pytest.mark.slow
def test_a_stranger_looks_the_same_in_every_process_and_like_no_method_of_this_package() -> None:
    names = [f"stranger-{i}" for i in range(200)]
    taken = {(style.colour, style.marker) for style in STYLES.values()}
    looks = [(style_of(name).colour, style_of(name).marker) for name in names]
    assert not taken & set(looks)
    assert len(set(looks)) > 40
    code = "from relax_plugin.pages.palette import style_of; print(style_of('stranger-7'))"
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] == f"{style_of('stranger-7')}\n"


def test_a_method_looks_the_same_whatever_stands_before_it() -> None:
    alone = method_styles(["lore"])["lore"]
    for others in (["greedy"], ["mace", "focus"], list(BUILT_IN)):
        style = method_styles([*others, "lore"])["lore"]
        assert (style.colour, style.marker) == (alone.colour, alone.marker)


def luminance(colour: str) -> float:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("paper", "prefix"), [("#ffffff", "light"), ("#13161b", "dark")])
def test_every_colour_is_seen_on_the_paper_of_a_page(paper: str, prefix: str) -> None:
    css = (files("relax_plugin.pages") / "templates" / "page.css").read_text()
    light, _, dark = css.partition("prefers-color-scheme: dark")
    assert f"--paper: {paper}" in (light if prefix == "light" else dark)
    colours = re.findall(r"--method-\d: (#[0-9a-f]{6})", light if prefix == "light" else dark)
    assert len(colours) == len(set(colours)) == len(OKABE_ITO)
    for colour in (*colours, OTHERS):
        bright, dim = sorted((luminance(colour), luminance(paper)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 2.0, colour
    if prefix == "light":
        assert [colour.upper() for colour in colours] == list(OKABE_ITO)


def test_of_many_methods_few_have_colours_and_the_others_are_grey() -> None:
    many = list(BUILT_IN)
    assert highlighted(many[:MOST_COLOURED], ["lore"]) == many[:MOST_COLOURED]
    assert highlighted(many, ["lore", "nobody", "greedy"]) == ["lore", "greedy"]
    assert highlighted(many) == many[:MOST_COLOURED]
    grey = greyed(method_styles(many), ["lore"])
    assert grey["lore"].colour == STYLES["lore"].colour
    assert {style.colour for name, style in grey.items() if name != "lore"} == {OTHERS}
    rows = sample_rows.sample_rows()
    rows = rows[(rows["task"] == sample_rows.PRICES) & (rows["method"] == "greedy")]
    copies = [rows.assign(method=name) for name in many]
    axes = tradeoff(pd.concat(copies), wanted=["mace"]).axes[0]
    coloured = {line.get_label() for line in axes.lines if line.get_color() != OTHERS}
    assert coloured == {"mace"}


def test_series_that_are_no_methods_have_the_colours_in_order() -> None:
    styles = list(series_styles(["a", "b", "c"]).values())
    assert [style.colour for style in styles] == list(OKABE_ITO[:3])
    assert all(a.marker != b.marker and a.dashes != b.dashes for a, b in combinations(styles, 2))


def test_labels_have_options_only_where_they_are_needed() -> None:
    assert short_names(["lore:max_changes=5", "greedy"]) == {"lore:max_changes=5": "lore", "greedy": "greedy"}
    assert short_names(["greedy", "greedy:a=1"]) == {"greedy": "greedy", "greedy:a=1": "greedy: a=1"}
