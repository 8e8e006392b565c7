"""Random chains of SQL operators whose query changes: evolved, restored by real Flink, and compared with the truth.

    python -m tests.oracle.sql_chains 1.20.5 2.3.0 [--seeds 0 200] [--backend rocksdb]

``sql_kinds`` changes one operator after the other; here several stand behind each other, and one or two things of the
query change at random. A line per seed has the verdict and the outcome, in the words of ``sql_kinds``; both queries are
printed where rows are wrong. The exit code is 1 if any is.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.oracle.sql_changes import ORDERS, PAYMENTS, Case, Query, jobs
from tests.oracle.sql_kinds import FILL, columns_of, orders, outcome

#: Every layer of a chain has these columns, so that any other can stand on it.
COLUMNS = "shop, item, amount, price, id"
KEYS = ("shop", "item", "shop, item", "item, shop")
ONE_KEY = ("shop", "item")
CONDITIONS = (
    *("amount > 20", "price > 5", "amount < 40", "shop <> 'shop 1'", "item <> 'item 3'", "amount > price"),
    "price IS NOT NULL",
)
CALLS = (
    *("CAST(SUM(amount) AS INT)", "MAX(amount)", "MIN(amount)", "CAST(SUM(price) AS INT)", "MAX(price)"),
    *("CAST(COUNT(DISTINCT item) AS INT)", "CAST(COUNT(price) AS INT)", "CAST(AVG(amount) AS INT)"),
    "CAST(SUM(amount) FILTER (WHERE price > 5) AS INT)",
)
NUMBERS = ("COUNT(*)", "MAX(id)", "MIN(id)", "SUM(id)", "COUNT(DISTINCT id)")
MAYBE = ("", *CONDITIONS)
LAST = "ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY ts DESC)"
TUMBLE = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '{minutes}' MINUTE))"
#: By name: what can be chosen, and the text; ``{below}`` is the layer below. The first ones have none.
FIRST: Mapping[str, tuple[Mapping[str, tuple[str, ...]], str]] = {
    "rows": ({"where": MAYBE}, f"SELECT {COLUMNS} FROM orders {{where}}"),
    "last": (
        {"where": MAYBE, "key": KEYS},
        f"SELECT {COLUMNS} FROM (SELECT *, {LAST} AS rn FROM orders {{where}}) WHERE rn = 1",
    ),
    "tumble": (
        {"where": MAYBE, "a": CALLS[:5], "b": CALLS[:5], "n": NUMBERS, "minutes": ("2", "3")},
        "SELECT shop, MAX(item) AS item, {a} AS amount, {b} AS price, {n} AS id "
        f"FROM {TUMBLE} {{where}} GROUP BY shop, window_start, window_end",
    ),
    "over": (
        {"where": MAYBE, "key": ONE_KEY, "rows": ("2", "3"), "a": ("amount", "price")},
        "SELECT shop, item, CAST(SUM({a}) OVER w AS INT) AS amount, price, id FROM orders {where} WINDOW w AS "
        "(PARTITION BY {key} ORDER BY ts ROWS BETWEEN {rows} PRECEDING AND CURRENT ROW)",
    ),
}
LAYERS: Mapping[str, tuple[Mapping[str, tuple[str, ...]], str]] = {
    "filter": ({"where": CONDITIONS}, f"SELECT {COLUMNS} FROM ({{below}}) {{where}}"),
    "project": (
        {"a": ("amount", "price", "amount + 1", "COALESCE(price, 0)"), "b": ("price", "amount", "price * 2")},
        "SELECT shop, item, {a} AS amount, {b} AS price, id FROM ({below})",
    ),
    "union": (
        {"where": MAYBE, "columns": (COLUMNS, "shop, item, price AS amount, amount AS price, id")},
        f"SELECT {COLUMNS} FROM ({{below}}) UNION ALL SELECT {{columns}} FROM orders {{where}}",
    ),
    "group": (
        {"key": KEYS, "a": CALLS, "b": CALLS, "n": NUMBERS},
        "SELECT {shop} AS shop, {item} AS item, {a} AS amount, {b} AS price, {n} AS id FROM ({below}) GROUP BY {key}",
    ),
    "rank": (
        {"key": KEYS, "by": ("amount DESC", "price DESC", "amount", "id"), "best": ("1", "2", "3")},
        f"SELECT {COLUMNS} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {{key}} ORDER BY {{by}}, id, amount, price, "
        "shop, item) AS rn FROM ({below})) WHERE rn <= {best}",
    ),
    "join": (
        {"kind": ("", "LEFT"), "key": ONE_KEY, "a": CALLS, "where": MAYBE},
        "SELECT l.shop, l.item, l.amount, r.m AS price, l.id FROM ({below}) l {kind} JOIN (SELECT {key}, {a} AS m "
        "FROM orders {where} GROUP BY {key}) r ON l.{key} = r.{key}",
    ),
    "join-rows": (
        {"where": MAYBE, "key": ("id", "shop"), "also": ("", " AND l.item = r.item", " AND l.amount < r.amount")},
        f"SELECT l.shop, r.item, l.amount, r.price, l.id FROM ({{below}}) l JOIN (SELECT {COLUMNS} FROM orders "
        "{where}) r ON l.{key} = r.{key}{also}",
    ),
    "semi": (
        {"key": ONE_KEY, "kind": ("", "", "NOT"), "paid": ("2", "5")},
        f"SELECT {COLUMNS} FROM ({{below}}) WHERE {{key}} {{kind}} IN (SELECT shop FROM payments WHERE paid > {{paid}} "
        "AND shop IS NOT NULL)",
    ),
    "distinct": (
        {"column": ("amount", "price")},
        "SELECT shop, item, {column} AS amount, 0 AS price, CAST(0 AS BIGINT) AS id FROM (SELECT DISTINCT shop, item, "
        "{column} FROM ({below}))",
    ),
}
EVERY = {**FIRST, **LAYERS}
#: A layer: its name, and what was chosen.
Layer = tuple[str, dict[str, str]]
Chain = list[Layer]


def layer(of: random.Random, among: Mapping[str, tuple[Mapping[str, tuple[str, ...]], str]]) -> Layer:
    name = of.choice([*among, *(one for one in among if one in ("group", "rows"))])
    return name, {place: of.choice(choices) for place, choices in among[name][0].items()}


def text_of(chain: Chain) -> str:
    """Return the query of a chain."""
    below = ""
    for name, chosen in chain:
        words = {**chosen, "below": below}
        if chosen.get("where"):
            words["where"] = f"WHERE {chosen['where']}"
        for column in ("shop", "item"):
            words[column] = column if column in chosen.get("key", "").split(", ") else f"MAX({column})"
        below = EVERY[name][1].format(**words)
    return below


def _choose(of: random.Random, chain: Chain) -> None:
    """Choose another value at one place."""
    name, chosen = of.choice(chain)
    place = of.choice(list(chosen))
    chosen[place] = of.choice(EVERY[name][0][place])


def _exchange(of: random.Random, chain: Chain) -> None:
    """Exchange two values of one kind, in one layer or in two: calls, conditions, keys."""
    places = [(chosen, place) for _, chosen in chain for place in chosen]
    (one, here), (other, there) = of.choice(places), of.choice(places)
    allowed = {id(chosen): EVERY[name][0] for name, chosen in chain}
    if one[here] in allowed[id(other)][there] and other[there] in allowed[id(one)][here]:
        one[here], other[there] = other[there], one[here]


def _move(of: random.Random, chain: Chain) -> None:
    """Exchange two layers."""
    if len(chain) > 2:
        place = of.randrange(1, len(chain) - 1)
        chain[place : place + 2] = chain[place : place + 2][::-1]


def _remove(of: random.Random, chain: Chain) -> None:
    if len(chain) > 2:
        del chain[of.randrange(1, len(chain))]


def _add(of: random.Random, chain: Chain) -> None:
    chain.insert(of.randrange(1, len(chain) + 1), layer(of, LAYERS))


def _end(of: random.Random, chain: Chain) -> None:
    """Add what has no state at the end."""
    chain.append(layer(of, {name: LAYERS[name] for name in ("filter", "project")}))


CHANGES: tuple[Callable[[random.Random, Chain], None], ...] = (
    _choose,
    _exchange,
    _exchange,
    _move,
    _remove,
    _add,
    _end,
)


def case_of(seed: int) -> Case:
    """Return a query, another one that differs in one or two things, and what both read."""
    of, before, after = random.Random(seed), "", ""
    while before == after:
        chain = [layer(of, FIRST), *(layer(of, LAYERS) for _ in range(of.choice((1, 2, 2, 3))))]
        changed = [(name, dict(chosen)) for name, chosen in chain]
        for _ in range(of.choice((1, 1, 1, 2))):
            of.choice(CHANGES)(of, changed)
        before, after = text_of(chain), text_of(changed)
    columns, tables = columns_of("shop item amount price id"), (ORDERS, PAYMENTS)
    return Case(Query(columns, before, tables), Query(columns, after, tables), orders(seed, "payments"), None, FILL)


def main() -> int:
    """Try chains."""
    command = argparse.ArgumentParser()
    command.add_argument("old")
    command.add_argument("new")
    command.add_argument("--seeds", nargs=2, type=int, default=(0, 200), metavar=("FIRST", "END"))
    command.add_argument("--backend", default="hashmap")
    told = command.parse_args()
    warnings.simplefilter("ignore")
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        folders = [Path(work, name) for name in ("old", "new", "case")]
        for folder in folders:
            folder.mkdir()
        with jobs(told.old, folders[0], told.backend) as one, jobs(told.new, folders[1], told.backend) as other:
            for seed in range(*told.seeds):
                case = case_of(seed)
                for _ in range(2):  # what two inputs of a job do to each other depends on time: wrong twice is wrong
                    verdict, text = outcome(case, folders[2], one, other, ordered=False)
                    word = text.partition(":")[0]
                    if word != "WRONG":
                        break
                count[word] += 1
                print(f"{seed:<6} {verdict:<12} {text}", flush=True)
                if word == "WRONG":
                    print(f"  OLD {case.old.text}\n  NEW {case.new.text}", flush=True)
    print(dict(count))
    return int(count["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
