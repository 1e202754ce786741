"""The frontier on Redis or Valkey: many workers on many hosts, decided by Lua on the server.

Everything in it can be lost at any moment and is rebuilt from the ledger (P2); a lane's budget is decided in one place,
by the server's clock, for all workers (P4). Its driver is the extra `redis`.
"""

from fyke.frontiers.redis.frontier import RedisFrontier

__all__ = ["RedisFrontier"]
