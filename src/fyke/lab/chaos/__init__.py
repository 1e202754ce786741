"""`fyke lab chaos`: real processes and servers, faults drawn by a seed, a checker whose oracle is the site's log."""

from fyke.lab.chaos.plan import FAULTS, ChaosConfig
from fyke.lab.chaos.run import ChaosReport, EffectLog, run_chaos

__all__ = ["FAULTS", "ChaosConfig", "ChaosReport", "EffectLog", "run_chaos"]
