"""Kinds of SQL operators whose query changes: each is evolved, restored by real Flink, and compared with the truth.

    python -m tests.oracle.sql_kinds 1.20.5 2.3.0 [--backend rocksdb] [--only WORDS] [--seed 7]

OLD runs in the first release and NEW, which the second one compiles, in the second; both may be the same. Each line has
the verdict, and what came after the savepoint: ``same rows`` as of NEW from its beginning, ``said`` (other rows, of a
verdict that says that something is lost, begins empty or is filled), ``refused`` with the reason, ``not run`` (Flink
refuses the query), or ``WRONG``: other rows that no verdict predicted. The exit code is 1 if any is wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark_savepoint
import pyspark_savepoint.api.local_savepoint  # what runs is what was there at the beginning
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.statebackends.evolution.changes import LOSING, Verdict, worst
from tests.oracle.sql_changes import ALL, BEFORE, ORDERS, PAYMENTS, Case, Jobs, Query, Script, jobs, table
from tests.oracle.sql_history import with_history
from tests.oracle.sql_written import TYPES as WRITTEN_TYPES
from tests.oracle.sql_written import written, written_joins

RATES = table("rates", "shop STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", "upsert", "shop")
PAID = table("paid", "shop STRING, paid INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts")
CHANGED = table("changed", "id BIGINT, shop STRING, item STRING, amount INT", "retract", "id")
LATER = ORDERS.replace("FOR ts AS ts", "FOR ts AS ts - INTERVAL '40' SECOND")
WIDE = ORDERS.replace("amount INT", "amount BIGINT")
#: Types of columns that are not INT.
TYPES = {
    **WRITTEN_TYPES,
    **dict.fromkeys(("shop", "item", "s"), "STRING"),
    **dict.fromkeys(("id", "n", "c", "u", "a_id", "b_id", "big"), "BIGINT"),
    **dict.fromkeys(("window_start", "window_end", "st"), "TIMESTAMP(3)"),
}
MINI = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "20 ms",
    "table.exec.mini-batch.size": "4",
}
ASYNC = {"table.exec.async-state.enabled": "true"}
FILL, KEEP = {"fill": "initial"}, {"filters": "keep"}
NOW = f"CASE WHEN id >= {BEFORE} THEN amount END"
#: Words of a report that say of what is kept that rows may differ.
TOLD = ("table.local-time-zone", "the watermark of table", "it is new: it reads from where its options say")
#: Changes of calls: those of OLD, those of NEW, and those of what NEW emits if what is added counts from now on.
CALLS = {
    "same": ("COUNT(*) AS n, SUM(price) AS p", "COUNT(*) AS n, SUM(price) AS p", ""),
    "added": ("COUNT(*) AS n", "COUNT(*) AS n, SUM(amount) AS a", f"COUNT(*) AS n, SUM({NOW}) AS a"),
    "removed": ("COUNT(*) AS n, SUM(amount) AS a, MAX(price) AS p", "COUNT(*) AS n, MAX(price) AS p", ""),
    "reordered": ("SUM(price) AS p, SUM(amount) AS a", "SUM(amount) AS a, SUM(price) AS p", ""),
    "other": ("SUM(price) AS p", "SUM(amount) AS p", f"SUM({NOW}) AS p"),
    "min-max": ("MIN(amount) AS p", "MAX(amount) AS p", f"MAX({NOW}) AS p"),
    "filter": (
        "COUNT(*) AS n",
        "COUNT(*) FILTER (WHERE amount > 20) AS n",
        f"COUNT(*) FILTER (WHERE amount > 20 AND id >= {BEFORE}) AS n",
    ),
    "distinct": (
        "COUNT(DISTINCT item) AS n, COUNT(*) AS c",
        "COUNT(*) AS c, COUNT(DISTINCT item) AS n",
        "",
    ),
}


class Committing(Query):
    """A query whose sink has a committer, which has state without a key."""

    @property
    def job(self) -> dict[str, Any]:
        """The statements of the job."""
        job = super().job
        sink = table("sink", self.columns, "retract").replace("'connector'", "'commits' = 'true', 'connector'")
        return {**job, "tables": [*self.tables, sink]}


@dataclass(frozen=True)
class Keyed(Query):
    """A query whose sink has a primary key, so that it materializes rows of another key."""

    key: str = "item"

    @property
    def job(self) -> dict[str, Any]:
        """The statements of the job."""
        job = super().job
        return {**job, "tables": [*self.tables, table("sink", self.columns, "upsert", self.key)]}


def moment(seconds: int) -> str:
    return f"2026-03-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def orders(seed: int, other: str = "", late: int = 0) -> Script:
    """Orders at random moments, and a row of another table now and then."""
    of, now, rows = random.Random(seed), 0, []
    for number in range(ALL):
        now += of.choice((0, 3, 8, 15, 40))
        row = {"shop": f"shop {of.randrange(3)}", "ts": moment(max(now - of.randrange(late + 1), 0))}
        if other and of.randrange(3) == 0:
            row |= {"paid": of.randrange(9), "rate": of.randrange(9)}
        else:
            row |= {"id": number, "item": f"item {of.randrange(5)}", "amount": of.randrange(50)}
            row |= {"price": None if of.randrange(8) == 0 else of.randrange(20)}
        name = "orders" if "id" in row else other
        rows.append((name, "+U" if name == "rates" else "+I", row))
    return rows


def changes(seed: int) -> Script:
    """A changelog whose key is the id: inserts, updates, deletes."""
    of, rows, last = random.Random(seed), [], {}
    while len(rows) < ALL:
        key = of.randrange(14)
        row = {
            "id": key,
            "shop": f"shop {of.randrange(3)}",
            "item": f"item {of.randrange(4)}",
            "amount": of.randrange(9),
        }
        if key not in last:
            rows.append(("changed", "+I", row))
        elif of.randrange(3) == 0:
            rows.append(("changed", "-D", last.pop(key)))
            continue
        elif len(rows) + 1 not in (BEFORE, ALL):
            rows += [("changed", "-U", last[key]), ("changed", "+U", row)]
        else:
            continue
        last[key] = row
    return rows


def columns_of(names: str) -> str:
    return ", ".join(f"{name} {TYPES.get(name, 'INT')}" for name in names.split())


class Kinds:
    """The cases, by name; ``script`` and ``tables`` are those of the kinds that are added next."""

    def __init__(self, seed: int) -> None:
        self.cases: dict[str, Case] = {}
        self.script: Script = orders(seed)
        self.tables: Sequence[str] = (ORDERS,)

    def add(
        self,
        name: str,
        columns: str,
        text: str,
        *changes: str,
        to: str | None = None,
        truth: str | None = None,
        conf: Mapping[str, str] | None = None,
        new_conf: Mapping[str, str] | None = None,
        tables: Sequence[str] = (),
        given: Mapping[str, Any] = FILL,
        key: str = "",
        new_key: str = "",
    ) -> None:
        """Add a case: NEW is the text with these pieces replaced, in pairs; ``to`` are its columns."""
        new = text
        for old_piece, new_piece in zip(changes[::2], changes[1::2], strict=True):
            assert old_piece in new, f"{name}: {old_piece}"
            new = new.replace(old_piece, new_piece, 1)
        conf = {} if conf is None else conf
        old = Query(columns_of(columns), text, self.tables, conf)
        conf = conf if new_conf is None else new_conf
        query = Query(columns_of(to or columns), new, tables or self.tables, conf)
        filled = Query(query.columns, truth, query.tables, conf) if truth else None
        if key:
            old = Keyed(old.columns, old.text, old.tables, old.conf, key)
            query = Keyed(query.columns, query.text, query.tables, query.conf, new_key or key)
        self.cases[name] = Case(old, query, self.script, filled, dict(given))

    def calls(self, kind: str, keys: str, text: str, *, over: str = "", conf: Mapping[str, str] | None = None) -> None:
        """Add the changes of calls in a text with a place for them."""
        for name, (old, new, truth) in CALLS.items():
            if over and name in ("filter", "distinct"):
                continue
            texts = [text.format(calls.replace(") AS", f"){over} AS")) for calls in (old, new)]
            names = [" ".join([keys, *re.findall(r" AS (\w+)", calls)]) for calls in (old, new)]
            filled = text.format(truth.replace(") AS", f"){over} AS")) if truth else None
            self.add(f"{kind}/{name}", names[0], texts[0], texts[0], texts[1], to=names[1], truth=filled, conf=conf)


def expecting(expected: dict[str, str]) -> Callable[..., None]:
    """Return a function that adds a case to kinds, and notes under its name what is expected of it."""

    def add(kinds: Kinds, name: str, outcome: str, columns: str, text: str, *changes: str, **more: Any) -> None:
        expected[name] = outcome
        kinds.add(name, columns, text, *changes, **more)

    return add


def every_case(seed: int) -> Mapping[str, Case]:
    """The changes of all kinds."""
    kinds = Kinds(seed)
    _windows(kinds)
    _over(kinds)
    _joins(kinds, seed)
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    _ranks(kinds)
    _first_and_last(kinds, seed)
    _aggregates(kinds, seed)
    _others(kinds)
    _keys(kinds, seed)
    _parallel(kinds)
    _settings(kinds, seed)
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    _places(kinds)
    _without_a_key(kinds, seed)
    doubled, tripled = (ORDERS.replace("pt AS", f"more AS amount * {factor}, pt AS") for factor in (2, 3))
    written(kinds, (doubled,), (tripled,))
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    written_joins(kinds)
    return kinds.cases


def _windows(kinds: Kinds) -> None:
    keys = "shop window_start window_end"
    text = "SELECT shop, window_start, window_end, {{}} FROM TABLE({}) GROUP BY shop, window_start, window_end"
    rows = {
        "session": ("SESSION(TABLE orders PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '{}' SECOND)", "70", "90"),
        "tumble": ("TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '{}' MINUTE)", "2", "3"),
        "hop": ("HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '{}' MINUTE)", "2", "4"),
        "cumulate": ("CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '{}' MINUTE)", "3", "4"),
    }
    for name, (function, size, larger) in rows.items():
        kinds.calls(f"{name}-tvf", keys, text.format(function.format(size)))
        one = text.format(function.format(size)).format("COUNT(*) AS n")
        other = text.format(function.format(larger)).format("COUNT(*) AS n")
        kinds.add(f"{name}-tvf/larger", f"{keys} n", one, one, other)
        kinds.add(f"{name}-tvf/smaller", f"{keys} n", other, other, one)
    function, size, _ = rows["hop"]
    hopping = text.format(function.format(size)).format("COUNT(*) AS n")
    function, size, _ = rows["tumble"]
    tumbling = text.format(function.format(size)).format("COUNT(*) AS n")
    kinds.add("tumble-tvf/to-hop", f"{keys} n", tumbling, tumbling, hopping)
    kinds.add("hop-tvf/to-tumble", f"{keys} n", hopping, hopping, tumbling)
    tumbling = tumbling.replace("ts)", "pt)")
    kinds.add("tumble-processing/same", f"{keys} n", tumbling, "AS n", "+ 1 AS n")
    group = "SELECT shop, {0}_START(ts, {1}) AS st, {{}} FROM orders GROUP BY shop, {0}(ts, {1})"
    for name, size, larger in (
        ("SESSION", "INTERVAL '70' SECOND", "INTERVAL '90' SECOND"),
        ("TUMBLE", "INTERVAL '2' MINUTE", "INTERVAL '3' MINUTE"),
        ("HOP", "INTERVAL '1' MINUTE, INTERVAL '2' MINUTE", "INTERVAL '1' MINUTE, INTERVAL '3' MINUTE"),
    ):
        kinds.calls(f"group-{name}".lower(), "shop st", group.format(name, size))
        one, other = (group.format(name, each).format("COUNT(*) AS n") for each in (size, larger))
        kinds.add(f"group-{name}/larger".lower(), "shop st n", one, one, other)


def _over(kinds: Kinds) -> None:
    for time in ("ts", "pt"):
        for kind, rows in (
            ("rows", "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
            ("unbounded", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
            ("range", "RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW"),
            ("range-unbounded", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        ):
            if (time, kind) == ("pt", "range"):
                continue  # its rows depend on the clock
            over = f" OVER (PARTITION BY shop ORDER BY {time} {rows})"
            kinds.calls(f"over-{time}-{kind}", "id", "SELECT id, {} FROM orders", over=over)
            text = f"SELECT id, COUNT(*){over} AS n FROM orders"
            kinds.add(f"over-{time}-{kind}/column", "id n", text, "id, ", "id, item, ", to="id item n")
        text = (
            f"SELECT id, SUM(amount) OVER (PARTITION BY shop ORDER BY {time} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
        )
        kinds.add(f"over-{time}-rows/2-to-5", "id a", f"{text} AS a FROM orders", "2 PREC", "5 PREC")
        text = text.replace("2 PREC", "5 PREC")
        kinds.add(f"over-{time}-rows/5-to-2", "id a", f"{text} AS a FROM orders", "5 PREC", "2 PREC")


def _joins(kinds: Kinds, seed: int) -> None:
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    text = "SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop"
    kinds.add("temporal-join/same", "id rate", text, "r.rate", "r.rate + 1")
    kinds.add("temporal-join/column", "id rate", text, "r.rate", "r.rate, o.item", to="id rate item")
    kinds.add("temporal-join/column-removed", "id item", text.replace("r.rate", "o.item"), ", o.item", "", to="id")
    kinds.add("temporal-join/left", "id rate", text, "JOIN", "LEFT JOIN")
    kinds.add("temporal-join/inner", "id rate", text.replace("JOIN", "LEFT JOIN"), "LEFT JOIN", "JOIN")
    kinds.add("temporal-join/residual", "id rate", text, "= r.shop", "= r.shop AND r.rate > 3 AND o.id > 5")
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    text = (
        "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts BETWEEN p.ts - INTERVAL '60' SECOND"
        " AND p.ts + INTERVAL '60' SECOND"
    )
    windows = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' MINUTE)))"
    window = (
        f"SELECT o.id, p.paid FROM {windows.format('orders')} o JOIN {windows.format('paid')} p ON o.shop = p.shop "
        "AND o.window_start = p.window_start AND o.window_end = p.window_end"
    )
    for kind, one in (("interval-join", text), ("window-join", window)):
        kinds.add(f"{kind}/same", "id paid", one, "p.paid", "p.paid + 1")
        kinds.add(f"{kind}/column", "id paid", one, "p.paid", "p.paid, o.item", to="id paid item")
        kinds.add(f"{kind}/column-removed", "id item", one.replace("p.paid", "o.item"), ", o.item", "", to="id")
        kinds.add(f"{kind}/left", "id paid", one, " JOIN", " LEFT JOIN")
        kinds.add(f"{kind}/inner", "id paid", one.replace(" JOIN", " LEFT JOIN"), "LEFT JOIN", "JOIN")
        kinds.add(f"{kind}/full", "id paid", one.replace(" JOIN", " FULL JOIN"), "FULL JOIN", "RIGHT JOIN")
        kinds.add(f"{kind}/residual", "id paid", one, "o.shop = p.shop", "o.shop = p.shop AND o.amount > p.paid * 3")
    kinds.add("interval-join/narrower", "id paid", text, "'60'", "'30'", "'60'", "'20'")
    kinds.add("interval-join/wider", "id paid", text, "'60'", "'90'", "'60'", "'99'")
    kinds.add("window-join/size", "id paid", window, "'2'", "'3'", "'2'", "'3'")
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    text = "SELECT o.id, o.amount, p.paid FROM orders o {} payments p ON o.shop = p.shop"
    words = ("JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN")
    for one in words:
        for other in words:
            if one != other:
                name = f"join/{one}-to-{other}".replace(" JOIN", "").lower()
                kinds.add(name, "id amount paid", text.format(one), text.format(one), text.format(other))
    for kind in ("LEFT", "FULL"):
        one = text.format(f"{kind} JOIN") + " AND o.amount < p.paid * 4"
        name = f"join/residual-{kind}".lower()
        kinds.add(f"{name}-other", "id amount paid", one, "* 4", "* 7")
        kinds.add(
            f"{name}-added", "id amount paid", one.partition(" AND ")[0], "o.shop", "o.amount < p.paid * 4 AND o.shop"
        )
        kinds.add(f"{name}-null", "id amount paid", one, "o.amount <", "o.price IS NULL OR o.price <")
        kinds.add(f"{name}-inner", "id amount paid", one.replace(f"{kind} JOIN", "JOIN"), "JOIN", f"{kind} JOIN")
        kinds.add(
            f"{name}-text", "id amount paid", one, "o.amount < p.paid * 4", "UPPER(o.item) <> 'ITEM 1' AND p.paid > 3"
        )
        key = one.replace("o.shop = p.shop", "o.shop = p.shop AND o.price = p.paid")
        kinds.add(f"{name}-key", "id amount paid", key, " AND o.price = p.paid", "")
    one = (
        "SELECT id, amount FROM orders o WHERE {}EXISTS (SELECT * FROM payments p WHERE o.shop = p.shop AND "
        "o.amount < p.paid * 4)"
    )
    for name, word in (("semi", ""), ("anti", "NOT ")):
        kinds.add(f"join/residual-{name}-other", "id amount", one.format(word), "* 4", "* 7")
        kinds.add(
            f"join/residual-{name}-turned",
            "id amount",
            one.format(word),
            f"{word}EXISTS",
            "EXISTS" if word else "NOT EXISTS",
        )
    text = "SELECT o.id, p.id AS big FROM orders o JOIN orders p ON o.price = p.price AND o.shop = p.shop"
    kinds.add("join/null-keys", "id big", text, " JOIN", " LEFT JOIN")
    text = "SELECT id, amount FROM orders WHERE shop IN (SELECT shop FROM payments WHERE paid > 2)"
    kinds.add("join/semi-column", "id amount", text, "amount FROM", "amount, item FROM", to="id amount item")
    kinds.add("join/semi-to-anti", "id amount", text, "IN (SELECT", "NOT IN (SELECT")
    text = "SELECT o.id, p.paid, q.paid AS big FROM orders o JOIN payments p ON o.shop = p.shop JOIN payments q ON "
    text = (text + "o.shop = q.shop WHERE q.paid > 6 AND p.paid < 2").replace("q.paid AS", "CAST(q.paid AS BIGINT) AS")
    multi = {"table.optimizer.multi-join.enabled": "true"}
    kinds.add("join/three", "id paid big", text, "p.paid,", "p.paid + 1,")
    kinds.add("multi-join/same", "id paid big", text, "p.paid,", "p.paid + 1,", conf=multi)
    kinds.add("multi-join/on", "id paid big", text, new_conf=multi)
    kinds.add("multi-join/off", "id paid big", text, conf=multi, new_conf={})


def _ranks(kinds: Kinds) -> None:
    columns = "shop id amount"
    ranked = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER ({} ORDER BY {}) AS rn FROM {}) WHERE rn <= {}"
    window = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' MINUTE))"
    by_window = "PARTITION BY window_start, window_end, shop"
    text = ranked.format("shop, id, amount", by_window, "amount DESC, id", window, 3)
    kinds.add("window-rank/same", columns, text, "shop, id", "shop, id + 1")
    kinds.add("window-rank/3-to-2", columns, text, "<= 3", "<= 2")
    kinds.add("window-rank/3-to-1", columns, text, "<= 3", "<= 1")
    kinds.add("window-rank/2-to-3", columns, text.replace("<= 3", "<= 2"), "<= 2", "<= 3")
    kinds.add("window-rank/column", columns, text, "amount FROM", "amount, item FROM", to=f"{columns} item")
    kinds.add("window-rank/order", columns, text, "amount DESC", "amount ASC")
    kinds.add("window-rank/size", columns, text, "'2' MINUTE", "'3' MINUTE")
    for order, other in (("ASC", "DESC"), ("DESC", "ASC")):
        text, name = (
            ranked.format("shop, id", by_window, f"ts {order}", window, 1),
            f"window-deduplicate-{order}".lower(),
        )
        kinds.add(f"{name}/same", "shop id", text, "shop, id", "shop, id + 1")
        kinds.add(f"{name}/column", "shop id", text, "id FROM", "id, item FROM", to="shop id item")
        more = text.replace("id FROM", "id, item FROM")
        kinds.add(f"{name}/column-removed", "shop id item", more, "id, item FROM", "id FROM", to="shop id")
        kinds.add(f"{name}/turned", "shop id", text, f"ts {order}", f"ts {other}")
        kinds.add(f"{name}/to-rank", "shop id", text, "<= 1", "<= 2")
        kinds.add(f"{name}/size", "shop id", text, "'2' MINUTE", "'3' MINUTE")
    text = "SELECT shop, id, amount FROM orders LIMIT 60"
    kinds.add("limit/same", columns, text, "shop, id", "shop, id + 1")
    kinds.add("limit/larger", columns, text, "60", "62")
    kinds.add("limit/smaller", columns, text, "60", "45")
    kinds.add("limit/much-smaller", columns, text, "60", "10")
    kinds.add("limit/column", columns, text, "amount FROM", "amount, item FROM", to=f"{columns} item")
    kinds.add("limit/offset", columns, text, "LIMIT 60", "LIMIT 57 OFFSET 3")
    text = "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop LIMIT 2"
    kinds.add("limit/of-changes", "shop n", text, "COUNT(*)", "COUNT(*) + 1")
    text = "SELECT shop, id, amount FROM orders ORDER BY amount DESC, id LIMIT 5"
    kinds.add("sort-limit/same", columns, text, text, f"SELECT shop, id, amount + 1 FROM ({text})")
    kinds.add("sort-limit/smaller", columns, text, "LIMIT 5", "LIMIT 3")
    kinds.add("sort-limit/larger", columns, text, "LIMIT 5", "LIMIT 8")
    kinds.add("sort-limit/column", columns, text, "amount FROM", "amount, item FROM", to=f"{columns} item")
    kinds.add("sort-limit/order", columns, text, "DESC", "ASC")
    text = ranked.format("shop, id, amount", "PARTITION BY shop", "amount DESC, id", "orders", 4)
    kinds.add("rank-append/larger", columns, text, "<= 4", "<= 6")
    kinds.add("rank-append/smaller", columns, text, "<= 4", "<= 2")
    kinds.add("rank-append/to-top1", columns, text, "<= 4", "<= 1")
    kinds.add("rank-append/from-top1", columns, text.replace("<= 4", "<= 1"), "<= 1", "<= 4")
    kinds.add("rank-append/partition", columns, text, "BY shop", "BY shop, item")
    kinds.add("rank-append/order", columns, text, "DESC", "ASC")
    kinds.add("rank-append/column", columns, text, "amount FROM", "amount, item FROM", to=f"{columns} item")
    kinds.add("rank-append/from-2", columns, text, "rn <= 4", "rn BETWEEN 2 AND 4")
    kinds.add("rank-append/to-2", columns, text.replace("rn <= 4", "rn BETWEEN 2 AND 4"), "BETWEEN 2 AND 4", "<= 4")
    text = ranked.format("shop, id, amount", "PARTITION BY item", "pt", "orders", 6)
    kinds.add("rank-first/same", columns, text, "shop, id", "shop, id + 1")
    kinds.add("rank-first/column", columns, text, "amount FROM", "amount, item FROM", to=f"{columns} item")
    kinds.add("rank-first/smaller", columns, text, "<= 6", "<= 4")
    kinds.add("rank-first/larger", columns, text, "<= 6", "<= 9")
    grown = "(SELECT item, COUNT(*) AS n FROM orders GROUP BY item)"
    for name, source, number in (
        ("update", grown, "n"),
        ("retract", grown.replace("COUNT(*) AS n", "SUM(amount) AS a"), "a"),
    ):
        text = ranked.format(f"item, {number}", "", f"{number} DESC, item", source, 3)
        kinds.add(f"rank-{name}/larger", f"item {number}", text, "<= 3", "<= 4")
        kinds.add(f"rank-{name}/smaller", f"item {number}", text, "<= 3", "<= 2")
        kinds.add(f"rank-{name}/to-top1", f"item {number}", text, "<= 3", "<= 1")
        kinds.add(f"rank-{name}/from-top1", f"item {number}", text.replace("<= 3", "<= 1"), "<= 1", "<= 3")
        kinds.add(f"rank-{name}/order", f"item {number}", text, "DESC", "ASC")
        kinds.add(f"rank-{name}/to-other", f"item {number}", text, number + " DESC, ", "")
    kinds.add("rank-retract/widened", "item a", text, to="item big", tables=(WIDE,))


def _first_and_last(kinds: Kinds, seed: int) -> None:
    for time in ("ts", "pt"):
        for order, other in (("ASC", "DESC"), ("DESC", "ASC")):
            text = (
                f"SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY {time} {order}) AS rn "
            )
            text, name = text + "FROM orders) WHERE rn = 1", f"deduplicate-{time}-{order}".lower()
            kinds.add(f"{name}/same", "item id", text, "item, id", "item, id + 1")
            kinds.add(f"{name}/column", "item id", text, "id FROM", "id, amount FROM", to="item id amount")
            more = text.replace("id FROM", "id, amount FROM")
            kinds.add(f"{name}/column-removed", "item id amount", more, "id, amount FROM", "id FROM", to="item id")
            kinds.add(f"{name}/turned", "item id", text, f"{time} {order}", f"{time} {other}")
            kinds.add(f"{name}/key", "item id", text, "BY item", "BY item, shop")
            kinds.add(f"{name}/to-rank", "item id", text, "rn = 1", "rn <= 2")
    kinds.script, kinds.tables = orders(seed, late=30), (LATER,)
    text = (
        "SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item, amount ORDER BY ts) AS rn FROM orders) "
    )
    kinds.add("deduplicate-ts-asc/late", "item id", text + "WHERE rn = 1", "item, id", "item, id + 1")
    kinds.add(
        "deduplicate-ts-asc/late-column", "item id", text + "WHERE rn = 1", "id FROM", "id, shop FROM", to="item id s"
    )
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _aggregates(kinds: Kinds, seed: int) -> None:
    kinds.calls("group", "shop", "SELECT shop, {} FROM orders GROUP BY shop")
    for mode, source, script in (("retract", CHANGED, changes(seed)), ("insert", ORDERS, kinds.script)):
        kinds.script, kinds.tables = script, (source,)
        for name, call, column in (
            ("listagg", "LISTAGG(item)", "s"),
            ("listagg-by", "LISTAGG(item, '-')", "s"),
            ("first-value", "FIRST_VALUE(amount)", "f"),
            ("first-text", "FIRST_VALUE(item)", "s"),
            ("last-value", "LAST_VALUE(amount)", "f"),
            ("max", "MAX(amount)", "f"),
            ("avg", "AVG(amount)", "f"),
            ("stddev", "CAST(STDDEV_POP(amount) * 100 AS INT)", "f"),
            ("distinct", "COUNT(DISTINCT item)", "n"),
            ("collect", "CAST(COLLECT(item) AS STRING)", "s"),
            ("array-agg", "CARDINALITY(ARRAY_AGG(amount))", "f"),
            ("count", "COUNT(amount)", "n"),
        ):
            call = f"{call} AS {column}"
            rows = "orders" if mode == "insert" else "changed"
            text = f"SELECT shop, SUM(amount) AS a, {call} FROM {rows} GROUP BY shop"
            names, kind = f"shop a {column}", f"{name}-{mode}"
            kinds.add(f"{kind}/same", names, text, "SUM(amount)", "SUM(amount) + 1")
            turned = f"shop {column} a"
            kinds.add(
                f"{kind}/reordered", names, text, f"SUM(amount) AS a, {call}", f"{call}, SUM(amount) AS a", to=turned
            )
            kinds.add(f"{kind}/removed", names, text, f", {call}", "", to="shop a")
            kinds.add(f"{kind}/added", "shop a", text.replace(f", {call}", ""), " AS a", f" AS a, {call}", to=names)
            alone = text.replace("SUM(amount) AS a, ", "")
            kinds.add(f"{kind}/replaced", f"shop {column}", alone, call, "MIN(amount) AS a", to="shop a")
            kinds.add(f"{kind}/key", names, text, "SELECT shop", "SELECT UPPER(shop)", "BY shop", "BY UPPER(shop)")
            global_ = text.replace("SELECT shop, ", "SELECT 'all' AS shop, ").replace(" GROUP BY shop", "")
            kinds.add(f"{kind}/key-removed", names, text, text, global_)
    sums = "SELECT shop, COUNT(*) AS n, SUM(price) AS p, AVG(amount) AS m, MIN(amount) AS lo FROM orders GROUP BY shop"
    sets = "SELECT shop, COUNT(*) AS n, COUNT(DISTINCT item) AS u, SUM(DISTINCT amount) AS a FROM orders GROUP BY shop"
    two = {**MINI, "table.optimizer.agg-phase-strategy": "TWO_PHASE"}
    settings: Mapping[str, Mapping[str, str]] = {
        "none": {},
        "one-phase": {**MINI, "table.optimizer.agg-phase-strategy": "ONE_PHASE"},
        "two-phase": two,
        "split": {**two, "table.optimizer.distinct-agg.split.enabled": "true"},
    }
    for name, conf in settings.items():
        for other, conf_of_new in settings.items():
            if name != other:
                kinds.add(f"phases/{name}-to-{other}", "shop n p m lo", sums, conf=conf, new_conf=conf_of_new)
                kinds.add(f"phases-distinct/{name}-to-{other}", "shop n u a", sets, conf=conf, new_conf=conf_of_new)
    for name in ("two-phase", "split"):
        kinds.calls(f"{name}", "shop", "SELECT shop, {} FROM orders GROUP BY shop", conf=settings[name])
        text = "SELECT shop, COUNT(DISTINCT price) AS n FROM orders GROUP BY shop"
        kinds.add(f"{name}/distinct-other", "shop n", text, "price", "amount", conf=settings[name])


def _others(kinds: Kinds) -> None:
    text = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY shop ORDER BY ts MEASURES A.id AS a_id, B.id AS b_id AFTER "
        "MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 20, B AS B.amount > 10)"
    )
    kinds.add("match/same", "shop a_id b_id", text, "SELECT *", "SELECT shop, a_id + 1, b_id")
    kinds.add(
        "match/measure",
        "shop a_id b_id",
        text,
        "B.id AS b_id",
        "B.id AS b_id, A.item AS item",
        to="shop a_id b_id item",
    )
    kinds.add("match/define", "shop a_id b_id", text, "> 20", "> 5")
    kinds.add("match/pattern", "shop a_id b_id", text, "(A B)", "(A C? B)", "DEFINE", "DEFINE C AS C.amount < 5,")
    behind = f"SELECT shop, COUNT(*) AS n, SUM(b_id) AS big FROM ({text}) GROUP BY shop"
    kinds.add("match/aggregate-behind", "shop n big", behind, "COUNT(*) AS n", "COUNT(*) + 0 AS n")
    turned = "SUM(b_id) AS big, COUNT(*) AS n", "shop big n"
    kinds.add(
        "match/aggregate-reordered", "shop n big", behind, "COUNT(*) AS n, SUM(b_id) AS big", *turned[:1], to=turned[1]
    )
    kinds.add("match/aggregate-define", "shop n big", behind, "> 20", "> 5", given={**FILL, **KEEP})
    text = "SELECT shop, id, amount FROM orders ORDER BY ts, amount"
    kinds.add("temporal-sort/same", "shop id amount", text, text, f"SELECT shop, id + 1, amount FROM ({text})")
    kinds.add(
        "temporal-sort/column", "shop id amount", text, "amount FROM", "amount, item FROM", to="shop id amount item"
    )
    kinds.add("temporal-sort/order", "shop id amount", text, "ts, amount", "ts, id")


def _keys(kinds: Kinds, seed: int) -> None:
    """Add keys that are fewer, more, in another order, and an expression."""
    calls = "COUNT(*) AS n, SUM(price) AS p, MAX(amount) AS a, COUNT(DISTINCT amount) AS u"
    group, columns = f"SELECT item, {calls} FROM orders GROUP BY shop, item", "item n p a u"
    windows = group.replace(" FROM orders", " FROM TABLE({}(TABLE orders, DESCRIPTOR(ts), {}))")
    windows += ", window_start, window_end"
    over = "SELECT id, SUM(price) OVER (PARTITION BY shop, item ORDER BY {}) AS p FROM orders"
    best = "SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop, item ORDER BY {}) AS rn FROM {}) "
    grown = "(SELECT shop, item, COUNT(*) AS id FROM orders GROUP BY shop, item)"
    gap = (
        "SELECT item, COUNT(*) AS n, SUM(price) AS p FROM orders GROUP BY shop, item, SESSION(ts, INTERVAL '70' SECOND)"
    )
    for name, names, text in (
        ("group", columns, group),
        ("tumble", columns, windows.format("TUMBLE", "INTERVAL '2' MINUTE")),
        ("hop", columns, windows.format("HOP", "INTERVAL '1' MINUTE, INTERVAL '2' MINUTE")),
        ("gap", "item n p", gap),
        ("over-rows", "id p", over.format("ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")),
        ("over-range", "id p", over.format("ts RANGE UNBOUNDED PRECEDING")),
        ("over-processing", "id p", over.format("pt RANGE UNBOUNDED PRECEDING")),
        ("last", "item id", best.format("pt DESC", "orders") + "WHERE rn = 1"),
        ("first", "item id", best.format("pt", "orders") + "WHERE rn = 1"),
        ("last-by-time", "item id", best.format("ts DESC", "orders") + "WHERE rn = 1"),
        ("top-1", "item id", best.format("amount DESC, id", "orders") + "WHERE rn = 1"),
        ("top-3", "item id", best.format("amount DESC, id", "orders") + "WHERE rn <= 3"),
        ("top-update", "item id", best.format("id DESC", grown) + "WHERE rn <= 2"),
        ("top-retract", "item id", best.format("id, item, shop", grown) + "WHERE rn <= 2"),
    ):
        kinds.add(f"keys-removed/{name}", names, text, "BY shop, item", "BY item")
        kinds.add(f"keys-order/{name}", names, text, "BY shop, item", "BY item, shop")
        kinds.add(f"keys-upper/{name}", names, text, "BY shop, item", "BY UPPER(shop), item")
        if "SELECT id" in text:
            kinds.add(f"keys-added/{name}", names, text, "BY shop, item", "BY shop, item, MOD(id, 2)")
            kinds.add(f"keys-none/{name}", names, text, "PARTITION BY shop, item ", "")
    kinds.add("keys-none/group", columns, group, "SELECT item", "SELECT 'x'", " GROUP BY shop, item", "")
    rows = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' MINUTE)))"
    on, more = "o.shop = p.shop", "o.shop = p.shop AND o.price = p.{}"
    time = " AND o.ts BETWEEN p.ts - INTERVAL '60' SECOND AND p.ts + INTERVAL '60' SECOND"
    joins = (
        ("temporal", "rate", RATES, f"orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS p ON {on}"),
        ("interval", "paid", PAID, f"orders o JOIN paid p ON {on}{time}"),
        (
            "window",
            "paid",
            PAID,
            f"{rows.format('orders')} o JOIN {rows.format('paid')} p ON {on} AND o.window_start = p.window_start "
            "AND o.window_end = p.window_end",
        ),
        ("join", "paid", PAYMENTS, f"orders o LEFT JOIN payments p ON {on}"),
    )
    for name, column, other, text in joins:
        kinds.script, kinds.tables = orders(seed, other.split()[2]), (ORDERS, other)
        text = f"SELECT o.id, p.{column} FROM {text}"
        kinds.add(f"keys-added/{name}", f"id {column}", text, on, more.format(column))
        kinds.add(
            f"keys-removed/{name}", f"id {column}", text.replace(on, more.format(column)), more.format(column), on
        )
        if name != "temporal":
            kinds.add(f"keys-upper/{name}", f"id {column}", text, on, "UPPER(o.shop) = UPPER(p.shop)")
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _parallel(kinds: Kinds) -> None:
    """Add jobs with two subtasks, and with another max parallelism: the user's, after the query has changed."""
    calls = "COUNT(DISTINCT item) AS u, SUM(amount) AS a, MIN(price) AS p"
    text = f"SELECT shop, item AS s, {calls} FROM orders GROUP BY shop, item"
    last = "SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY pt DESC) AS rn FROM orders) "
    best = last.replace("pt DESC", "amount DESC, id") + "WHERE rn <= 4"
    one, two = {}, {"parallelism.default": "2"}
    for name, old, new, limit in (("2-to-2", two, two, 0), ("1-to-2", one, two, 0), ("2-to-1-of-64", two, one, 64)):

        def add(
            change: str,
            columns: str,
            text: str,
            *changes: str,
            to: str | None = None,
            kind: str = f"parallel-{name}",
            conf: Mapping[str, str] = old,
            new_conf: Mapping[str, str] = {**new, "pipeline.max-parallelism": str(limit or 128)},
            given: Mapping[str, Any] = {**FILL, "max_parallelism": limit},
        ) -> None:
            kinds.add(f"{kind}/{change}", columns, text, *changes, to=to, conf=conf, new_conf=new_conf, given=given)

        add("same", "shop s u a p", text)
        turned = ("SUM(amount) AS a, MIN(price) AS p", "MIN(price) AS p, SUM(amount) AS a")
        add("reordered", "shop s u a p", text, *turned, to="shop s u p a")
        add("keys", "shop s u a p", text, "item AS s", "'x' AS s", "BY shop, item", "BY shop")
        rows = last.replace("id FROM", "id, amount FROM") + "WHERE rn = 1"
        add("last", "item id amount", rows, "id, amount FROM", "id FROM", to="item id")
        add("top", "item id", best, "<= 4", "<= 2")


