"""scrapy-redis on the lab site: its scheduler and filter in Redis, its queue kept, a pipeline that inserts a row.

Settings of its README (SCHEDULER, DUPEFILTER_CLASS, SCHEDULER_PERSIST), Scrapy's own 16 requests at a time.
"""

import json
import os
import sys

import psycopg
import redis
from scrapy.crawler import CrawlerProcess
from scrapy_redis.spiders import RedisSpider

PEER = json.loads(os.environ["PEER"])
START = "peer:start_urls"


class Notices(RedisSpider):
    name = "peer"
    redis_key = START

    def parse(self, response):
        for link in response.css("ul.list > li > a"):
            yield response.follow(link, self.parse_detail)
        following = response.css("a.next::attr(href)").get()
        if following:
            yield response.follow(following, self.parse, priority=1)

    def parse_detail(self, response):
        cells = response.css("table.info td::text").getall()
        yield {
            "url": response.url,
            "title": response.css("h1::text").get(),
            "buyer": cells[0],
            "budget": cells[1],
            "project_no": cells[2],
            "body_text": "".join(response.css("div#content ::text").getall()),
        }


class Rows:
    """One INSERT an item, as such pipelines are written; a lost connection is made anew at the next item."""

    connection = None

    def process_item(self, item):
        try:
            if self.connection is None or self.connection.closed:
                self.connection = psycopg.connect(PEER["postgres"], autocommit=True)
            self.connection.execute(
                "INSERT INTO pages VALUES (%(url)s, %(title)s, %(buyer)s, %(budget)s, %(project_no)s, %(body_text)s)",
                item,
            )
        except psycopg.OperationalError:
            if self.connection is not None:
                self.connection.close()
            raise
        return item


def main() -> None:
    if sys.argv[1] == "seed":
        redis.Redis.from_url(PEER["redis"]).lpush(START, json.dumps({"url": PEER["site"] + "/list/index.html"}))
        return
    process = CrawlerProcess(
        {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "SCHEDULER_PERSIST": True,
            "REDIS_URL": PEER["redis"],
            "CONCURRENT_REQUESTS": PEER["slots"],
            "CONCURRENT_REQUESTS_PER_DOMAIN": PEER["slots"],
            "DOWNLOAD_DELAY": 0,
            "ITEM_PIPELINES": {Rows: 300},
            "LOG_LEVEL": "INFO",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Notices)
    process.start()


if __name__ == "__main__":
    main()
