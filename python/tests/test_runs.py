import pandas as pd
import pytest

from conftest import write_run
from diorama_runs import Comparison, NotARun, Run, Runs, Sweep, tables
from diorama_runs.export import main


def test_a_run_is_opened_by_its_directory(run_directory):
    run = Run(run_directory)
    assert (run.experiment, run.variant, run.tdf, run.is_trustworthy) == ("web", "scaled", 10, True)
    latency = run.metrics["latency"]
    assert (latency.unit, latency.n, latency.p50, latency.interval["p50"]) == ("ms", 3, 2.0, (1.9, 2.1))
    assert latency.interval["p99"] is None
    assert list(latency.samples["value"]) == [1.0, 2.0, 3.0]
    assert list(latency.effects["check"]) == ["steal", "clock-lead"]
    assert latency.effects["high_percent"][0] == 0.1 and pd.isna(latency.effects["high_percent"][1])
    assert run.metrics["requests"].samples["virtual_s"].isna().all()
    assert run.summary.loc["latency", "p50_high"] == 2.1 and pd.isna(run.summary.loc["requests", "p50_high"])
    assert run.checks["name"].tolist() == ["steal"]
    assert run.events.query("event == 'exit'")["target"].tolist() == ["a"]
    assert run.events["detail"][0] == {"seed": 1}
    assert run.pipes["utilisation"].sum() == 0.5
    assert run.disks.empty and run.used["cpus"].tolist() == [0.25]
    assert run.log("a").startswith("hello")
    with pytest.raises(KeyError, match="the run's nodes: a"):
        run.log("b")


def test_a_record_of_others_names_no_file_but_its_own(run_directory):
    record = run_directory / "result.json"
    text = record.read_text()
    for name in ["/etc/passwd", "../other.csv", "metrics/../../x.csv"]:
        record.write_text(text.replace("metrics/latency.csv", name))
        with pytest.raises(ValueError, match="no file of this run"):
            Run(run_directory).metrics
    (run_directory / "metrics" / "link.csv").symlink_to("/etc/passwd")
    record.write_text(text.replace("metrics/latency.csv", "metrics/link.csv"))
    with pytest.raises(ValueError, match="no file of this run"):
        Run(run_directory).metrics


def test_what_is_no_run_says_so(tmp_path, run_directory):
    with pytest.raises(NotARun, match="was killed$"):
        Run(tmp_path)
    write_run(tmp_path / "repeated" / "1")
    with pytest.raises(NotARun, match="open it with Runs"):
        Run(tmp_path / "repeated")
    with pytest.raises(NotARun, match="no repetitions"):
        Runs(run_directory)
    with pytest.raises(NotARun, match="sweep.csv"):
        Sweep(run_directory)


def test_repetitions_are_in_the_order_of_their_numbers(tmp_path):
    for number in (1, 2, 10):
        write_run(tmp_path / str(number), verdict="suspect" if number == 10 else "trustworthy")
    runs = Runs(tmp_path)
    assert [run.path.name for run in runs] == ["1", "2", "10"]
    assert len(runs) == 3 and not runs[2].is_trustworthy
    latency = runs.summary.query("metric == 'latency'")
    assert latency["repetition"].tolist() == [1, 2, 10] and latency["verdict"].tolist()[-1] == "suspect"


def test_a_sweep_is_a_table_with_its_runs(tmp_path):
    write_run(tmp_path / "runs" / "tdf=5" / "1", tdf=5)
    (tmp_path / "sweep.csv").write_text(
        "tdf,repetition,run,status,verdict,virtual_seconds,latency.mean\n"
        "5,1,runs/tdf=5/1,ok,trustworthy,5,2.0\n10,1,runs/tdf=10/1,none,,,\n")
    sweep = Sweep(tmp_path)
    assert sweep.over == ["tdf"]
    assert sweep.table["latency.mean"][0] == 2.0
    assert [run.tdf for run in sweep.runs()] == [5]


def test_a_comparison_has_a_row_for_each_statistic():
    four = {"mean": 1.0, "p50": 2.0, "p90": 3.0, "p99": 4.0}
    record = {"within": True, "metrics": [{"name": "latency", "unit": "ms", "base": four, "other": four,
                                           "error_percent": {**four, "p99": None},
                                           "difference": {"p50": {"percent": 2.0, "low": 1.0, "high": 3.0,
                                                                  "says": "different"}, "p99": None}}]}
    table = Comparison([record]).table.set_index("statistic")
    assert table.loc["p50", "says"] == "different" and table.loc["p50", "low_percent"] == 1.0
    assert pd.isna(table.loc["p99", "error_percent"])


def test_runs_become_tidy_tables_and_parquet_files(tmp_path, run_directory):
    other = write_run(tmp_path / "runs" / "web" / "other", tdf=20)
    found = tables([run_directory, Run(other)])
    assert set(found) == {"samples", "series", "events", "checks"}
    means = found["samples"].query("metric == 'latency'").groupby("tdf")["value"].mean()
    assert means.to_dict() == {10: 2.0, 20: 2.0}
    packets = found["series"].query("kind == 'pipe' and quantity == 'packets' and name == 'a--b/ab' and tdf == 10")
    assert packets["value"].tolist() == [4.0]
    assert (found["series"]["quantity"] == "to_s").sum() == 0
    cpus = found["series"].query("kind == 'node' and name == 'a' and quantity == 'cpus'")
    assert cpus["value"].tolist() == [0.25, 0.25]

    pytest.importorskip("pyarrow")
    assert main(["export", str(run_directory), str(other), "--parquet", str(tmp_path / "tables")]) == 0
    for name, table in found.items():
        read = pd.read_parquet(tmp_path / "tables" / f"{name}.parquet")
        assert len(read) == len(table) and list(read.columns) == list(table.columns), name
    assert main(["export", str(tmp_path), "--parquet", str(tmp_path / "tables")]) == 2
