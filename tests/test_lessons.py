"""The lessons of examples/ run, are notebooks, and have exercises with solutions, which test_solutions.py runs."""

import ast
import re

import jupytext
import pytest
from lesson_files import EXAMPLES, LESSONS, SOLUTIONS, check_script, command, name, run

QUICKEST = next((path for path in LESSONS if path.stem.startswith("03")), LESSONS[0])
EXERCISE = re.compile(r"^## Exercise (\d+): (.+)$", re.MULTILINE)
NETWORK = {"ftplib", "http", "httpx", "requests", "socket", "urllib", "urllib3"}

notebooks, render = command("notebooks"), command("render")


def sections(path):
    """The code that follows each heading of an exercise, by number and title."""
    found, current = {}, None
    for cell in jupytext.read(path).cells:
        if cell.cell_type == "markdown":
            headings = EXERCISE.findall(cell.source)
            assert len(headings) <= 1, "one exercise a cell"
            current = headings[0] if headings else current
            if headings:
                assert current not in found
                found[current] = ""
        elif current is not None:
            found[current] += cell.source + "\n"
    return found


def can_fail(code):
    """Whether something is asserted that is not the same whatever the code before it did."""
    asserted = [node.test for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Assert)]
    return any(isinstance(part, ast.Name | ast.Call) for test in asserted for part in ast.walk(test))


# The quickest is run below, as a notebook.
@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in LESSONS if path != QUICKEST], ids=name)
def test_lesson_runs_as_a_script(path, tmp_path):
    check_script(path, tmp_path)


def test_there_are_eight_lessons_and_each_has_its_solutions():
    assert [path.name[:2] for path in LESSONS] == [f"{number:02}" for number in range(1, 9)]
    assert [path.name for path in SOLUTIONS] == [path.name for path in LESSONS]


@pytest.mark.parametrize("lesson", LESSONS, ids=name)
def test_every_exercise_has_a_solution_that_can_fail(lesson):
    asked, solved = sections(lesson), sections(EXAMPLES / "solutions" / lesson.name)
    assert [int(number) for number, _ in asked] == list(range(1, len(asked) + 1))
    assert 2 <= len(asked) <= 3
    assert list(solved) == list(asked)
    for (number, title), code in solved.items():
        assert can_fail(code), f"{number}: {title}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("found = 1", False),
        ("assert True", False),
        ("found = 1\nassert 1 < 2, found", False),
        ("assert found > 1", True),
        ("if found:\n    assert result.found.all()", True),
    ],
)
def test_what_always_holds_is_no_solution(code, expected):
    assert can_fail(code) is expected


@pytest.mark.parametrize("path", [*LESSONS, *SOLUTIONS], ids=name)
def test_lesson_is_a_notebook_that_jupytext_writes_as_it_was(path):
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    assert jupytext.writes(notebook, fmt="py:percent") == text
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds[0] == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    assert kinds.count("markdown") >= 3
    assert kinds.count("code") >= 3


