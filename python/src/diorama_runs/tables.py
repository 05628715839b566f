"""Any number of runs as four tidy tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterable

import pandas as pd

from .run import Run

# What tells the rows of one run from those of others.
RUN = ["run", "experiment", "variant", "tdf"]
# What is at which instant or in which interval: its beginning, the column that names it, and what it is called.
SERIES = [
    ("pipes", "from_s", "pipe", "pipe"),
    ("speed", "virtual_s", "core", "core"),
    ("disks", "from_s", "node", "disk"),
    ("used", "from_s", "node", "node"),
]


def tables(runs: Iterable[Run | str | Path]) -> dict[str, pd.DataFrame]:
    """``samples``, ``series``, ``events`` and ``checks`` of all these runs, each with the columns of ``RUN``.

    Of ``series`` a row is a quantity of a pipe, core, disk or node from an instant on; details of ``events`` are JSON.
    """
    found: dict[str, list[pd.DataFrame]] = {"samples": [], "series": [], "events": [], "checks": []}
    for run in (one if isinstance(one, Run) else Run(one) for one in runs):
        for name, table in (("samples", _samples(run)), ("series", _series(run)), ("events", _events(run)),
                            ("checks", run.checks.rename(columns={"name": "check"}))):
            if table.empty:
                continue
            table = table.copy()
            for place, (column, value) in enumerate(zip(RUN, (str(run.path), run.experiment, run.variant, run.tdf))):
                table.insert(place, column, value)
            found[name].append(table)
    return {name: pd.concat(parts, ignore_index=True) if parts else pd.DataFrame() for name, parts in found.items()}


def write_parquet(runs: Iterable[Run | str | Path], folder: str | Path) -> list[Path]:
    """Writes the tables as Parquet files, ``samples.parquet`` and so on, and gives their paths. Needs pyarrow."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in tables(runs).items():
        path = folder / f"{name}.parquet"
        table.to_parquet(path, engine="pyarrow", index=False)
        written.append(path)
    return written


def _samples(run: Run) -> pd.DataFrame:
    parts = []
    for metric in run.metrics.values():
        part = metric.samples.copy()
        part.insert(0, "metric", metric.name)
        part["unit"] = metric.unit
        # Where nothing is known a column has no values, and its type is no other than where something is.
        part["virtual_s"] = part["virtual_s"].astype("float64")
        parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _series(run: Run) -> pd.DataFrame:
    parts = []
    for attribute, at, of, kind in SERIES:
        table = getattr(run, attribute)
        if table.empty:
            continue
        melted = table.drop(columns=["to_s"], errors="ignore").melt([at, of], var_name="quantity")
        melted = melted.rename(columns={at: "virtual_s", of: "name"}).dropna(subset=["value"])
        melted["value"] = melted["value"].astype("float64")
        melted["name"] = melted["name"].astype("string")
        melted.insert(1, "kind", kind)
        parts.append(melted)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _events(run: Run) -> pd.DataFrame:
    events = run.events.copy()
    events["detail"] = events["detail"].map(lambda detail: None if detail is None else json.dumps(detail))
    return events
