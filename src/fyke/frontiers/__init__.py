"""Frontiers: back ends that hand out work. All keep the contract of `ports.frontier`."""
