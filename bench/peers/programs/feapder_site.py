"""feapder on the lab site: its distributed Spider with tasks in Redis, its request filter, its MySQL pipeline.

The start request is handed out by a process of its own (start_monitor_task), as its docs say for several processes.
"""

import json
import os
import sys
from typing import ClassVar

import feapder
from feapder import Item

PEER = json.loads(os.environ["PEER"])


class PagesItem(Item):
    __table_name__ = "pages"


class Notices(feapder.Spider):
    __custom_setting__: ClassVar = {
        "REDISDB_IP_PORTS": PEER["redis"].removeprefix("redis://").partition("/")[0],
        "REDISDB_USER_PASS": "",
        "REDISDB_DB": 0,
        "MYSQL_IP": "127.0.0.1",
        "MYSQL_PORT": PEER["mysql_port"],
        "MYSQL_DB": PEER["mysql_database"],
        "MYSQL_USER_NAME": "fyke",
        "MYSQL_USER_PASS": "",
        "SPIDER_THREAD_COUNT": PEER["slots"],
        "COLLECTOR_TASK_COUNT": 32,
        "REQUEST_FILTER_ENABLE": True,
        "USE_SESSION": True,
        "LOG_LEVEL": "INFO",
    }

    def start_requests(self):
        yield feapder.Request(PEER["site"] + "/list/index.html", callback=self.parse)

    def parse(self, request, response):
        for href in response.css("ul.list > li > a::attr(href)").getall():
            yield feapder.Request(href, callback=self.parse_detail)
        following = response.css("a.next::attr(href)").get()
        if following:
            yield feapder.Request(following, callback=self.parse, priority=1)

    def parse_detail(self, request, response):
        cells = response.css("table.info td::text").getall()
        item = PagesItem()
        item.url = request.url
        item.title = response.css("h1::text").get()
        item.buyer, item.budget, item.project_no = cells[:3]
        item.body_text = "".join(response.css("div#content ::text").getall())
        yield item


if __name__ == "__main__":
    if sys.argv[1] == "seed":
        Notices(redis_key="peer").start_monitor_task()
    else:
        Notices(redis_key="peer", keep_alive=True, auto_start_requests=False).start()
