"""Fixtures of the contract tests."""

from tests.frontiers import frontier_databases

__all__ = ["frontier_databases"]
