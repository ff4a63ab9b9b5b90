"""The app behind the what-if page: who is let in, hostile questions, a model that raises or sleeps. It stays up."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from reference.what_if import HOSTILE, Loans, session
from starlette.testclient import TestClient

from relax_plugin.whatif.app import MOST_BYTES, Doorkeeper, new_token, what_if_app
from relax_plugin.whatif.session import WhatIf

TOKEN = "a-token"
PORT = 8765
HOME = f"http://127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def own() -> WhatIf:
    return session(setup="# how it was made", title=f"What if {HOSTILE}")


@pytest.fixture
def client(own) -> Iterator[TestClient]:
    """Whatever a test did, the page answers afterwards."""
    with TestClient(what_if_app(own, TOKEN, PORT), base_url=HOME) as client:
        yield client
        assert client.post(f"/{TOKEN}/predict", json={"row": 0, "cells": {"age": 40}}).status_code == 200


def asked(client: TestClient, sent: Any, what: str = "explain") -> tuple[int, Any]:
    answer = client.post(f"/{TOKEN}/{what}", json=sent)
    return answer.status_code, answer.json()


def test_the_page_and_what_it_is_made_of_are_served_and_hold_no_markup_of_the_data(client):
    page = client.get(f"/{TOKEN}/")
    assert page.headers["content-type"].startswith("text/html")
    assert "<img" not in page.text and "http" not in page.text.replace("http-equiv", "")
    data = page.text.partition('id="what-if">')[2].partition("</script>")[0]
    assert json.loads(data)["setup"] == "# how it was made"
    for name, kind in (("whatif.js", "text/javascript"), ("whatif.css", "text/css")):
        part = client.get(f"/{TOKEN}/{name}")
        assert part.status_code == 200 and part.headers["content-type"].startswith(kind)
        assert "http" not in part.text


@pytest.mark.parametrize("path", ["/", "/wrong/", "/a-token2/", "/a-toke/rows", "//a-token/", "/rows", "/%61-token/x"])
def test_without_the_token_nothing_is_served(client, path):
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code == (404 if path == "/%61-token/x" else 403)
    assert "customer" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "0.0.0.0:8765", ""])
def test_under_another_hosts_name_nothing_is_served(client, host):
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 403


def test_the_page_answers_by_the_names_of_this_machine(client):
    for host in ("localhost:8765", "127.0.0.1:8765", "[::1]:8765"):
        assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("localhost:80@evil.example", "localhost:8765@evil.example", "127.0.0.1:1", "localhost", "127.0.0.1"),
        *("LOCALHOST:8765 ", "[::1]", "[::1]:1", "localhost:08765", "localhost:8765:8765", "user@localhost:8765"),
    ],
)
def test_only_the_host_and_port_that_are_served_are_answered(client, host):
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        *("http://localhost:80@evil.example", "http://127.0.0.1:9999", "https://127.0.0.1:8765", "http://127.0.0.1"),
        *("http://127.0.0.1:8765/..", "http://localhost:8765", "127.0.0.1:8765", "ftp://127.0.0.1:8765", ""),
    ],
)
def test_only_the_page_itself_is_answered(client, origin):
    assert client.get(f"/{TOKEN}/", headers={"origin": origin}).status_code == 403


def test_two_hosts_or_one_wrong_origin_of_two_are_refused(client):
    for headers in (
        [("host", "127.0.0.1:8765"), ("host", "127.0.0.1:8765")],
        [("origin", HOME), ("origin", "http://evil.example")],
    ):
        assert client.get(f"/{TOKEN}/", headers=headers).status_code == 403


def test_port_80_may_be_left_out(own):
    with TestClient(what_if_app(own, TOKEN, 80), base_url="http://localhost") as client:
        assert client.get(f"/{TOKEN}/", headers={"origin": "http://localhost"}).status_code == 200


@pytest.mark.parametrize("path", ["*", "", "nothing", f"{TOKEN}"])
def test_a_target_without_a_slash_is_refused_or_not_there(own, path):
    scope = {"type": "http", "path": path, "headers": [(b"host", b"127.0.0.1:8765")]}
    why = Doorkeeper(what_if_app(own, TOKEN, PORT), TOKEN, PORT).refusal(scope)
    assert (why is None) == (path == TOKEN)


@pytest.mark.slow
def test_other_pages_get_no_answer_and_no_permission(client):
    assert (
        client.post(f"/{TOKEN}/explain", json={"row": 0}, headers={"origin": "https://evil.example"}).status_code == 403
    )
    assert client.post(f"/{TOKEN}/explain", json={"row": 0}, headers={"origin": "null"}).status_code == 403
    assert client.post(f"/{TOKEN}/explain", json={"row": 0}, headers={"origin": HOME}).status_code == 200
    asked_before = client.options(f"/{TOKEN}/explain", headers={"access-control-request-method": "POST"})
    assert asked_before.status_code == 405
    form = client.post(f"/{TOKEN}/explain", content=b'{"row": 0}', headers={"content-type": "text/plain"})
    assert form.status_code == 415
    for answer in (asked_before, form, client.get("/"), client.get(f"/{TOKEN}/")):
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_tokens_are_long_and_never_the_same():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100 and all(len(token) >= 32 for token in tokens)


HOSTILE_QUESTIONS = [
    (7, "the question is 7"),
    ([], "the question is a list"),
    ({}, "no row None"),
    ({"row": -1}, "no row -1; there are 0 to 119"),
    ({"row": 120}, "no row 120"),
    ({"row": True}, "no row True"),
    ({"row": "0"}, "no row '0'"),
    ({"row": 0, "rwo": 1}, "did you mean 'row'?"),
    ({"row": 0, "cells": []}, "cells is a list"),
    ({"row": 0, "cells": {"aeg": 3}}, "did you mean 'age'?"),
    ({"row": 0, "cells": {"total": 3}}, "computed from others"),
    ({"row": 0, "cells": {"age": "old"}}, "feature 'age' is 'old'; a number is needed"),
    ({"row": 0, "cells": {"age": 1.5}}, "a whole number is needed"),
    ({"row": 0, "cells": {"age": True}}, "a number is needed"),
    ({"row": 0, "cells": {"age": 10**400}}, "too long"),
    ({"row": 0, "cells": {"age": 1e300}}, "its column holds"),
    ({"row": 0, "cells": {"age": None}}, "missing, which it is in no training row"),
    ({"row": 0, "cells": {"town": "Paris"}}, "feature 'town' has no category 'Paris'"),
    ({"row": 0, "cells": {"town": {"a": 1}}}, "no category a mapping"),
    ({"row": 0, "cells": {"remark": "x"}}, "names feature 'remark'"),
    ({"row": 0, "features": {"age": {"locked": "yes"}}}, "true or false is needed"),
    ({"row": 0, "features": {"age": {"low": "x"}}}, "a number is needed"),
    ({"row": 0, "features": {"age": {"low": 60, "high": 20}}}, "'age'"),
    ({"row": 0, "features": {"age": {"categories": ["a"]}}}, "say low and high"),
    ({"row": 0, "features": {"age": {"direction": "down"}}}, "both increase_only and decrease_only"),
    ({"row": 0, "features": {"town": {"direction": "up"}}}, "have no order"),
    ({"row": 0, "features": {"town": {"low": 1}}}, "say categories"),
    ({"row": 0, "features": {"town": {"categories": []}}}, "name some, or lock it"),
    ({"row": 0, "features": {"town": {"categories": ["Paris"]}}}, "no category 'Paris'"),
    ({"row": 0, "features": {"town": {"direction": "sideways"}}}, "direction of feature 'town'"),
    ({"row": 0, "features": {"twon": {"locked": True}}}, "did you mean 'town'?"),
    ({"row": 0, "goal": {"kind": "shift", "delta": 3}}, "'flip', 'to'"),
    ({"row": 0, "goal": {"kind": ["to"]}}, "of kind a list"),
    ({"row": 0, "goal": {"kind": "to", "label": "maybe"}}, "no class 'maybe'"),
    ({"row": 0, "goal": {"kind": "to", "label": "yes", "min_probability": 3}}, "between 0 and 1"),
    ({"row": 0, "goal": {"kind": "flip", "delta": 3}}, "the goal has 'delta'"),
    ({"row": 0, "n": 0}, "from 1 to 10"),
    ({"row": 0, "n": 10**9}, "from 1 to 10"),
    ({"row": 0, "n": 2.5}, "from 1 to 10"),
    ({"row": 0, "max_changes": 99}, "from 1 to 7"),
    ({"row": 0, "plausible": "perhaps"}, "plausible is 'perhaps'"),
    ({"row": 0, "plausible": {}}, "plausible is a mapping"),
    ({"row": 0, "tab": "../../etc"}, "letters and digits"),
    (
        {"row": 0, "features": {name: {"locked": True} for name in ("age", "income", "rent", "town", "size", "job")}},
        None,
    ),
]


@pytest.mark.parametrize(("sent", "told"), HOSTILE_QUESTIONS)
def test_a_wrong_question_is_answered_by_a_sentence(client, sent, told):
    status, answer = asked(client, sent)
    if told is None:  # nothing may change: the explainer itself says so, in its answer or by refusing
        assert status == 400 or not any(one["found"] for one in answer["alternatives"])
        return
    assert status == 400 and told.lower() in answer["error"].lower()
    assert len(answer["error"]) < 400


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"\xff\xfe", b'{"row": NaN}', b'{"row": Infinity}', b"[" * 100_000, b"9" * 10_000],
)
def test_what_is_no_json_is_told_so(client, body):
    answer = client.post(f"/{TOKEN}/explain", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "error" in answer.json()


def test_a_question_that_is_too_long_is_not_read(client):
    body = b'{"row": 0, "tab": "' + b"a" * MOST_BYTES + b'"}'
    answer = client.post(f"/{TOKEN}/explain", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413 and str(MOST_BYTES) in answer.json()["error"]


def test_a_long_unknown_name_is_neither_compared_nor_repeated(client):
    status, answer = asked(client, {"row": 0, "cells": {"x" * 100_000: 1}})
    assert status == 400 and len(answer["error"]) < 400


def test_rows_are_found_and_strange_addresses_are_nothing(client):
    assert client.get(f"/{TOKEN}/rows", params={"search": "person 3"}).json()["rows"][0]["row"] == 3
    assert client.get(f"/{TOKEN}/rows", params={"search": "x" * 1000}).status_code == 400
    assert client.get(f"/{TOKEN}/row/7").json()["name"] == "customer 1007"
    assert client.get(f"/{TOKEN}/row/999").status_code == 400
    for path in (
        "row/x",
        "row/-1",
        "row/" + "9" * 5000,
        "row/" + "9" * 4000,
        "row/1_0",
        "row/\u0661",
        "nothing",
        "../etc/passwd",
        "whatif.html.jinja",
    ):
        assert client.get(f"/{TOKEN}/{path}").status_code in (403, 404)
    assert client.post(f"/{TOKEN}/answers", json=[1, "2"]).status_code == 400
    assert client.post(f"/{TOKEN}/answers", json={"a": 1}).status_code == 400


@pytest.mark.slow
def test_the_history_is_downloaded_as_json_and_csv_without_formulas(own):
    with TestClient(what_if_app(own, TOKEN, PORT), base_url=HOME) as client:
        asked(client, {"row": 3, "n": 2, "tab": "mine"})
        asked(client, {"row": 3, "cells": {"age": 50}, "tab": "mine"}, "predict")
        kept = client.get(f"/{TOKEN}/history.json", params={"tab": "mine"})
        assert "attachment" in kept.headers["content-disposition"]
        assert [one["kind"] for one in kept.json()] == ["asked", "tried"] and "explainer.explain" in kept.json()[0][
            "python"
        ]
        lines = client.get(f"/{TOKEN}/history.csv", params={"tab": "mine"}).text.splitlines()
        assert lines[0].startswith("number,time,kind,row") and len(lines) == 1 + 2 + 1
        assert client.get(f"/{TOKEN}/history.csv", params={"tab": "!"}).status_code == 400
        assert client.get(f"/{TOKEN}/history", params={"tab": "other"}).json() == []


def test_a_model_that_raises_is_named_and_the_page_stays_up(client):
    for what in ("predict", "explain"):
        status, answer = asked(client, {"row": 0, "cells": {"age": 99}}, what)
        assert status == 502
        assert answer["error"] == "The model refuses row 1000 (position 0): it raised ValueError: no luck today"


def test_what_nobody_foresaw_is_told_and_logged(client, own, monkeypatch, caplog):
    def broken(sent: Any) -> Any:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(own, "explain", broken)
    status, answer = asked(client, {"row": 0})
    assert status == 500 and answer["error"] == "This could not be answered: ZeroDivisionError a fault of ours"
    assert "could not be answered" in caplog.text


@pytest.mark.slow
def test_a_model_that_is_too_slow_is_told_of_and_others_are_answered():
    model = Loans()
    own = session(model=model)
    with TestClient(what_if_app(own, TOKEN, PORT, patience=1.5), base_url=HOME) as client:
        model.sleeps = 4.0
        status, answer = asked(client, {"row": 0})
        assert status == 503 and "not answered within 1.5 seconds" in answer["error"]
        model.sleeps = 0.0
        assert client.get(f"/{TOKEN}/row/0").status_code == 200
