"""``diorama-runs export RUN… --parquet FOLDER``"""

from __future__ import annotations

import argparse
import sys

from .run import NotARun
from .tables import write_parquet


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="diorama-runs", description="Runs of Diorama as tables")
    verbs = parser.add_subparsers(dest="verb", required=True)
    export = verbs.add_parser("export", help="write samples, series, events and checks of runs as files")
    export.add_argument("runs", metavar="RUN", nargs="+", help="a run's directory")
    export.add_argument("--parquet", metavar="FOLDER", required=True, help="where the Parquet files go")
    given = parser.parse_args(words)
    try:
        for path in write_parquet(given.runs, given.parquet):
            print(path)
    except NotARun as e:
        print(f"diorama-runs: {e}", file=sys.stderr)
        return 2
    except ImportError as e:
        print(f"diorama-runs: {e}: pip install 'diorama-runs[parquet]'", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
