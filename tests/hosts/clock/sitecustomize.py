"""The wall clock of a host: every Python process there is off by HOST_CLOCK_OFF ms (also `fyke`'s SystemClock).

Imported by Python itself at its start, where PYTHONPATH names this folder.
"""

import os
import time

OFF = int(os.environ.get("HOST_CLOCK_OFF", "0")) * 1_000_000


RIGHT_NS = time.time_ns

time.time_ns = lambda: RIGHT_NS() + OFF
time.time = lambda: (RIGHT_NS() + OFF) / 1_000_000_000
