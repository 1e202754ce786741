"""Fetching: one request in, one whole response or one `FetchFailed` out; robots.txt; decoding."""

from fyke.fetchers.encoding import Decoded, decode
from fyke.fetchers.faults import mask
from fyke.fetchers.http import USER_AGENT, HttpFetcher
from fyke.fetchers.robots import AGENT, RobotsRules

__all__ = ["AGENT", "USER_AGENT", "Decoded", "HttpFetcher", "RobotsRules", "decode", "mask"]
