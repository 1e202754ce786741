"""What the lab site announces, and what is true about it: notices from a seed, and the changes to them.

The n-th notice reads the same for the same seed, whatever was changed before it came, so a run can be
repeated; and `Board.truth` accounts for each id that ever stood on the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

TIME: Final = "%Y-%m-%d %H:%M"
FIRST_ID: Final = 25_000_000
MINUTES_APART: Final = 13


def _words(text: str) -> list[str]:
    return text.split()


# 镕 and 喆 are outside gb2312, 𠮷 is outside gbk; gb18030 has all three.
PLACES: Final = _words(
    "清河市 临江县 青石镇 云岭区 安澜市 丰泽县 松桥镇 长汀区 白鹭市 平湖县 金沙镇 梅林区 镕城区 喆山县 𠮷水市 "
    "东岸市 枫溪县 石鼓镇 望海区 澄江市"
)
UNITS: Final = _words(
    "教育局 第一人民医院 公安局 水利局 交通运输局 住房和城乡建设局 自然资源局 图书馆 职业技术学院 疾病预防控制中心 "
    "市场监督管理局 农业农村局 体育中心 档案馆 实验中学 应急管理局"
)
THINGS: Final = _words(
    "教学设备 医用超声诊断仪 太阳能路灯 办公家具 校园网络改造 污水处理设施维护 物业管理服务 消防器材 信息化平台升级 "
    "食堂食材配送 公务用车租赁 电梯更新 图书 实验室通风系统 道路养护 安保服务 会议系统 数字档案加工 绿化管护 空调机组"
)
TENDERS: Final = _words("公开招标公告 竞争性磋商公告 竞争性谈判公告 询价公告 单一来源采购公示")
AWARD: Final = "中标（成交）结果公告"
CORRECTION: Final = "更正公告"


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteConfig:
    """What the site shows and how it misbehaves; the same values serve the same site.

    Counts are numbers of notices of the first `items`; rates are shares (0 to 1) of the pages. What a rate
    chooses goes wrong on the first hits of a page only; later hits of that page are good.

    Args:
        latency_ms: each answer waits this long.
        detail_size: about how many bytes of UTF-8 a detail has (never less than its table).
        newest: when the newest of the first notices was published; later ones follow a minute apart.
        corrections, awards, same_title: how often a notice corrects an earlier one, gives its result, or
            bears the title of the one before.
        pinned: notices that stand on top of every list page instead of in their own place.
        linkless: rows without a link. dead: details that are gone for good (`dead_status`).
        poison: details without their title element. private: details below /private/.
        gbk: pages in GB18030 that call themselves gb2312 in their meta element, with no charset in the header.
        list_layout, detail_layout: 2 renames the list's container, or the detail's title and body elements.
        moves: at most so many changes of `move_kinds`, one after every `moves_every` list requests.
        empty_lists: list pages whose container is empty once. late: details that are 404 `late_hits` times.
        busy, throttled: `burst` answers of 503, or of 429 with Retry-After `retry_after`.
        resets: connections reset before the answer. cuts: closed in the middle of the body.
        slow: bodies that take `slow_seconds`. endless: bodies that do not end.
        soft_blocks: 200 with a block page, `soft_block_hits` times.
        script: exact faults by path, one a hit from the first on ("ok" for none); replaces the rates there.
        robots: the text of /robots.txt; None answers 404.
        etag: send ETag and answer 304.
    """

    seed: int = 1
    items: int = 300
    per_page: int = 20
    latency_ms: float = 0.0
    detail_size: int = 4_000
    newest: str = "2026-11-20 08:00"
    corrections: float = 0.05
    awards: float = 0.12
    same_title: float = 0.02
    pinned: int = 0
    linkless: int = 0
    dead: int = 0
    dead_status: int = 404
    poison: int = 0
    private: int = 0
    gbk: float = 0.0
    list_layout: int = 1
    detail_layout: int = 1
    moves: int = 0
    moves_every: int = 3
    move_kinds: tuple[str, ...] = ("add", "remove", "edit")
    empty_lists: float = 0.0
    late: float = 0.0
    late_hits: int = 1
    busy: float = 0.0
    throttled: float = 0.0
    burst: int = 2
    retry_after: int = 1
    resets: float = 0.0
    cuts: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 1.0
    endless: float = 0.0
    soft_blocks: float = 0.0
    soft_block_hits: int = 2
    script: Mapping[str, Sequence[str]] = field(default_factory=dict)
    robots: str | None = "User-agent: *\nDisallow: /private/\n"
    etag: bool = False
    arrivals_kept: int = 200_000

    def __post_init__(self) -> None:
        """Raises ValueError, naming the field, for a value that no site can be made of."""
        for name in RATES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, not {getattr(self, name)}")
        for name in COUNTS:
            if not 0 <= getattr(self, name) <= 1_000_000:
                raise ValueError(f"{name} is a number from 0 to 1,000,000, not {getattr(self, name)}")
        for name in ("per_page", "moves_every", "arrivals_kept"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1, not {getattr(self, name)}")
        special = self.pinned + self.linkless + self.dead + self.poison + self.private
        if special > self.items:
            raise ValueError(f"pinned, linkless, dead, poison and private ask for {special} of {self.items} items")
        if (self.moves and not self.move_kinds) or set(self.move_kinds) - {"add", "remove", "edit"}:
            raise ValueError(f"move_kinds is some of add, remove, edit, not {self.move_kinds}")
        datetime.strptime(self.newest, TIME)

    @classmethod
    def demo(cls, seed: int = 7, **changes: Any) -> SiteConfig:
        """A site with a little of everything that goes by in seconds; `changes` replace its values."""
        values: dict[str, Any] = {
            **{"seed": seed, "items": 300, "latency_ms": 20, "detail_size": 6_000, "pinned": 2, "linkless": 1},
            **{"dead": 4, "gbk": 0.1, "moves": 6, "moves_every": 4, "move_kinds": ("add", "edit")},
            **{"busy": 0.01, "burst": 1, "throttled": 0.005, "resets": 0.01, "cuts": 0.01, "slow": 0.01},
            "script": {"/list/index_3.html": ("empty",)},
        }
        return cls(**{**values, **changes})


RATES: Final = (
    *("corrections", "awards", "same_title", "gbk", "empty_lists", "late", "busy", "throttled", "resets", "cuts"),
    *("slow", "endless", "soft_blocks"),
)
COUNTS: Final = (
    *("items", "pinned", "linkless", "dead", "poison", "private", "moves", "latency_ms", "detail_size"),
    *("late_hits", "burst", "retry_after", "slow_seconds", "soft_block_hits"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One announcement as it stands now. The budget is in yuan, `published` is local time to the minute."""

    id: str
    kind: str
    title: str
    buyer: str
    budget: int
    project_no: str
    published: str
    corrects: str | None = None
    linked: bool = True
    private: bool = False
    version: int = 1

    @property
    def path(self) -> str:
        folder = "private" if self.private else "detail"
        return f"/{folder}/t{self.published[:10].replace('-', '')}_{self.id}.html"


