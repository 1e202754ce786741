"""Sources: the file format, its loader, and the pure reading of lists and details.

A source does no I/O, has no clock and keeps no state: the same response gives the same entries.
"""

from fyke.sources.faults import Misfit
from fyke.sources.nodes import StepContext
from fyke.sources.python import PythonSource

__all__ = ["Misfit", "PythonSource", "StepContext"]