def _settings(kinds: Kinds, seed: int) -> None:
    """Add a time to live that begins, and one that ends."""
    over = "SELECT id, SUM(amount) OVER (PARTITION BY shop ORDER BY {} ROWS BETWEEN {} PRECEDING AND CURRENT ROW) AS a"
    best = (
        "SELECT id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY {}) AS rn FROM orders) WHERE "
    )
    grown = "SELECT {0} AS a, COUNT(*) AS n FROM orders GROUP BY {0}"
    rank = "SELECT a, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY {}) AS rn FROM ({})) WHERE rn <= 3"
    texts = {
        "aggregate": ("shop n u", "SELECT shop, COUNT(*) AS n, COUNT(DISTINCT item) AS u FROM orders GROUP BY shop"),
        "over-unbounded": ("id a", over.format("ts", "UNBOUNDED") + " FROM orders"),
        "over-rows": ("id a", over.format("ts", "2") + " FROM orders"),
        "over-processing": ("id a", over.format("pt", "UNBOUNDED") + " FROM orders"),
        "over-processing-rows": ("id a", over.format("pt", "2") + " FROM orders"),
        "last-row": ("id amount", best.format("pt DESC") + "rn = 1"),
        "first-row": ("id amount", best.format("pt") + "rn = 1"),
        "last-by-time": ("id amount", best.format("ts DESC") + "rn = 1"),
        "first-by-time": ("id amount", best.format("ts") + "rn = 1"),
        "top-1": ("id amount", best.format("amount DESC, id") + "rn = 1"),
        "top-3": ("id amount", best.format("amount DESC, id") + "rn <= 3"),
        "rank-update": ("a n", rank.format("n DESC", grown.format("amount"))),
        "rank-retract": ("a n", rank.format("n, a", grown.format("amount"))),
        "limit": ("id amount", "SELECT id, amount FROM orders LIMIT 55"),
    }
    for strategy in ("LEGACY", "MAP", "VALUE", "ADAPTIVE"):
        name = "table.exec.sink.upsert-materialize-strategy.type"
        conf = {"table.exec.sink.require-on-conflict": "false", name: strategy}
        text = "SELECT MAX(item) AS item, shop AS s, COUNT(*) AS n FROM orders GROUP BY shop"
        kind = f"materializer-{strategy}".lower()
        kinds.add(f"{kind}/same", "item s n", text, "COUNT(*)", "COUNT(*) + 0", conf=conf, key="item")
        kinds.add(
            f"{kind}/filter", "item s n", text, "orders", "orders WHERE id >= 0", conf=conf, key="item", given=KEEP
        )
        kinds.add(
            f"{kind}/column", "item s n", text, "AS n", "AS n, SUM(amount) AS a", to="item s n a", conf=conf, key="item"
        )
        kinds.add(f"{kind}/on", "item s n", text, conf=conf, key="s", new_key="item")
        kinds.add(f"{kind}/off", "item s n", text, conf=conf, key="item", new_key="s")
        kinds.add(f"{kind}/key", "item s n", text, conf=conf, key="item", new_key="n")
        if strategy != "LEGACY":
            legacy = {**conf, name: "LEGACY"}
            kinds.add(f"{kind}/to-legacy", "item s n", text, conf=conf, new_conf=legacy, key="item")
            kinds.add(f"{kind}/from-legacy", "item s n", text, conf=legacy, new_conf=conf, key="item")
    batched = {name: one for name, one in texts.items() if not name.startswith(("aggregate", "over", "limit"))}
    for name, (columns, text) in batched.items():
        kinds.add(f"batches/{name}-on", columns, text, conf={}, new_conf=MINI)
        kinds.add(f"batches/{name}-off", columns, text, conf=MINI, new_conf={})
    live = {"table.exec.state.ttl": "1 d"}
    for name, (columns, text) in texts.items():
        kinds.add(f"live/{name}-on", columns, text, conf={}, new_conf=live)
        kinds.add(f"live/{name}-off", columns, text, conf=live, new_conf={})
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    text = "SELECT o.id, p.paid FROM orders o LEFT JOIN payments p ON o.shop = p.shop"
    kinds.add("batches/join-on", "id paid", text, conf={}, new_conf=MINI)
    kinds.add("batches/join-off", "id paid", text, conf=MINI, new_conf={})
    kinds.add("live/join-on", "id paid", text, conf={}, new_conf=live)
    kinds.add("live/join-off", "id paid", text, conf=live, new_conf={})


