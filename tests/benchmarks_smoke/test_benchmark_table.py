"""The table of `make bench`: ratios within groups, on one row of work, from the JSON of pytest-benchmark."""

import json
import math

import pandas as pd
import pytest

from benchmarks.speed.ratios import main, table_of, text_of


def benchmark(label, seconds, group="generation", **info):
    """One benchmark as pytest-benchmark writes it, as far as the table reads it."""
    name = f"test_speed[{label}]"
    stats = {"min": seconds, "max": 9.0, "mean": 8.0, "rounds": 3}
    return {
        "group": group,
        "name": name,
        "fullname": f"file.py::{name}",
        "param": label,
        "stats": stats,
        "extra_info": info,
    }


GENERATION = [
    benchmark("greedy", 4.0, rows=200, yardstick=True, cpu_seconds=2.0, validity=1.0),  # 0.02 s a row
    benchmark("policy", 1.0, rows=200, cpu_seconds=0.5, validity=0.5),  # 0.005
    benchmark("slow", 6.0, rows=10, cpu_seconds=6.0, validity=1.0),  # 0.6
]


def by_label(benchmarks, **options):
    return table_of(benchmarks, **options).set_index("label")


def test_ratios_are_of_seconds_a_row_to_the_yardstick():
    table = by_label(GENERATION)
    assert table["ratio"].to_dict() == pytest.approx({"greedy": 1.0, "policy": 0.25, "slow": 30.0})
    assert table["cpu_ratio"].to_dict() == pytest.approx({"greedy": 1.0, "policy": 0.25, "slow": 60.0})
    assert table["rows_per_second"].to_dict() == pytest.approx({"greedy": 50.0, "policy": 200.0, "slow": 10 / 6})
    assert table["wall_over_cpu"].to_dict() == pytest.approx({"greedy": 2.0, "policy": 2.0, "slow": 1.0})
    assert table.loc["policy", "validity"] == 0.5


def test_without_a_yardstick_the_fastest_counts_as_one():
    table = by_label([benchmark("a", 3.0, rows=3), benchmark("b", 2.0, rows=4), benchmark("c", 5.0)])
    assert table["ratio"].to_dict() == pytest.approx({"a": 2.0, "b": 1.0, "c": 10.0})
    assert set(table["relative_to"]) == {"b"}


def test_a_named_yardstick_comes_before_the_marked_one():
    assert by_label(GENERATION, yardstick="policy")["ratio"]["greedy"] == pytest.approx(4.0)
    assert by_label(GENERATION, yardstick="of no group")["ratio"]["greedy"] == 1.0


def test_groups_are_apart_and_a_missing_one_is_the_test_itself():
    table = table_of([*GENERATION, benchmark("x", 8.0, group=None), benchmark("y", 2.0, group=None)])
    assert table["group"].tolist() == ["generation"] * 3 + ["file.py::test_speed"] * 2
    assert table["ratio"].tolist()[3:] == [4.0, 1.0]
    assert math.isnan(table["cpu_ratio"].iloc[3])  # what was not measured is not made up
    assert "file.py::test_speed (y = 1)" in text_of(table)


def test_the_table_lies_beside_the_json(tmp_path, capsys):
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps({"benchmarks": GENERATION, "machine_info": {"load": 0.5}}))
    main([str(path), "--json"])
    records = json.loads(capsys.readouterr().out)
    assert [record["label"] for record in records] == ["greedy", "policy", "slow"]
    assert pd.read_csv(tmp_path / "ratios.csv")["ratio"].tolist() == pytest.approx([1.0, 0.25, 30.0])
    assert {file.name for file in tmp_path.iterdir()} == {"benchmarks.json", "ratios.csv"}


def test_what_is_kept_says_how_busy_the_machine_was_and_loses_no_other_group(tmp_path):
    path, kept = tmp_path / "benchmarks.json", tmp_path / "speed.csv"
    for load, benchmarks in [
        (0.5, [*GENERATION, benchmark("x", 8.0, group="fit")]),
        (3.0, [benchmark("x", 4.0, group="fit")]),
    ]:
        path.write_text(json.dumps({"benchmarks": benchmarks, "machine_info": {"load": load}}))
        main([str(path), "--keep", str(kept)])
    table = pd.read_csv(kept)
    assert table["label"].tolist() == ["greedy", "policy", "slow", "x"]
    assert table["load"].tolist() == [0.5, 0.5, 0.5, 3.0]
    assert table["seconds"].iloc[-1] == 4.0
    assert table["versions"].str.contains("torch").all()


@pytest.mark.parametrize("text", ["", "[]", '{"benchmarks": '])
def test_another_file_is_refused_in_a_sentence(tmp_path, text):
    path = tmp_path / "benchmarks.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match="is no JSON file of pytest-benchmark"):
        main([str(path)])
    assert not (tmp_path / "ratios.csv").exists()
