"""One run directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Mapping

import pandas as pd

STATISTICS = ("mean", "p50", "p90", "p99")


class NotARun(ValueError):
    """A directory that is not, or not yet, a finished run's."""


@dataclass(frozen=True)
class Metric:
    """One metric of a run: its summary, and its samples."""

    name: str
    record: Mapping[str, Any]
    path: Path

    @property
    def unit(self) -> str:
        return self.record["unit"]

    @property
    def n(self) -> int:
        return self.record["n"]

    @property
    def mean(self) -> float:
        return self.record["mean"]

    @property
    def p50(self) -> float:
        return self.record["p50"]

    @property
    def p90(self) -> float:
        return self.record["p90"]

    @property
    def p99(self) -> float:
        return self.record["p99"]

    @property
    def interval(self) -> dict[str, tuple[float, float] | None]:
        """Where the target's own value lies in 95 of 100 cases, by statistic; None where that cannot be said."""
        ends = self.record.get("interval") or {}
        return {name: tuple(ends[name]) if ends.get(name) else None for name in STATISTICS}

    @property
    def effects(self) -> pd.DataFrame:
        """By how many per cent the run's value is above the target's because of what each check saw."""
        effects = (self.record.get("uncertainty") or {}).get("effects") or []
        rows = [{"check": e["check"], **_ends(e, "percent"), **_ends(e, "tail_percent", "tail_")} for e in effects]
        columns = ["check", "low_percent", "high_percent", "tail_low_percent", "tail_high_percent"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def samples(self) -> pd.DataFrame:
        """``virtual_s`` (missing if the metric cannot tell), ``value`` in the metric's unit, ``node``."""
        return _csv(self.path, {"node": "string"})


class Run:
    """A finished run's directory, such as ``runs/web-net/scaled``. Files are read when they are asked for."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            self.result: dict[str, Any] = json.loads((self.path / "result.json").read_text())
        except FileNotFoundError:
            inner = sorted(p.parent.name for p in self.path.glob("*/result.json"))
            hint = f"; it has runs in it ({', '.join(inner)}): open it with Runs" if inner else ""
            message = f"{self.path} has no result.json: it is no run's directory, or the run lives or was killed{hint}"
            raise NotARun(message) from None

    def __repr__(self) -> str:
        what = f"{self.experiment} {self.variant} at TDF {self.tdf:g}"
        return f"<Run {what}: {self.status}, {self.verdict} ({self.path})>"

    @property
    def experiment(self) -> str:
        return self.result["experiment"]

    @property
    def variant(self) -> str:
        return self.result["variant"]

    @property
    def tdf(self) -> float:
        return self.result["tdf"]

    @property
    def status(self) -> str:
        return self.result["status"]

    @property
    def verdict(self) -> str:
        return self.result["fidelity"]["verdict"]

    @property
    def is_trustworthy(self) -> bool:
        return self.verdict == "trustworthy"

    @property
    def why(self) -> list[str]:
        """Why the run is suspect, a sentence each."""
        return self.result["fidelity"].get("why") or []

    @cached_property
    def plan(self) -> dict[str, Any]:
        return json.loads((self.path / "plan.json").read_text())

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The metrics, in the order of the experiment."""
        return {name: Metric(name, m, self._below(m["file"])) for name, m in self.result["metrics"].items()}

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A row for each metric: unit, n, statistics, and the ends of their intervals (``p50_low``, ``p50_high``)."""
        rows = []
        for name, metric in self.metrics.items():
            row: dict[str, Any] = {"metric": name, "unit": metric.unit, "n": metric.n}
            for statistic in STATISTICS:
                row[statistic] = metric.record[statistic]
                row[f"{statistic}_low"], row[f"{statistic}_high"] = metric.interval[statistic] or (None, None)
            rows.append(row)
        return pd.DataFrame(rows).set_index("metric") if rows else pd.DataFrame()

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """A row for each node: exit code, how it ended, how long it had a core."""
        return pd.DataFrame.from_dict(self.result["nodes"], orient="index").rename_axis("node")

    @cached_property
    def checks(self) -> pd.DataFrame:
        """A row for each check, in the order of docs/checks.md."""
        columns = ["name", "value", "limit", "unit", "ok", "effect_percent", "says"]
        return pd.DataFrame(self.result["fidelity"]["checks"]).reindex(columns=columns)

    @cached_property
    def events(self) -> pd.DataFrame:
        """``virtual_s``, ``real_s``, ``event``, ``target``, ``detail`` (a dict, or None)."""
        path = self.path / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines if line.strip()]
        return pd.DataFrame(rows, columns=["virtual_s", "real_s", "event", "target", "detail"])

    @cached_property
    def used(self) -> pd.DataFrame:
        """What the nodes used of their machines, by interval; empty for runs of versions that did not look."""
        return _csv(self.path / "nodes.csv", {"node": "string"})

    @cached_property
    def pipes(self) -> pd.DataFrame:
        """What each direction of a link did, by virtual second."""
        return _csv(self.path / "metrics" / "pipes.csv", {"pipe": "string"})

    @cached_property
    def pipe_totals(self) -> pd.DataFrame:
        return _csv(self.path / "pipes.csv", {"pipe": "string"})

    @cached_property
    def ports(self) -> pd.DataFrame:
        return _csv(self.path / "ports.csv", {"node": "string", "interface": "string"})

    @cached_property
    def speed(self) -> pd.DataFrame:
        """How fast the nodes' cores were, by virtual second."""
        return _csv(self.path / "speed.csv")

    @cached_property
    def disks(self) -> pd.DataFrame:
        """What the nodes' disks did, by virtual second; empty without any."""
        return _csv(self.path / "disks.csv", {"node": "string"})

    def log(self, node: str, stream: str = "stdout") -> str:
        """What a node printed on ``stdout`` or ``stderr``."""
        if stream not in ("stdout", "stderr"):
            raise ValueError(f"there is no log `{stream}`: stdout or stderr")
        if node not in self.result["nodes"]:
            raise KeyError(f"there is no node `{node}`; the run's nodes: {', '.join(self.result['nodes'])}")
        return self._below(f"nodes/{node}/{stream}.log").read_text(errors="replace")

    def _below(self, name: str) -> Path:
        """A file that the record names, which may be somebody else's: one of the run's own."""
        path = self.path / name
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise ValueError(f"{self.path / 'result.json'} names {name}, which is no file of this run")
        return path


def _csv(path: Path, types: Mapping[str, str] | None = None) -> pd.DataFrame:
    if not path.exists():
        return pd.DataFrame()
    # By its name alone it would be unpacked, to whatever length.
    return pd.read_csv(path, dtype=dict(types or {}), compression=None)


def _ends(record: Mapping[str, Any], key: str, prefix: str = "") -> dict[str, Any]:
    low, high = record.get(key) or (None, None)
    return {f"{prefix}low_percent": low, f"{prefix}high_percent": high}
