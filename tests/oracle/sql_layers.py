"""Changes of queries with several layers: views, three tables, results that are grouped again, constants, changelogs.

    python -m tests.oracle.sql_layers 1.20.5 2.3.0 [--backend rocksdb] [--only WORDS] [--seed 7]

The options, the lines and ``EXPECTED`` are those of ``sql_tried``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tests.oracle.sql_changes import ORDERS, PAYMENTS, Case, Script
from tests.oracle.sql_kinds import CHANGED, LATER, MINI, PAID, RATES, Kinds, changes, expecting, main, orders
from tests.oracle.sql_tried import BEST, WINDOWS

#: What was expected of each change.
EXPECTED: dict[str, str] = {}
_add = expecting(EXPECTED)
BY_ITEM = "SELECT shop, item, SUM(amount) AS a, MAX(price) AS p FROM orders GROUP BY shop, item"
TUMBLE = WINDOWS.format("TUMBLE", "", "INTERVAL '2' MINUTE")


def every_case(seed: int) -> Mapping[str, Case]:
    """The changes."""
    kinds = Kinds(seed)
    _views(kinds)
    _calls(kinds)
    _windows(kinds)
    _rows(kinds)
    _constants(kinds)
    _types(kinds)
    _three_tables(kinds, seed)
    _times(kinds, seed)
    _changelogs(kinds, seed)
    assert set(EXPECTED) == set(kinds.cases)
    return kinds.cases


def three(seed: int) -> Script:
    """Orders, and payments and rows of ``paid`` in turn."""
    rows: list[tuple[str, str, Mapping[str, Any]]] = []
    for name, kind, row in orders(seed, "payments"):
        second = name == "payments" and sum(each[0] != "orders" for each in rows) % 2
        rows.append(("paid" if second else name, kind, row))
    return rows


def with_payments(seed: int) -> Script:
    """A changelog, with payments in places where no update is in between."""
    rows: list[tuple[str, str, Mapping[str, Any]]] = []
    for number, (name, kind, row) in enumerate(changes(seed)):
        between = rows and rows[-1][1] == "-U"
        payment = {"shop": f"shop {number % 3}", "paid": number % 7}
        rows.append(
            ("payments", "+I", payment) if number % 5 == 3 and kind == "+I" and not between else (name, kind, row)
        )
    return _consistent(rows)


def _consistent(rows: Script) -> Script:
    """Turn changes of rows that are not there into payments."""
    present: set[int] = set()
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    for name, kind, row in rows:
        if name == "changed":
            key = row["id"]
            if kind == "+I":
                present.add(key)
            elif key not in present:
                name, kind, row = "payments", "+I", {"shop": row["shop"], "paid": row["amount"]}
            elif kind == "-D":
                present.discard(key)
        found.append((name, kind, row))
    return found


def _views(kinds: Kinds) -> None:
    """Add views, common table expressions and results that are grouped again."""
    by_item = f"CREATE VIEW by_item AS {BY_ITEM}"
    kinds.tables = (ORDERS, by_item)
    text = "SELECT shop, COUNT(*) AS n, SUM(a) AS a FROM by_item GROUP BY shop"
    calls = ("COUNT(*) AS n, SUM(a) AS a", "SUM(a) AS a, COUNT(*) AS n")
    _add(kinds, "view/outer-turned", "kept", "shop n a", text, *calls, to="shop a n")
    turned = by_item.replace("SUM(amount) AS a, MAX(price) AS p", "MAX(price) AS p, SUM(amount) AS a")
    _add(kinds, "view/inner-turned", "kept", "shop n a", text, tables=(ORDERS, turned))
    crossed = by_item.replace("SUM(amount) AS a, MAX(price) AS p", "SUM(price) AS a, MAX(amount) AS p")
    _add(kinds, "view/inner-crossed", "refused", "shop n a", text, tables=(ORDERS, crossed))
    deeper = by_item.replace("GROUP BY shop, item", "GROUP BY shop, item, MOD(id, 2)")
    _add(kinds, "view/inner-key-added", "refused", "shop n a", text, tables=(ORDERS, deeper))
    kinds.tables = (ORDERS,)
    text = f"WITH x AS ({BY_ITEM}) SELECT shop, SUM(a) AS a, MAX(p) AS p FROM x GROUP BY shop"
    gone = (", MAX(price) AS p", "", ", MAX(p) AS p", "")
    _add(kinds, "cte/call-removed-twice", "kept", "shop a p", text, *gone, to="shop a")
    _add(kinds, "cte/to-minimum", "refused", "shop a p", text, "MAX(p)", "MIN(p)")
    _add(kinds, "cte/having-inside", "refused", "shop a p", text, "shop, item)", "shop, item HAVING COUNT(*) > 1)")
    once = "SELECT shop, SUM(amount) AS a, MAX(price) AS p FROM orders GROUP BY shop"
    _add(kinds, "cte/flattened", "lost", "shop a p", text, text, once)
    _add(kinds, "cte/batches-on", "kept", "shop a p", text, conf={}, new_conf=MINI)
    sizes = "SELECT n, COUNT(*) AS c FROM (SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY shop, item) GROUP BY n"
    _add(kinds, "cte/sizes-keys-turned", "kept", "n c", sizes, "BY shop, item", "BY item, shop")
    _add(kinds, "cte/sizes-of-prices", "lost", "n c", sizes, "COUNT(*) AS n FROM", "COUNT(price) AS n FROM")


def _calls(kinds: Kinds) -> None:
    """Add calls, with DISTINCT and without it."""
    distinct = "COUNT(DISTINCT item) AS n"

    def calls(name: str, expected: str, columns: str, old: str, new: str, to: str = "", **more: Any) -> None:
        text = "SELECT shop, {} FROM orders GROUP BY shop"
        one, other = text.format(old), text.format(new)
        _add(kinds, f"beside/{name}", expected, f"shop {columns}", one, one, other, to=f"shop {to or columns}", **more)

    three = f"SUM(amount) AS a, {distinct}, SUM(price) AS p"
    calls("three-turned", "kept", "a n p", three, f"SUM(price) AS p, {distinct}, SUM(amount) AS a", "p n a")
    calls("three-crossed", "kept", "a n p", three, f"SUM(price) AS a, {distinct}, SUM(amount) AS p", "a n p")
    calls("to-plain", "lost", "n", distinct, "COUNT(item) AS n")
    calls("from-plain", "lost", "n", "COUNT(item) AS n", distinct)
    calls("plain-added", "lost", "n", distinct, f"{distinct}, COUNT(item) AS c", "n c")
    two = f"{distinct}, COUNT(DISTINCT price) AS c"
    calls("two-turned", "kept", "n c", two, f"COUNT(DISTINCT price) AS c, {distinct}", "c n")
    calls("two-crossed", "kept", "n c", two, "COUNT(DISTINCT price) AS n, COUNT(DISTINCT item) AS c")
    calls("two-pairs", "lost", "n c", two, "COUNT(DISTINCT amount) AS n, COUNT(DISTINCT price) AS c")
    calls("average-distinct", "kept", "a", "AVG(DISTINCT amount) AS a", "SUM(DISTINCT amount) AS a")
    calls("sum-to-average-distinct", "kept", "a", "SUM(DISTINCT amount) AS a", "AVG(DISTINCT amount) AS a")
    calls("maximum-distinct", "kept", "a", "MAX(DISTINCT amount) AS a", "MAX(amount) AS a")
    calls("boolean", "lost", "a", "MAX(CAST(amount > 20 AS INT)) AS a", "MIN(CAST(amount > 20 AS INT)) AS a")
    hint = "SELECT /*+ STATE_TTL('orders' = '1d') */ shop"
    text = f"SELECT shop, {three} FROM orders GROUP BY shop"
    gone = ("SELECT shop", hint, f"{distinct}, ", "")
    _add(kinds, "beside/hint-and-distinct", "kept", "shop a n p", text, *gone, to="shop a p")
    sets = "SELECT shop, item, {} FROM orders GROUP BY GROUPING SETS ((shop, item), (shop), ())"
    both = "SUM(amount) AS a, COUNT(DISTINCT price) AS n"
    turned = sets.format("COUNT(DISTINCT price) AS n, SUM(amount) AS a")
    _add(kinds, "sets/distinct-turned", "kept", "shop item a n", sets.format(both), sets.format(both), turned,
         to="shop item n a")  # fmt: skip
    sums, more = sets.format("SUM(amount) AS a"), "ROLLUP (shop, item)"
    _add(kinds, "sets/as-rollup", "kept", "shop item a", sums, "GROUPING SETS ((shop, item), (shop), ())", more)
    _add(kinds, "sets/other-single", "lost", "shop item a", sums, "(shop), ()", "(item), ()")


def _windows(kinds: Kinds) -> None:
    """Add windows behind windows, and conditions behind and in front of them."""
    keys = "shop window_start window_end"
    text = "SELECT shop, window_start, window_end, {} FROM {} GROUP BY shop, window_start, window_end"
    both = text.format("COUNT(DISTINCT item) AS n, SUM(amount) AS a", TUMBLE)
    calls = ("COUNT(DISTINCT item) AS n, SUM(amount) AS a", "SUM(amount) AS a, COUNT(DISTINCT item) AS n")
    _add(kinds, "layers/tumble-turned", "kept", f"{keys} n a", both, *calls, to=f"{keys} a n")
    more = ("SELECT shop, window", "SELECT shop, item, window", "BY shop, window", "BY shop, item, window")
    sums = text.format("SUM(amount) AS a", TUMBLE)
    _add(kinds, "layers/tumble-key-added", "lost", f"{keys} a", sums, *more, to="shop item window_start window_end a")
    _add(kinds, "layers/tumble-having", "kept", f"{keys} a", f"{sums} HAVING SUM(amount) > 20", "> 20", "> 10")
    _add(kinds, "layers/tumble-where", "refused", f"{keys} a", sums, TUMBLE, f"{TUMBLE} WHERE price > 3")
    hop = WINDOWS.format("HOP", "", "INTERVAL '1' MINUTE, INTERVAL '3' MINUTE")
    hops = text.format("MIN(amount) AS a, MAX(amount) AS p", hop)
    _add(kinds, "layers/hop-ends-crossed", "kept", f"{keys} a p", hops, "MIN(amount) AS a, MAX(amount) AS p",
         "MAX(amount) AS a, MIN(amount) AS p")  # fmt: skip
    _add(kinds, "layers/hop-other-column", "lost", f"{keys} a p", hops, "MAX(amount)", "MAX(price)")
    inner = (
        f"SELECT shop, item, window_time AS rt, COUNT(*) AS n, SUM(amount) AS a FROM {TUMBLE}"
        " GROUP BY shop, item, window_start, window_end, window_time"
    )
    view = f"CREATE VIEW small AS {inner}"
    kinds.tables = (ORDERS, view)
    outer = text.format("SUM(n) AS n, SUM(a) AS a", "TABLE(TUMBLE(TABLE small, DESCRIPTOR(rt), INTERVAL '4' MINUTE))")
    pair = ("SUM(n) AS n, SUM(a) AS a", "SUM(a) AS a, SUM(n) AS n")
    _add(kinds, "layers/windows-of-windows", "kept", f"{keys} n a", outer, *pair, to=f"{keys} a n")
    turned = (ORDERS, view.replace("COUNT(*) AS n, SUM(amount) AS a", "SUM(amount) AS a, COUNT(*) AS n"))
    _add(kinds, "layers/inner-windows-turned", "kept", f"{keys} n a", outer, tables=turned)
    other = (ORDERS, view.replace("SUM(amount)", "SUM(price)"))
    _add(kinds, "layers/inner-windows-other", "lost", f"{keys} n a", outer, tables=other)
    _add(kinds, "layers/outer-windows-larger", "refused", f"{keys} n a", outer, "'4' MINUTE", "'6' MINUTE")
    kinds.tables = (ORDERS,)
    prices = text.format("SUM(price) AS p", TUMBLE)
    joined = f"SELECT x.shop, x.a, y.p FROM ({sums}) x JOIN ({prices}) y ON x.shop = y.shop"
    joined += " AND x.window_start = y.window_start AND x.window_end = y.window_end"
    wider = ("SUM(amount) AS a", "COUNT(*) AS n, SUM(amount) AS a")
    _add(kinds, "layers/joined-windows", "kept", "shop a p", joined, "x.a, y.p", "x.a + y.p AS a, y.p")
    _add(kinds, "layers/joined-windows-call", "kept", "shop a p", joined, *wider)


def _rows(kinds: Kinds) -> None:
    """Add best, first and last rows, and OVER, with something behind them."""
    over = (
        "SELECT shop, id, FIRST_VALUE(price) OVER w AS p, LAST_VALUE(amount) OVER w AS a FROM orders WINDOW w AS "
        "(PARTITION BY shop ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)"
    )
    pair = ("FIRST_VALUE(price) OVER w AS p, LAST_VALUE(amount) OVER w AS a",
            "LAST_VALUE(amount) OVER w AS a, FIRST_VALUE(price) OVER w AS p")  # fmt: skip
    _add(kinds, "behind/over-ends-turned", "kept", "shop id p a", over, *pair, to="shop id a p")
    _add(kinds, "behind/over-where", "refused", "shop id p a", over, "FROM orders", "FROM orders WHERE amount > 9")
    _add(kinds, "behind/over-narrower", "refused", "shop id p a", over, "4 PRECEDING", "3 PRECEDING")
    grouped = f"SELECT shop, SUM(p) AS p, MAX(a) AS a FROM ({over}) GROUP BY shop"
    _add(kinds, "behind/over-grouped", "kept", "shop p a", grouped, "SUM(p) AS p, MAX(a) AS a",
         "MAX(a) AS a, SUM(p) AS p", to="shop a p")  # fmt: skip
    for name, bound in (("rows", "ROWS BETWEEN 4"), ("range", "RANGE BETWEEN INTERVAL '1' MINUTE")):
        spec = f"WINDOW w AS (PARTITION BY shop ORDER BY ts {bound} PRECEDING AND CURRENT ROW)"
        waiting = f"SELECT shop, id, SUM(price) OVER w AS p FROM orders {spec}"
        for late, tables in (("", (ORDERS,)), ("-late", (LATER,))):
            kinds.tables = tables
            for call, added in (
                ("maximum", "MAX(price) OVER w AS a"),
                ("distinct", "COUNT(DISTINCT price) OVER w AS n"),
                ("distinct-average", "AVG(DISTINCT price) OVER w AS a"),
            ):
                outcome = "refused" if call == "distinct-average" else "kept"  # the plan has two calls for it
                _add(kinds, f"behind/over-{name}-{call}{late}", outcome, "shop id p", waiting, "AS p", f"AS p, {added}",
                     to=f"shop id p {added[-1]}")  # fmt: skip
    kinds.tables = (ORDERS,)
    doubled = over.replace("LAST_VALUE(amount)", "SUM(amount * 2)")
    _add(kinds, "behind/over-factor", "refused", "shop id p a", doubled, "* 2", "* 3")
    top = BEST.format("shop, id, amount, rn", "shop", "amount DESC, id", "orders", "rn <= 3")
    number = "shop id amount n"
    _add(kinds, "behind/top-number-smaller", "kept", number, top, "<= 3", "<= 2")
    _add(kinds, "behind/top-where-rank", "kept", number, top, "rn <= 3", "rn <= 3 AND amount > 10")
    counted = f"SELECT shop, SUM(amount) AS a, COUNT(*) AS n FROM ({top}) GROUP BY shop"
    _add(kinds, "behind/top-grouped", "kept", "shop a n", counted, "SUM(amount) AS a, COUNT(*) AS n",
         "COUNT(*) AS n, SUM(amount) AS a", to="shop n a")  # fmt: skip
    last = BEST.format("shop, item, amount, price", "item", "pt DESC", "orders", "rn = 1 AND amount > 10")
    summed = f"SELECT shop, SUM(amount) AS a, COUNT(price) AS n FROM ({last}) GROUP BY shop"
    _add(kinds, "behind/last-grouped", "kept", "shop a n", summed, "SUM(amount) AS a, COUNT(price) AS n",
         "COUNT(price) AS n, SUM(amount) AS a", to="shop n a")  # fmt: skip
    _add(kinds, "behind/last-condition", "refused", "shop a n", summed, "> 10", "> 20")
    two = BEST.format("shop, item, n", "shop", "n DESC, item",
                      "(SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY shop, item)", "rn <= 2")  # fmt: skip
    best = BEST.format("shop, item, n", "item", "n DESC, shop", f"({two})", "rn <= 1")
    _add(kinds, "behind/top-of-top", "kept", "shop item n", best, "rn <= 1", "rn = 1")
    _add(kinds, "behind/top-of-fewer", "refused", "shop item n", best, "rn <= 2", "rn <= 1")
    branches = ("SELECT shop, 'a' AS s, amount AS a FROM orders", "SELECT shop, 'b' AS s, price AS a FROM orders")
    tagged = f"SELECT s, SUM(a) AS a FROM ({' UNION ALL '.join(branches)}) GROUP BY s"
    _add(kinds, "behind/branch-renamed", "lost", "s a", tagged, "'b' AS s", "'c' AS s")
    _add(kinds, "behind/branches-crossed", "lost", "s a", tagged, "'a' AS s, amount", "'a' AS s, price",
         "'b' AS s, price", "'b' AS s, amount")  # fmt: skip
    _add(kinds, "behind/branch-removed", "lost", "s a", tagged, f" UNION ALL {branches[1]}", "")


def _constants(kinds: Kinds) -> None:
    """Add constants and conditions that say the same in other words, or nearly."""
    text = "SELECT shop, SUM(amount * (1 + 1)) AS a, COUNT(*) AS n FROM orders {}GROUP BY shop"
    sums = text.format("")
    _add(kinds, "constant/sum", "kept", "shop a n", sums, "(1 + 1)", "2")
    _add(kinds, "constant/other", "lost", "shop a n", sums, "(1 + 1)", "(1 + 2)")
    _add(kinds, "constant/case", "kept", "shop a n", sums, "amount * (1 + 1)",
         "CASE WHEN 1 = 1 THEN amount * 2 ELSE 0 END")  # fmt: skip
    for name, expected, old, new in (
        ("where-sum", "kept", "amount > 5 + 5", "amount > 10"),
        ("where-not", "kept", "amount >= 10", "NOT (amount < 10)"),
        ("where-in", "kept", "amount IN (1, 9, 4)", "amount = 1 OR amount = 9 OR amount = 4"),
        ("where-between", "kept", "amount BETWEEN 5 AND 30", "amount >= 5 AND amount <= 30"),
        ("where-between-other", "refused", "amount BETWEEN 5 AND 30", "amount >= 5 AND amount < 30"),
        ("where-true", "kept", "amount > 5", "amount > 5 AND 1 = 1"),
        ("where-twice", "kept", "amount > 5", "amount > 5 AND amount > 3"),
        ("where-like", "refused", "item LIKE 'item%'", "item LIKE 'item _'"),
        ("where-null", "refused", "price IS NOT NULL", "price IS NULL"),
        ("where-turned", "kept", "amount > 5 AND price < 15", "15 > price AND 5 < amount"),
    ):
        where = text.format(f"WHERE {old} ")
        _add(kinds, f"constant/{name}", expected, "shop a n", where, old, new)
    keyed = "SELECT shop || 'a' || 'b' AS s, COUNT(*) AS n FROM orders GROUP BY shop || 'a' || 'b'"
    _add(kinds, "constant/key", "lost", "s n", keyed, "'a' || 'b'", "'ac'", "'a' || 'b'", "'ac'")


def _types(kinds: Kinds) -> None:
    """Add types of columns that change with something else."""
    text = "SELECT shop, SUM(amount) AS a, MIN(price) AS p, COUNT(*) AS n FROM orders GROUP BY shop"
    big = (ORDERS.replace("amount INT", "amount BIGINT"),)
    turned = ("SUM(amount) AS a, MIN(price) AS p", "MIN(price) AS p, SUM(amount) AS a")
    _add(kinds, "types/wider-and-turned", "kept", "shop a p n", text, *turned, tables=big, to="shop p big n")
    needed = (ORDERS.replace("amount INT", "amount INT NOT NULL"),)
    _add(kinds, "types/needed", "kept", "shop a p n", text, tables=needed)
    kinds.tables = needed
    _add(kinds, "types/not-needed", "kept", "shop a p n", text, tables=(ORDERS,))
    kinds.tables = (ORDERS,)
    small = "SELECT shop, CAST(AVG(CAST(amount AS DECIMAL(10, 2))) AS INT) AS a FROM orders GROUP BY shop"
    _add(kinds, "types/average-wider", "lost", "shop a", small, "DECIMAL(10, 2)", "DECIMAL(12, 2)")
    _add(kinds, "types/average-scale", "lost", "shop a", small, "DECIMAL(10, 2)", "DECIMAL(12, 4)")
    real = text.replace("SUM(amount)", "CAST(SUM(CAST(amount AS FLOAT)) AS INT)")
    _add(kinds, "types/float-double", "lost", "shop a p n", real, "AS FLOAT", "AS DOUBLE")
    last = "SELECT shop, MAX(CAST(ts AS TIMESTAMP(3))) AS st FROM orders GROUP BY shop"
    _add(kinds, "types/precision", "lost", "shop st", last, "MAX(CAST(ts AS TIMESTAMP(3)))",
         "CAST(MAX(CAST(ts AS TIMESTAMP(6))) AS TIMESTAMP(3))")  # fmt: skip
    renamed, script = (ORDERS.replace("price INT", "cost INT"),), kinds.script
    kinds.script = [(name, kind, {**row, "cost": row["price"]}) for name, kind, row in script]
    _add(kinds, "types/renamed", "kept", "shop a p n", text, "MIN(price)", "MIN(cost)", tables=renamed,
         given={"columns": {"MIN(cost)": "MIN(price)"}})  # fmt: skip
    kinds.script = script
    best = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 2")
    _add(kinds, "types/rank-wider", "kept", "shop id amount", best, tables=big, to="shop id big")
    lasts = BEST.format("item, id, amount", "item", "pt DESC", "orders", "rn = 1")
    _add(kinds, "types/last-wider", "kept", "item id amount", lasts, tables=big, to="item id big")


def _three_tables(kinds: Kinds, seed: int) -> None:
    """Add joins of three tables, and of results."""
    kinds.script, kinds.tables = three(seed), (ORDERS, PAYMENTS, PAID)
    text = (
        "SELECT o.id, o.amount, p.paid, q.paid AS p FROM orders o JOIN payments p ON o.shop = p.shop "
        "{} paid q ON p.shop = q.shop AND p.paid = q.paid"
    )
    names = "id amount paid p"
    inner, left = text.format("JOIN"), text.format("LEFT JOIN")
    _add(kinds, "three/last-to-inner", "kept", names, left, "LEFT JOIN", "JOIN")
    _add(kinds, "three/last-to-left", "kept", names, inner, "JOIN paid", "LEFT JOIN paid")
    first = left.replace("o JOIN", "o LEFT JOIN")
    _add(kinds, "three/first-to-inner", "refused", names, first, "o LEFT JOIN", "o JOIN")
    _add(kinds, "three/column-gone", "kept", names, inner, "o.amount, ", "", to="id paid p")
    _add(kinds, "three/where-to-on", "kept", names, f"{inner} WHERE p.paid > 2", " WHERE p.paid > 2", " AND p.paid > 2")
    _add(kinds, "three/where-on-left", "refused", names, f"{left} WHERE q.paid > 2", " WHERE q.paid > 2",
         " AND q.paid > 2")  # fmt: skip
    _add(kinds, "three/where-side", "refused", names, inner, "orders o", "(SELECT * FROM orders WHERE amount > 9) o")
    grouped = f"SELECT amount, COUNT(*) AS n, SUM(paid) AS a FROM ({left}) GROUP BY amount"
    _add(kinds, "three/grouped-turned", "kept", "amount n a", grouped, "COUNT(*) AS n, SUM(paid) AS a",
         "SUM(paid) AS a, COUNT(*) AS n", to="amount a n")  # fmt: skip
    _add(kinds, "three/key-of-null", "refused", names, inner, "o.shop = p.shop", "o.shop IS NOT DISTINCT FROM p.shop")
    semi = "SELECT id, amount FROM orders WHERE shop IN (SELECT shop FROM payments WHERE paid > 2)"
    _add(kinds, "three/semi-condition", "refused", "id amount", semi, "> 2", "> 3")
    both = f"{semi} AND shop IN (SELECT shop FROM paid)"
    _add(kinds, "three/second-semi-gone", "lost", "id amount", both, " AND shop IN (SELECT shop FROM paid)", "")
    sums = (
        "SELECT x.shop, x.a, y.n FROM (SELECT shop, SUM(amount) AS a FROM orders GROUP BY shop) x JOIN "
        "(SELECT shop, COUNT(*) AS n FROM payments GROUP BY shop) y ON x.shop = y.shop"
    )
    _add(kinds, "three/results-to-left", "kept", "shop a n", sums, "x JOIN", "x LEFT JOIN")
    _add(kinds, "three/results-crossed", "lost", "shop a n", sums, "SUM(amount)", "SUM(price)")
    last = BEST.format("shop, paid", "shop", "ts DESC", "paid", "rn = 1")
    latest = f"SELECT o.id, o.item, l.paid FROM orders o LEFT JOIN ({last}) l ON o.shop = l.shop"
    _add(kinds, "three/last-row-joined", "kept", "id item paid", latest, "o.item, ", "", to="id paid")
    _add(kinds, "three/last-row-inner", "kept", "id item paid", latest, "LEFT JOIN", "JOIN")


def _times(kinds: Kinds, seed: int) -> None:
    """Add interval joins and joins with versions, with something behind them."""
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    near = (
        "SELECT o.id, o.shop, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts >= p.ts - INTERVAL '60' "
        "SECOND AND o.ts <= p.ts + INTERVAL '30' SECOND"
    )
    _add(kinds, "times/open-bound", "kept", "id shop paid", near, "o.ts <=", "o.ts <")
    _add(kinds, "times/bound-turned", "kept", "id shop paid", near, "o.ts >= p.ts - INTERVAL '60' SECOND",
         "p.ts <= o.ts + INTERVAL '60' SECOND")  # fmt: skip
    grouped = f"SELECT shop, COUNT(*) AS n, SUM(paid) AS a FROM ({near}) GROUP BY shop"
    turned = ("COUNT(*) AS n, SUM(paid) AS a", "SUM(paid) AS a, COUNT(*) AS n")
    _add(kinds, "times/grouped", "kept", "shop n a", grouped, *turned, to="shop a n")
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    version = (
        "SELECT o.shop, o.amount, r.rate FROM orders o {} rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop"
    )
    grouped = f"SELECT shop, COUNT(rate) AS n, SUM(amount) AS a FROM ({version.format('LEFT JOIN')}) GROUP BY shop"
    turned = ("COUNT(rate) AS n, SUM(amount) AS a", "SUM(amount) AS a, COUNT(rate) AS n")
    _add(kinds, "times/versions-grouped", "kept", "shop n a", grouped, *turned, to="shop a n")
    behind = f"{version.format('JOIN')} WHERE r.rate > 3"
    _add(kinds, "times/versions-condition", "kept", "shop amount rate", behind, "> 3", "> 4")
    moved = (" WHERE r.rate > 3", " AND r.rate > 3")
    _add(kinds, "times/versions-condition-moved", "kept", "shop amount rate", behind, *moved)
    _add(kinds, "times/versions-now", "refused", "shop amount rate", behind, "OF o.ts", "OF o.pt")


def _changelogs(kinds: Kinds, seed: int) -> None:
    """Add joins of a changelog, and what is behind them."""
    kinds.script, kinds.tables = with_payments(seed), (CHANGED, PAYMENTS)
    text = "SELECT c.id, c.item, c.amount, p.paid FROM changed c JOIN payments p ON c.shop = p.shop"
    names = "id item amount paid"
    _add(kinds, "live-join/column-gone", "kept", names, text, "c.item, ", "", to="id amount paid")
    _add(kinds, "live-join/to-left", "kept", names, text, "c JOIN", "c LEFT JOIN")
    _add(kinds, "live-join/key-more", "kept", names, text, "= p.shop", "= p.shop AND c.amount = p.paid")
    _add(kinds, "live-join/condition", "kept", names, text, "= p.shop", "= p.shop AND c.amount < p.paid")
    few = text.replace("c.item, ", "")
    _add(kinds, "live-join/column-more", "lost", "id amount paid", few, "c.id", "c.id, c.item", to=names)
    sums = f"SELECT item, SUM(paid) AS a, MIN(amount) AS p, COUNT(*) AS n FROM ({text}) GROUP BY item"
    turned = ("SUM(paid) AS a, MIN(amount) AS p", "MIN(amount) AS p, SUM(paid) AS a")
    _add(kinds, "live-join/grouped-turned", "kept", "item a p n", sums, *turned, to="item p a n")
    more = ("MIN(amount) AS p", "MIN(amount) AS p, MAX(amount) AS f")
    _add(kinds, "live-join/other-end", "kept", "item a p n", sums, *more, to="item a p f n")
    _add(kinds, "live-join/to-other-end", "kept", "item a p n", sums, "MIN(amount)", "MAX(amount)")
    anti = "SELECT id, item FROM changed c WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.paid = c.amount)"
    _add(kinds, "live-join/anti-column", "kept", "id item", anti, "SELECT id, item", "SELECT id", to="id")
    kinds.script, kinds.tables = changes(seed), (CHANGED,)
    nested = (
        "SELECT a, COUNT(*) AS n FROM (SELECT shop, SUM(amount) AS a, MIN(amount) AS p FROM changed GROUP BY shop) "
        "WHERE p < 5 GROUP BY a"
    )
    turned = ("SUM(amount) AS a, MIN(amount) AS p", "MIN(amount) AS p, SUM(amount) AS a")
    _add(kinds, "live-join/nested-turned", "kept", "a n", nested, *turned)
    _add(kinds, "live-join/nested-condition", "refused", "a n", nested, "p < 5", "p < 6")
    _add(kinds, "live-join/nested-batches", "kept", "a n", nested, conf={}, new_conf=MINI)
    pairs = "SELECT shop, COUNT(DISTINCT item) AS n, COUNT(DISTINCT amount) AS c FROM changed GROUP BY shop"
    turned = ("COUNT(DISTINCT item) AS n, COUNT(DISTINCT amount) AS c",
              "COUNT(DISTINCT amount) AS c, COUNT(DISTINCT item) AS n")  # fmt: skip
    _add(kinds, "live-join/distincts-turned", "kept", "shop n c", pairs, *turned, to="shop c n")
    both = "SELECT shop, COUNT(DISTINCT amount) AS n, SUM(DISTINCT amount) AS a FROM changed GROUP BY shop"
    _add(kinds, "live-join/distinct-of-two-behind", "refused", "shop n a", both, "AS a", "AS a", "AS n", "+ 0 AS n")
    _add(kinds, "live-join/distinct-of-two-fewer", "refused", "shop n a", both, ", SUM(DISTINCT amount) AS a", "",
         to="shop n")  # fmt: skip
    one = "SELECT shop, COUNT(DISTINCT amount) AS n FROM changed GROUP BY shop"
    _add(kinds, "live-join/distinct-of-two-more", "refused", "shop n", one, "AS n", "AS n, SUM(DISTINCT amount) AS a",
         to="shop n a")  # fmt: skip
    _add(kinds, "live-join/distinct-gone", "kept", "shop n c", pairs, "COUNT(DISTINCT item) AS n, ", "", to="shop c")


if __name__ == "__main__":
    sys.exit(main(every_case, EXPECTED))