def _without_a_key(kinds: Kinds, seed: int) -> None:
    """Add operators without a key, whose max parallelism is that of the job or 1, as the kind and the release say."""
    windows = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' MINUTE))"
    best = "SELECT id FROM (SELECT *, ROW_NUMBER() OVER ({}ORDER BY {}) AS rn FROM {}) WHERE rn <= {}"
    by_window = "PARTITION BY window_start, window_end "
    texts = {
        "aggregate": ("n", "SELECT COUNT(DISTINCT item) AS n FROM orders"),
        "tumble": ("n", f"SELECT COUNT(*) AS n FROM {windows} GROUP BY window_start, window_end"),
        "gap": ("n", "SELECT COUNT(*) AS n FROM orders GROUP BY SESSION(ts, INTERVAL '30' SECOND)"),
        "over": ("n", "SELECT COUNT(*) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n FROM orders"),
        "over-processing": ("n", "SELECT COUNT(*) OVER (ORDER BY pt) AS n FROM orders"),
        "top-1": ("id", best.format("", "amount, id", "orders", 1)),
        "top-3": ("id", best.format("", "amount, id", "orders", 3)),
        "last": ("id", best.format("", "pt DESC", "orders", 1)),
        "first": ("id", best.format("", "pt", "orders", 1)),
        "last-by-time": ("id", best.format("", "ts DESC", "orders", 1)),
        "window-rank": ("id", best.format(by_window, "amount, id", windows, 2)),
        "window-deduplicate": ("id", best.format(by_window, "ts", windows, 1)),
        "sort": ("id", "SELECT id FROM orders ORDER BY ts, amount, id"),
        "match": (
            "a_id",
            "SELECT a_id FROM orders MATCH_RECOGNIZE (ORDER BY ts MEASURES A.id AS a_id AFTER MATCH SKIP PAST LAST ROW "
            "PATTERN (A B) DEFINE A AS A.amount > 20, B AS B.amount > 10)",
        ),
    }
    for name, (columns, text) in texts.items():
        kinds.add(f"keyless/{name}", columns, text)
    grouped = Committing("shop STRING, n BIGINT", "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop", (ORDERS,))
    single = Committing(grouped.columns, "SELECT 'all' AS shop, COUNT(*) AS n FROM orders", (ORDERS,))
    two = {"parallelism.default": "2"}
    for kind, conf in (("", {}), ("-of-two", two)):
        old, new = (Committing(one.columns, one.text, one.tables, conf) for one in (grouped, single))
        for name, one, other in (("loses-keys", old, new), ("same", old, old), ("single", new, new)):
            kinds.cases[f"keyless/committing-{name}{kind}"] = Case(one, other, kinds.script, None, dict(FILL))
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    text = "SELECT o.id, p.paid FROM orders o JOIN payments p ON o.amount < p.paid"
    kinds.add("keyless/join", "id paid", text)
    for name, conf in (("join", {}), ("join-of-two", two)):
        kinds.add(f"keyless/{name}-gets-keys", "id paid", text, "ON ", "ON o.shop = p.shop AND ", conf=conf)
        keyed = text.replace("ON ", "ON o.shop = p.shop AND ")
        kinds.add(f"keyless/{name}-loses-keys", "id paid", keyed, "o.shop = p.shop AND ", "", conf=conf)
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    text = "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.ts BETWEEN p.ts - INTERVAL '20' SECOND AND p.ts"
    kinds.add("keyless/interval-join", "id paid", text)
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _places(kinds: Kinds) -> None:
    """Add changes of where something stands: the same condition at another branch, side or level, the same columns."""
    branch, large = "SELECT shop, amount, price FROM orders", " WHERE amount > 20"
    sums = "SELECT shop, COUNT(*) AS n, SUM(amount) AS a, SUM(price) AS p FROM ({}) GROUP BY shop"
    text = sums.format(f"{branch}{large} UNION ALL {branch} ")
    kinds.add("places/union-condition-twice", "shop n a p", text, f"ALL {branch} ", f"ALL {branch}{large}")
    other = branch.replace("shop", "item")
    text = sums.format(f"{branch}{large} UNION ALL {other} ")
    kinds.add("places/union-condition", "shop n a p", text, large, "", other, other + large)
    crossed = "SELECT shop, price, amount FROM orders"
    text = sums.format(f"{branch} UNION ALL {crossed} UNION ALL {crossed} ")
    kinds.add("places/union-columns", "shop n a p", text, f"ALL {crossed} UNION", f"ALL {branch} UNION")
    text = f"SELECT o.id, p.id AS big FROM (SELECT * FROM orders{large}) o JOIN orders p ON o.shop = p.shop"
    swapped = f"orders o JOIN (SELECT * FROM orders{large}) p"
    kinds.add("places/join-condition", "id big", text, f"(SELECT * FROM orders{large}) o JOIN orders p", swapped)
    kinds.add(
        "places/join-condition-twice", "id big", text, "o JOIN orders p", f"o JOIN (SELECT * FROM orders{large}) p"
    )
    text = "SELECT o.id, p.id AS big FROM orders o JOIN orders p ON o.price = p.amount AND o.shop = p.shop"
    kinds.add("places/join-keys-crossed", "id big", text, "o.price = p.amount", "o.amount = p.price")
    text = (
        "SELECT shop, COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop, item ORDER BY amount DESC) "
        "AS rn FROM orders WHERE price > 5 ) WHERE rn <= 2 GROUP BY shop"
    )
    kinds.add("places/rank", "shop n", text, "orders WHERE price > 5 ", "orders ", "rn <= 2", "rn <= 2 AND price > 5")
    text = (
        "SELECT a.shop, a.n, b.n AS c FROM (SELECT shop, COUNT(*) AS n FROM orders WHERE amount > 20 GROUP BY shop) a "
        "JOIN (SELECT shop, COUNT(*) AS n FROM orders WHERE price > 5 GROUP BY shop) b ON a.shop = b.shop"
    )
    kinds.add("places/results", "shop n c", text, "a.n, b.n AS c", "b.n, a.n AS c")
    text = (
        "SELECT shop, item, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE orders PARTITION BY shop, "
        "DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY shop, item, window_start, window_end"
    )
    columns = "shop item window_start window_end n"
    kinds.add("places/gap-windows", columns, text, "COUNT(*) AS n", "COUNT(*) + 1 AS n")
    kinds.add("places/gap-windows-partition", columns, text, "PARTITION BY shop", "PARTITION BY item")