@pytest.mark.parametrize("path", [*LESSONS, *SOLUTIONS], ids=name)
def test_lesson_needs_neither_the_network_nor_a_folder_of_its_author(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert "://" not in node.value
            assert not re.match(r"/\w|[A-Za-z]:\\|~/", node.value)
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert not {module.split(".")[0] for module in modules} & NETWORK
            assert not [alias.name for alias in node.names if alias.name.startswith("fetch_")]


@pytest.mark.slow
def test_lesson_becomes_a_page_with_its_figures_that_fetches_nothing(tmp_path):
    done = run([EXAMPLES / "render.py", "--output", tmp_path / "pages", QUICKEST.stem], tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.match(rf"{QUICKEST.stem}: \d+ s\n", done.stdout)
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"index.html", f"{QUICKEST.stem}.html"}
    page = (tmp_path / "pages" / f"{QUICKEST.stem}.html").read_text(encoding="utf-8")
    assert 'src="data:image/png;base64,' in page
    assert "&lt;Figure size" not in page
    assert 'data-mime-type="application/vnd.jupyter.stderr"' not in page  # no warnings
    assert render.fetched(page) == []
    index = (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="(.*?)"', index) == [f"{QUICKEST.stem}.html"]
    assert "in one lesson<" in index
    assert "%pip" not in page and "Colab" not in page  # cells of notebooks only


@pytest.fixture
def own_lesson(tmp_path, monkeypatch):
    """A folder of lessons of our own, and a function that puts one into it."""
    monkeypatch.setattr(notebooks, "EXAMPLES", tmp_path)

    def write(code):
        (tmp_path / "01_own.py").write_text(f"# %% [markdown]\n# # Own\n#\n# About.\n\n# %%\n{code}\n")

    return write


@pytest.mark.slow
def test_lesson_that_fails_is_named_and_leaves_no_page(own_lesson, tmp_path, capfd):
    own_lesson("raise ArithmeticError('on purpose')")
    assert render.main(["--output", str(tmp_path / "pages")]) == 1
    told = capfd.readouterr().err
    assert "01_own: failed" in told
    assert "on purpose" in told
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["index.html"]


@pytest.mark.slow
def test_page_that_would_fetch_something_is_not_written(own_lesson, tmp_path, capfd):
    own_lesson("from IPython.display import HTML\n\nHTML('<script src=\"https://example.org/a.js\"></script>')")
    assert render.main(["--output", str(tmp_path / "pages")]) == 1
    assert "would fetch https://example.org/a.js" in capfd.readouterr().err
    assert not (tmp_path / "pages" / "01_own.html").exists()


def test_index_numbers_each_lesson_once_and_shows_no_markdown():
    index = render.index_page(LESSONS)
    assert "in eight lessons<" in index
    assert re.findall(r'<li value="(\d+)"><a href="(.*?)\.html">(.*?)</a>', index) == [
        (str(number), path.stem, render.heading(path)[0].partition(". ")[2]) for number, path in enumerate(LESSONS, 1)
    ]
    items = index.partition("<ol>")[2]
    assert not re.search(r"\*|`|^#|\]\(", items, re.MULTILINE)
    assert "<em>missing values</em>" in items  # of lesson 8: Markdown became markup


def test_pages_lead_to_their_neighbours_that_exist():
    links = {path: re.findall(r'href="(.*?)\.html"', render.navigation(path, LESSONS)) for path in LESSONS}
    assert links[LESSONS[0]] == ["index", LESSONS[1].stem]
    assert links[LESSONS[3]] == ["index", LESSONS[2].stem, LESSONS[4].stem]
    assert links[LESSONS[-1]] == ["index", LESSONS[-2].stem]
    some = [LESSONS[1], LESSONS[5]]
    assert re.findall(r'href="(.*?)\.html"', render.navigation(LESSONS[5], some)) == ["index", LESSONS[1].stem]
    assert "6. Comparing" in render.navigation(LESSONS[1], some)


@pytest.mark.slow
def test_stored_notebooks_become_pages_without_being_run(tmp_path):
    assert render.main(["--stored", "--output", str(tmp_path), "01", "02"]) == 0
    first, second = ((tmp_path / f"{path.stem}.html").read_text(encoding="utf-8") for path in LESSONS[:2])
    assert first.count(f'href="{LESSONS[1].stem}.html" rel="next"') == 2  # above and below
    assert f'href="{LESSONS[0].stem}.html" rel="prev"' in second
    assert "%pip" not in first and 'src="data:image/png;base64,' in first


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<img src="data:image/png;base64,AA">', []),
        ('<a href="https://example.org">link</a>', []),
        ("<style>/* https://example.org */ p { color: red }</style>", []),
        ("<script>let address = '<script src=https://example.org>'</script>", []),
        ('<link rel="stylesheet" href="https://example.org/a.css">', ["https://example.org/a.css"]),
        ('<img alt="" src="picture.png"/>', ["picture.png"]),
        ("<style>p { background: url('https://example.org/a.png') }</style>", ["a style sheet"]),
    ],
)
def test_what_a_page_fetches_is_found(text, found):
    assert render.fetched(text) == found
