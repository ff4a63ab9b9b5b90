"""The example of docs/serving.md runs: a real server on this machine, asked as a web client asks."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relax_plugin.evaluation.tasks import load_task

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PATIENCE = 300  # seconds, on a busy machine


def ask(address: str, sent: Any = None) -> Any:
    body = None if sent is None else json.dumps(sent).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    typed = ["-m", "uvicorn", "serving:app", "--app-dir", str(EXAMPLES), "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen([sys.executable, *typed], env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                ask(f"http://127.0.0.1:{port}/features")
                break
            except urllib.error.URLError:
                assert server.poll() is None and time.monotonic() < end, "the server does not answer"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(120)


def test_a_row_as_json_gets_its_counterfactual_as_json(address: str) -> None:
    task = load_task("diabetes/ada")
    rows = json.loads(task.X_test.iloc[:3].to_json(orient="records"))
    one = ask(f"{address}/explain", rows[0])
    assert one["solved"] == 1
    record = one["queries"][0]
    (found,) = record["counterfactuals"]
    assert found["found"] and record["query"] == rows[0] and found["sentence"]
    assert {change["feature"] for change in found["changes"]} == {
        name for name, cell in found["row"].items() if cell != rows[0][name]
    }
    assert task.model.predict(task.X_test.iloc[:0].reindex([0]).assign(**found["row"]))[0] == found["answer"]
    several = ask(f"{address}/explain", rows)
    assert [query["query"] for query in several["queries"]] == rows
    first = several["queries"][0]["counterfactuals"][0]
    assert first["row"] == found["row"], "a row is answered as if it were alone"


def test_what_is_wrong_with_a_row_is_told_in_a_sentence(address: str) -> None:
    names = [feature["name"] for feature in ask(f"{address}/features")]
    assert names == list(load_task("diabetes/ada").X_test.columns)
    for sent, query, told in (
        (dict.fromkeys(names[1:], 1.0), "", repr(names[0])),
        (dict.fromkeys(names, 1.0) | {names[0]: "many"}, "", "'many'"),
        (dict.fromkeys(names, 1.0), "?vary=nothing", "'nothing'"),
        (dict.fromkeys(names, 1.0), "?n=0", "n is 0"),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"{address}/explain{query}", sent)
        assert refused.value.code == 422
        assert told in json.load(refused.value)["detail"]


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (EXAMPLES.parent / "docs" / "serving.md").read_text(encoding="utf-8")
    code = (EXAMPLES / "serving.py").read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert f"```python\n{code}```" in page
