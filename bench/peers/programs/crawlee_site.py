"""Crawlee for Python on the lab site: ParselCrawler, its request queue in Redis (RedisStorageClient), rows by asyncpg.

The number of requests at a time is fixed, so that its pool does not shrink on a busy machine.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta

import asyncpg
from crawlee import ConcurrencySettings, service_locator
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import RedisStorageClient
from crawlee.storages import RequestQueue

PEER = json.loads(os.environ["PEER"])


async def main() -> None:
    storage = RedisStorageClient(connection_string=PEER["redis"])
    service_locator.set_storage_client(storage)
    queue = await RequestQueue.open(name="peer")
    first = PEER["site"] + "/list/index.html"
    if sys.argv[1] == "seed":
        await queue.add_request(first)
        return
    pool = await asyncpg.create_pool(PEER["postgres"], min_size=1, max_size=4)
    slots = PEER["slots"]
    crawler = ParselCrawler(
        request_manager=queue,
        keep_alive=True,
        max_request_retries=3,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=slots, desired_concurrency=slots, max_concurrency=slots
        ),
        statistics_log_format="inline",
        request_handler_timeout=timedelta(seconds=60),
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        page = context.selector
        if "/list/" in context.request.url:
            await context.enqueue_links(selector="ul.list > li > a")
            await context.enqueue_links(selector="a.next")
            return
        cells = page.css("table.info td::text").getall()
        await pool.execute(
            "INSERT INTO pages VALUES ($1, $2, $3, $4, $5, $6)",
            context.request.url,
            page.css("h1::text").get(),
            *cells[:3],
            "".join(page.css("div#content ::text").getall()),
        )

    await crawler.run()


if __name__ == "__main__":
    asyncio.run(main())
