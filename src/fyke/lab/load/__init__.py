"""The load test: the same pages with 1, 3, 6, 12 worker processes, the curve that comes out, and what limits it.

Nothing in here is needed to collect.
"""