def outcome(
    case: Case, folder: Path, old: Jobs, new: Jobs, *, ordered: bool = True, history: str = ""
) -> tuple[str, str]:
    """Return the verdict of a change, and what came of it; ``ordered``: rows that come and go at once are compared.

    ``history``: what is added is computed from ``tables``, or from the ``rows`` of the operators; nothing is filled.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    script, plans = list(case.script), [folder / "old.json", folder / "new.json"]
    asked = [
        (
            old,
            {**case.old.job, "plan": plans[0], "until": BEFORE, "savepoint": folder / "before", **format_of(case, old)},
        ),
        (new, {**case.new.job, "plan": plans[1]}),
    ]
    for flink, job in asked:
        made = flink.run(**job, script=script)
        if "error" in made:
            return "-", f"not run: {made['error'][-1][:200]}"
    before, given = pyspark_savepoint.open(folder / "before"), dict(case.given)
    limit = given.pop("max_parallelism", 0)
    try:
        rows = before.check_evolution(*plans, **given).to_arrow().to_pylist()
        verdict = worst(Verdict(row["verdict"]) for row in rows if row["level"] == "operator" and _counts(row))
        if history and verdict in (Verdict.AS_IS, Verdict.TRANSFORMED, Verdict.DERIVED):
            return verdict, "not needed"
        if history:
            evolved, needed = with_history(case, before, plans, given, history)
            verdict = Verdict.BACKFILLED
            if not needed:
                return verdict, "not needed"
        else:
            evolved = before.evolve(*plans, **given)
        (evolved.with_max_parallelism(limit) if limit else evolved).write(folder / "evolved")
    except SavepointError as error:
        return "refused", "refused: " + " ".join(str(error).split())
    except Exception as error:  # what must never be raised
        return "-", f"WRONG: {type(error).__name__}: {error}"
    truth = case.truth if case.truth is not None and verdict in LOSING else case.new
    job = {**truth.job, "plan": folder / "truth.json", "until": BEFORE, "end": ALL}
    if MINI.items() <= dict(case.new.conf).items():
        job["savepoint"] = folder / "golden"  # it ends a batch of rows
    restored = {"restore": (folder / "evolved").resolve().as_uri(), "from": BEFORE, "until": ALL}
    for quiet in (10, 150):  # rows that are late on a busy machine are waited for, before they are missing
        shutil.rmtree(folder / "golden", ignore_errors=True)
        emitted = new.run(**job, script=script, quiet=quiet)
        if "error" in emitted:
            return "-", f"not run: {emitted['error'][-1][:200]}"
        answer = new.run(plan=plans[1], conf=dict(case.new.conf), script=script, quiet=quiet, **restored)
        if "error" in answer:
            return verdict, f"WRONG: not restored: {answer['error'][-1][:300]}"
        found, wanted = (Counter(map(_plain, rows)) for rows in (answer["before"], emitted["after"]))
        if found == wanted:
            return verdict, "same rows"
        if not ordered or _has_no_order(case):
            found, wanted = _net(found), _net(wanted)
            if found == wanted:
                return verdict, "same result"
        if verdict in LOSING and case.truth is None:
            break
    reasons = (reason for one in evolved.evolution.evolution.operators for reason in one.reasons)
    is_told = any(words in note for note in (*evolved.evolution.warnings, *reasons) for words in TOLD)
    word = "said" if (verdict in LOSING and case.truth is None) or is_told else "WRONG"
    gone, more = ([row for _, row in each.elements()] for each in (wanted - found, found - wanted))
    return verdict, f"{word}: {len(gone)} of {wanted.total()} missing, {len(more)} more: {gone[:3]} {more[:3]}"


def _has_no_order(case: Case) -> bool:
    """Return whether rows come and go in an order that is not fixed, so that only what is left of them is compared.

    What a batch leaves out depends on the clock. The two sides of a self-join, of results, or of a comparison with a
    result, have no order. Neither
    have the sums of rows that two inputs give, nor the rows of two tables of which one is a changelog.
    """
    text = case.new.text
    changes = any(kind in ("-U", "-D") for _, kind, _ in case.script) or "ROW_NUMBER" in text
    return (
        (changes and len({name for name, _, _ in case.script}) > 1)
        or MINI.items() <= dict(case.new.conf).items()
        or any(text.count(f" {name} ") > 1 for name in ("orders", "payments"))
        or any(f" {word} " in text for word in ("UNION", "INTERSECT", "EXCEPT"))
        or re.search(r"[<>=] \(SELECT", text) is not None
        or text.count(" GROUP BY ") + (" JOIN " in text) > 1
    )


def format_of(case: Case, flink: Jobs) -> dict[str, str]:
    """The format of OLD's savepoint: ForSt, and state that is read without waiting, have no canonical one."""
    return {"format": "NATIVE"} if flink.backend == "forst" or ASYNC.items() <= dict(case.old.conf).items() else {}


