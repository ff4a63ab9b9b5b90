"""The page of methods: a section for each, with its paper, options and results, and a picture or why there is none."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from reference.every_explainer import ON_NETWORKS
from reference.misbehaving import announced
from reference.sample_rows import LOANS, PRICES, SKIP_REASON, TIME_OUT_REASON, sample_rows

from relax_plugin.cli import main
from relax_plugin.evaluation import tables
from relax_plugin.evaluation.judge import Method, Unit
from relax_plugin.pages import methods
from relax_plugin.pages.methods import describe
from relax_plugin.pages.palette import OKABE_ITO, style_of
from relax_plugin.pages.report import NOTHING
from relax_plugin.registry import BUILT_IN, explainer_class
from relax_plugin.supports import TIERS

ROOT = Path(__file__).resolve().parent.parent.parent
OWN = ("search", "greedy", "move-table", "random-order", "surrogate-search")
STRANGERS = ("stepping", "raising", "extra", "inapplicable", "lying")
QUICK = ("greedy", "nearest-ct", "deepfool")
EVIL = '</script><script>alert(1)</script>"onclick="'


@pytest.fixture(scope="module", autouse=True)
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with announced(tmp_path_factory.mktemp("strangers") / "site"):
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """The page of all methods of this package and some of strangers, made once: exit code and file."""
    path = tmp_path_factory.mktemp("methods") / "methods.html"
    return main(["methods", "--output", str(path), "--methods", *BUILT_IN, *STRANGERS]), path


@pytest.fixture(scope="module")
def sections(whole: tuple[int, Path]) -> dict[str, str]:
    return sections_of(whole[1].read_text())


@pytest.fixture(scope="module")
def quick() -> methods.Pictures:
    return methods.Pictures(methods.described(QUICK)[0])


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def sections_of(page: str) -> dict[str, str]:
    """The HTML of each section by its heading."""
    parts = re.findall(r'<section id="method-\d+".*?</section>', page, re.DOTALL)
    return {unescape(re.search(r"<h2>(.*?)</h2>", part)[1]): part for part in parts}  # type: ignore[index]


def text_of(html: str) -> str:
    html = re.sub(r"<(style|script).*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def table_of(section: str, label: str) -> list[list[str]]:
    box = section.partition(f'aria-label="{label}"')[2].partition("</table>")[0]
    return [
        [text_of(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", line, re.DOTALL)]
        for line in re.findall(r"<tr.*?</tr>", box, re.DOTALL)
    ]


# Every method has its section.


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_has_a_section_with_words_paper_options_and_a_picture(name: str, sections: dict[str, str]) -> None:
    section = sections[name]
    made = describe(name)
    text = text_of(section)
    assert made.what[0].replace("`", "") in text.replace(" ,", ",")
    assert section.count("<svg") == 1
    assert re.search(rf"{name}: \d+ of 10 found", text)
    tier = made.supports.tier
    assert f"tier {tier}: {made.supports.evidence}" in text if tier else "tier none" in text
    if name in OWN:
        assert "of this package" in text
    else:
        assert re.search(r'<a href="https://(arxiv.org/abs/\d{4}\.\d{5}|doi.org/10\.)', section)
    shown = {line[0]: line[1] for line in table_of(section, f"Options of {name}")[1:]}
    assert {option.name: option.default for option in made.options}.items() <= shown.items()
    assert all(line[2] not in ("", methods.NO_MEANING) for line in table_of(section, f"Options of {name}")[1:])


@pytest.mark.slow
def test_methods_are_shown_on_a_model_they_explain(sections: dict[str, str]) -> None:
    for name in BUILT_IN:
        network = name in ON_NETWORKS
        assert ("The model is a network of 32 units." in sections[name]) == network
        assert ("The model is a random forest of 30 trees." in sections[name]) != network
    assert "network, plain function: no, it needs a tree ensemble" in text_of(sections["feat-tweak"])
    assert "random forest, plain function: no, it needs a differentiable network" in text_of(sections["grace"])


@pytest.mark.slow
def test_a_method_of_another_package_has_its_section_and_picture(sections: dict[str, str]) -> None:
    text = text_of(sections["stepping"])
    assert "moves the income to the end of its range" in text
    assert "none is named; of the package reference" in text
    assert "<svg" in sections["stepping"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("raising", 'The method failed on the toy: RuntimeError: no luck today, "really"'),
        ("extra", "The method was skipped because this method needs luck: pip install 'stranger[luck]'."),
        ("inapplicable", "because it explains regression only, and the model is for classification."),
    ],
)
def test_a_method_that_gives_nothing_says_why_in_place_of_its_picture(
    name: str, sentence: str, sections: dict[str, str]
) -> None:
    assert "<svg" not in sections[name]
    assert sentence in text_of(sections[name])


@pytest.mark.slow
def test_a_method_that_lies_is_drawn_as_the_judge_sees_it(sections: dict[str, str]) -> None:
    assert "lying: none of 10 found" in text_of(sections["lying"])


@pytest.mark.slow
def test_a_method_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "LIMIT", 1.0)
    made, _ = methods.described(["hanging"])
    pictures = methods.Pictures(made)
    assert pictures.failed() == ["hanging"]
    assert "too slow for a picture: the method took longer than 1 s and was ended." in methods.render(made, pictures)


@pytest.mark.slow
def test_the_contents_and_the_overview_lead_to_every_section(whole: tuple[int, Path]) -> None:
    page = whole[1].read_text()
    nav = page.partition("<nav")[2].partition("</nav>")[0]
    names = [*BUILT_IN, *STRANGERS]
    assert re.findall(r'href="#method-(\d+)">(.*?)</a>', nav) == [(str(i), name) for i, name in enumerate(names)] * 2, (
        "side by side, and in the menu of a phone"
    )
    overview = {line[0]: line for line in table_of(page, "All methods")[1:]}
    assert list(overview) == names
    assert overview["feat-tweak"][1:6] == ["trees", "no", "yes", "yes", ""]
    assert overview["dice-kdtree"][1:6] == ["any", "yes", "yes", "no", "dice"]
    assert overview["mace"][5] == "exact"
    assert {name: line[6] for name, line in overview.items() if name in BUILT_IN} == {
        name: explainer_class(name)[0].supports.tier for name in BUILT_IN
    }
    assert overview["raising"][7:11] == [NOTHING] * 4


@pytest.mark.slow
def test_all_pictures_stand_side_by_side_before_the_methods(whole: tuple[int, Path], sections: dict[str, str]) -> None:
    page = whole[1].read_text()
    gallery = page.partition('<ul class="gallery">')[2].partition("</ul>")[0]
    assert page.index('<ul class="gallery">') < page.index('aria-label="All methods"') < page.index('id="method-0"')
    drawn = [name for name, section in sections.items() if "<svg" in section]
    assert [unescape(name) for name in re.findall(r"</svg>([\w-]+)</b>", gallery)] == drawn
    for name, used in zip(drawn, re.findall(r'<use href="#(plane-\d+)"', gallery), strict=True):
        assert f'<svg id="{used}"' in sections[name]
        assert gallery.count(f"var(--method-{OKABE_ITO.index(style_of(name).colour)})") >= 2  # line and marker


@pytest.mark.slow
def test_how_to_get_results_is_said_once(whole: tuple[int, Path]) -> None:
    text = text_of(whole[1].read_text())
    assert text.count("relax-plugin methods --results results") == 1
    assert "No results were given" not in text and " Results " not in text


@pytest.mark.slow
def test_the_optimum_of_mace_is_nearest_in_the_overview(whole: tuple[int, Path]) -> None:
    overview = {line[0]: line for line in table_of(whole[1].read_text(), "All methods")[1:]}
    on_trees = [float(line[9]) for name, line in overview.items() if name in BUILT_IN and line[11] == "trees"]
    assert float(overview["mace"][9]) == min(on_trees)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_option_has_a_meaning(name: str) -> None:
    made = describe(name)
    assert all(option.meaning for option in (*made.options, *made.fixed))


def test_options_say_what_is_declared() -> None:
    meanings = {option.name: option.meaning for option in describe("nearest-ct").options}
    largest = "Largest number of features a counterfactual may change."
    assert meanings["max_changes"].startswith(f"{largest} A method that makes more of them")
    assert meanings["reverted"].startswith("Undo, for each of the ten nearest")
    budget = {option.name: option.meaning for option in describe("move-table").options}["max_queries"]
    assert budget == "Model evaluations that one query may cost. None: no limit."
    local = describe("relax-local")
    assert [(option.name, option.default) for option in local.fixed] == [("variant", "'local'")]
    assert "variant" not in [option.name for option in local.options]


# Results.


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return sample_rows()


@pytest.mark.slow
def test_rows_of_the_results_appear_under_their_method(quick: methods.Pictures, rows: pd.DataFrame) -> None:
    made, _ = methods.described(["greedy", "move-table", "relax-global", "lore"])
    found = sections_of(methods.render(made, quick, results=rows))
    summary = tables.summary(rows)
    for name in ("greedy", "relax-global"):
        heading, *lines = table_of(found[name], f"Results of {name}")
        lines = [line for line in lines if ":" not in line[0]]
        assert {line[0] for line in lines} == {LOANS, PRICES}
        for line in lines:
            numbers = summary.loc[(line[0], name)]
            assert line[heading.index("validity")].startswith(f"{100 * numbers['validity']:.1f}%")
            assert line[heading.index("rows a query")] == f"{numbers['rows']:,.1f}"
            assert line[heading.index("queries")] == f"{numbers['instances']:.0f}"
    assert SKIP_REASON in text_of(found["move-table"])
    assert f"{LOANS}, relax-global:effort=policy, seed 1: timed out: {TIME_OUT_REASON}" in text_of(
        found["relax-global"]
    )
    assert "The results hold no run of this method." in found["lore"]


@pytest.mark.slow
def test_options_of_a_measured_method_are_told_apart(quick: methods.Pictures, rows: pd.DataFrame) -> None:
    more = rows[rows["method"] == "greedy"].assign(method="greedy:quantiles=5")
    made, _ = methods.described(["greedy"])
    page = methods.render(made, quick, results=pd.concat([rows, more], ignore_index=True))
    lines = table_of(page, "Results of greedy")[1:]
    assert [line[0] for line in lines] == [LOANS, f"{LOANS} :quantiles=5", PRICES, f"{PRICES} :quantiles=5"]


# The page as a file.


@pytest.mark.slow
def test_the_same_methods_give_the_same_page_when_they_are_run_again(
    quick: methods.Pictures, rows: pd.DataFrame, sections: dict[str, str]
) -> None:
    made, _ = methods.described(QUICK)
    assert methods.render(made, quick, results=rows) == methods.render(made, quick, results=rows)
    again = sections_of(methods.render(made, quick))
    for name in QUICK:  # whose numbers on the page are other ones, since others come before it there
        one, other = (re.sub(r"(plane|method)-\d+(-\w+)?", "", page[name]) for page in (sections, again))
        assert one == other


@pytest.mark.slow
def test_nothing_that_others_write_becomes_markup(quick: methods.Pictures, rows: pd.DataFrame) -> None:
    greedy = describe("greedy")
    option = replace(greedy.options[0], name=EVIL, default=EVIL, meaning=EVIL)
    words: dict[str, Any] = {"name": EVIL, "what": [EVIL], "more": [EVIL, EVIL], "facts": [(EVIL, EVIL)]}
    paper = f"{EVIL}: javascript:alert(1), https://example.org/{EVIL}"
    evil = replace(greedy, **words, paper=paper, options=[option], models={**greedy.models, "network": EVIL})
    pictures = methods.Pictures([])
    crashed = pd.DataFrame([Unit("toy", Method("bad", "bad"), 0).failure("crashed", EVIL)])
    pictures.rows = {EVIL: quick.rows["greedy"], "bad": crashed}
    renamed = rows.assign(task=EVIL, method=EVIL, reason=EVIL)
    page = methods.render([evil, replace(evil, name="bad")], pictures, results=renamed, broken={EVIL: EVIL})
    parsed = Tags(page)
    assert [tag for tag, _ in parsed.tags].count("script") == 1
    assert not [attributes for _, attributes in parsed.tags if any(name.startswith("on") for name in attributes)]
    assert [attributes["href"] for tag, attributes in parsed.tags if tag == "a" and attributes["href"][0] != "#"] == [
        "https://example.org/"
    ] * 2
    assert text_of(page).count(EVIL) > 10


@pytest.mark.slow
def test_no_address_is_loaded_and_no_id_occurs_twice(whole: tuple[int, Path]) -> None:
    page = whole[1].read_text()
    tags = Tags(page).tags
    loaded = [
        attributes[name]
        for tag, attributes in tags
        for name in ("src", "href", "xlink:href")
        if name in attributes and tag != "a"
    ]
    assert len([address for address in loaded if address.startswith("data:image/png")]) == len(BUILT_IN) + 2
    assert all(address.startswith(("#", "data:")) for address in loaded)
    assert all(address.startswith("#") for address in re.findall(r"url\(([^)]*)\)", page))
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(page) < 2_000_000


@pytest.mark.slow
def test_without_matplotlib_the_page_says_what_is_missing(
    quick: methods.Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = methods.render(methods.described(QUICK)[0], quick)
    assert "<figure" not in page
    assert "plots need matplotlib: pip install 'relax-plugin[plots]'" in text_of(page)
    assert table_of(page, "All methods")[1][7] == "100.0%"


# The command.


@pytest.mark.slow
def test_exit_code_says_that_a_method_failed(whole: tuple[int, Path]) -> None:
    assert whole[0] == 1


@pytest.mark.slow
def test_exit_code_is_0_where_nothing_fails_and_json_is_all_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["methods", "--methods", "nearest-ct", "extra", "--output", str(tmp_path / "page.html"), "--json"]
    assert main(arguments) == 0, "what needs an extra is skipped, not failed"
    lines = {line["method"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["nearest-ct"]["found"] == 1.0 and lines["nearest-ct"]["task"] == "toy/trees"
    assert lines["extra"]["state"] == "skipped" and lines["extra"]["found"] is None


def test_the_command_explains_itself_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["methods", "--help"])
    assert end.value.code == 0
    assert "  relax-plugin methods --results bench-results" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--output", "{tmp}/missing/page.html"], "give a file in a folder that exists"),
        (["--output", "{tmp}"], "give a file in a folder that exists"),
        (["--output", "{tmp}/page.html", "--results", "{tmp}"], "holds no results"),
        (["--output", "{tmp}/page.html", "--methods", "greddy"], "did you mean 'greedy'?"),
        (["--output", "{tmp}/page.html", "--jobs", "0"], "jobs is 0"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_done(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["methods", *(argument.format(tmp=tmp_path) for argument in arguments)]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_list_has_the_papers_and_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    papers = {line["method"]: line["paper"] for line in json.loads(capsys.readouterr().out)["methods"]}
    assert papers["feat-tweak"].startswith("Tolomei, Silvestri, Haines, Lalmas: Interpretable Predictions")
    assert [name for name in BUILT_IN if not papers[name]] == list(OWN)
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert "[exact]" in printed and "nan" not in printed


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_of_a_paper_has_a_tier_and_evidence_that_can_be_looked_at(name: str) -> None:
    supports = explainer_class(name)[0].supports
    assert supports.tier in TIERS if supports.paper else supports.tier == supports.evidence == ""
    files = re.findall(r"(?:docs|tests)/[\w/]+\.\w+", supports.evidence)
    assert all((ROOT / file).is_file() for file in files)
    assert bool(files) == bool(supports.paper)


@pytest.mark.slow
def test_list_tells_the_tiers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = {line["method"]: line for line in json.loads(capsys.readouterr().out)["methods"]}
    assert {name: (line["tier"], line["evidence"]) for name, line in listed.items() if name in BUILT_IN} == {
        name: (made.tier, made.evidence) for name in BUILT_IN for made in [explainer_class(name)[0].supports]
    }
    assert main(["list"]) == 0
    assert "from the description only" in " ".join(capsys.readouterr().out.split())


# In a browser.


@pytest.mark.browser
def test_a_browser_shows_every_picture_without_errors_and_without_network(opened, whole: tuple[int, Path]) -> None:
    page = opened(whole[1].as_uri(), viewport={"width": 390, "height": 844}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    sizes = [figure.bounding_box() for figure in page.locator("figure svg").all()]
    page.locator('[aria-label="All methods"] thead button', has_text="distance").click()
    nearest = page.locator('[aria-label="All methods"] tbody tr').first.inner_text()
    assert len(sizes) == len(BUILT_IN) + 2  # a stranger's, and that of one who lies
    assert all(size is not None and size["width"] > 300 and size["height"] > 200 for size in sizes)
    assert nearest.startswith("mace")
