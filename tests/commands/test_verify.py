"""`relax-plugin verify`: what holds is told with exit code 0, what does not is refused by a sentence with code 2."""

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from relax_plugin import make_explainer
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
    assert out.startswith(told["word"].capitalize()[:6])
    assert "put to the model's own predict" in out
    code, out, _ = said(capsys, certificate, "--model", model, "--json")
    assert code == 0
    assert json.loads(out)["claim"] == told["claim"]


def test_a_proof_that_is_only_recorded_has_an_exit_code_of_its_own(files: Any, capsys: Any) -> None:
    certificate, model, _ = files
    code, out, _ = said(capsys, certificate, "--model", model, "--rows", 2)
    assert code == 1
    assert "only recorded" in out


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
