"""The lab: sites on this machine on which the whole product can be tried and measured.

`site` is a seeded announcement site that knows its own truth; `replay` serves saved pages under their own
addresses. Nothing in here is needed to collect.
"""
