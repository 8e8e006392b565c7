"""Changes of what users do to queries, each with the outcome that was expected before it was run.

    python -m tests.oracle.sql_tried 1.20.5 2.3.0 [--backend rocksdb] [--only WORDS] [--seed 7]

The options and lines are those of ``sql_kinds``. ``EXPECTED`` says of each change whether its state is ``kept`` (the
same rows), whether something is ``lost`` (the verdict says so), or whether it is ``refused``. An outcome that says less
than is true is a lie, and one that is worse than expected is refused without need.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle.sql_changes import ORDERS, PAYMENTS, Case, Script, table
from tests.oracle.sql_kinds import CHANGED, MINI, PAID, RATES, Kinds, changes, expecting, main, orders
from tests.oracle.sql_rewordings import Sinks

#: What was expected of each change.
EXPECTED: dict[str, str] = {}
_add = expecting(EXPECTED)
BEST = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS rn FROM {}) WHERE {}"
TWO = {**MINI, "table.optimizer.agg-phase-strategy": "TWO_PHASE"}
SUMS = "COUNT(*) AS n, SUM(p.paid) AS a"
WINDOWS = "TABLE({}(TABLE orders{}, DESCRIPTOR(ts), {}))"


def every_case(seed: int) -> Mapping[str, Case]:
    """The changes."""
    kinds = Kinds(seed)
    _rows(kinds)
    _windows(kinds)
    _calls(kinds)
    _values(kinds, seed)
    _joins(kinds, seed)
    _settings(kinds)
    _statements(kinds)
    _changelogs(kinds, seed)
    assert set(EXPECTED) == set(kinds.cases)
    return kinds.cases


def _rows(kinds: Kinds) -> None:
    """Add first, last and best rows."""
    last = BEST.format("item, id", "shop, item, MOD(id, 3)", "pt DESC", "orders", "rn = 1")
    _add(kinds, "last/three-keys", "kept", "item id", last, "shop, item, MOD(id, 3)", "item, MOD(id, 3), shop")
    last = BEST.format("id, amount", "id", "pt DESC", "orders", "rn = 1")
    _add(kinds, "last/key-as-text", "kept", "id amount", last, "BY id", "BY CAST(id AS STRING)")
    last = BEST.format("item, id, ts AS st", "item", "pt DESC", "orders", "rn = 1")
    _add(kinds, "last/other-time", "lost", "item id st", last, "pt DESC", "ts DESC")
    last = BEST.format("item, id, amount", "item", "pt DESC", "orders", "rn = 1 AND amount > 10")
    _add(kinds, "last/condition-behind", "kept", "item id amount", last, "> 10", "> 20")
    last = BEST.format("item, id, amount", "item", "pt DESC", "orders", "rn = 1")
    _add(
        kinds, "last/condition-before", "refused", "item id amount", last, "FROM orders", "FROM orders WHERE price > 3"
    )
    inner = BEST.format("item, shop, amount, price", "item", "pt DESC", "orders", "rn = 1")
    text = f"SELECT shop, SUM(amount) AS a, SUM(price) AS p FROM ({inner}) GROUP BY shop"
    turned = ("SUM(amount) AS a, SUM(price) AS p", "SUM(price) AS p, SUM(amount) AS a")
    _add(kinds, "last/sums-turned", "kept", "shop a p", text, *turned, to="shop p a")
    _add(kinds, "last/sum-removed", "kept", "shop a p", text, ", SUM(price) AS p", "", to="shop a")
    less = text.replace(", SUM(price) AS p", "").replace("amount, price FROM", "amount FROM")
    _add(
        kinds,
        "last/sum-of-new-column",
        "refused",
        "shop a",
        less,
        "SUM(amount)",
        "SUM(price)",
        "amount FROM",
        "price FROM",
    )
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn BETWEEN 2 AND 5")
    _add(kinds, "top/ends-before", "kept", "shop id amount", top, "AND 5", "AND 4")
    _add(kinds, "top/moved", "refused", "shop id amount", top, "2 AND 5", "3 AND 6")
    limit = "SELECT id FROM orders ORDER BY amount, id LIMIT 5 OFFSET 2"
    _add(kinds, "top/offset", "refused", "id", limit, "OFFSET 2", "OFFSET 3")
    top = BEST.format("shop, item, id", "shop, item", "amount DESC, id", "orders", "rn <= 3")
    _add(kinds, "top/smaller-and-turned", "kept", "shop item id", top, "BY shop, item", "BY item, shop", "<= 3", "<= 2")
    one = BEST.format("shop, id, price", "shop", "amount DESC, id", "orders", "rn <= 2")
    _add(kinds, "top/sort-column-out", "kept", "shop id price", one, "price FROM (", "price + 1 FROM (")
    _add(kinds, "top/descending", "lost", "shop id price", one, "amount DESC, id", "amount DESC, id DESC")
    text = f"SELECT shop, COUNT(*) AS n, MAX(price) AS p FROM ({one}) GROUP BY shop"
    _add(kinds, "top/counted-smaller", "refused", "shop n p", text, "<= 2", "<= 1")
    _add(kinds, "top/calls-turned", "kept", "shop n p", text, "n, MAX(price) AS p", "n, MAX(price) + 1 AS p")
    over = (
        "SELECT id, {} OVER (PARTITION BY shop ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS {} FROM orders"
    )
    text = over.format("SUM(amount)", "a")
    distinct = over.format("COUNT(DISTINCT amount)", "n")
    _add(kinds, "over/to-distinct", "kept", "id a", text, text, distinct, to="id n")
    _add(kinds, "over/from-distinct", "kept", "id n", distinct, distinct, text, to="id a")
    unit = text.replace("ROWS BETWEEN 5 PRECEDING", "RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING")
    _add(kinds, "over/unit", "kept", "id a", unit, "'1' MINUTE", "'60' SECOND")
    text = f"SELECT a, COUNT(*) AS n FROM ({text}) GROUP BY a"
    _add(kinds, "over/grouped-column", "lost", "a n", text, "SUM(amount)", "SUM(price)")
    match = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY shop ORDER BY ts MEASURES A.id AS a_id, B.id AS b_id AFTER "
        "MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 20, B AS B.amount > A.amount)"
    )
    _add(kinds, "match/condition-turned", "kept", "shop a_id b_id", match, "B.amount > A.amount", "A.amount < B.amount")
    _add(kinds, "match/condition-other", "refused", "shop a_id b_id", match, "> A.amount", ">= A.amount")
    _add(kinds, "match/greedy", "refused", "shop a_id b_id", match, "(A B)", "(A+ B)", "A.id", "LAST(A.id)")
    within = match.replace("(A B)", "(A B) WITHIN INTERVAL '1' MINUTE")
    _add(kinds, "match/within-gone", "refused", "shop a_id b_id", within, " WITHIN INTERVAL '1' MINUTE", "")
    _add(kinds, "match/within-unit", "kept", "shop a_id b_id", within, "'1' MINUTE", "'60' SECOND")
    _add(kinds, "match/partition", "refused", "shop a_id b_id", match, "BY shop", "BY item", to="item a_id b_id")


def _windows(kinds: Kinds) -> None:
    """Add windows."""
    keys = "shop window_start window_end"
    text = "SELECT shop, window_start, window_end, {} FROM {} GROUP BY shop, window_start, window_end"
    cumulate = WINDOWS.format("CUMULATE", "", "INTERVAL '1' MINUTE, INTERVAL '3' MINUTE")
    rows = text.format("COUNT(DISTINCT item) AS n, MIN(amount) AS a", cumulate)
    _add(
        kinds,
        "cumulate/unit",
        "kept",
        f"{keys} n a",
        rows,
        "'1' MINUTE",
        "'60' SECOND",
        "'3' MINUTE",
        "'180' SECOND(3)",
    )
    _add(kinds, "cumulate/distinct-out", "kept", f"{keys} n a", rows, "COUNT(DISTINCT item) AS n, ", "", to=f"{keys} a")
    more = rows.replace("shop, window", "shop, item, window")
    gone = ("SELECT shop, item,", "SELECT shop,", "BY shop, item,", "BY shop,")
    _add(kinds, "cumulate/key-out", "kept", "shop item window_start window_end n a", more, *gone, to=f"{keys} n a")
    hop = WINDOWS.format("HOP", "", "INTERVAL '1' MINUTE, INTERVAL '3' MINUTE")
    rows = text.format("AVG(amount) AS a, COUNT(*) AS n", hop)
    _add(kinds, "hop/average-apart", "kept", f"{keys} a n", rows, "AVG(amount) AS a", "SUM(amount) AS a")
    _add(kinds, "hop/filter-in", "lost", f"{keys} a n", rows, "COUNT(*)", "COUNT(*) FILTER (WHERE price > 5)")
    session = WINDOWS.format("SESSION", " PARTITION BY (shop, item)", "INTERVAL '70' SECOND")
    few, many = (f"COUNT(DISTINCT price) FILTER (WHERE amount {sign} 20)" for sign in ("<", ">="))
    rows = text.format(f"{few} AS n, {many} AS c", session).replace("shop, window", "shop, item, window")
    columns = "shop item window_start window_end"
    _add(kinds, "session/keys-turned", "kept", f"{columns} n c", rows, "(shop, item)", "(item, shop)")
    turned = (f"{few} AS n, {many} AS c", f"{many} AS n, {few} AS c")
    _add(kinds, "session/filters-turned", "kept", f"{columns} n c", rows, *turned)
    best = BEST.format("shop, item, id", "window_start, window_end, shop, item", "amount DESC, id", "{}", "rn <= 2")
    tumble = WINDOWS.format("TUMBLE", "", "INTERVAL '2' MINUTE")
    best = best.format(tumble)
    _add(kinds, "window-top/keys-turned", "kept", "shop item id", best, "shop, item ORDER", "item, shop ORDER")
    _add(kinds, "window-top/tie", "refused", "shop item id", best, "DESC, id", "DESC, price, id")
    _add(kinds, "window-top/unit", "kept", "shop item id", best, "'2' MINUTE", "'120' SECOND(3)")
    counted = (
        f"(SELECT shop, window_start, window_end, COUNT(*) AS n FROM {tumble} GROUP BY shop, window_start, window_end)"
    )
    top = BEST.format("shop, window_start, n", "window_start, window_end", "n DESC, shop", counted, "rn <= 2")
    _add(kinds, "window-top/of-counts", "kept", "shop window_start n", top, "<= 2", "<= 1")
    _add(kinds, "window-top/of-other", "lost", "shop window_start n", top, "COUNT(*)", "COUNT(price)")
    early = {"table.exec.emit.early-fire.enabled": "true", "table.exec.emit.early-fire.delay": "1 h"}
    group = "SELECT shop, TUMBLE_START(ts, INTERVAL '2' MINUTE) AS st, COUNT(*) AS n FROM orders GROUP BY shop, "
    group += "TUMBLE(ts, INTERVAL '2' MINUTE)"
    _add(kinds, "window-early/on", "kept", "shop st n", group, new_conf=early)
    _add(kinds, "window-early/off", "kept", "shop st n", group, conf=early, new_conf={})
    _add(kinds, "window-early/same", "kept", "shop st n", group, "COUNT(*)", "COUNT(*) + 1", conf=early)
    tvf = text.format("COUNT(*) AS n", tumble).replace("shop, window_start, window_end", "shop, window_start")
    tvf = tvf.replace("GROUP BY shop, window_start", "GROUP BY shop, window_start, window_end")
    tvf = tvf.replace("window_start, COUNT", "window_start AS st, COUNT")
    _add(kinds, "window-kind/to-function", "kept", "shop st n", group, group, tvf)


def _calls(kinds: Kinds) -> None:
    """Add calls of groups."""

    def calls(name: str, expected: str, columns: str, old: str, new: str, to: str = "", **more: Any) -> None:
        text = "SELECT shop, {} FROM orders GROUP BY shop"
        one, other = text.format(old), text.format(new)
        _add(kinds, f"call/{name}", expected, f"shop {columns}", one, one, other, to=f"shop {to or columns}", **more)

    one, other = "COUNT(DISTINCT item) FILTER (WHERE amount < 20)", "COUNT(DISTINCT price) FILTER (WHERE amount > 9)"
    calls("distinct-of-two-turned", "kept", "n c", f"{one} AS n, {other} AS c", f"{other} AS n, {one} AS c")
    calls("distinct-of-two-fewer", "kept", "n c", f"{one} AS n, {other} AS c", f"{other} AS c", "c")
    calls(
        "distinct-pair-turned", "lost", "n", "COUNT(DISTINCT (item, price)) AS n", "COUNT(DISTINCT (price, item)) AS n"
    )
    calls(
        "distinct-text", "kept", "s n", "LISTAGG(DISTINCT item) AS s, COUNT(*) AS n", "LISTAGG(DISTINCT item) AS s", "s"
    )
    calls("distinct-text-off", "lost", "s", "LISTAGG(DISTINCT item) AS s", "LISTAGG(item) AS s")
    calls("first-filter", "lost", "f", "FIRST_VALUE(amount) AS f", "FIRST_VALUE(amount) FILTER (WHERE price > 5) AS f")
    calls("objects", "kept", "s n", "JSON_OBJECTAGG(KEY item VALUE amount) AS s, COUNT(*) AS n", "COUNT(*) AS n", "n")
    calls(
        "objects-value",
        "lost",
        "s",
        "JSON_OBJECTAGG(KEY item VALUE amount) AS s",
        "JSON_OBJECTAGG(KEY item VALUE price) AS s",
    )
    calls("maximum-and-minimum", "lost", "a", "MAX(amount) AS a", "MAX(amount) AS a, MIN(amount) AS f", "a f")
    calls("minus", "kept", "a", "SUM(price) - SUM(amount) AS a", "SUM(amount) - SUM(price) AS a")
    calls(
        "ratio", "kept", "a n", "SUM(price) / COUNT(price) AS a, COUNT(*) AS n", "COUNT(*) AS n, SUM(price) AS a", "n a"
    )
    calls("greatest", "lost", "a", "MAX(GREATEST(price, amount)) AS a", "MAX(LEAST(price, amount)) AS a")
    calls("same-twice", "kept", "a p", "SUM(amount) AS a, SUM(price) AS p", "SUM(amount) AS a, SUM(amount) AS p")
    calls(
        "case-else",
        "lost",
        "a",
        "SUM(CASE WHEN price > 5 THEN 1 ELSE 0 END) AS a",
        "SUM(CASE WHEN price > 5 THEN 1 END) AS a",
    )
    text = "SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY shop, item"
    _add(
        kinds,
        "call/key-constant",
        "kept",
        "shop item n",
        text,
        "item, COUNT",
        "'x' AS item, COUNT",
        "shop, item",
        "shop",
    )
    _add(kinds, "call/keys-joined", "kept", "shop item n", text, "BY shop, item", "BY GROUPING SETS ((shop, item))")


def _values(kinds: Kinds, seed: int) -> None:
    """Add nested rows, arrays, maps and JSON, and types of columns."""
    rows = "(SELECT *, {} FROM orders) AS o"
    last = BEST.format("item, CAST(v AS STRING) AS s", "item", "pt DESC", "{}", "rn = 1")
    for name, expected, old, new in (
        ("array-turned", "lost", "ARRAY[price, amount] AS v", "ARRAY[amount, price] AS v"),
        ("array-longer", "lost", "ARRAY[price, amount] AS v", "ARRAY[price, amount, 1] AS v"),
        ("array-same", "kept", "ARRAY[price, amount] AS v", "ARRAY[price, amount] AS v"),
        ("map-value", "lost", "MAP['a', price] AS v", "MAP['a', amount] AS v"),
        ("map-key", "lost", "MAP['a', price] AS v", "MAP['b', price] AS v"),
        ("map-more", "lost", "MAP['a', price] AS v", "MAP['a', price, 'b', amount] AS v"),
        ("nested-array", "lost", "ROW(price, ARRAY[amount]) AS v", "ROW(price, ARRAY[id]) AS v"),
    ):
        _add(kinds, f"value/{name}", expected, "item s", last.format(rows.format(old)), old, new)
    text = rows.format("JSON_OBJECT('a' VALUE price, 'b' VALUE amount) AS v")
    text = (
        "SELECT shop, SUM(CAST(JSON_VALUE(v, '$.a') AS INT)) AS a, SUM(CAST(JSON_VALUE(v, '$.b') AS INT)) AS p FROM "
        + text
    )
    text += " GROUP BY shop"
    _add(kinds, "value/json-paths", "kept", "shop a p", text, "$.a", "$.x", "$.b", "$.a", "$.x", "$.b")
    _add(kinds, "value/json-path", "lost", "shop a p", text, "$.a", "$.b")
    text = text.replace("SELECT shop, ", "SELECT JSON_VALUE(v, '$.b') AS s, ").replace(
        "BY shop", "BY JSON_VALUE(v, '$.b')"
    )
    _add(
        kinds,
        "value/json-key",
        "lost",
        "s a p",
        text,
        "'$.b') AS s",
        "'$.a') AS s",
        "BY JSON_VALUE(v, '$.b')",
        "BY JSON_VALUE(v, '$.a')",
    )
    script: Script = [
        (name, kind, {**row, "v": {"x": row["price"], "y": row["amount"]}}) for name, kind, row in orders(seed)
    ]
    nested = ORDERS.replace("price INT", "v ROW<x INT, y INT>, price INT")
    old_script, kinds.script = kinds.script, script
    old_tables, kinds.tables = kinds.tables, (nested,)
    last = BEST.format("item, v", "item", "pt DESC", "orders", "rn = 1").replace(
        "item, v FROM", "item, v.y AS y, v.x AS x FROM", 1
    )
    turned = (nested.replace("x INT, y INT", "y INT, x INT"),)
    _add(kinds, "value/fields-turned", "kept", "item y x", last, tables=turned)
    wider = (nested.replace("x INT, y INT", "x INT, y INT, z INT"),)
    _add(kinds, "value/field-added", "kept", "item y x", last, tables=wider)
    text = "SELECT shop, SUM(v.x) AS a, SUM(v.y) AS p FROM orders GROUP BY shop"
    _add(kinds, "value/summed-fields-turned", "kept", "shop a p", text, tables=turned)
    _add(kinds, "value/summed-field", "lost", "shop a p", text, "v.x", "v.y")
    kinds.script, kinds.tables = old_script, old_tables
    text = "SELECT shop, amount, COUNT(*) AS n, MAX(price) AS p FROM orders GROUP BY shop, amount"
    big = (ORDERS.replace("amount INT", "amount BIGINT"),)
    _add(kinds, "type/key", "kept", "shop amount n p", text, tables=big, to="shop big n p")
    small, large = (ORDERS.replace("shop STRING", f"shop VARCHAR({length})") for length in (10, 20))
    kinds.tables = (small,)
    _add(kinds, "type/text-key", "kept", "shop amount n p", text, tables=(large,))
    kinds.tables = (large,)
    _add(kinds, "type/text-key-shorter", "refused", "shop amount n p", text, tables=(small,))
    kinds.tables = (ORDERS.replace("amount INT", "amount DECIMAL(10, 2)"),)
    sums = "SELECT shop, CAST(SUM(amount) AS INT) AS a, CAST(MAX(amount) AS INT) AS p FROM orders GROUP BY shop"
    _add(
        kinds, "type/decimal", "kept", "shop a p", sums, tables=(ORDERS.replace("amount INT", "amount DECIMAL(14, 2)"),)
    )
    _add(
        kinds,
        "type/decimal-scale",
        "kept",
        "shop a p",
        sums,
        tables=(ORDERS.replace("amount INT", "amount DECIMAL(14, 4)"),),
    )
    kinds.tables = (ORDERS,)
    renamed = (ORDERS.replace("price INT", "cost INT"),)
    _add(
        kinds,
        "type/column-renamed",
        "lost",
        "shop p",
        "SELECT shop, SUM(price) AS p FROM orders GROUP BY shop",
        "price",
        "cost",
        tables=renamed,
    )
    crossed = (ORDERS.replace("price INT, amount INT", "amount INT, price INT"),)
    _add(kinds, "type/columns-crossed", "kept", "shop amount n p", text, tables=crossed)


def _joins(kinds: Kinds, seed: int) -> None:
    """Add joins."""
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    text = (
        "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts BETWEEN p.ts - INTERVAL '60' SECOND"
        " AND p.ts + INTERVAL '30' SECOND"
    )
    _add(kinds, "near/lower-narrower", "kept", "id paid", text, "'60'", "'20'")
    _add(kinds, "near/unit", "kept", "id paid", text, "'60' SECOND", "'1' MINUTE")
    _add(
        kinds,
        "near/one-side",
        "lost",
        "id paid",
        text,
        " AND p.ts + INTERVAL '30' SECOND",
        " AND p.ts + INTERVAL '90' SECOND",
    )
    wide = (ORDERS, PAID.replace("paid INT", "paid BIGINT"))
    _add(kinds, "near/type", "kept", "id paid", text, tables=wide, to="id big")
    turned = ("orders o JOIN paid p", "paid p JOIN orders o")
    _add(kinds, "near/sides", "kept", "id paid", text, *turned)
    side = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' MINUTE)))"
    both = "o.window_start = p.window_start AND o.window_end = p.window_end"
    window = (
        f"SELECT o.id, p.paid FROM {side.format('orders')} o JOIN {side.format('paid')} p ON o.shop = p.shop AND {both}"
    )
    unit = ("'2' MINUTE", "'120' SECOND(3)") * 2
    _add(kinds, "window-join/unit", "kept", "id paid", window, *unit)
    sides = (
        f"{side.format('orders')} o JOIN {side.format('paid')} p",
        f"{side.format('paid')} p JOIN {side.format('orders')} o",
    )
    _add(kinds, "window-join/sides", "kept", "id paid", window, *sides)
    _add(kinds, "window-join/to-semi", "kept", "id paid", window, "p.paid FROM", "o.amount AS paid FROM")
    versions = (
        "CREATE VIEW versions AS SELECT shop, paid, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY "
        "ts DESC) AS rn FROM paid) WHERE rn = 1"
    )
    kinds.tables = (ORDERS, PAID, versions)
    text = "SELECT o.id, v.paid FROM orders o LEFT JOIN versions FOR SYSTEM_TIME AS OF o.ts AS v ON o.shop = v.shop"
    _add(kinds, "versions/column-behind", "kept", "id paid", text, "v.paid", "v.paid + 1")
    _add(kinds, "versions/inner", "kept", "id paid", text, "LEFT JOIN", "JOIN")
    _add(kinds, "versions/column", "lost", "id paid", text, "v.paid", "v.paid, o.item", to="id paid item")
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    text = (
        "SELECT o.id, a.rate, b.rate AS p FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS a ON o.shop = a.shop "
        "JOIN rates FOR SYSTEM_TIME AS OF o.ts AS b ON o.shop = b.shop"
    )
    _add(kinds, "versions/two", "kept", "id rate p", text, "a.rate, b.rate AS p", "a.rate + 1, b.rate AS p")
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    text = "SELECT o.id, o.price, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    keyed = (ORDERS.replace("pt AS PROCTIME()", "pt AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED"), PAYMENTS)
    _add(kinds, "join/key-declared", "kept", "id price paid", text, tables=keyed)
    kinds.tables = keyed
    _add(kinds, "join/key-undeclared", "kept", "id price paid", text, tables=(ORDERS, PAYMENTS))
    other = (keyed[0].replace("KEY (id)", "KEY (id, shop)"), PAYMENTS)
    _add(kinds, "join/key-longer", "kept", "id price paid", text, tables=other)
    kinds.tables = (ORDERS, PAYMENTS)
    wide = (ORDERS.replace("price INT", "price BIGINT"), PAYMENTS.replace("paid INT", "paid BIGINT"))
    _add(kinds, "join/types", "kept", "id price paid", text, tables=wide, to="id big n")
    anti = "SELECT id, amount FROM orders o WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.shop = o.shop)"
    _add(kinds, "join/anti-key", "kept", "id amount", anti, "= o.shop", "= o.shop AND p.paid = o.price")
    both = (
        "WITH x AS (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) "
        "SELECT a.shop, a.n, b.n AS c FROM x a JOIN x b ON a.shop = b.shop"
    )
    _add(kinds, "join/shared", "kept", "shop n c", both, "a.n, b.n AS c", "a.n + b.n AS n, b.n AS c")
    text = f"SELECT o.shop, {SUMS} FROM orders o LEFT JOIN payments p ON o.shop = p.shop GROUP BY o.shop"
    _add(kinds, "join/grouped-inner", "refused", "shop n a", text, "LEFT JOIN", "JOIN")
    _add(
        kinds,
        "join/grouped-turned",
        "kept",
        "shop n a",
        text,
        "COUNT(*) AS n, SUM(p.paid) AS a",
        "SUM(p.paid) AS a, COUNT(*) AS n",
        to="shop big n",
    )
    text = "SELECT shop, SUM(x) AS a FROM orders {} JOIN UNNEST(ARRAY[price, amount]) AS t (x){} GROUP BY shop"
    _add(
        kinds,
        "join/unnest-left",
        "refused",
        "shop a",
        text.format("CROSS", ""),
        text.format("CROSS", ""),
        text.format("LEFT", " ON TRUE"),
    )
    branches = (
        "SELECT shop, amount AS a FROM orders",
        "SELECT shop, paid AS a FROM payments",
        "SELECT shop, price AS a FROM orders",
    )
    sums = "SELECT shop, SUM(a) AS a FROM ({}) GROUP BY shop"
    text = sums.format(" UNION ALL ".join(branches))
    turned = sums.format(" UNION ALL ".join((branches[2], branches[0], branches[1])))
    _add(kinds, "union/turned", "kept", "shop a", text, text, turned)
    _add(
        kinds,
        "union/same-table-branch",
        "refused",
        "shop a",
        sums.format(" UNION ALL ".join(branches[:2])),
        branches[1],
        f"{branches[1]} UNION ALL {branches[2]}",
    )
    text = f"{branches[0]} UNION {branches[1]}"
    _add(kinds, "union/distinct-turned", "kept", "shop a", text, text, f"{branches[1]} UNION {branches[0]}")


def _settings(kinds: Kinds) -> None:
    """Add settings and hints that come with a change of the query."""
    text = f"SELECT o.shop, {SUMS} FROM orders o JOIN payments p ON o.shop = p.shop GROUP BY o.shop"
    sums = (SUMS, "SUM(p.paid) AS a")
    _add(kinds, "setting/batches-on", "kept", "shop n a", text, *sums, to="shop a", conf={}, new_conf=MINI)
    _add(kinds, "setting/batches-off", "kept", "shop n a", text, *sums, to="shop a", conf=MINI, new_conf={})
    _add(kinds, "setting/phases", "kept", "shop n a", text, *sums, to="shop a", conf=MINI, new_conf=TWO)
    hint = "/*+ STATE_TTL('o' = '1d', 'p' = '2d') */ "
    joined = "SELECT o.id, o.item, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    _add(
        kinds,
        "setting/hint-and-column",
        "kept",
        "id item paid",
        joined,
        "SELECT o.id, o.item",
        f"SELECT {hint}o.id",
        to="id paid",
    )
    _add(
        kinds,
        "setting/time-to-live",
        "kept",
        "id item paid",
        joined,
        "o.item, ",
        "",
        to="id paid",
        conf={},
        new_conf={"table.exec.state.ttl": "1 d"},
    )
    two = {"parallelism.default": "2"}
    _add(
        kinds,
        "setting/two-and-keys",
        "kept",
        "id item paid",
        joined,
        "= p.shop",
        "= p.shop AND o.price = p.paid",
        conf={},
        new_conf=two,
    )
    _add(kinds, "setting/two-to-one", "kept", "shop n a", text, *sums, to="shop a", conf=two, new_conf={})
    last = BEST.format("item, id, amount", "item", "pt DESC", "orders", "rn = 1")
    _add(
        kinds,
        "setting/last-batches",
        "kept",
        "item id amount",
        last,
        ", amount FROM",
        " FROM",
        to="item id",
        conf={},
        new_conf=MINI,
    )
    own = "SELECT a.id, b.id AS big FROM orders a JOIN orders b ON a.shop = b.shop AND a.id = b.id + 1"
    apart = {"table.optimizer.reuse-source-enabled": "false"}
    _add(kinds, "setting/sources-apart", "lost", "id big", own, new_conf=apart)
    _add(kinds, "setting/sources-together", "refused", "id big", own, conf=apart, new_conf={})


def _statements(kinds: Kinds) -> None:
    """Add statement sets."""
    kinds.tables = (ORDERS,)
    kinds.script = orders(7)
    by_shop = ("shop STRING, n BIGINT", "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop")
    high = (
        "shop STRING, n BIGINT",
        "SELECT shop, n FROM (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) WHERE n > 3",
    )
    by_item = ("item STRING, a INT", "SELECT item, SUM(amount) AS a FROM orders GROUP BY item")
    rows = ("id BIGINT", "SELECT id FROM orders WHERE amount > 20")
    more = ("shop STRING, n BIGINT, a INT", "SELECT shop, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop")

    def add(name: str, expected: str, old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> None:
        queries = [Sinks(*(";".join(one[place] for one in each) for place in (0, 1))) for each in (old, new)]
        EXPECTED[f"sinks/{name}"] = expected
        kinds.cases[f"sinks/{name}"] = Case(queries[0], queries[1], kinds.script, None, {"fill": "initial"})

    add("turned", "kept", (by_shop, rows, by_item), (by_item, by_shop, rows))
    add("shared-added", "kept", (by_shop, by_item), (by_shop, high, by_item))
    add("shared-removed", "kept", (high, by_shop, rows), (by_shop, rows))
    add("one-grows", "lost", (by_shop, by_item), (by_item, more))
    add("middle-removed", "lost", (by_shop, by_item, rows), (by_shop, rows))
    add("twice-to-once", "kept", (by_shop, by_shop, by_item), (by_shop, by_item))


def _changelogs(kinds: Kinds, seed: int) -> None:
    """Add changelogs and upserts."""
    kinds.script, kinds.tables = changes(seed), (CHANGED,)
    text = "SELECT shop, MIN(amount) AS a, COUNT(*) AS n FROM changed GROUP BY shop"
    _add(kinds, "upsert/both-ends", "kept", "shop a n", text, "AS a", "AS a, MAX(amount) AS f", to="shop a f n")
    few, many = "COUNT(*) FILTER (WHERE amount > 4)", "COUNT(*) FILTER (WHERE amount <= 4)"
    text = f"SELECT shop, {few} AS n, {many} AS c FROM changed GROUP BY shop"
    _add(
        kinds, "upsert/filters-turned", "kept", "shop n c", text, f"{few} AS n, {many} AS c", f"{many} AS n, {few} AS c"
    )
    text = "SELECT shop, COUNT(DISTINCT item) AS n FROM changed GROUP BY shop"
    _add(
        kinds,
        "upsert/distinct-to-sum",
        "refused",
        "shop n",
        text,
        "COUNT(DISTINCT item) AS n",
        "SUM(amount) AS a",
        to="shop a",
    )
    upsert = table("changed", "id BIGINT, shop STRING, item STRING, amount INT", "upsert", "id")
    kinds.tables = (upsert,)
    text = "SELECT shop, SUM(amount) AS a, COUNT(*) AS n FROM changed GROUP BY shop"
    _add(kinds, "upsert/call-from-rows", "kept", "shop a n", text, "AS a", "AS a, MAX(amount) AS f", to="shop a f n")
    _add(
        kinds,
        "upsert/calls-turned",
        "kept",
        "shop a n",
        text,
        "SUM(amount) AS a, COUNT(*) AS n",
        "COUNT(*) AS n, SUM(amount) AS a",
        to="shop n a",
    )
    wide = (upsert.replace("amount INT", "amount BIGINT"),)
    _add(kinds, "upsert/type", "kept", "shop a n", text, tables=wide, to="shop big n")
    _add(kinds, "upsert/key-longer", "kept", "shop a n", text, tables=(upsert.replace("KEY (id)", "KEY (id, shop)"),))
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "changed", "rn <= 2")
    _add(kinds, "upsert/top-larger", "kept", "shop id amount", top, "<= 2", "<= 3")


if __name__ == "__main__":
    sys.exit(main(every_case, EXPECTED))