class Writer:
    """Writes notice after notice. What it writes depends on the seed and the number only, never on edits."""

    def __init__(self, config: SiteConfig) -> None:
        self._config = config
        self._newest = datetime.strptime(config.newest, TIME)
        self._written: list[Notice] = []
        self._titles: set[str] = set()
        roles = ["linkless"] * config.linkless + ["private"] * config.private
        chosen = Random(f"{config.seed}:roles").sample(range(config.items), config.items) if roles else []
        self._roles = dict(zip(chosen, roles, strict=False))

    def write(self) -> Notice:
        n = len(self._written)
        rng = Random(f"{self._config.seed}:notice:{n}")
        notice = self._draw(n, rng)
        self._titles.add(notice.title)
        self._written.append(notice)
        return notice

    def _draw(self, n: int, rng: Random) -> Notice:
        role = self._roles.get(n)
        notice = Notice(
            id=self._id(n, rng),
            kind=rng.choice(TENDERS),
            title="",
            buyer=rng.choice(PLACES) + rng.choice(UNITS),
            budget=rng.choice((rng.randrange(200, 9_000) * 100, rng.randrange(100, 6_000) * 10_000)),
            project_no=f"{rng.choice('ABCDEFGHJK')}{rng.choice('LMNPQR')}ZC{self._newest.year}-{n:05d}",
            published=self._published(n, rng).strftime(TIME),
            linked=role != "linkless",
            private=role == "private",
        )
        thing, draw = rng.choice(THINGS), rng.random()
        before = self._written[max(0, n - rng.randrange(1, 40))] if n else None
        config = self._config
        if before is not None and draw < config.corrections + config.awards:
            kind = CORRECTION if draw < config.corrections else AWARD
            notice = replace(
                notice,
                kind=kind,
                buyer=before.buyer,
                budget=before.budget,
                project_no=before.project_no,
                corrects=before.id if kind == CORRECTION and before.linked else None,
            )
            return replace(notice, title=self._unused(before.title.removesuffix(before.kind), kind))
        if self._written and draw > 1 - config.same_title:
            return replace(notice, title=self._written[-1].title, kind=self._written[-1].kind)
        stem = f"{notice.buyer}{self._newest.year}年{thing}采购项目"
        return replace(notice, title=self._unused(stem, notice.kind))

    def _unused(self, stem: str, kind: str) -> str:
        part, title = 1, stem + kind
        while title in self._titles:
            part += 1
            title = f"{stem}（第{part}包）{kind}"
        return title

    def _id(self, n: int, rng: Random) -> str:
        # Neighbours change places now and then: on real lists the order is not by id.
        place = n ^ (Random(f"{self._config.seed}:pair:{n // 2}").random() < 0.2)
        return str(FIRST_ID + 3 * place + rng.randrange(3))

    def _published(self, n: int, rng: Random) -> datetime:
        older = self._config.items - 1 - n
        if older <= 0:
            return self._newest - timedelta(minutes=older)
        return self._newest - timedelta(minutes=MINUTES_APART * older + rng.randrange(MINUTES_APART))


