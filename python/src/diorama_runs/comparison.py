"""What ``diorama compare --json`` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from .run import STATISTICS


class Comparison:
    """A comparison: ``Comparison(json.loads(text))`` or ``Comparison.read(file)``, one of several by its place."""

    def __init__(self, record: dict[str, Any] | list[dict[str, Any]], place: int = 0):
        self.record: dict[str, Any] = record[place] if isinstance(record, list) else record

    @classmethod
    def read(cls, path: str | Path, place: int = 0) -> Comparison:
        return cls(json.loads(Path(path).read_text()), place)

    @property
    def within(self) -> bool:
        return self.record["within"]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each metric and statistic: values, error, where the difference lies, and what that says."""
        rows = []
        for metric in self.record["metrics"]:
            for statistic in STATISTICS:
                difference = (metric.get("difference") or {}).get(statistic) or {}
                rows.append({
                    "metric": metric["name"],
                    "statistic": statistic,
                    "unit": metric["unit"],
                    "base": metric["base"][statistic],
                    "other": metric["other"][statistic],
                    "error_percent": metric["error_percent"][statistic],
                    "low_percent": difference.get("low"),
                    "high_percent": difference.get("high"),
                    "says": difference.get("says"),
                })
        return pd.DataFrame(rows)
