"""The work itself: scheduler, lister, collector, worker, reaper, reconciler, auditor. Knows ports, never a back end."""
