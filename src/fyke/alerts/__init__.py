"""Telling people: events go from the ledger to where somebody reads them."""

from fyke.alerts.webhook import Alerter, AlertFailed

__all__ = ["AlertFailed", "Alerter"]
