"""Changes of a query as somebody who knows SQL makes them: evolved, restored by real Flink, and compared.

    python -m tests.oracle.sql_rewordings 1.20.5 2.3.0 [--backend rocksdb] [--only WORDS] [--seed 7]

The options, the lines and the exit code are those of ``sql_kinds``, which changes one kind of operator after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle.sql_changes import BEFORE, ORDERS, PAYMENTS, Case, Query, Script, from_now_on, table
from tests.oracle.sql_kinds import ASYNC, CHANGED, LATER, PAID, RATES, Kinds, changes, main, orders


class Sinks(Query):
    """Two statements, each with a sink of its own; their texts and columns are parted by ``;``."""

    @property
    def job(self) -> dict[str, Any]:
        """The statements of the job."""
        parts = list(zip(self.columns.split(";"), self.text.split(";"), strict=True))
        sinks = [table(f"sink{number}", columns, "retract") for number, (columns, _) in enumerate(parts)]
        inserts = [f"INSERT INTO sink{number} {text}" for number, (_, text) in enumerate(parts)]
        return {"tables": [*self.tables, *sinks], "inserts": inserts, "conf": dict(self.conf)}


def functions(**classes: str) -> list[str]:
    """Statements that name functions of a user."""
    return [f"CREATE FUNCTION {name} AS 'oracle.UserFunctions${one}'" for name, one in classes.items()]


def every_case(seed: int) -> Mapping[str, Case]:
    """The changes."""
    kinds = Kinds(seed)
    _calls(kinds)
    _keys(kinds)
    _rows(kinds)
    _times(kinds, seed)
    _joins(kinds, seed)
    _sets(kinds, seed)
    _statements(kinds, seed)
    _changelogs(kinds, seed)
    _live(kinds, seed)
    _lookups(kinds, seed)
    _without_waiting(kinds, seed)
    _repeated(kinds, seed)
    return kinds.cases


def _calls(kinds: Kinds) -> None:
    group = "SELECT shop, {} FROM orders GROUP BY shop"

    def calls(name: str, old: str, new: str, columns: str = "a", to: str | None = None, **more: Any) -> None:
        text, later = group.format(old), from_now_on(old, new)
        more |= {"to": f"shop {to or columns}", "truth": group.format(later) if later else None}
        kinds.add(f"calls/{name}", f"shop {columns}", text, text, group.format(new), **more)

    case = "SUM(CASE WHEN amount > {} THEN price ELSE 0 END) AS a"
    calls("case-bound", case.format(20), case.format(25))
    calls("case-to-filter", case.format(20), "SUM(price) FILTER (WHERE amount > 20) AS a")
    calls(
        "case-branches",
        "SUM(CASE WHEN amount > 20 THEN price ELSE amount END) AS a",
        "SUM(CASE WHEN amount > 20 THEN amount ELSE price END) AS a",
    )
    calls("literal", "SUM(price * 2) AS a", "SUM(price * 3) AS a")
    calls("star-to-column", "COUNT(*) AS n", "COUNT(price) AS n", "n")
    calls("column-to-star", "COUNT(price) AS n", "COUNT(*) AS n", "n")
    calls("star-to-one", "COUNT(*) AS n", "COUNT(1) AS n", "n")
    one, other = "SUM(amount) FILTER (WHERE price > 5)", "SUM(amount) FILTER (WHERE price <= 5)"
    calls("filters-swapped", f"{one} AS a, {other} AS p", f"{other} AS a, {one} AS p", "a p")
    calls("filter-removed", f"{one} AS a", "SUM(amount) AS a")
    items = "COUNT(DISTINCT item)"
    few, many = f"{items} FILTER (WHERE amount < 20)", f"{items} FILTER (WHERE amount >= 20)"
    calls("distinct-filters-swapped", f"{few} AS n, {many} AS c", f"{many} AS n, {few} AS c", "n c")
    calls("distinct-filter-removed", f"{few} AS n, {items} AS c", f"{items} AS c", "n c", "c")
    calls("distinct-filter-added", f"{items} AS c", f"{few} AS n, {items} AS c", "c", "n c")
    calls("distinct-filter-other", f"{few} AS n", f"{many} AS n", "n")
    calls("distinct-inside", "COUNT(item) AS n", f"{items} AS n", "n")
    calls("distinct-two", "COUNT(DISTINCT price) AS n", "COUNT(DISTINCT (price, amount)) AS n", "n")
    calls(
        "distinct-of-case",
        "COUNT(DISTINCT CASE WHEN amount > 20 THEN item END) AS n",
        "COUNT(DISTINCT CASE WHEN amount > 30 THEN item END) AS n",
        "n",
    )
    calls("coalesce", "SUM(price) AS a", "SUM(COALESCE(price, 0)) AS a")
    calls("sum-to-avg", "SUM(price) AS a", "AVG(price) AS a")
    calls("avg-to-sum", "AVG(price) AS a", "SUM(price) AS a")
    calls("avg-and-count", "AVG(price) AS a", "AVG(price) AS a, COUNT(price) AS n", "a", "a n")
    decimal = "CAST(SUM(CAST(price AS DECIMAL({}))) AS INT) AS a"
    calls("decimal-precision", decimal.format("10, 2"), decimal.format("12, 2"))
    calls("decimal-scale", decimal.format("10, 2"), decimal.format("12, 4"))
    calls(
        "decimal-avg",
        "CAST(AVG(CAST(price AS DECIMAL(10, 2))) AS INT) AS a",
        "CAST(AVG(CAST(price AS DECIMAL(12, 3))) AS INT) AS a",
    )
    calls("double", "CAST(SUM(CAST(price AS FLOAT)) AS INT) AS a", "CAST(SUM(CAST(price AS DOUBLE)) AS INT) AS a")
    calls("stddev-to-variance", "CAST(STDDEV_POP(amount) AS INT) AS a", "CAST(VAR_POP(amount) AS INT) AS a")
    calls("samples", "CAST(VAR_SAMP(amount) AS INT) AS a", "CAST(VAR_POP(amount) AS INT) AS a")
    calls("max-of-row", "MAX(price + amount) AS a", "MAX(amount + price) AS a")
    calls("json", "JSON_ARRAYAGG(item) AS s", "JSON_ARRAYAGG(item) AS s, COUNT(*) AS n", "s", "s n")
    calls("json-column", "JSON_ARRAYAGG(item) AS s", "JSON_ARRAYAGG(shop) AS s", "s")
    calls("first-to-last", "FIRST_VALUE(amount) AS a", "LAST_VALUE(amount) AS a")
    calls("last-column", "LAST_VALUE(amount) AS a", "LAST_VALUE(price) AS a")
    calls("having", "COUNT(*) AS n", "COUNT(*) AS n", "n")
    text = group.format("COUNT(*) AS n")
    kinds.add("having/added", "shop n", text, text, f"{text} HAVING SUM(amount) > 50")
    kinds.add("having/removed", "shop n", f"{text} HAVING SUM(amount) > 50", " HAVING SUM(amount) > 50", "")
    kinds.add("having/other", "shop n", f"{text} HAVING COUNT(*) > 5", "> 5", "> 8")
    kinds.add(
        "having/to-where",
        "shop n",
        f"{text} HAVING shop <> 'shop 1'",
        " GROUP",
        " WHERE shop <> 'shop 1' GROUP",
        " HAVING shop <> 'shop 1'",
        "",
    )
    for name, (old, new) in {
        "renamed": ({"f": "Twice"}, {"g": "Twice"}),
        "other-class": ({"f": "Twice"}, {"f": "Thrice"}),
        "aggregate-renamed": ({"f": "Total"}, {"g": "Total"}),
        "aggregate-other-class": ({"f": "Total"}, {"f": "Squares"}),
        "aggregate-same": ({"f": "Total"}, {"f": "Total"}),
    }.items():
        (called,), (now,) = old, new
        call = "SUM({}(amount)) AS a" if "Twice" in old.values() else "CAST({}(amount) AS INT) AS a"
        kinds.tables = (ORDERS, *functions(**old))
        kinds.add(
            f"functions/{name}",
            "shop a n",
            group.format(f"{call.format(called)}, COUNT(*) AS n"),
            call.format(called),
            call.format(now),
            tables=(ORDERS, *functions(**new)),
        )
    kinds.tables = (ORDERS,)


def _keys(kinds: Kinds) -> None:
    text = "SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY {}"
    sets = {
        "sets-swapped": ("GROUPING SETS ((shop), (item))", "GROUPING SETS ((item), (shop))"),
        "sets-added": ("GROUPING SETS ((shop), (item))", "GROUPING SETS ((shop), (item), (shop, item))"),
        "sets-removed": ("GROUPING SETS ((shop), (item), ())", "GROUPING SETS ((shop, item), (item), ())"),
        "rollup-to-cube": ("ROLLUP (shop, item)", "CUBE (shop, item)"),
        "plain-to-rollup": ("shop, item", "ROLLUP (shop, item)"),
        "rollup-to-plain": ("ROLLUP (shop, item)", "shop, item"),
    }
    for name, (old, new) in sets.items():
        kinds.add(f"grouping/{name}", "shop item n", text.format(old), old, new)
    turned = (
        f"{text.format('GROUPING SETS ((shop, item), ())')} UNION ALL SELECT CAST(NULL AS STRING), item, COUNT(*) FROM "
        f"orders WHERE id >= {BEFORE} GROUP BY item"
    )
    one, other = "ROLLUP (shop, item)", "ROLLUP (item, shop)"
    kinds.add("grouping/rollup-turned", "shop item n", text.format(one), one, other, truth=turned)
    kinds.add("grouping/equal", "shop item n", text.format("ROLLUP (shop, item)"))
    sums = (
        "SELECT shop, item, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY GROUPING SETS ((shop, item), (shop))"
    )
    new = "SELECT CAST(NULL AS STRING), item, COUNT(*), SUM(amount) FROM orders WHERE id >= {} GROUP BY item"
    kinds.add(
        "grouping/sums-added",
        "shop item n a",
        sums,
        "(shop))",
        "(shop), (item))",
        truth=f"{sums} UNION ALL {new.format(BEFORE)}",
    )
    kinds.add("grouping/sums-removed", "shop item n a", sums.replace("(shop))", "(shop), (item))"), "(shop), (", "(")
    kinds.add("grouping/sums-total", "shop item n a", sums, "(shop))", "(shop), ())")
    kinds.add(
        "grouping/sums-call",
        "shop item n a",
        sums,
        "SUM(amount) AS a",
        "SUM(amount) AS a, MAX(amount) AS p",
        to="shop item n a p",
    )
    both = "SELECT shop, COUNT(DISTINCT item) AS n, COUNT(DISTINCT amount) AS c FROM orders GROUP BY ROLLUP (shop)"
    kinds.add("grouping/distinct", "shop n c", both, "COUNT(DISTINCT item) AS n, ", "", to="shop c")
    three = "SELECT shop, item, price, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((shop), (item), (price))"
    kinds.add("grouping/sets-third", "shop item price n", three, "(item), (price)", "(price), (item)")
    with_id = (
        "SELECT shop, item, GROUPING_ID(shop, item) AS big, COUNT(*) AS n FROM orders GROUP BY ROLLUP (shop, item)"
    )
    kinds.add("grouping/id-turned", "shop item big n", with_id, "GROUPING_ID(shop, item)", "GROUPING_ID(item, shop)")
    text = "SELECT {0} AS a, COUNT(*) AS n FROM orders GROUP BY {0}"
    for name, old, new in (
        ("case", "CASE WHEN amount > 20 THEN 1 ELSE 0 END", "CASE WHEN amount > 30 THEN 1 ELSE 0 END"),
        ("literal", "MOD(amount, 5)", "MOD(amount, 7)"),
        ("coalesce", "price", "COALESCE(price, 0)"),
        ("cast", "CAST(amount AS INT)", "CAST(CAST(amount AS BIGINT) AS INT)"),
        ("column", "price", "amount"),
    ):
        kinds.add(f"key-expression/{name}", "a n", text.format(old), text.format(old), text.format(new))
    text = (
        "SELECT COUNT(*) AS n, SUM(a) AS big FROM (SELECT DISTINCT shop, item, CAST(amount AS BIGINT) AS a FROM orders)"
    )
    kinds.add("distinct/column-added", "n big", text, "shop, item,", "shop, item, price,")
    kinds.add("distinct/column-removed", "n big", text, "shop, item,", "shop,")
    kinds.add("distinct/removed", "n big", text, "DISTINCT ", "")
    kinds.add(
        "distinct/to-group",
        "n big",
        text,
        "SELECT DISTINCT shop, item, CAST(amount AS BIGINT) AS a FROM orders",
        "SELECT shop, item, CAST(amount AS BIGINT) AS a FROM orders GROUP BY shop, item, amount",
    )


def _rows(kinds: Kinds) -> None:
    over = "SELECT id, {} OVER (PARTITION BY shop ORDER BY ts{}) AS a FROM orders"
    two = " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
    minute = " RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW"
    for name, old, new in (
        ("lag-1-to-2", ("LAG(amount, 1)", ""), ("LAG(amount, 2)", "")),
        ("lag-column", ("LAG(amount, 1)", ""), ("LAG(price, 1)", "")),
        ("lag-default", ("LAG(amount, 1)", ""), ("LAG(amount, 1, 0)", "")),
        ("lag-to-last", ("LAG(amount, 1)", ""), ("LAST_VALUE(amount)", two)),
        ("rows-to-range", ("SUM(amount)", two), ("SUM(amount)", minute)),
        ("range-to-rows", ("SUM(amount)", minute), ("SUM(amount)", two)),
        ("range-longer", ("SUM(amount)", minute), ("SUM(amount)", minute.replace("'1'", "'2'"))),
        ("range-shorter", ("SUM(amount)", minute.replace("'1'", "'2'")), ("SUM(amount)", minute)),
        ("first-to-last", ("FIRST_VALUE(amount)", two), ("LAST_VALUE(amount)", two)),
        ("max-to-min", ("MAX(amount)", minute), ("MIN(amount)", minute)),
        ("count-to-sum", ("CAST(COUNT(amount) AS INT)", ""), ("SUM(amount)", "")),
    ):
        one, other = (over.format(*each) for each in (old, new))
        if "CAST(COUNT" in one:
            one = one.replace(
                "CAST(COUNT(amount) AS INT) OVER (PARTITION BY shop ORDER BY ts)",
                "CAST(COUNT(amount) OVER (PARTITION BY shop ORDER BY ts) AS INT)",
            )
        kinds.add(f"over/{name}", "id a", one, one, other)
    top = (
        "SELECT shop, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop "
        "ORDER BY {}) AS rn FROM {}) WHERE rn <= 3"
    )
    text = top.format("amount DESC, id", "orders")
    kinds.add("top/other-column", "shop id amount", text, "amount DESC", "price DESC")
    kinds.add("top/tie", "shop id amount", text, "amount DESC, id", "amount DESC, item, id")
    kinds.add("top/nulls", "shop id amount", text.replace("amount DESC", "price DESC NULLS LAST"), "LAST", "FIRST")
    kinds.add("top/where", "shop id amount", text, "FROM orders", "FROM orders WHERE price > 5")
    kinds.add(
        "top/where-kept",
        "shop id amount",
        text,
        "FROM orders",
        "FROM orders WHERE id >= 0",
        given={"filters": "keep", "fill": "initial"},
    )
    nested = "(SELECT id, shop, item, amount, ROW(price, amount) AS r FROM orders)"
    text = top.format("amount DESC, id", nested).replace("id, amount FROM", "id, r.price AS p FROM", 1)
    for name, one, other in (
        ("swapped", "ROW(price, amount)", "ROW(amount, price)"),
        ("added", "ROW(price, amount)", "ROW(price, amount, item)"),
        ("removed", "ROW(price, amount)", "ROW(price)"),
    ):
        old = (
            "SELECT shop, id, CAST(r AS STRING) AS s FROM (SELECT *, ROW_NUMBER() OVER "
            "(PARTITION BY shop ORDER BY amount "
        )
        old += f"DESC, id) AS rn FROM {nested}) WHERE rn <= 3"
        kinds.add(f"nested/{name}", "shop id s", old, one, other)
    last = (
        "SELECT item, x.r.a AS a, x.r.p AS p FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY item ORDER BY pt DESC) AS rn FROM "
        "(SELECT item, pt, CAST(ROW(amount, price) AS ROW<a INT, p INT>) AS r FROM orders)) x WHERE rn = 1"
    )
    kinds.add(
        "nested/names-swapped",
        "item a p",
        last,
        "ROW(amount, price) AS ROW<a INT, p INT>",
        "ROW(price, amount) AS ROW<p INT, a INT>",
    )
    kinds.add("nested/names-other", "item a p", last, "ROW<a INT, p INT>", "ROW<p INT, a INT>")


def _times(kinds: Kinds, seed: int) -> None:
    for name, expression, old, new in (
        ("cast-key", "CAST(TO_TIMESTAMP_LTZ(id * 3600000, 3) AS STRING)", "UTC", "Asia/Tokyo"),
        ("date-key", "DATE_FORMAT(TO_TIMESTAMP_LTZ(id * 3600000, 3), 'yyyy-MM-dd')", "UTC", "America/New_York"),
    ):
        text = f"SELECT {expression} AS s, COUNT(*) AS n FROM orders GROUP BY {expression}"
        conf, new_conf = ({"table.local-time-zone": zone} for zone in (old, new))
        kinds.add(f"zone/{name}", "s n", text, conf=conf, new_conf=new_conf)
    text = "SELECT shop, MAX({}) AS s FROM orders GROUP BY shop".format(
        "CAST(TO_TIMESTAMP_LTZ(id * 3600000, 3) AS STRING)"
    )
    conf, new_conf = ({"table.local-time-zone": zone} for zone in ("Asia/Tokyo", "UTC"))
    kinds.add("zone/max", "shop s", text, conf=conf, new_conf=new_conf)
    text = (
        "SELECT shop, COUNT(*) AS n FROM orders WHERE EXTRACT(HOUR FROM "
        "TO_TIMESTAMP_LTZ(id * 3600000, 3)) > 8 GROUP BY shop"
    )
    kinds.add("zone/filter", "shop n", text, conf=conf, new_conf=new_conf)
    text = "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop"
    kinds.add("zone/unused", "shop n", text, conf=conf, new_conf=new_conf)
    tumble = (
        "SELECT shop, window_start, COUNT(*) AS n FROM TABLE({}(TABLE orders, "
        "DESCRIPTOR(ts), {})) GROUP BY shop, window_start, window_end"
    )
    for name, function, old, new in (
        ("offset", "TUMBLE", "INTERVAL '2' MINUTE", "INTERVAL '2' MINUTE, INTERVAL '30' SECOND"),
        ("hop-slide", "HOP", "INTERVAL '1' MINUTE, INTERVAL '4' MINUTE", "INTERVAL '2' MINUTE, INTERVAL '4' MINUTE"),
        (
            "cumulate-step",
            "CUMULATE",
            "INTERVAL '1' MINUTE, INTERVAL '4' MINUTE",
            "INTERVAL '2' MINUTE, INTERVAL '4' MINUTE",
        ),
        ("tumble-to-cumulate", "TUMBLE", "INTERVAL '4' MINUTE", "INTERVAL '4' MINUTE"),
        ("unit", "TUMBLE", "INTERVAL '2' MINUTE", "INTERVAL '120' SECOND(3)"),
    ):
        text = tumble.format(function, old)
        other = tumble.format("CUMULATE" if name.startswith("tumble-to") else function, new)
        if name.startswith("tumble-to"):
            other = other.replace("INTERVAL '4'", "INTERVAL '2' MINUTE, INTERVAL '4'")
        kinds.add(f"windows/{name}", "shop window_start n", text, text, other)
    text = tumble.format("TUMBLE", "INTERVAL '2' MINUTE")
    kinds.add("windows/where", "shop window_start n", text, "GROUP BY", "WHERE price > 5 GROUP BY")
    kinds.add(
        "windows/sets",
        "shop window_start n",
        text,
        "GROUP BY shop, window_start, window_end",
        "GROUP BY window_start, window_end, GROUPING SETS ((shop), ())",
    )
    again = (
        "SELECT shop, window_start, SUM(n) AS n FROM TABLE(TUMBLE(TABLE minutes, "
        "DESCRIPTOR(rt), INTERVAL '{}' MINUTE)) "
        "GROUP BY shop, window_start, window_end"
    )
    minutes = (
        "CREATE VIEW minutes AS SELECT shop, window_time AS rt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY shop, window_start, window_end, window_time"
    )
    kinds.tables = (ORDERS, minutes)
    kinds.add("windows/of-windows", "shop window_start n", again.format(3), "SUM(n)", "SUM(n) + 1")
    kinds.add("windows/of-windows-size", "shop window_start n", again.format(3), "'3'", "'4'")
    kinds.script = orders(seed, late=30)
    for name, text in (
        ("tumble", tumble.format("TUMBLE", "INTERVAL '2' MINUTE")),
        (
            "over",
            "SELECT id AS n, shop, ts AS window_start FROM (SELECT id, shop, ts, COUNT(*) "
            "OVER (PARTITION BY shop ORDER BY ts) AS c FROM orders)",
        ),
        (
            "match",
            "SELECT shop, window_start, n FROM orders MATCH_RECOGNIZE (PARTITION BY shop "
            "ORDER BY ts MEASURES A.ts AS "
            "window_start, B.id AS n AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A "
            "AS A.amount > 20, B AS B.amount > 10)",
        ),
    ):
        columns = "n shop window_start" if name == "over" else "shop window_start n"
        kinds.tables = (LATER,)
        kinds.add(f"watermark/{name}-shorter", columns, text, tables=(LATER.replace("'40'", "'20'"),))
        kinds.add(f"watermark/{name}-longer", columns, text, tables=(LATER.replace("'40'", "'60'"),))
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    match = (
        "SELECT shop, a_id, b_id FROM orders MATCH_RECOGNIZE (PARTITION BY shop ORDER "
        "BY ts MEASURES A.id AS a_id, B.id AS "
        "b_id AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) WITHIN INTERVAL '1' MINUTE DEFINE A AS A.amount > 20, B AS "
        "B.amount > 10)"
    )
    kinds.add("match/within", "shop a_id b_id", match, "'1' MINUTE", "'2' MINUTE")
    kinds.add("match/skip", "shop a_id b_id", match, "SKIP PAST LAST ROW", "SKIP TO NEXT ROW")
    kinds.add(
        "match/names",
        "shop a_id b_id",
        match,
        "A.id AS a_id, B.id AS b_id",
        "X.id AS a_id, B.id AS b_id",
        "(A B)",
        "(X B)",
        "A AS A.amount",
        "X AS X.amount",
    )
    kinds.add("match/where", "shop a_id b_id", match, "FROM orders", "FROM (SELECT * FROM orders WHERE price > 3)")


def _joins(kinds: Kinds, seed: int) -> None:
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    text = "SELECT o.id, p.paid FROM {} ON o.shop = p.shop"
    for name, old, new in (
        ("sides", "orders o JOIN payments p", "payments p JOIN orders o"),
        ("left-to-right", "orders o LEFT JOIN payments p", "payments p RIGHT JOIN orders o"),
        ("left-turned", "orders o LEFT JOIN payments p", "payments p LEFT JOIN orders o"),
        ("full-turned", "orders o FULL JOIN payments p", "payments p FULL JOIN orders o"),
        ("distinct-side", "orders o JOIN payments p", "orders o JOIN (SELECT DISTINCT shop, paid FROM payments) p"),
    ):
        kinds.add(f"joins/{name}", "id paid", text.format(old), old, new)
    few = "(SELECT * FROM orders WHERE price > 5)"
    kinds.add(
        "joins/sides-where",
        "id paid",
        text.format(f"{few} o JOIN payments p"),
        f"{few} o JOIN payments p",
        f"payments p JOIN {few} o",
    )
    hints = "SELECT {}o.id, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    plain, hinted = hints.format(""), hints.format("/*+ STATE_TTL('o' = '1d', 'p' = '2d') */ ")
    kinds.add("joins/hint-on", "id paid", plain, plain, hinted)
    kinds.add("joins/hint-off", "id paid", hinted, hinted, plain)
    kinds.add("joins/hint-other", "id paid", hinted, "'o' = '1d', 'p' = '2d'", "'o' = '3d', 'p' = '1d'")
    one = hinted.replace("'o' = '1d', 'p' = '2d'", "'o' = '1d'")
    kinds.add("joins/hint-one-side", "id paid", one, "'o' = '1d'", "'p' = '1d'")
    agg = "SELECT {}shop, COUNT(*) AS n FROM orders AS o GROUP BY shop"
    kinds.add("joins/hint-group", "shop n", agg.format(""), "SELECT ", "SELECT /*+ STATE_TTL('o' = '1d') */ ")
    exists = (
        "SELECT o.id, o.amount FROM orders o WHERE {}EXISTS (SELECT 1 FROM payments p "
        "WHERE p.shop = o.shop AND p.paid > 2)"
    )
    kinds.add("subquery/exists-to-not", "id amount", exists.format(""), "EXISTS", "NOT EXISTS")
    kinds.add("subquery/exists-bound", "id amount", exists.format(""), "p.paid > 2", "p.paid > 3")
    kinds.add("subquery/exists-correlated", "id amount", exists.format(""), "p.paid > 2", "p.paid > o.price")
    inside = "SELECT id, amount FROM orders WHERE shop IN (SELECT shop FROM payments WHERE paid > 2)"
    kinds.add("subquery/in-to-exists", "id amount", inside, inside, exists.format(""))
    kinds.add("subquery/in-key", "id amount", inside, "shop IN (SELECT shop", "item IN (SELECT shop")
    scalar = "SELECT id, amount FROM orders WHERE amount > (SELECT MAX(paid) FROM payments)"
    kinds.add("subquery/scalar", "id amount", scalar, "MAX(paid)", "MIN(paid)")
    kinds.add("subquery/scalar-compare", "id amount", scalar, "amount > (", "price > (")
    own = "SELECT a.id, {} AS x FROM orders a JOIN orders b ON a.id = b.id + 1"
    kinds.add("joins/self-column", "id x", own.format("a.amount"), "a.amount", "b.amount")
    kinds.add("joins/self-turned", "id x", own.format("a.amount"), "a.id = b.id + 1", "b.id = a.id + 1")
    kinds.add(
        "joins/self-sum",
        "shop x",
        "SELECT a.shop, SUM(a.amount) AS x FROM orders a JOIN orders b ON a.id = b.id GROUP BY a.shop",
        "SUM(a.amount)",
        "SUM(b.amount)",
    )
    kinds.add("joins/constant", "id paid", plain, "o.shop = p.shop", "o.shop = p.shop AND p.paid = 3")
    kinds.add("joins/or", "id paid", plain, "o.shop = p.shop", "o.shop = p.shop OR o.price = p.paid")
    kinds.add("joins/cross", "id paid", plain, " JOIN payments p ON o.shop = p.shop", " CROSS JOIN payments p")
    kinds.add(
        "joins/keys-turned",
        "id paid",
        plain.replace("= p.shop", "= p.shop AND o.price = p.paid"),
        "o.shop = p.shop AND o.price = p.paid",
        "o.price = p.paid AND o.shop = p.shop",
    )
    counts = (
        "SELECT o.shop, o.n, p.c FROM (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) o JOIN (SELECT shop, "
        "COUNT(*) AS c FROM payments GROUP BY shop) p ON o.shop = p.shop"
    )
    kinds.add("joins/of-counts", "shop n c", counts, "o.n, p.c", "o.n + p.c AS n, p.c")
    kinds.add("joins/of-counts-left", "shop n c", counts, ") o JOIN", ") o LEFT JOIN")
    kinds.add("joins/of-counts-sum", "shop n c", counts, "COUNT(*) AS n", "SUM(CAST(amount AS BIGINT)) AS n")
    view = "CREATE VIEW paying AS SELECT o.id, o.amount, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    kinds.tables = (ORDERS, PAYMENTS, view)
    kinds.add(
        "views/inlined",
        "id amount paid",
        "SELECT id, amount, paid FROM paying",
        "FROM paying",
        "FROM (SELECT o.id, o.amount, p.paid FROM orders o JOIN payments p ON o.shop = p.shop)",
    )
    kinds.add(
        "views/other",
        "id amount paid",
        "SELECT id, amount, paid FROM paying",
        tables=(ORDERS, PAYMENTS, view.replace("JOIN", "LEFT JOIN")),
    )
    multi = {"table.exec.mini-batch.enabled": "false"}
    kinds.add("joins/settings", "id amount paid", "SELECT id, amount, paid FROM paying", new_conf=multi)


def _sets(kinds: Kinds, seed: int) -> None:
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    for name in ("INTERSECT", "EXCEPT", "UNION", "INTERSECT ALL", "EXCEPT ALL", "UNION ALL"):
        text = f"SELECT price AS a FROM orders {name} SELECT paid AS a FROM payments"
        turned = f"SELECT paid AS a FROM payments {name} SELECT price AS a FROM orders"
        kinds.add(f"sets/{name}-turned".lower().replace(" ", "-"), "a", text, text, turned)
        other = {"INTERSECT": "EXCEPT", "EXCEPT": "INTERSECT", "UNION": "UNION ALL"}.get(name, "UNION")
        kinds.add(f"sets/{name}-to-{other}".lower().replace(" ", "-"), "a", text, name, other)
        kinds.add(f"sets/{name}-column".lower().replace(" ", "-"), "a", text, "price", "amount")


def _statements(kinds: Kinds, seed: int) -> None:
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    by_shop = ("shop STRING, a INT", "SELECT shop, SUM(amount) AS a FROM orders GROUP BY shop")
    by_item = ("item STRING, a INT", "SELECT item, SUM(amount) AS a FROM orders GROUP BY item")
    other = ("shop STRING, a INT", "SELECT shop, SUM(price) AS a FROM orders GROUP BY shop")

    def add(name: str, old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> None:
        queries = [Sinks(*(";".join(one[place] for one in each) for place in (0, 1))) for each in (old, new)]
        kinds.cases[f"statements/{name}"] = Case(queries[0], queries[1], kinds.script, None, {"fill": "initial"})

    add("turned", (by_shop, by_item), (by_item, by_shop))
    add("alike-turned", (by_shop, other), (other, by_shop))
    add("removed", (by_shop, by_item), (by_item,))
    add("added", (by_item,), (by_shop, by_item))
    add("twice", (by_shop,), (by_shop, by_shop))
    add("same-twice", (by_shop, by_shop), (by_shop, by_shop))


def _changelogs(kinds: Kinds, seed: int) -> None:
    kinds.script, kinds.tables = changes(seed), (CHANGED,)
    text = "SELECT shop, SUM(amount) AS a, COUNT(*) AS n FROM changed GROUP BY shop"
    kinds.add("changelog/where", "shop a n", text, "changed GROUP", "changed WHERE amount > 4 GROUP")
    kinds.add("changelog/case", "shop a n", text, "SUM(amount)", "SUM(CASE WHEN amount > 4 THEN amount END)")
    kinds.add("changelog/star-to-column", "shop a n", text, "COUNT(*)", "COUNT(item)")
    kinds.add(
        "changelog/order", "shop a n", text, "SUM(amount) AS a, COUNT(*) AS n", "SUM(amount) AS a, COUNT(id) AS n"
    )
    kinds.add("changelog/min", "shop a n", text, "SUM(amount)", "MIN(amount)")
    top = (
        "SELECT shop, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop "
        "ORDER BY {}) AS rn FROM changed) WHERE rn <= 2"
    )
    kinds.add("changelog/top-order", "shop id amount", top.format("amount DESC, id"), "amount DESC, id", "amount, id")
    kinds.add("changelog/top-tie", "shop id amount", top.format("amount DESC, id"), "DESC, id", "DESC, item, id")
    last = (
        "SELECT id, item FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY "
        "amount DESC) AS rn FROM changed) WHERE rn = 1"
    )
    kinds.add("changelog/last-column", "id item", last, "item FROM", "shop AS item FROM")
    kinds.add(
        "changelog/intersect",
        "item",
        "SELECT item FROM changed INTERSECT SELECT shop AS item FROM changed",
        "SELECT shop AS item",
        "SELECT item",
    )
    upsert = table("changed", "id BIGINT, shop STRING, item STRING, amount INT", "upsert", "id")
    kinds.add("changelog/to-upsert", "shop a n", text, tables=(upsert,))
    kinds.tables = (upsert,)
    kinds.add("changelog/from-upsert", "shop a n", text, tables=(CHANGED,))
    kinds.add("changelog/normalize-where", "shop a n", text, "changed GROUP", "changed WHERE amount > 4 GROUP")
    kinds.add("changelog/normalize-column", "shop a n", text, "SUM(amount)", "MAX(amount)")
    kinds.add(
        "changelog/normalize-key-type",
        "id item",
        "SELECT id, item FROM changed",
        tables=(upsert.replace("id BIGINT", "id INT"),),
        to="a item",
    )


def _live(kinds: Kinds, seed: int) -> None:
    """Add times to live that begin and end, of the operators that ``sql_kinds`` leaves out."""
    live = {"table.exec.state.ttl": "1 d"}

    def add(name: str, columns: str, text: str, *, key: str = "", conf: Mapping[str, str] | None = None) -> None:
        off = dict(conf or {})
        kinds.add(f"live/{name}-on", columns, text, conf=off, new_conf={**off, **live}, key=key)
        kinds.add(f"live/{name}-off", columns, text, conf={**off, **live}, new_conf=off, key=key)
        kinds.add(
            f"live/{name}-longer",
            columns,
            text,
            conf={**off, **live},
            new_conf={**off, "table.exec.state.ttl": "3 d"},
            key=key,
        )

    mini = {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "20 ms",
        "table.exec.mini-batch.size": "4",
    }
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    calls = "SELECT shop, COUNT(*) AS n, SUM(price) AS p, COUNT(DISTINCT item) AS u FROM orders GROUP BY shop"
    add("batched-group", "shop n p u", calls, conf=mini)
    add("two-phase", "shop n p u", calls, conf={**mini, "table.optimizer.agg-phase-strategy": "TWO_PHASE"})
    last = (
        "SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY "
        "{}) AS rn FROM orders) WHERE rn = 1"
    )
    add("batched-last", "item id", last.format("pt DESC"), conf=mini)
    add("batched-first", "item id", last.format("pt"), conf=mini)
    sink = {"table.exec.sink.require-on-conflict": "false"}
    add(
        "materializer",
        "item s n",
        "SELECT MAX(item) AS item, shop AS s, COUNT(*) AS n FROM orders GROUP BY shop",
        conf=sink,
        key="item",
    )
    add(
        "tumble",
        "shop window_start n",
        "SELECT shop, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, "
        "DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY shop, window_start, window_end",
    )
    add(
        "match",
        "shop a_id b_id",
        "SELECT shop, a_id, b_id FROM orders MATCH_RECOGNIZE (PARTITION BY shop ORDER "
        "BY ts MEASURES "
        "A.id AS a_id, B.id AS b_id AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) "
        "DEFINE A AS A.amount > 20, B AS B.amount > 10)",
    )
    kinds.script, kinds.tables = changes(seed), (CHANGED,)
    add("changes", "shop a n", "SELECT shop, MAX(amount) AS a, COUNT(*) AS n FROM changed GROUP BY shop")
    kinds.tables = (table("changed", "id BIGINT, shop STRING, item STRING, amount INT", "upsert", "id"),)
    add("normalize", "shop a n", "SELECT shop, MAX(amount) AS a, COUNT(*) AS n FROM changed GROUP BY shop")
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    add("semi", "id amount", "SELECT id, amount FROM orders WHERE shop IN (SELECT shop FROM payments)")
    add("full", "id paid", "SELECT o.id, p.paid FROM orders o FULL JOIN payments p ON o.shop = p.shop")
    add(
        "unique",
        "n c",
        "SELECT o.n, p.c FROM (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) o "
        "LEFT JOIN (SELECT shop, "
        "COUNT(*) AS c FROM payments GROUP BY shop) p ON o.shop = p.shop",
    )
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    add(
        "interval",
        "id paid",
        "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts "
        "BETWEEN p.ts - INTERVAL "
        "'60' SECOND AND p.ts + INTERVAL '60' SECOND",
    )
    side = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' MINUTE)))"
    windows = (
        f"SELECT o.id, p.paid FROM {side.format('orders')} o JOIN {side.format('paid')} p ON o.shop = p.shop "
        "AND o.window_start = p.window_start AND o.window_end = p.window_end"
    )
    add("window-join", "id paid", windows)
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    add(
        "temporal",
        "id rate",
        "SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop",
    )
    # A sink that materializes rows behind a join, whose own key changes.
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    left = (
        "SELECT o.s, o.n, p.c FROM (SELECT shop AS s, COUNT(*) AS n FROM orders GROUP "
        "BY shop) o LEFT JOIN (SELECT shop, COUNT(*) AS c FROM payments GROUP BY shop) "
        "p ON o.s = p.shop"
    )
    rows = left.replace(
        "(SELECT shop, COUNT(*) AS c FROM payments GROUP BY shop)",
        "(SELECT shop, CAST(paid AS BIGINT) AS c FROM payments)",
    )
    kinds.add("sink/join-loses-key", "s n c", left, left, rows, conf=sink, key="s")
    kinds.add("sink/join-gains-key", "s n c", rows, rows, left, conf=sink, key="s")
    kinds.add("sink/join-other-key", "s n c", left, "ON o.s = p.shop", "ON o.n = p.c", conf=sink, key="s")
    kinds.add("sink/behind-rows", "s n c", rows, "AS BIGINT) AS c", "AS BIGINT) + 1 AS c", conf=sink, key="s")
    kinds.add("sink/behind-rows-inner", "s n c", rows, "LEFT JOIN", "JOIN", conf=sink, key="s")
    kinds.add("sink/key-other", "s n c", rows, conf=sink, key="s", new_key="n")


def _lookups(kinds: Kinds, seed: int) -> None:
    """Add rows that are looked up in a table."""
    looked = table("names", "shop STRING, s STRING").replace("'connector'", "'lookup' = '{}', 'connector'")
    names: Script = [("names", "+I", {"shop": f"shop {n}", "s": f"name {n % 2}"}) for n in range(3)]
    kinds.script = [*orders(seed), *names]
    text = "SELECT o.id, n.s FROM orders o JOIN names FOR SYSTEM_TIME AS OF o.pt AS n ON o.shop = n.shop"
    counts = (
        "SELECT n.s, COUNT(*) AS n, SUM(o.amount) AS a FROM orders o JOIN names FOR "
        "SYSTEM_TIME AS OF o.pt AS n ON o.shop = "
        "n.shop GROUP BY n.s"
    )
    for kind in ("sync", "async"):
        kinds.tables = (ORDERS, looked.format(kind))
        kinds.add(f"lookup-{kind}/same", "id s", text, "o.id, ", "o.id + 1, ")
        kinds.add(f"lookup-{kind}/equal", "id s", text)
        kinds.add(f"lookup-{kind}/column", "id s", text, "o.id, n.s", "o.id, n.s, o.item", to="id s item")
        kinds.add(f"lookup-{kind}/key", "id s", text, "o.shop = n.shop", "o.item = n.shop")
        kinds.add(f"lookup-{kind}/counts", "s n a", counts, "COUNT(*)", "COUNT(*) + 1")
        kinds.add(f"lookup-{kind}/counts-key", "s n a", counts, "n.s,", "n.shop AS s,", "BY n.s", "BY n.shop")
        kinds.add(f"lookup-{kind}/counts-condition", "s n a", counts, "GROUP", "AND n.s <> 'name 1' GROUP")
        kinds.add(f"lookup-{kind}/counts-left", "s n a", counts, "JOIN", "LEFT JOIN")
        kinds.add(f"lookup-{kind}/counts-on", "s n a", counts, "o.shop = n.shop", "o.item = n.shop")
    kinds.tables = (ORDERS, looked.format("sync"))
    kinds.add("lookup-sync/to-async", "id s", text, tables=(ORDERS, looked.format("async")))


def _without_waiting(kinds: Kinds, seed: int) -> None:
    """Add state that is read without waiting for it (``table.exec.async-state.enabled``), which no plan says."""

    def add(name: str, columns: str, text: str, **more: Any) -> None:
        kinds.add(f"async-state/{name}-on", columns, text, conf={}, new_conf=ASYNC, **more)
        kinds.add(f"async-state/{name}-off", columns, text, conf=ASYNC, new_conf={}, **more)
        kinds.add(f"async-state/{name}-same", columns, text, conf=ASYNC, **more)

    best = (
        "SELECT shop, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY {}) AS rn FROM {}) "
        "WHERE rn <= {}"
    )
    windows = "TABLE({}(TABLE orders, DESCRIPTOR(ts), {}))"
    counts = "SELECT shop, window_start, COUNT(*) AS n FROM {} GROUP BY shop, window_start, window_end"
    over = "SELECT id, SUM(amount) OVER (PARTITION BY shop ORDER BY {}) AS a FROM orders"
    one, tumble = "shop id amount", windows.format("TUMBLE", "INTERVAL '2' MINUTE")
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    top = best.format("amount DESC, id", "orders", 3)
    add("group", "shop n a", "SELECT shop, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop")
    add("distinct", "shop n a", "SELECT shop, COUNT(DISTINCT item) AS n, MIN(amount) AS a FROM orders GROUP BY shop")
    add("rank", one, top)
    kinds.add("async-state/rank-column", one, top, "amount FROM", "price AS amount FROM", conf=ASYNC)
    add("top-1", one, best.format("amount DESC, id", "orders", 1))
    add("last", one, best.format("pt DESC", "orders", 1))
    add("first", one, best.format("pt", "orders", 1))
    add("last-by-time", one, best.format("ts DESC", "orders", 1))
    add("first-by-time", one, best.format("ts", "orders", 1))
    grown = "SELECT shop, a, COUNT(*) AS n FROM (SELECT shop, amount AS a FROM orders) GROUP BY shop, a"
    text = best.replace("shop, id, amount", "shop, a, n")
    add("rank-update", "shop a n", text.format("n DESC", f"({grown})", 2))
    add("rank-retract", "shop a n", text.format("n, a", f"({grown})", 2))
    add("tumble", "shop window_start n", counts.format(tumble))
    add("hop", "shop window_start n", counts.format(windows.format("HOP", "INTERVAL '1' MINUTE, INTERVAL '2' MINUTE")))
    add("over", "id a", over.format("ts"))
    add("over-rows", "id a", over.format("ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"))
    add("over-processing", "id a", over.format("pt"))
    by_window = best.replace("PARTITION BY shop", "PARTITION BY shop, window_start, window_end")
    add("window-rank", one, by_window.format("amount, id", tumble, 2))
    add("window-deduplicate", one, by_window.format("ts", tumble, 1))
    add("sort", "id", "SELECT id FROM orders ORDER BY ts, amount, id")
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    joined = "SELECT o.id, p.paid FROM orders o {} payments p ON o.shop = p.shop"
    add("join", "id paid", joined.format("LEFT JOIN"))
    add("join-inner", "id paid", joined.format("JOIN"))
    add("semi", "id amount", "SELECT id, amount FROM orders WHERE shop IN (SELECT shop FROM payments)")
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    near = "o.ts BETWEEN p.ts - INTERVAL '60' SECOND AND p.ts + INTERVAL '60' SECOND"
    add("interval", "id paid", f"SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND {near}")
    side = "(SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' MINUTE)))"
    window_join = f"SELECT o.id, p.paid FROM {side.format('orders')} o JOIN {side.format('paid')} p ON o.shop = p.shop"
    same = " AND o.window_start = p.window_start AND o.window_end = p.window_end"
    add("window-join", "id paid", window_join + same)
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    at = "SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop"
    add("temporal", "id rate", at)


def _repeated(kinds: Kinds, seed: int) -> None:
    """Add changes of rows that are there several times, of operands that change places, and of letters."""
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    counts = "SELECT shop, COUNT(*) AS n FROM TABLE({}(TABLE orders, DESCRIPTOR(ts), {})) GROUP BY shop"
    hop = counts.format("HOP", "INTERVAL '1' MINUTE, INTERVAL '2' MINUTE")
    tumble = counts.format("TUMBLE", "INTERVAL '2' MINUTE")
    kinds.add("rows-of-windows/to-hop", "shop n", tumble, tumble, hop)
    kinds.add("rows-of-windows/hop-larger", "shop n", hop, "'2' MINUTE", "'4' MINUTE")
    kinds.add("rows-of-windows/hop-to-cumulate", "shop n", hop, "HOP", "CUMULATE")
    kinds.add("rows-of-windows/tumble-larger", "shop n", tumble, "'2'", "'4'")
    kinds.add("rows-of-windows/hop-same", "shop n", hop, "COUNT(*)", "COUNT(*) + 1")
    elements = "SELECT {} FROM orders CROSS JOIN UNNEST(ARRAY[price, amount]) AS t (x){}"
    by_shop = elements.format("shop, SUM(x) AS a, COUNT(*) AS n", " GROUP BY shop")
    array = "SELECT COUNT(*) AS n FROM (SELECT ARRAY[price, amount] AS l FROM orders) CROSS JOIN UNNEST(l) AS t (x)"
    kinds.add("unnest/array", "n", array, "price, amount", "price, amount, 4")
    kinds.add("unnest/elements", "n", elements.format("COUNT(*) AS n", ""), "price, amount", "price, amount, 3")
    kinds.add("unnest/element", "shop a n", by_shop, "price, amount", "amount, amount")
    kinds.add("unnest/condition", "shop a n", by_shop.replace(" GROUP", " WHERE x > 5 GROUP"), "x > 5", "x > 8")
    kinds.add("unnest/same", "shop a n", by_shop, "COUNT(*) AS n", "COUNT(*) + 1 AS n")
    kinds.add("unnest/call-removed", "shop a n", by_shop, ", COUNT(*) AS n", "", to="shop a")
    now = f"COUNT(*) AS n, MAX(CASE WHEN id >= {BEFORE} THEN price END) AS p"
    more = by_shop.replace("COUNT(*) AS n", now)
    kinds.add("unnest/call-added", "shop a n", by_shop, "AS n", "AS n, MAX(price) AS p", to="shop a n p", truth=more)
    by_key = "SELECT {0} AS a, COUNT(*) AS n FROM orders GROUP BY {0}"
    for name, old, new in (
        ("commuted", "amount + price", "price + amount"),
        ("turned", "CASE WHEN amount > price THEN 1 ELSE 2 END", "CASE WHEN price < amount THEN 1 ELSE 2 END"),
        ("not-turned", "CASE WHEN amount > price THEN 1 ELSE 2 END", "CASE WHEN price > amount THEN 1 ELSE 2 END"),
        ("if", "CASE WHEN amount > 20 THEN 1 ELSE 2 END", "IF(amount > 20, 1, 2)"),
    ):
        kinds.add(f"operands/{name}", "a n", by_key.format(old), by_key.format(old), by_key.format(new))
    text = "SELECT shop, COUNT(DISTINCT item) FILTER (WHERE amount < 20) AS n FROM orders GROUP BY shop"
    late = text.replace("< 20", f">= 20 AND id >= {BEFORE}")
    kinds.add("distinct-anew/filter", "shop n", text, "< 20", ">= 20", truth=late)
    both = text.replace("AS n", "AS n, COUNT(DISTINCT item) AS c")
    late = both.replace("COUNT(DISTINCT item) AS c", f"COUNT(DISTINCT item) FILTER (WHERE id >= {BEFORE}) AS c")
    kinds.add("distinct-anew/without-filter", "shop n", text, text, both, to="shop n c", truth=late)
    text = "SELECT shop, COUNT(DISTINCT price) AS n FROM orders GROUP BY shop"
    average = text.replace("AS n", "AS n, AVG(DISTINCT price) AS p")
    late = average.replace("DISTINCT price) AS p", f"DISTINCT CASE WHEN id >= {BEFORE} THEN price END) AS p")
    kinds.add("distinct-anew/average", "shop n", text, text, average, to="shop n p", truth=late)
    parts = text.replace("AS n", "AS n, SUM(DISTINCT price) AS a")
    kinds.add("distinct-anew/of-parts", "shop n a", parts, parts, average, to="shop n p")
    text = "SELECT shop, COUNT(price) AS n FROM orders GROUP BY shop"
    average = text.replace("AS n", "AS n, AVG(price) AS p")
    late = average.replace("AVG(price)", f"AVG(CASE WHEN id >= {BEFORE} THEN price END)")
    kinds.add("distinct-anew/average-of-all", "shop n", text, text, average, to="shop n p", truth=late)
    sums = text.replace("AS n", "AS n, SUM(price) AS p")
    deviation = sums.replace("AS p", "AS p, CAST(STDDEV_POP(price) AS INT) AS a")
    kinds.add("distinct-anew/deviation-of-all", "shop n p", sums, sums, deviation, to="shop n p a")
    names = ("straße", "ΟΔΟΣ", "STRASSE")
    kinds.script = [(one, kind, {**row, "shop": names[int(row["shop"][-1])]}) for one, kind, row in orders(seed)]
    text = "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop"
    for function in ("UPPER", "LOWER"):
        changed = text.replace("SELECT shop", f"SELECT {function}(shop) AS shop").replace(
            "BY shop", f"BY {function}(shop)"
        )
        kinds.add(f"letters/{function}".lower(), "shop n", text, text, changed)
    kinds.script = orders(seed)


if __name__ == "__main__":
    sys.exit(main(every_case))
