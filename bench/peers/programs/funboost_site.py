"""funboost on the lab site: two functions, their messages in Redis with confirmation, filtered by arguments, threads.

REDIS_ACK_ABLE is what its docs recommend where nothing may be lost on a restart; threads are its default.
"""

import json
import logging
import os
import sys
import threading
from pathlib import Path
from urllib.parse import urljoin

import requests
from parsel import Selector
from psycopg_pool import ConnectionPool

PEER = json.loads(os.environ["PEER"])
HOST, _, PORT = PEER["redis"].removeprefix("redis://").partition("/")[0].partition(":")
CONFIG = f"""
from funboost.utils.simple_data_class import DataClassBase
class BrokerConnConfig(DataClassBase):
    REDIS_HOST, REDIS_PORT, REDIS_DB, REDIS_DB_FILTER_AND_RPC_RESULT = {HOST!r}, {PORT}, 0, 1
    REDIS_URL = 'redis://{HOST}:{PORT}/0'
class FunboostCommonConfig(DataClassBase):
    SHOW_HOW_FUNBOOST_CONFIG_SETTINGS = False
"""
HERE = Path.cwd()
(HERE / "funboost_config.py").write_text(CONFIG)
sys.path[:0] = [str(HERE), str(HERE)]

from funboost import BoosterParams, BrokerEnum, ConcurrentModeEnum, boost, ctrl_c_recv  # noqa: E402

LOCAL = threading.local()
POOL = ConnectionPool(PEER["postgres"], min_size=1, max_size=4, kwargs={"autocommit": True}, open=False)


def page_of(url: str) -> Selector:
    if not hasattr(LOCAL, "session"):
        LOCAL.session = requests.Session()
    response = LOCAL.session.get(url, timeout=20)
    response.raise_for_status()
    response.encoding = "utf-8"
    return Selector(response.text)


class Params(BoosterParams):
    broker_kind: str = BrokerEnum.REDIS_ACK_ABLE
    concurrent_mode: str = ConcurrentModeEnum.THREADING
    do_task_filtering: bool = True
    max_retry_times: int = 3
    log_level: int = logging.INFO
    create_logger_file: bool = False


@boost(Params(queue_name="peer_detail", concurrent_num=PEER["slots"]))
def read_detail(url: str) -> None:
    page = page_of(url)
    cells = page.css("table.info td::text").getall()
    with POOL.connection() as connection:
        connection.execute(
            "INSERT INTO pages VALUES (%s, %s, %s, %s, %s, %s)",
            (
                url,
                page.css("h1::text").get(),
                *cells[:3],
                "".join(page.css("div#content ::text").getall()),
            ),
        )


@boost(Params(queue_name="peer_list", concurrent_num=1))
def read_list(url: str) -> None:
    page = page_of(url)
    for href in page.css("ul.list > li > a::attr(href)").getall():
        read_detail.push(urljoin(url, href))
    following = page.css("a.next::attr(href)").get()
    if following:
        read_list.push(urljoin(url, following))


if __name__ == "__main__":
    if sys.argv[1] == "seed":
        read_list.push(PEER["site"] + "/list/index.html")
        sys.exit(0)
    POOL.open()
    read_list.consume()
    read_detail.consume()
    ctrl_c_recv()