class Board:
    """The notices that stand on the list, newest first, and all that ever did.

    A notice that is removed leaves the list; its detail stays. A deleted detail stays on the list.
    `edition` rises with every change.
    """

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self.notices: dict[str, Notice] = {}
        self.pinned: list[str] = []
        self.removed: list[str] = []
        self.dead: set[str] = set()
        self.poison: set[str] = set()
        self.shown: set[str] = set()
        self.edition = 0
        self._flow: list[str] = []
        self._writer = Writer(config)
        self._rng = Random(f"{config.seed}:changes")
        self.add(config.items)
        plain = [key for key in self._flow if self.notices[key].linked and not self.notices[key].private]
        special = Random(f"{config.seed}:special").sample(plain, config.dead + config.poison + config.pinned)
        self.dead.update(special[: config.dead])
        self.poison.update(special[config.dead : config.dead + config.poison])
        self.pin(special[config.dead + config.poison :])

    @property
    def total(self) -> int:
        return len(self._flow) + len(self.pinned)

    @property
    def pages(self) -> int:
        return max(1, -(-len(self._flow) // self.config.per_page))

    def rows(self, page: int) -> list[Notice]:
        """The rows of a page, the pinned ones first; none beyond the last page."""
        if not 1 <= page <= self.pages:
            return []
        end = len(self._flow) - (page - 1) * self.config.per_page
        own = self._flow[max(0, end - self.config.per_page) : end]
        return [self.notices[key] for key in (*self.pinned, *reversed(own))]

    def newest(self, count: int) -> list[Notice]:
        return [self.notices[key] for key in reversed(self._flow[-count:])]

    def add(self, count: int) -> list[str]:
        """Publish `count` more notices on top of the list."""
        new = [self._writer.write() for _ in range(count)]
        self.notices.update((notice.id, notice) for notice in new)
        self._flow += [notice.id for notice in new]
        self.edition += 1
        return [notice.id for notice in new]

    def edit(self, which: int | Sequence[str], *, silent: bool = False) -> list[str]:
        """Raise the version: another budget and, unless `silent`, another title. The place stays."""
        chosen = self._choose(which, lambda key: key not in self.dead)
        for key in chosen:
            old = self.notices[key]
            version, title = old.version + 1, old.title
            if not silent:
                title = re.sub(r"（第\d+次修改）$", "", title) + f"（第{version}次修改）"
            self.notices[key] = replace(old, version=version, title=title, budget=old.budget + 12_300)
        self.edition += 1
        return chosen

    def remove(self, which: int | Sequence[str]) -> list[str]:
        """Take rows off the list; those below move up."""
        chosen = self._choose(which)
        self._leave(chosen)
        self.removed += chosen
        return chosen

    def pin(self, which: int | Sequence[str]) -> list[str]:
        """Move rows from their place to the top of every page."""
        chosen = self._choose(which)
        self._leave(chosen)
        self.pinned += chosen
        return chosen

    def delete(self, which: int | Sequence[str]) -> list[str]:
        """Take details away for good; their rows stay."""
        chosen = self._choose(which, lambda key: key not in self.dead | self.poison)
        self.dead.update(chosen)
        self.edition += 1
        return chosen

    def move(self) -> None:
        """One seeded change, as happens to a list while it is read."""
        kind = self._rng.choice(self.config.move_kinds)
        if kind == "add":
            self.add(self._rng.randrange(1, 4))
        elif kind == "edit":
            self.edit(1)
        else:
            self.remove(1)

    def truth(self, base: str = "") -> dict[str, Any]:
        """All that is true now; see `fyke.lab.site` for the shape. `base` comes before each path."""
        listed = [notice for notice in self.notices.values() if notice.linked]
        ids = [notice.id for notice in listed]
        return {
            "seed": self.config.seed,
            "ids": ids,
            "shown": [key for key in ids if key in self.shown],
            "removed": self.removed,
            "dead": [key for key in ids if key in self.dead],
            "poison": [key for key in ids if key in self.poison],
            "private": [notice.id for notice in listed if notice.private],
            "pinned": self.pinned,
            "records": {notice.id: _record(notice, base) for notice in listed},
            "listed_total": len(ids),
            "linkless": len(self.notices) - len(ids),
            "on_list": self.total,
        }

    def _leave(self, chosen: Sequence[str]) -> None:
        gone = set(chosen)
        self._flow = [key for key in self._flow if key not in gone]
        self.pinned = [key for key in self.pinned if key not in gone]
        self.edition += 1

    def _choose(self, which: int | Sequence[str], fits: Callable[[str], bool] = lambda _: True) -> list[str]:
        """The ids asked for, or as many as asked for of those that fit (fewer when there are fewer)."""
        if not isinstance(which, int):
            return list(self._known(which))
        able = [key for key in self._flow if self.notices[key].linked and fits(key)]
        return self._rng.sample(able, min(which, len(able)))

    def _known(self, ids: Sequence[str]) -> Iterator[str]:
        for key in map(str, ids):
            if key not in self.notices or key in self.removed:
                raise ValueError(f"no notice {key} on the list")
            yield key


def _record(notice: Notice, base: str) -> dict[str, Any]:
    return {
        "title": notice.title,
        "buyer": notice.buyer,
        "budget": notice.budget,
        "project_no": notice.project_no,
        "published": notice.published,
        "url": base + notice.path,
        "version": notice.version,
        "kind": notice.kind,
        "corrects": notice.corrects,
    }
