"""What runs of Diorama leave behind, as tables of pandas.

All times and rates are virtual, unless a name says ``real``. The files are those of docs/run-directory.md.
"""

from .comparison import Comparison
from .run import Metric, NotARun, Run
from .runs import Runs, Sweep
from .tables import tables

__all__ = ["Comparison", "Metric", "NotARun", "Run", "Runs", "Sweep", "tables"]
