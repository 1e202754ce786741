"""Once by the database's unique key alone: nothing is stored twice, and every node fetches everything."""

from __future__ import annotations

from fyke.lab.modes.rows import count, insert_once, opened, prepare_unique
from fyke.lab.modes.stage import Place, Reader, play


async def node(place: Place, _: int) -> None:
    async with opened(place) as connection, Reader(place) as reader:
        async for row in reader.rows():
            await insert_once(connection, row, await reader.detail(row))


if __name__ == "__main__":
    play({"prepare": prepare_unique, "node": node, "count": count})
