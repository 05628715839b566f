"""Several runs: repetitions, and sweeps."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Iterator

import pandas as pd

from .run import NotARun, Run


class Runs:
    """A folder of repetitions, as ``diorama run --repeat`` leaves it: ``VARIANT/1``, ``VARIANT/2``, …"""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        numbered = [p for p in self.path.iterdir() if p.name.isdigit() and (p / "result.json").exists()]
        self.all = [Run(p) for p in sorted(numbered, key=lambda p: int(p.name))]
        if not self.all:
            raise NotARun(f"{self.path} has no repetitions: folders 1, 2, …, each with a result.json")

    def __iter__(self) -> Iterator[Run]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, place: int) -> Run:
        return self.all[place]

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A row for each repetition and metric, with the repetition's verdict."""
        parts = []
        for run in self.all:
            part = run.summary.reset_index()
            part.insert(0, "repetition", int(run.path.name))
            part["verdict"] = run.verdict
            parts.append(part)
        return pd.concat(parts, ignore_index=True)


class Sweep:
    """The directory of a ``diorama sweep``."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if not (self.path / "sweep.csv").exists():
            raise NotARun(f"{self.path} has no sweep.csv: it is no sweep's directory, or has no runs yet")

    @property
    def over(self) -> list[str]:
        """The parameters, as they were given to ``--over``."""
        columns = list(self.table.columns)
        return columns[: columns.index("repetition")]

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each run: parameters, repetition, verdict, and of each metric ``NAME.mean``, ``NAME.p50``, …"""
        return pd.read_csv(self.path / "sweep.csv")

    def runs(self) -> Iterator[Run]:
        """The runs that have results, in the order of the table."""
        for place in self.table["run"]:
            if (self.path / place / "result.json").exists():
                yield Run(self.path / place)