def _plain(row: Sequence[str]) -> tuple[str, str]:
    """Return the sink and the text of a row; the elements of a multiset have no order."""
    sink, text = row
    return sink, re.sub(r"{([^{}]*)}", lambda match: "{" + ", ".join(sorted(match[1].split(", "))) + "}", text)


def _net(rows: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return how often rows are there more than before; what is there less often has a minus."""
    net: Counter[tuple[str, str]] = Counter()
    for (sink, row), count in rows.items():
        net[sink, row[2:]] += count if row[0] == "+" else -count
    return Counter({(sink, "-+"[count > 0] + row): abs(count) for (sink, row), count in net.items() if count})


def _counts(row: Mapping[str, Any]) -> bool:
    """Return whether a row is that of an operator whose state was there, or is made."""
    return row["old_uid"] is not None or not row["new_uid"].endswith("source")


def main(cases: Callable[[int], Mapping[str, Case]] = every_case, expected: Mapping[str, str] | None = None) -> int:
    """Try all changes; ``expected``: by name, whether it was expected to be ``kept``, ``lost`` or ``refused``."""
    command = argparse.ArgumentParser()
    command.add_argument("old")
    command.add_argument("new")
    command.add_argument("--backend", default="hashmap")
    command.add_argument("--only", default="")
    command.add_argument("--seed", type=int, default=7)
    command.add_argument("--history", choices=("tables", "rows"), default="", help="give it, and fill nothing")
    command.add_argument("--keep", help="a folder for what is made; kept only what is WRONG")
    given = command.parse_args()
    warnings.simplefilter("ignore")
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        folders = [Path(work, name) for name in ("old", "new", "cases")]
        for folder in folders:
            folder.mkdir()
        with jobs(given.old, folders[0], given.backend) as one, jobs(given.new, folders[1], given.backend) as other:
            for name, case in cases(given.seed).items():
                if given.only and not any(word in name for word in given.only.split(",")):
                    continue
                folder = Path(given.keep or folders[2]) / name
                verdict, text = outcome(case, folder, one, other, history=given.history)
                word = text.partition(":")[0]
                wanted, came = (expected or {}).get(name, ""), {"refused": "refused", "said": "lost"}.get(word, "kept")
                came = "lost" if verdict in LOSING else came
                told = f" (expected: {wanted})" if wanted and wanted != came and word != "not run" else ""
                print(f"{name:<36} {verdict:<12} {text}{told}", flush=True)
                count[word] += 1
                if not given.keep or word != "WRONG":
                    shutil.rmtree(folder)
    print(dict(count))
    return int(count["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
