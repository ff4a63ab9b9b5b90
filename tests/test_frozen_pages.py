"""HTML pages are as they were, digits aside; after a wanted change `python tests/frozen_pages.py` writes them."""

import pytest
from frozen_pages import FOLDER, PAGES, normalised


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_is_the_one_that_was_frozen(name: str) -> None:
    assert normalised(PAGES[name]()) == (FOLDER / f"{name}.html").read_text(encoding="utf-8")


def test_every_frozen_page_is_made() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PAGES)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("<h2>Row 3: 1,234.5 of -7e-05</h2>", "<h2>Row <n>: <n> of <n></h2>\n"),
        ("<p>1, 2, 3</p><p>L1</p>", "<p><n></p>\n<p>L1</p>\n"),
        ('<p id="task-0" style="width: 3%">a  b</p>', '<p id="task-0">a b</p>\n'),
        ('<svg aria-label="Bars"><path d="M0"/><text>fast</text><text>7</text></svg>', "<svg>Bars: fast | <n></svg>\n"),
        ("<style>a {}</style><script>f(1)</script>", "<style></style>\n<script></script>\n"),
        (
            '<script type="application/json">{"a": [1, 2, 3], "b": {"unit": 1, "bytes": 2, "data": "x1"}}</script>',
            '<script type="application/json">\n{\n"a": [\n<n>\n],\n"b": "packed"\n}\n</script>\n',
        ),
    ],
)
def test_what_depends_on_the_run_is_normalised(page: str, told: str) -> None:
    assert normalised(page) == told
