"""Changes of queries as their owners write them: calls, keys, nested queries, joins, sets, hints, columns of tables.

    python -m tests.oracle.sql_kinds 1.20.5 2.3.0 --only written/

Each is evolved, restored by real Flink, and compared with the truth, as ``sql_kinds`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.oracle.sql_changes import from_now_on, split_calls

if TYPE_CHECKING:
    from tests.oracle.sql_kinds import Kinds

#: Types of columns that the other kinds do not have.
TYPES = {
    **dict.fromkeys(("text", "part"), "STRING"),
    "yes": "BOOLEAN",
    "exact": "DECIMAL(38, 0)",
    "list": "ARRAY<INT>",
    "pairs": "ROW<x INT, y INT>",
}
#: Calls of OLD and of NEW, with their columns.
CALLS = {
    "swapped-names": ("SUM(price) AS a, SUM(amount) AS p", "SUM(amount) AS a, SUM(price) AS p"),
    "case": (
        "SUM(CASE WHEN amount > 10 THEN 1 ELSE 0 END) AS a",
        "SUM(CASE WHEN amount > 20 THEN 1 ELSE 0 END) AS a",
    ),
    "case-moved": (
        "SUM(CASE WHEN amount > 10 THEN 1 ELSE 0 END) AS a, COUNT(*) AS n",
        "COUNT(*) AS n, SUM(CASE WHEN amount > 10 THEN 1 ELSE 0 END) AS a",
    ),
    "count-of-column": ("COUNT(*) AS n", "COUNT(price) AS n"),
    "count-of-rows": ("COUNT(price) AS n", "COUNT(*) AS n"),
    "average-to-parts": ("AVG(price) AS p", "SUM(price) AS a, COUNT(price) AS n"),
    "parts-to-average": ("SUM(price) AS a, COUNT(price) AS n", "AVG(price) AS p"),
    "filter-other": ("COUNT(*) FILTER (WHERE amount > 20) AS n", "COUNT(*) FILTER (WHERE amount > 30) AS n"),
    "filters-swapped": (
        "COUNT(*) FILTER (WHERE amount > 20) AS n, COUNT(*) FILTER (WHERE amount > 30) AS c",
        "COUNT(*) FILTER (WHERE amount > 30) AS n, COUNT(*) FILTER (WHERE amount > 20) AS c",
    ),
    "distinct-filters": (
        "COUNT(DISTINCT item) FILTER (WHERE amount > 20) AS n, COUNT(DISTINCT item) AS c",
        "COUNT(DISTINCT item) AS n, COUNT(DISTINCT item) FILTER (WHERE amount > 20) AS c",
    ),
    "distinct-filter-removed": (
        "COUNT(DISTINCT item) FILTER (WHERE amount > 20) AS n, COUNT(DISTINCT item) FILTER (WHERE price > 5) AS c",
        "COUNT(DISTINCT item) FILTER (WHERE price > 5) AS c",
    ),
    "cast": ("SUM(price) AS a", "SUM(CAST(price AS BIGINT)) AS n"),
    "coalesce": ("SUM(COALESCE(price, 0)) AS a", "SUM(COALESCE(price, 1)) AS a"),
    "negative": ("SUM(amount) AS a", "SUM(-amount) AS a"),
    "plus-zero": ("SUM(amount) AS a", "SUM(amount + 0) AS a"),
    "decimal": ("SUM(CAST(amount AS DECIMAL(9))) AS exact", "SUM(CAST(amount AS DECIMAL(12))) AS exact"),
    "separator": ("LISTAGG(item) AS text", "LISTAGG(item, ';') AS text"),
    "first-to-last": ("FIRST_VALUE(amount) AS a", "LAST_VALUE(amount) AS a"),
    "first-of-other": ("FIRST_VALUE(amount) AS a", "FIRST_VALUE(price) AS a"),
    "row": ("LAST_VALUE(ROW(price, amount)) AS pairs", "LAST_VALUE(ROW(amount, price)) AS pairs"),
    "row-moved": (
        "LAST_VALUE(ROW(price, amount)) AS pairs, COUNT(*) AS n",
        "COUNT(*) AS n, LAST_VALUE(ROW(price, amount)) AS pairs",
    ),
    "array": ("ARRAY_AGG(price) AS list", "ARRAY_AGG(amount) AS list"),
    "coalesced-after": ("SUM(price) AS a", "COALESCE(SUM(price), 0) AS a"),
    "constant": ("'a' AS text, COUNT(*) AS n", "'b' AS text, COUNT(*) AS n"),
    "sum-of-constant": ("SUM(1) AS a", "SUM(2) AS a"),
    "distinct-kinds": (
        "SUM(DISTINCT amount) AS a, COUNT(DISTINCT amount) AS n",
        "COUNT(DISTINCT price) AS n, SUM(DISTINCT amount) AS a",
    ),
}
JOIN = "SELECT o.id, o.amount, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
RESULTS = (
    "SELECT a.shop, a.n, b.p FROM (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) a "
    "JOIN (SELECT shop, SUM(paid) AS p FROM payments GROUP BY shop) b ON a.shop = b.shop"
)


def written(kinds: Kinds, computed: Sequence[str], tripled: Sequence[str]) -> None:
    """Add queries over orders; ``computed`` and ``tripled`` are their table with two definitions of one column."""
    for name, calls in CALLS.items():
        columns = [" ".join(["shop", *(call.split()[-1] for call in split_calls(each))]) for each in calls]
        text = f"SELECT shop, {calls[0]} FROM orders GROUP BY shop"
        later = from_now_on(*calls)
        truth = text.replace(calls[0], later) if later else None
        kinds.add(f"written/{name}", columns[0], text, *calls, to=columns[1], truth=truth)
    _keys(kinds)
    _nested(kinds)
    _rows(kinds)
    old = kinds.tables
    kinds.tables = computed
    for name, columns, text in (
        ("computed", "shop a", "SELECT shop, SUM(more) AS a FROM orders GROUP BY shop"),
        ("computed-key", "a n", "SELECT more AS a, COUNT(*) AS n FROM orders GROUP BY more"),
        ("computed-condition", "shop n", "SELECT shop, COUNT(*) AS n FROM orders WHERE more > 50 GROUP BY shop"),
    ):
        kinds.add(f"written/{name}", columns, text, tables=tripled)
    kinds.tables = old
    text, hint = "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop", "/*+ STATE_TTL('orders' = '1d') */ "
    hinted = text.replace("SELECT ", f"SELECT {hint}")
    kinds.add("written/hint-on", "shop n", text, "SELECT ", f"SELECT {hint}")
    kinds.add("written/hint-off", "shop n", hinted, hint, "")
    more = ("SELECT ", f"SELECT {hint}", "AS n", "AS n, SUM(amount) AS a")
    kinds.add("written/hint-and-call", "shop n", text, *more, to="shop n a")


def _keys(kinds: Kinds) -> None:
    counted = "SELECT {0} AS {1}, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY {0}"
    for name, column, one, other in (
        ("upper", "text", "UPPER(shop)", "LOWER(shop)"),
        ("concatenated", "text", "shop || item", "item || shop"),
        ("modulo", "big", "MOD(id, 5)", "MOD(id, 7)"),
        ("condition", "yes", "amount > 20", "amount > 30"),
        ("time", "text", "DATE_FORMAT(ts, 'HH')", "DATE_FORMAT(ts, 'HH:mm')"),
    ):
        text = counted.format(one, column)
        kinds.add(f"written/key-{name}", f"{column} n a", text, text, counted.format(other, column))
    text = "SELECT shop, item, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop, item"
    kinds.add("written/keys-reordered", "shop item n a", text, "GROUP BY shop, item", "GROUP BY item, shop")
    text = "SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((shop), (item))"
    kinds.add("written/grouping-sets", "shop item n", text, "((shop), (item))", "((shop), (item), ())")
    kinds.add("written/grouping-sets-reordered", "shop item n", text, "((shop), (item))", "((item), (shop))")
    text = "SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY ROLLUP (shop, item)"
    kinds.add("written/cube", "shop item n", text, "ROLLUP", "CUBE")


def _nested(kinds: Kinds) -> None:
    text = "SELECT c, COUNT(*) AS n FROM (SELECT shop, COUNT(*) AS c FROM orders GROUP BY shop) GROUP BY c"
    kinds.add("written/nested", "c n", text, "COUNT(*) AS c", "COUNT(price) AS c")
    text = (
        "SELECT COUNT(*) AS n FROM (SELECT shop, item, COUNT(*) AS c FROM orders GROUP BY shop, item) AS inner_rows "
        "WHERE c > 1"
    )
    kinds.add("written/nested-condition", "n", text, "c > 1", "c > 2")
    text = "SELECT MAX(a) AS a FROM (SELECT shop, SUM(amount) AS a FROM orders GROUP BY shop)"
    kinds.add("written/nested-maximum", "a", text, "MAX(a)", "MIN(a)")
    kinds.add("written/nested-more", "a", text, "AS a FROM (", "AS a, COUNT(*) AS n FROM (", to="a n")
    text = "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop HAVING COUNT(*) > 2"
    kinds.add("written/having", "shop n", text, "> 2", "> 3")
    text = "SELECT id FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)"
    kinds.add("written/scalar", "id", text, "AVG(amount)", "MAX(price)")


def _rows(kinds: Kinds) -> None:
    over = "SELECT id, {} OVER (PARTITION BY shop ORDER BY ts {}) AS a FROM orders"
    text = over.format("LAG(amount, 1)", "")
    kinds.add("written/lag", "id a", text, "LAG(amount, 1)", "LAG(amount, 2)")
    text = over.format("SUM(amount)", "RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW")
    kinds.add("written/over-smaller", "id a", text, "'2' MINUTE", "'1' MINUTE")
    text = over.format("SUM(amount)", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
    kinds.add("written/over-range", "id a", text, "ROWS", "RANGE")
    kinds.add("written/over-case", "id a", text, "SUM(amount)", "SUM(CASE WHEN price > 5 THEN amount ELSE 0 END)")
    text = (
        "SELECT shop, id, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price DESC, id) AS rn "
        "FROM orders) WHERE rn <= 3"
    )
    kinds.add("written/top-order", "shop id price", text, "price DESC", "amount DESC")
    kinds.add("written/top-tie", "shop id price", text, "DESC, id)", "DESC, id DESC)")
    kinds.add("written/top-nulls", "shop id price", text, "DESC,", "DESC NULLS LAST,")
    kinds.add("written/top-partition", "shop id price", text, "BY shop", "BY item")
    kinds.add(
        "written/top-number", "shop id price", text, "price FROM (", "price, rn AS big FROM (", to="shop id price big"
    )
    text = "SELECT DISTINCT shop, item FROM orders"
    kinds.add("written/distinct-fewer", "shop item", text, ", item", "", to="shop")
    kinds.add("written/distinct-grouped", "shop item", text, "DISTINCT ", "", "orders", "orders GROUP BY shop, item")
    text = "SELECT DISTINCT amount AS a, price AS p FROM orders"
    kinds.add("written/distinct-crossed", "a p", text, "amount AS a, price AS p", "price AS a, amount AS p")
    text = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY shop ORDER BY ts MEASURES A.id AS a_id, B.id AS b_id AFTER "
        "MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 10, B AS B.amount > 20)"
    )
    kinds.add("written/pattern-condition", "shop a_id b_id", text, "> 20", "> 30")
    kinds.add("written/pattern-measure", "shop a_id b_id", text, "A.id AS", "A.id + 1 AS")
    text = "SELECT id, amount FROM orders ORDER BY ts"
    kinds.add("written/sorted", "id amount", text, "amount", "price", to="id price")
    kinds.add(
        "written/offset", "id", "SELECT id FROM orders ORDER BY amount, id LIMIT 5", "LIMIT 5", "LIMIT 5 OFFSET 2"
    )


def written_joins(kinds: Kinds) -> None:
    """Add queries over orders and payments."""
    payments = "(SELECT shop, SUM(paid) AS p FROM payments GROUP BY shop) b"
    counts = "(SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) a"
    left, columns = JOIN.replace("o JOIN", "o LEFT JOIN"), "id amount paid"

    def add(name: str, text: str, *changes: str, **more: Any) -> None:
        kinds.add(f"written/join-{name}", columns, text, *changes, **more)

    for name, text, other in (
        ("", JOIN, "payments p JOIN orders o"),
        ("-left", left, "payments p RIGHT JOIN orders o"),
        ("-to-left", JOIN, "payments p LEFT JOIN orders o"),
        ("-from-left", left, "payments p JOIN orders o"),
    ):
        add(f"swapped{name}", text, text.partition(" FROM ")[2].partition(" ON ")[0], other)
    condition = " AND o.amount > p.paid"
    add("swapped-condition", JOIN + condition, "orders o JOIN payments p", "payments p JOIN orders o")
    add("swapped-keys", JOIN + " AND o.price = p.paid", "orders o JOIN payments p", "payments p JOIN orders o")
    add(
        "swapped-column",
        JOIN,
        "o.amount, p.paid FROM orders o JOIN payments p",
        "o.amount, p.paid, o.price FROM payments p JOIN orders o",
        to=f"{columns} price",
    )
    for name, one in {"left": "LEFT", "right": "RIGHT", "full": "FULL"}.items():
        add(name, JOIN, "o JOIN", f"o {one} JOIN")
    add("inner", left, "LEFT ", "")
    add("left-to-right", left, "LEFT", "RIGHT")
    add("condition", JOIN + condition, condition, " AND o.price > p.paid")
    add("condition-added", JOIN, "= p.shop", f"= p.shop{condition}")
    add("left-condition", left + condition, condition, " AND o.amount < p.paid")
    add("constant", JOIN, "= p.shop", "= p.shop AND p.paid = 3")
    add("key-added", JOIN, "= p.shop", "= p.shop AND o.price = p.paid")
    add("key-upper", JOIN, "o.shop = p.shop", "UPPER(o.shop) = UPPER(p.shop)")
    semi = "SELECT id FROM orders WHERE shop IN (SELECT shop FROM payments WHERE paid > 2)"
    exists = "EXISTS (SELECT 1 FROM payments p WHERE p.shop = orders.shop AND p.paid > 2)"
    kinds.add("written/semi-condition", "id", semi, "paid > 2", "paid > 4")
    kinds.add("written/semi-to-anti", "id", semi, " IN ", " NOT IN ")
    kinds.add("written/semi-exists", "id", semi, semi.partition("WHERE ")[2], exists)
    text = "SELECT shop FROM orders INTERSECT SELECT shop FROM payments"
    kinds.add("written/intersect-to-except", "shop", text, "INTERSECT", "EXCEPT")
    kinds.add("written/union-to-all", "shop", text.replace("INTERSECT", "UNION"), "UNION", "UNION ALL")
    text = text.replace("INTERSECT", "EXCEPT")
    kinds.add("written/except-swapped", "shop", text, text, "SELECT shop FROM payments EXCEPT SELECT shop FROM orders")
    branches = "SELECT shop, amount AS a FROM orders", "SELECT shop, paid AS a FROM payments"
    text = f"SELECT shop, SUM(a) AS a FROM ({' UNION ALL '.join(branches)}) GROUP BY shop"
    kinds.add("written/union-swapped", "shop a", text, " UNION ALL ".join(branches), " UNION ALL ".join(branches[::-1]))
    kinds.add("written/union-branch", "shop a", text, f" UNION ALL {branches[1]}", "")
    kinds.add("written/union-sign", "shop a", text, "paid AS a", "-paid AS a")
    kinds.add("written/results-left", "shop n p", RESULTS, "a JOIN", "a LEFT JOIN")
    kinds.add("written/results-call", "shop n p", RESULTS, "SUM(paid)", "MAX(paid)")
    more = ("COUNT(*) AS n", "COUNT(*) AS n, SUM(amount) AS a", "a.n,", "a.n, a.a,")
    kinds.add("written/results-column", "shop n p", RESULTS, *more, to="shop n a p")
    swapped = (f"{counts} JOIN {payments}", f"{payments} JOIN {counts}")
    kinds.add("written/results-swapped", "shop n p", RESULTS, *swapped)
    behind = f"SELECT paid, COUNT(*) AS n FROM ({JOIN}) GROUP BY paid"
    swapped = ("orders o JOIN payments p", "payments p JOIN orders o")
    kinds.add("written/behind-swapped", "paid n", behind, *swapped)
    hint, text = (
        "/*+ STATE_TTL('o' = '1d', 'p' = '2d') */ ",
        "SELECT o.id, p.paid FROM orders o JOIN payments p ON o.shop = p.shop",
    )
    hinted = text.replace("SELECT ", f"SELECT {hint}")
    kinds.add("written/join-hint-on", "id paid", text, "SELECT ", f"SELECT {hint}")
    kinds.add("written/join-hint-off", "id paid", hinted, hint, "")
    kinds.add("written/join-hint-other", "id paid", hinted, "'1d'", "'3d'")
    kinds.add("written/join-hint-one", "id paid", hinted, "'o' = '1d', ", "")
