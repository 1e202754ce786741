"""Throw-away servers for tests and for `fyke lab`: real processes on the loopback that end with this one."""

from fyke.lab.servers.maria import MariaServer
from fyke.lab.servers.postgres import PostgresServer
from fyke.lab.servers.process import ServerProcess, StartFailed
from fyke.lab.servers.redis import RedisCluster, RedisSentinel, RedisServer

__all__ = [
    "MariaServer",
    "PostgresServer",
    "RedisCluster",
    "RedisSentinel",
    "RedisServer",
    "ServerProcess",
    "StartFailed",
]
