import json

import pytest

CHECK = {"name": "steal", "value": 0.5, "limit": None, "unit": "%", "ok": True, "effect_percent": 0.1,
         "effect_range_percent": [0.0, 0.1], "says": "At most 0.5 %."}


def write_run(path, tdf=10, verdict="trustworthy"):
    """A run directory as docs/run-directory.md describes it."""
    (path / "metrics").mkdir(parents=True)
    (path / "nodes" / "a").mkdir(parents=True)
    ends = {"mean": [1.8, 2.2], "p50": [1.9, 2.1], "p90": None, "p99": None}
    latency = {"unit": "ms", "n": 3, "mean": 2.0, "p50": 2.0, "p90": 3.0, "p99": 3.0, "interval": ends,
               "uncertainty": {"sampling": ends, "cpu_sensitivity": 1.0, "effects": [
                   {"check": "steal", "percent": [0.0, 0.1]}, {"check": "clock-lead", "percent": None}]},
               "file": "metrics/latency.csv"}
    count = {"unit": "1/s", "n": 1, "mean": 7.0, "p50": 7.0, "p90": 7.0, "p99": 7.0, "interval": None,
             "uncertainty": None, "file": "metrics/requests.csv"}
    result = {"experiment": "web", "variant": "scaled", "tdf": tdf, "scaling_factor": 2, "status": "ok", "why": None,
              "virtual_seconds": 5.0, "real_seconds": 50.0, "metrics": {"latency": latency, "requests": count},
              "nodes": {"a": {"exit": 0, "ended": "exited", "core_seconds": 0.5}},
              "fidelity": {"verdict": verdict, "why": [], "checks": [CHECK]}}
    (path / "result.json").write_text(json.dumps(result))
    (path / "plan.json").write_text(json.dumps({"tdf": tdf}))
    (path / "metrics" / "latency.csv").write_text("virtual_s,value,node\n0.5,1.0,a\n1.0,2.0,a\n1.5,3.0,a\n")
    (path / "metrics" / "requests.csv").write_text("virtual_s,value,node\n,7.0,\n")
    (path / "metrics" / "pipes.csv").write_text(
        "from_s,to_s,pipe,utilisation,packets\n0,1,a--b/ab,,4\n0,1,a--b/ba,0.5,5\n")
    (path / "speed.csv").write_text("virtual_s,core,units_per_us,percent_of_reference,k,capped\n0,0,850,100,1,0\n")
    (path / "nodes.csv").write_text("from_s,to_s,node,cpus,memory_bytes,reads\n0,1,a,0.25,1048576,\n")
    events = [{"virtual_s": 0.0, "real_s": 0.0, "event": "zero", "target": None, "detail": {"seed": 1}},
              {"virtual_s": 4.0, "real_s": 40.0, "event": "exit", "target": "a", "detail": None}]
    (path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (path / "nodes" / "a" / "stdout.log").write_bytes(b"hello \xff\n")
    return path


@pytest.fixture
def run_directory(tmp_path):
    return write_run(tmp_path / "runs" / "web" / "scaled")
