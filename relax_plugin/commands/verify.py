"""`relax-plugin verify`: a certificate checked again on the model that it is about."""

import argparse
import json
from pathlib import Path
from typing import Any

from relax_plugin.commands.output import DONE, INCOMPLETE, whole
from relax_plugin.errors import CertificateError, InputError
from relax_plugin.formatting import printable

EXAMPLES = """examples:
  relax-plugin verify certificate.json --model model.joblib
  relax-plugin verify certificate.json --model model.joblib --rows 1000000
      ask the model up to a million rows to show the proof again

exit codes:
  0  all of it holds, and was shown again
  1  the answer holds, but its proof is only recorded: showing it again would take more rows than --rows allows
  2  refused: the sentence says what does not hold
"""
MOST_ROWS = 100_000
LARGEST = 10**9


def add(commands: Any) -> None:
    """Describe the command's arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="check a certificate of an answer again, on the model that it is about",
        description="Reads what `Counterfactuals.certificate` wrote and checks it by other code than that which made\n"
        "it: checksum, model, the model's own predict, every constraint, the number of changes, the proof.\n"
        "Prints the query, the counterfactual, the constraints and the claim, then what was checked and the verdict.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("certificate", type=Path, metavar="CERTIFICATE", help="a JSON file")
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="FILE",
        help="joblib or ONNX file; loading the former runs whatever code it contains",
    )
    parser.add_argument(
        "--rows",
        type=whole(0, LARGEST),
        default=MOST_ROWS,
        metavar="ROWS",
        help=f"that the model may be asked to show a proof again (default {MOST_ROWS})",
    )
    parser.add_argument("--json", action="store_true", help="print what was checked as JSON and nothing else")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Check the certificate, and print what was looked at."""
    for path in (chosen.certificate, chosen.model):
        if not path.is_file():
            raise InputError(f"there is no file {path}.")

    from relax_plugin.certificates.checking import check, probed_rows, read_certificate
    from relax_plugin.commands.models import load_model
    from relax_plugin.commands.output import said_warnings

    try:
        told = read_certificate(chosen.certificate)
        rows, task = probed_rows(told)  # before the model is loaded, which may run code
        model, _ = load_model(chosen.model, rows, chosen.certificate, task)
        with said_warnings():
            checked = check(told, model, most_rows=chosen.rows)
    except CertificateError as error:
        raise CertificateError(f"{chosen.certificate} is refused: {error}") from error
    if chosen.json:
        print(json.dumps(vars(checked), indent=1))
    else:
        print("\n".join(map(printable, [*checked.about, "Checks", *(f"  {line}" for line in checked.checks)])))
        shown = "all of it was checked again" if checked.proved else "the proof is only recorded, not checked again"
        print(f"Verdict\n  the certificate holds: {shown}\nModel evaluations: {checked.rows}.")
    return DONE if checked.proved else INCOMPLETE
