"""Fyke collects what web sites publish: nothing twice, nothing missed, and it can prove it."""

__version__ = "0.1.0"
