"""`relax-plugin verify`: what holds is told with exit code 0, what does not is refused by a sentence with code 2."""

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from relax_plugin import FeatureSpace, make_explainer
from relax_plugin.certificates.words import checksum
from relax_plugin.cli import main
from relax_plugin.trees.floor import certify

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.integers(0, 9, (300, 4)), columns=list("abcd"))
LABELS = np.where(ROWS["a"] + ROWS["b"] + 0.3 * ROWS["c"] > 9, "yes", "no")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("verify")
    model = RandomForestClassifier(10, max_depth=5, random_state=0).fit(ROWS, LABELS)
    explainer = make_explainer("greedy", model).fit(ROWS)
    certified = certify(explainer.explain(ROWS[:60]), explainer)
    told = [certified.certificate(row) for row in range(60)]
    chosen = next(one for one in told if one["claim"] != "found" and one.get("changes") == 2)
    (folder / "certificate.json").write_text(json.dumps(chosen))
    joblib.dump(model, folder / "model.joblib")
    return folder / "certificate.json", folder / "model.joblib", chosen


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["verify", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_certificate_that_holds_is_told_with_all_that_was_looked_at(files: Any, capsys: Any) -> None:
    certificate, model, told = files
    code, out, _ = said(capsys, certificate, "--model", model)
    assert code == 0
    assert "put to the model's own predict" in out
    parts = ["Query\n", "Counterfactual\n", "Goal\n", "Constraints\n", "Claim\n", "Checks\n", "Verdict\n"]
    assert sorted(parts, key=out.index) == parts
    query = dict(zip("abcd", told["query"], strict=True))
    assert all(f"  {name!r} = {cell}\n" in out.partition("Counterfactual")[0] for name, cell in query.items())
    for name, cell in told["answer"]:
        assert f"  {name!r} = {cell} instead of {query[name]}\n" in out
    assert "  another class\n" in out and "  at most 4 of 4 features change\n" in out
    assert "  'a': from 0.0 to 8.0 in steps of 1.0\n" in out
    assert f"  {told['word']}\n" in out
    assert "the certificate holds: all of it was checked again" in out
    code, out, _ = said(capsys, certificate, "--model", model, "--json")
    assert code == 0
    assert json.loads(out)["claim"] == told["claim"]


def test_a_proof_that_is_only_recorded_has_an_exit_code_of_its_own(files: Any, capsys: Any) -> None:
    certificate, model, _ = files
    code, out, _ = said(capsys, certificate, "--model", model, "--rows", 2)
    assert code == 1
    assert "the certificate holds: the proof is only recorded, not checked again" in out


def test_one_altered_digit_is_refused_before_the_model_is_loaded(files: Any, capsys: Any, tmp_path: Path) -> None:
    certificate, model, told = files
    text = certificate.read_text()
    at = text.index('"changes": 2') + len('"changes": ')
    (tmp_path / "altered.json").write_text(text[:at] + "3" + text[at + 1 :])
    code, _, err = said(capsys, tmp_path / "altered.json", "--model", model)
    assert code == 2
    assert "its checksum is not that of its content" in err
    assert "runs whatever code" not in err
    wrong = {**told, "changes": 3, "word": told["word"].replace("2", "3")}
    (tmp_path / "altered.json").write_text(json.dumps({**wrong, "sha256": checksum(wrong)}))
    code, _, err = said(capsys, tmp_path / "altered.json", "--model", model)
    assert code == 2
    assert "the answer changes 2 features, but 3 are told" in err


def test_another_model_and_what_is_no_certificate_are_refused(files: Any, capsys: Any, tmp_path: Path) -> None:
    certificate, model, _ = files
    joblib.dump(RandomForestClassifier(10, random_state=1).fit(ROWS, LABELS), tmp_path / "other.joblib")
    code, _, err = said(capsys, certificate, "--model", tmp_path / "other.joblib")
    assert code == 2
    assert "is refused: the model is another one" in err
    (tmp_path / "cut.json").write_text(certificate.read_text()[:-40])
    (tmp_path / "list.json").write_text("[1, 2]")
    for name, told in (("cut.json", "not JSON, or it is cut off"), ("list.json", "no certificate"), ("no", "no file")):
        code, _, err = said(capsys, tmp_path / name, "--model", model)
        assert code == 2
        assert told in err


def test_escape_sequences_and_line_breaks_of_a_table_are_printed_escaped(capsys: Any, tmp_path: Path) -> None:
    odd = "a\x1b]0;pwned\x07"
    rows = ROWS.set_axis([odd, "b", "c", "d"], axis=1).assign(kind=np.where(ROWS["d"] > 4, "\x1b[2J\nquery", "other"))
    rows["total"] = rows[odd] + rows["b"]
    encoded = make_column_transformer((OrdinalEncoder(), ["kind"]), remainder="passthrough")
    model = make_pipeline(encoded, RandomForestClassifier(10, random_state=0)).fit(rows, LABELS)
    space = FeatureSpace.infer(rows, derived={"total": f"`{odd}` + b"}, rules=[f"`{odd}` >= 0"])
    result = make_explainer("greedy", model, space).fit(rows).explain(rows[:10])
    (tmp_path / "certificate.json").write_text(json.dumps(result.certificate(int(result.found.argmax()))))
    joblib.dump(model, tmp_path / "model.joblib")
    code, out, err = said(capsys, tmp_path / "certificate.json", "--model", tmp_path / "model.joblib")
    assert code in (0, 1), err
    assert "column 'total' is computed: `a\\x1b]0;pwned\\x07` + b" in out and "'\\x1b[2J\\nquery'" in out
    assert all(line.isprintable() for line in out.splitlines()) and out.splitlines().count("Verdict") == 1
