"""Changes of what no other list has: two OVER in a row, results that are joined, three tables, types, clauses of sinks.

    python -m tests.oracle.sql_pairs 1.20.5 2.3.0 [--backend rocksdb] [--only WORDS] [--seed 7]

The options and the lines are those of ``sql_tried``. Most change two things at once. ``EXPECTED`` is what came after
each was looked into: of the first 142, one was false before, and seven were lost or refused without need.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tests.oracle.sql_changes import ORDERS, PAYMENTS, Case, table
from tests.oracle.sql_kinds import CHANGED, MINI, PAID, RATES, Kinds, changes, expecting, main, orders
from tests.oracle.sql_layers import three
from tests.oracle.sql_tried import BEST, TWO, WINDOWS

#: What was expected of each change.
EXPECTED: dict[str, str] = {}
_add = expecting(EXPECTED)
LIVE = {"table.exec.state.ttl": "1 d"}
MINUTES = "INTERVAL '{}' MINUTE"


def every_case(seed: int) -> Mapping[str, Case]:
    """The changes."""
    kinds = Kinds(seed)
    _over(kinds)
    _first_and_last(kinds)
    _ranks(kinds)
    _numbers_and_constants(kinds)
    _windows(kinds)
    _calls(kinds)
    _types(kinds)
    _rows_in_rows(kinds)
    _patterns(kinds)
    _results(kinds, seed)
    _three_tables(kinds, seed)
    _by_time(kinds, seed)
    _options(kinds, seed)
    _names(kinds, seed)
    _changelogs(kinds, seed)
    assert set(EXPECTED) == set(kinds.cases)
    return kinds.cases


def _over(kinds: Kinds) -> None:
    """Add an OVER over the result of another one."""
    rows = "OVER (PARTITION BY {} ORDER BY ts ROWS BETWEEN {} PRECEDING AND CURRENT ROW) AS {}"
    inner = f"SELECT *, SUM(amount) {rows.format('shop', 2, 'a')} FROM orders"
    outer = f"MAX(a) {rows.format('item', 3, 'p')}"
    text = f"SELECT id, a, {outer} FROM ({inner})"
    _add(kinds, "two-over/outer-out", "lost", "id a p", text, f", {outer}", "", to="id a")
    _add(kinds, "two-over/inner-column", "refused", "id a p", text, "SUM(amount)", "SUM(price)")
    _add(kinds, "two-over/inner-more", "kept", "id a p", text, "SUM(amount)", "COUNT(*) " + rows.format("shop", 2, "n")
         + ", SUM(amount)")  # fmt: skip
    _add(kinds, "two-over/outer-call", "kept", "id a p", text, "MAX(a)", "MIN(a)")
    _add(kinds, "two-over/turned", "refused", "id a p", text, "BY shop", "BY item", "(PARTITION BY item ORDER BY ts "
         "ROWS BETWEEN 3", "(PARTITION BY shop ORDER BY ts ROWS BETWEEN 3")  # fmt: skip
    grouped = f"SELECT shop, COUNT(*) AS n, MAX(a) AS a FROM ({inner}) GROUP BY shop"
    _add(kinds, "two-over/grouped-turned", "kept", "shop n a", grouped, "COUNT(*) AS n, MAX(a) AS a",
         "MAX(a) AS a, COUNT(*) AS n", to="shop a n")  # fmt: skip
    _add(kinds, "two-over/grouped-more-rows", "refused", "shop n a", grouped, "BETWEEN 2", "BETWEEN 4")


def _first_and_last(kinds: Kinds) -> None:
    """Add first and last rows by another time, with a column or a key less."""
    last = BEST.format("item, id, amount", "item", "ts DESC", "orders", "rn = 1")
    _add(kinds, "dedup/last-to-first", "refused", "item id amount", last, "ts DESC", "ts ASC")
    _add(kinds, "dedup/first-to-last", "refused", "item id amount", last.replace("DESC", "ASC"), "ts ASC", "ts DESC")
    _add(kinds, "dedup/column-out-and-batches", "kept", "item id amount", last, ", amount FROM", " FROM", to="item id",
         conf={}, new_conf=MINI)  # fmt: skip
    wide = BEST.format("shop, item, id", "shop, item", "pt DESC", "orders", "rn = 1")
    _add(kinds, "dedup/key-less", "refused", "shop item id", wide, "BY shop, item", "BY item")
    behind = BEST.format("shop, item, id", "shop", "id DESC", f"({wide})", "rn <= 2")
    _add(kinds, "dedup/ranked-smaller", "kept", "shop item id", behind, "<= 2", "<= 1")
    _add(kinds, "dedup/ranked-larger", "kept", "shop item id", behind, "<= 2", "<= 4")
    _add(kinds, "dedup/ranked-partition", "kept", "shop item id", behind, "BY shop ORDER BY id", "BY item ORDER BY id")
    grouped = f"SELECT shop, COUNT(*) AS n, SUM(id) AS big FROM ({wide}) GROUP BY shop"
    _add(kinds, "dedup/grouped-call-more", "refused", "shop n big", grouped, "AS big", "AS big, MAX(id) AS u",
         to="shop n big u")  # fmt: skip
    _add(kinds, "dedup/grouped-filter", "refused", "shop n big", grouped, "COUNT(*)",
         "COUNT(*) FILTER (WHERE item <> 'item 1')")  # fmt: skip


def _ranks(kinds: Kinds) -> None:
    """Add Top-N that are grouped or joined, and with the number in the output."""
    top = BEST.format("shop, item, id, rn", "shop", "amount DESC, id", "orders", "rn <= 3")
    names = "shop item id big"
    _add(kinds, "best/number-and-partition", "lost", names, top, "BY shop", "BY item")
    _add(kinds, "best/number-out", "kept", names, top, "id, rn FROM", "id FROM", to="shop item id")
    _add(kinds, "best/number-out-column-out", "kept", names, top, "shop, item, id, rn FROM", "shop, id FROM",
         to="shop id")  # fmt: skip
    _add(kinds, "best/number-smaller", "kept", names, top, "<= 3", "<= 2")
    _add(kinds, "best/condition-behind", "kept", names, top, "<= 3", "<= 3 AND item <> 'item 1'")
    pages = "(SELECT shop, item, COUNT(*) AS n, MAX(amount) AS a FROM orders GROUP BY shop, item)"
    best = BEST.format("shop, item, n, a", "shop", "n DESC, item", pages, "rn <= 2")
    _add(kinds, "best/of-results-column-out", "kept", "shop item n a", best, ", MAX(amount) AS a", "", "n, a FROM",
         "n FROM", to="shop item n")  # fmt: skip
    _add(kinds, "best/of-results-column-more", "lost", "shop item n a", best, "MAX(amount) AS a",
         "MAX(amount) AS a, MIN(price) AS p", "n, a FROM", "n, a, p FROM", to="shop item n a p")  # fmt: skip
    _add(
        kinds, "best/of-results-filter", "refused", "shop item n a", best, "FROM orders", "FROM orders WHERE price > 4"
    )
    _add(kinds, "best/of-results-having", "refused", "shop item n a", best, "shop, item)", "shop, item HAVING "
         "COUNT(*) > 1)")  # fmt: skip
    _add(kinds, "best/of-results-keys-turned-larger", "kept", "shop item n a", best, "GROUP BY shop, item",
         "GROUP BY item, shop", "<= 2", "<= 3")  # fmt: skip


def _numbers_and_constants(kinds: Kinds) -> None:
    """Add ranks over results whose number leaves the result, and columns that are the same in all rows."""
    results = "(SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY shop, item)"
    best = BEST.format("shop, item, n, rn", "shop", "n DESC, item", results, "rn <= 2")
    _add(kinds, "constant/number-of-results-out", "kept", "shop item n big", best, "n, rn FROM", "n FROM",
         to="shop item n")  # fmt: skip
    _add(kinds, "constant/number-of-results-in", "kept", "shop item n", best.replace("n, rn FROM", "n FROM"), "n FROM",
         "n, rn FROM", to="shop item n big")  # fmt: skip
    last = BEST.format("item, id", "item", "ts DESC", "orders", "rn = 1")
    marked = "(SELECT *, 'new' AS s FROM orders)"
    _add(kinds, "constant/of-last-rows", "kept", "item id", last, "item, id FROM", "item, id, s FROM", "FROM orders",
         f"FROM {marked}", to="item id s")  # fmt: skip
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 3")
    _add(kinds, "constant/of-best-rows", "kept", "shop id amount", top, "amount FROM", "amount, s FROM", "FROM orders",
         f"FROM {marked}", to="shop id amount s")  # fmt: skip
    text = "SELECT shop, COUNT(*) AS n, MAX(amount) AS a FROM orders GROUP BY shop"
    _add(kinds, "constant/key", "kept", "shop n a", text, "shop, COUNT", "shop, s, COUNT", "FROM orders",
         f"FROM {marked}", "BY shop", "BY shop, s", to="shop s n a")  # fmt: skip


def _windows(kinds: Kinds) -> None:
    """Add windows over windows, of processing time, with lists."""
    text = "SELECT shop, window_start, window_end, {} FROM {} GROUP BY shop, window_start, window_end"
    small = WINDOWS.format("TUMBLE", "", MINUTES.format(1))
    sums = "COUNT(*) AS n, SUM(amount) AS a"
    inner = f"SELECT shop, window_time AS rt, {sums} FROM {small} GROUP BY shop, "
    inner += "window_start, window_end, window_time"
    view = f"CREATE VIEW minutes AS {inner}"
    tables, kinds.tables = kinds.tables, (ORDERS, view)
    outer = "SELECT shop, window_start, window_end, SUM(n) AS n, MAX(a) AS a FROM TABLE(TUMBLE(TABLE minutes, "
    outer += f"DESCRIPTOR(rt), {MINUTES.format(4)})) GROUP BY shop, window_start, window_end"
    names = "shop window_start window_end n a"
    _add(kinds, "windows/outer-turned", "kept", names, outer, "SUM(n) AS n, MAX(a) AS a", "MAX(a) AS a, SUM(n) AS n",
         to="shop window_start window_end a n")  # fmt: skip
    _add(kinds, "windows/outer-size", "refused", names, outer, "'4'", "'2'")
    _add(kinds, "windows/outer-to-hop", "refused", names, outer, "TUMBLE", "HOP", MINUTES.format(4),
         f"{MINUTES.format(2)}, {MINUTES.format(4)}")  # fmt: skip
    turned = view.replace(sums, "SUM(amount) AS a, COUNT(*) AS n")
    _add(kinds, "windows/inner-turned", "kept", names, outer, tables=(ORDERS, turned))
    crossed = view.replace("SUM(amount)", "SUM(price)")
    _add(kinds, "windows/inner-column", "lost", names, outer, tables=(ORDERS, crossed))
    filtered = view.replace(" GROUP", " WHERE price > 3 GROUP")
    _add(kinds, "windows/inner-filter", "refused", names, outer, tables=(ORDERS, filtered))
    kinds.tables = tables
    plain = text.format(sums, WINDOWS.format("TUMBLE", "", MINUTES.format(2)))
    _add(kinds, "windows/call-more-and-filter", "refused", names, plain, "SUM(amount) AS a",
         "SUM(amount) AS a, MAX(price) AS p", "))", ")) WHERE amount > 5", to=f"{names} p")  # fmt: skip
    _add(kinds, "windows/key-more-and-out", "lost", names, plain, "SELECT shop", "SELECT item", "BY shop", "BY item")
    _add(kinds, "windows/keys-gone", "kept", names, plain, "SELECT shop, ", "SELECT ", "BY shop, ", "BY ",
         to=names.removeprefix("shop "))  # fmt: skip
    listed = plain.replace("SUM(amount) AS a", "LISTAGG(item) AS s")
    _add(kinds, "windows/list-turned", "kept", names.replace("n a", "n s"), listed, "COUNT(*) AS n, LISTAGG(item) AS s",
         "LISTAGG(item) AS s, COUNT(*) AS n", to=names.replace("n a", "s n"))  # fmt: skip
    every, large = "COUNT(DISTINCT item) AS n", "COUNT(DISTINCT item) FILTER (WHERE amount > 20) AS c"
    hop = text.format(f"{every}, {large}", WINDOWS.format("HOP", "", f"{MINUTES.format(1)}, {MINUTES.format(3)}"))
    names_of_sets = names.replace("n a", "n c")
    _add(kinds, "windows/hop-distinct-filter-out", "kept", names_of_sets, hop, f"{every}, ", "",
         to=names.replace("n a", "c"))  # fmt: skip
    _add(kinds, "windows/hop-distinct-turned", "kept", names_of_sets, hop, f"{every}, {large}", f"{large}, {every}",
         to=names.replace("n a", "c n"))  # fmt: skip
    gap = text.format("COUNT(*) AS n, AVG(amount) AS a", WINDOWS.format("SESSION", " PARTITION BY shop",
                      "INTERVAL '40' SECOND"))  # fmt: skip
    _add(kinds, "windows/gap-average-apart", "kept", names, gap, "COUNT(*) AS n, AVG(amount) AS a",
         "SUM(amount) AS a, COUNT(amount) AS n", to="shop window_start window_end a n")  # fmt: skip
    _add(kinds, "windows/gap-shorter-call-out", "refused", names, gap, "'40'", "'30'", ", AVG(amount) AS a", "",
         to="shop window_start window_end n")  # fmt: skip
    grouped = f"SELECT window_start, COUNT(*) AS n, SUM(a) AS a FROM ({plain}) GROUP BY window_start"
    _add(kinds, "windows/grouped-call-out", "kept", "window_start n a", grouped, "COUNT(*) AS n, SUM(a)", "SUM(a)",
         to="window_start a")  # fmt: skip


def _calls(kinds: Kinds) -> None:
    """Add columns of a pivot, lists, three filters of one DISTINCT, and calls over calls."""
    case = "SUM(CASE item WHEN 'item {}' THEN amount END) AS {}"
    pivot = f"SELECT shop, {case.format(0, 'a')}, {case.format(1, 'p')} FROM orders GROUP BY shop"
    _add(kinds, "pivot/turned", "kept", "shop a p", pivot, case.format(0, "a"), case.format(1, "a"),
         case.format(1, "p"), case.format(0, "p"))  # fmt: skip
    _add(kinds, "pivot/more-in-front", "lost", "shop a p", pivot, case.format(0, "a"),
         f"{case.format(2, 'f')}, {case.format(0, 'a')}", to="shop f a p")  # fmt: skip
    _add(kinds, "pivot/one-out-and-counted", "lost", "shop a p", pivot, case.format(0, "a"), "COUNT(*) AS n",
         to="shop n p")  # fmt: skip
    one, two, third = (f"COUNT(DISTINCT item) FILTER (WHERE {each}) AS {name}" for each, name in
                       (("amount > 20", "n"), ("price > 9", "c"), ("id > 20", "u")))  # fmt: skip
    three_filters = f"SELECT shop, {one}, {two}, {third} FROM orders GROUP BY shop"
    _add(kinds, "filters/middle-out", "kept", "shop n c u", three_filters, f"{two}, ", "", to="shop n u")
    _add(kinds, "filters/rotated", "kept", "shop n c u", three_filters, f"{one}, {two}, {third}",
         f"{third}, {one}, {two}", to="shop u n c")  # fmt: skip
    _add(kinds, "filters/third-more", "lost", "shop n c", three_filters.replace(f", {third}", ""), two,
         f"{two}, {third}", to="shop n c u")  # fmt: skip
    listed = "SELECT shop, LISTAGG(item, '-') AS s, LISTAGG(item, '+') AS text FROM orders GROUP BY shop"
    _add(kinds, "lists/separators-crossed", "kept", "shop s text", listed, "'-') AS s", "'+') AS s",
         "'+') AS text", "'-') AS text")  # fmt: skip
    _add(kinds, "lists/one-out", "kept", "shop s text", listed, "LISTAGG(item, '-') AS s, ", "", to="shop text")
    inner = "SELECT shop, item, SUM(amount) AS a, COUNT(*) AS n FROM orders GROUP BY shop, item"
    outer = f"SELECT shop, SUM(a) AS a, MAX(n) AS n FROM ({inner}) GROUP BY shop"
    _add(kinds, "nested/inner-call-more", "kept", "shop a n", outer, "COUNT(*) AS n FROM",
         "COUNT(*) AS n, MIN(price) AS p FROM")  # fmt: skip
    _add(kinds, "nested/both-turned", "kept", "shop a n", outer, "SUM(a) AS a, MAX(n) AS n",
         "MAX(n) AS n, SUM(a) AS a", "SUM(amount) AS a, COUNT(*) AS n", "COUNT(*) AS n, SUM(amount) AS a",
         to="shop n a")  # fmt: skip
    _add(kinds, "nested/outer-key", "lost", "shop a n", outer, "SELECT shop, SUM(a)", "SELECT item, SUM(a)",
         ") GROUP BY shop", ") GROUP BY item", to="item a n")  # fmt: skip
    _add(kinds, "nested/outer-filter", "refused", "shop a n", outer, ") GROUP", ") WHERE n > 1 GROUP")
    _add(kinds, "nested/outer-call-filter", "refused", "shop a n", outer, "SUM(a) AS a", "SUM(a) FILTER (WHERE n > 1) "
         "AS a")  # fmt: skip
    _add(kinds, "nested/inner-filter-both", "refused", "shop a n", outer, "FROM orders", "FROM orders WHERE price > 3",
         "MAX(n)", "MIN(n)")  # fmt: skip
    both = "WITH x AS (SELECT shop, item, SUM(amount) AS a FROM orders GROUP BY shop, item) SELECT shop AS s, MAX(a) "
    both += "AS a FROM x GROUP BY shop UNION ALL SELECT item AS s, MIN(a) AS a FROM x GROUP BY item"
    _add(kinds, "twice/calls-crossed", "kept", "s a", both, "MAX(a)", "MIN(a)", "MIN(a) AS a FROM x GROUP BY item",
         "MAX(a) AS a FROM x GROUP BY item")  # fmt: skip
    first = "SELECT shop AS s, MAX(a) AS a FROM x GROUP BY shop"
    second = "SELECT item AS s, MIN(a) AS a FROM x GROUP BY item"
    _add(kinds, "twice/one-branch", "lost", "s a", both, f" UNION ALL {second}", "")
    _add(kinds, "twice/branches-turned", "kept", "s a", both, f"{first} UNION ALL {second}",
         f"{second} UNION ALL {first}")  # fmt: skip


def _types(kinds: Kinds) -> None:
    """Add other types of columns in keys, rows and calls, with another change."""
    text = "SELECT shop, CAST(MAX(ts) AS STRING) AS s, COUNT(*) AS n FROM orders GROUP BY shop"
    plain = ORDERS.replace("WATERMARK FOR ts AS ts, ", "")
    micros = plain.replace("TIMESTAMP(3)", "TIMESTAMP(6)")
    tables, kinds.tables = kinds.tables, (plain,)
    call = "COUNT(*) AS n, CAST(MAX(ts) AS STRING) AS s"
    calls = "CAST(MAX(ts) AS STRING) AS s, COUNT(*) AS n"
    _add(kinds, "types/time-of-call", "kept", "shop s n", text, calls, call, tables=(micros,), to="shop n s")
    key = "SELECT CAST(ts AS STRING) AS s, n FROM (SELECT ts, COUNT(*) AS n FROM orders GROUP BY ts)"
    _add(kinds, "types/time-of-key", "kept", "s n", key, tables=(micros,))
    last = BEST.format("item, id, CAST(ts AS STRING) AS s", "item", "pt DESC", "orders", "rn = 1")
    _add(kinds, "types/time-of-row", "kept", "item id s", last, tables=(micros,))
    kinds.tables = (micros,)
    _add(kinds, "types/time-of-row-shorter", "kept", "item id s", last, tables=(plain,))
    exact = plain.replace("price INT", "price DECIMAL(10, 2)")
    wider = plain.replace("price INT", "price DECIMAL(20, 4)")
    kinds.tables = (exact,)
    sums = "SELECT shop, CAST(SUM(price) AS STRING) AS s, CAST(AVG(price) AS STRING) AS text FROM orders GROUP BY shop"
    _add(kinds, "types/exact-calls", "kept", "shop s text", sums, tables=(wider,))
    _add(kinds, "types/exact-calls-batches", "kept", "shop s text", sums, tables=(wider,), conf=TWO)
    exact_key = "SELECT CAST(price AS STRING) AS s, COUNT(*) AS n FROM orders GROUP BY price"
    _add(kinds, "types/exact-key", "kept", "s n", exact_key, tables=(wider,))
    distinct = "SELECT shop, COUNT(DISTINCT price) AS n FROM orders GROUP BY shop"
    _add(kinds, "types/exact-distinct", "kept", "shop n", distinct, tables=(wider,))
    kinds.tables = (plain,)
    sure = plain.replace("amount INT", "amount INT NOT NULL").replace("shop STRING", "shop STRING NOT NULL")
    both = "SELECT shop, SUM(amount) AS a, COUNT(amount) AS n, MAX(price) AS p FROM orders GROUP BY shop"
    _add(kinds, "types/not-null-calls", "kept", "shop a n p", both, tables=(sure,))
    _add(kinds, "types/not-null-call-out", "kept", "shop a n p", both, ", MAX(price) AS p", "", tables=(sure,),
         to="shop a n")  # fmt: skip
    few = "COUNT(amount) FILTER (WHERE price > 5) AS n"
    _add(kinds, "types/not-null-filter", "kept", "shop a n p", both.replace("COUNT(amount) AS n", few), tables=(sure,))
    _add(kinds, "types/not-null-average", "kept", "shop a n p", both.replace("SUM(", "AVG("), tables=(sure,))
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 3")
    _add(kinds, "types/not-null-top-smaller", "kept", "shop id amount", top, "<= 3", "<= 2", tables=(sure,))
    kinds.tables = (sure,)
    _add(kinds, "types/null-filter", "kept", "shop a n p", both.replace("COUNT(amount) AS n", few), tables=(plain,))
    _add(kinds, "types/null-average", "kept", "shop a n p", both.replace("SUM(", "AVG("), tables=(plain,))
    _add(kinds, "types/null-calls", "kept", "shop a n p", both, tables=(plain,))
    _add(kinds, "types/null-top", "kept", "shop id amount", top, tables=(plain,))
    kinds.tables = (plain,)
    double = plain.replace("price INT", "price DOUBLE")
    as_double = "SELECT shop, CAST(SUM(price) AS STRING) AS s, COUNT(*) AS n FROM orders GROUP BY shop"
    _add(kinds, "types/double-sum", "kept", "shop s n", as_double, tables=(double,))
    day = "SELECT DATE_FORMAT(ts, 'HH:mm') AS s, COUNT(*) AS n FROM orders GROUP BY DATE_FORMAT(ts, 'HH:mm')"
    _add(kinds, "types/key-format", "lost", "s n", day, "'HH:mm'", "'HH:mm:ss'", "'HH:mm'", "'HH:mm:ss'")
    floor = "SELECT CAST(FLOOR(ts TO MINUTE) AS STRING) AS s, COUNT(*) AS n FROM orders GROUP BY FLOOR(ts TO MINUTE)"
    _add(kinds, "types/key-floor", "lost", "s n", floor, "TO MINUTE", "TO HOUR", "TO MINUTE", "TO HOUR")
    kinds.tables = tables


def _rows_in_rows(kinds: Kinds) -> None:
    """Add first and last values of wider types, which are kept in rows with their order."""
    tables, kinds.tables = kinds.tables, (ORDERS,)
    wider = (ORDERS.replace("price INT, amount INT", "price BIGINT, amount BIGINT"),)
    calls = "COUNT(*) AS n, FIRST_VALUE(price) AS p, LAST_VALUE(amount) AS a"
    text = f"SELECT shop, item, {calls} FROM orders GROUP BY shop, item"
    _add(kinds, "rows/first-wider", "kept", "shop item n p a", text, tables=wider, to="shop item n c u")
    _add(kinds, "rows/first-wider-key-less", "refused", "shop item n p a", text, "shop, item, COUNT", "shop, COUNT",
         "BY shop, item", "BY shop", tables=wider, to="shop n c u")  # fmt: skip
    kinds.tables = tables


def _patterns(kinds: Kinds) -> None:
    """Add patterns with measures and keys in another order."""
    text = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY shop, item ORDER BY ts MEASURES A.id AS a_id, B.id AS b_id "
        "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 10, B AS B.amount > 5)"
    )
    _add(kinds, "matches/measures-crossed", "kept", "shop item a_id b_id", text, "A.id AS a_id, B.id AS b_id",
         "B.id AS a_id, A.id AS b_id")  # fmt: skip
    _add(kinds, "matches/measure-more", "kept", "shop item a_id b_id", text, "B.id AS b_id",
         "B.id AS b_id, B.price AS p", to="shop item a_id b_id p")  # fmt: skip
    _add(kinds, "matches/keys-turned", "kept", "shop item a_id b_id", text, "BY shop, item", "BY item, shop",
         to="item shop a_id b_id")  # fmt: skip
    _add(kinds, "matches/key-less", "lost", "shop item a_id b_id", text, "BY shop, item", "BY shop",
         to="shop a_id b_id")  # fmt: skip
    _add(kinds, "matches/first-to-last-row", "kept", "shop item a_id b_id", text, "A.id AS", "FIRST(A.id) AS")
    _add(kinds, "matches/skip", "lost", "shop item a_id b_id", text, "SKIP PAST LAST ROW", "SKIP TO NEXT ROW")


def _results(kinds: Kinds, seed: int) -> None:
    """Add joins of which a side is a result, and conditions that are subqueries."""
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    side = "(SELECT shop, COUNT(*) AS n, SUM(paid) AS p FROM payments GROUP BY shop)"
    marked = "SELECT o.id, p.paid FROM orders o LEFT JOIN payments p ON o.shop = p.shop"
    _add(kinds, "result/constant-of-right-side", "kept", "id paid", marked, "p.paid FROM", "p.paid, p.s FROM",
         "payments p", "(SELECT *, 'paid' AS s FROM payments) p", to="id paid s")  # fmt: skip
    text = f"SELECT o.id, s.n, s.p FROM orders o LEFT JOIN {side} s ON o.shop = s.shop"
    _add(kinds, "result/calls-turned", "kept", "id n p", text, "COUNT(*) AS n, SUM(paid) AS p",
         "SUM(paid) AS p, COUNT(*) AS n")  # fmt: skip
    _add(kinds, "result/call-out", "kept", "id n p", text, ", SUM(paid) AS p", "", ", s.p", "", to="id n")
    _add(kinds, "result/call-more", "lost", "id n p", text, "AS p FROM", "AS p, MAX(paid) AS a FROM", "s.p", "s.p, s.a",
         to="id n p a")  # fmt: skip
    _add(kinds, "result/to-inner-and-out", "kept", "id n p", text, "LEFT JOIN", "JOIN", ", s.n", "", to="id p")
    _add(kinds, "result/from-inner", "kept", "id n p", text.replace("LEFT JOIN", "JOIN"), " JOIN", " LEFT JOIN")
    _add(kinds, "result/filter-inside", "refused", "id n p", text, "FROM payments", "FROM payments WHERE paid > 3")
    _add(kinds, "result/having-inside", "refused", "id n p", text, "BY shop)", "BY shop HAVING COUNT(*) > 2)")
    _add(kinds, "result/column-of-rows", "refused", "id n p", text, "o.id", "o.id, o.item", to="id item n p")
    own = "(SELECT shop, MAX(amount) AS a FROM orders GROUP BY shop)"
    full = f"SELECT COALESCE(x.shop, y.shop) AS shop, x.a, y.n FROM {own} x FULL JOIN {side} y ON x.shop = y.shop"
    _add(kinds, "result/full-to-left", "kept", "shop a n", full, "FULL JOIN", "LEFT JOIN")
    _add(kinds, "result/full-call-out", "kept", "shop a n", full, ", SUM(paid) AS p", "")
    _add(kinds, "result/full-sides-turned", "kept", "shop a n", full, f"{own} x FULL JOIN {side} y",
         f"{side} y FULL JOIN {own} x")  # fmt: skip
    semi = "SELECT id, amount FROM orders WHERE shop IN (SELECT shop FROM payments WHERE paid > 2)"
    _add(kinds, "subquery/condition", "refused", "id amount", semi, "paid > 2", "paid > 4")
    _add(kinds, "subquery/to-exists", "kept", "id amount", semi, semi, "SELECT id, amount FROM orders o WHERE EXISTS "
         "(SELECT 1 FROM payments p WHERE p.shop = o.shop AND p.paid > 2)")  # fmt: skip
    _add(
        kinds, "subquery/distinct-inside", "refused", "id amount", semi, "SELECT shop FROM", "SELECT DISTINCT shop FROM"
    )
    few = "(SELECT DISTINCT shop FROM payments WHERE paid > 2)"
    _add(kinds, "subquery/to-join", "refused", "id amount", semi, semi,
         f"SELECT o.id, o.amount FROM orders o JOIN {few} p ON o.shop = p.shop")  # fmt: skip
    anti = "SELECT id, amount FROM orders o WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.shop = o.shop AND "
    anti += "p.paid > 5)"
    _add(kinds, "subquery/anti-column", "refused", "id amount", anti, "SELECT id,", "SELECT id, item,",
         to="id item amount")  # fmt: skip
    _add(kinds, "subquery/anti-to-left", "kept", "id amount", anti, anti, "SELECT o.id, o.amount FROM orders o LEFT "
         "JOIN payments p ON p.shop = o.shop AND p.paid > 5 WHERE p.shop IS NULL")  # fmt: skip
    grouped = "SELECT o.item, COUNT(*) AS n, SUM(p.paid) AS a FROM orders o JOIN payments p ON o.shop = p.shop GROUP "
    grouped += "BY o.item"
    _add(kinds, "joined/grouped-filter", "refused", "item n a", grouped, "GROUP", "WHERE p.paid > 2 GROUP")
    _add(kinds, "joined/grouped-call-more", "lost", "item n a", grouped, "AS a", "AS a, MAX(o.amount) AS p",
         to="item n a p")  # fmt: skip
    _add(kinds, "joined/grouped-other-key", "lost", "item n a", grouped, "o.item, C", "o.shop, C", "BY o.item",
         "BY o.shop", to="shop n a")  # fmt: skip
    distinct = "SELECT DISTINCT o.item, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    _add(kinds, "joined/distinct-column-out", "kept", "item paid", distinct, "o.item, ", "", to="paid")


def _three_tables(kinds: Kinds, seed: int) -> None:
    """Add joins of three tables in another order."""
    kinds.script, kinds.tables = three(seed), (ORDERS, PAYMENTS, PAID)
    first, second = "JOIN payments p ON o.shop = p.shop", "JOIN paid q ON o.shop = q.shop"
    text = f"SELECT o.id, p.paid, q.paid AS rate FROM orders o {first} {second}"
    names = "id paid rate"
    _add(kinds, "three/order", "lost", names, text, f"{first} {second}", f"{second} {first}")
    _add(kinds, "three/second-left", "kept", names, text, second, f"LEFT {second}")
    _add(kinds, "three/first-left", "refused", names, text, first, f"LEFT {first}")
    _add(kinds, "three/last-out", "lost", names, text, f" {second}", "", ", q.paid AS rate", "", to="id paid")
    _add(kinds, "three/column-out", "kept", f"{names} item".replace("id ", "id "), text.replace("AS rate", "AS rate, "
         "o.item"), ", o.item", "", to=names)  # fmt: skip
    _add(kinds, "three/condition-last", "kept", names, text, "= q.shop", "= q.shop AND q.paid > p.paid")
    _add(kinds, "three/key-of-last", "kept", names, text, "o.shop = q.shop", "p.paid = q.paid")
    union = "SELECT shop, paid FROM payments UNION ALL SELECT shop, paid FROM paid"
    merged = f"SELECT o.id, p.paid FROM orders o JOIN ({union}) p ON o.shop = p.shop"
    _add(kinds, "three/union-side-less", "lost", "id paid", merged, " UNION ALL SELECT shop, paid FROM paid", "")
    _add(kinds, "three/union-side-turned", "kept", "id paid", merged, union,
         "SELECT shop, paid FROM paid UNION ALL SELECT shop, paid FROM payments")  # fmt: skip
    distinct = merged.replace("UNION ALL", "UNION")
    _add(kinds, "three/union-to-distinct", "refused", "id paid", merged, "UNION ALL", "UNION")
    _add(kinds, "three/union-from-distinct", "refused", "id paid", distinct, "UNION", "UNION ALL")


def _by_time(kinds: Kinds, seed: int) -> None:
    """Add joins by time that are grouped, and with keys in another order."""
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    near = "orders o JOIN paid p ON o.shop = p.shop AND o.ts BETWEEN p.ts - INTERVAL '60' SECOND AND p.ts + INTERVAL "
    near += "'30' SECOND"
    grouped = f"SELECT o.shop, COUNT(*) AS n, SUM(p.paid) AS a FROM {near} GROUP BY o.shop"
    _add(kinds, "near/grouped-turned", "kept", "shop n a", grouped, "COUNT(*) AS n, SUM(p.paid) AS a",
         "SUM(p.paid) AS a, COUNT(*) AS n", to="shop a n")  # fmt: skip
    _add(kinds, "near/grouped-sides", "kept", "shop n a", grouped, "orders o JOIN paid p", "paid p JOIN orders o")
    _add(kinds, "near/grouped-more", "lost", "shop n a", grouped, "AS a", "AS a, MAX(o.amount) AS p", to="shop n a p")
    _add(kinds, "near/window-of-join", "kept", "shop n a", grouped, "o.shop, COUNT", "UPPER(o.shop) AS shop, COUNT",
         "BY o.shop", "BY UPPER(o.shop)")  # fmt: skip
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    at = "orders o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop"
    grouped = f"SELECT o.item, COUNT(*) AS n, SUM(r.rate) AS a FROM {at} GROUP BY o.item"
    _add(kinds, "at/grouped-turned", "kept", "item n a", grouped, "COUNT(*) AS n, SUM(r.rate) AS a",
         "SUM(r.rate) AS a, COUNT(*) AS n", to="item a n")  # fmt: skip
    _add(kinds, "at/grouped-more", "lost", "item n a", grouped, "AS a", "AS a, MAX(o.amount) AS p", to="item n a p")
    _add(kinds, "at/grouped-filter", "refused", "item n a", grouped, "GROUP", "WHERE r.rate > 2 GROUP")


def _options(kinds: Kinds, seed: int) -> None:
    """Add hints and options together with another change."""
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    hint = "/*+ STATE_TTL('o' = '1d', 'p' = '2d') */ "
    joined = f"SELECT {hint}o.id, o.item, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    _add(kinds, "hints/sides-turned", "kept", "id item paid", joined, "orders o JOIN payments p",
         "payments p JOIN orders o")  # fmt: skip
    _add(kinds, "hints/crossed", "kept", "id item paid", joined, "'1d'", "'2d'", "'2d', 'p' = '2d'",
         "'2d', 'p' = '1d'")  # fmt: skip
    _add(kinds, "hints/to-left", "kept", "id item paid", joined, " JOIN", " LEFT JOIN")
    counted = "SELECT /*+ STATE_TTL('o' = '1d') */ o.shop, COUNT(*) AS n, SUM(o.amount) AS a FROM orders o GROUP BY "
    counted += "o.shop"
    _add(kinds, "hints/group-turned", "kept", "shop n a", counted, "COUNT(*) AS n, SUM(o.amount) AS a",
         "SUM(o.amount) AS a, COUNT(*) AS n", "'1d'", "'3d'", to="shop a n")  # fmt: skip
    _add(kinds, "hints/group-gone", "kept", "shop n a", counted, "/*+ STATE_TTL('o' = '1d') */ ", "")
    distinct = "SELECT shop, COUNT(DISTINCT item) AS n, SUM(amount) AS a FROM orders GROUP BY shop"
    _add(kinds, "hints/two-phases-live", "kept", "shop n a", distinct, conf=LIVE, new_conf={**TWO, **LIVE})
    _add(kinds, "hints/two-phases-off-live", "kept", "shop n a", distinct, ", SUM(amount) AS a", "", to="shop n",
         conf={**TWO, **LIVE}, new_conf={})  # fmt: skip
    inner = "SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY shop, item"
    outer = f"SELECT n, COUNT(*) AS c FROM ({inner}) GROUP BY n"
    _add(kinds, "hints/batches-of-results", "kept", "n c", outer, conf={}, new_conf=TWO)
    _add(kinds, "hints/batches-of-results-off", "kept", "n c", outer, conf=TWO, new_conf={})
    _add(kinds, "hints/batches-of-join", "kept", "id item paid", joined.replace(hint, ""), "o.item, ", "", to="id paid",
         conf=MINI, new_conf={})  # fmt: skip


def _names(kinds: Kinds, seed: int) -> None:
    """Add other names of tables and columns, together with another change."""
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    text = "SELECT shop, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop"
    _add(kinds, "names/alias-swapped", "kept", "shop n a", text, "shop, COUNT(*) AS n, SUM(amount) AS a",
         "shop, SUM(amount) AS n, COUNT(*) AS a", to="shop a n")  # fmt: skip
    through = ORDERS, "CREATE VIEW sales AS SELECT shop, amount AS price, price AS amount FROM orders"
    _add(kinds, "names/view-between", "kept", "shop n a", text, "SUM(amount)", "SUM(price)", "FROM orders",
         "FROM sales", tables=through)  # fmt: skip
    _add(kinds, "names/view-crossed", "lost", "shop n a", text, "FROM orders", "FROM sales", tables=through)
    computed = (ORDERS.replace("pt AS", "twice AS amount * 2, pt AS"),)
    _add(kinds, "names/computed-column", "kept", "shop n a", text, tables=computed)
    _add(kinds, "names/computed-column-read", "lost", "shop n a", text, "SUM(amount)", "SUM(twice)", tables=computed)
    keyed = "SELECT shop, MAX(item) AS item, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop"
    _add(kinds, "names/sink-key-and-call", "kept", "shop item n a", keyed, ", SUM(amount) AS a", "",
         to="shop item n", key="shop")  # fmt: skip
    watermark = (ORDERS.replace("AS ts, pt", "AS ts - INTERVAL '5' SECOND, pt"),)
    _add(kinds, "names/watermark", "kept", "shop n a", text, tables=watermark)


def _changelogs(kinds: Kinds, seed: int) -> None:
    """Add changelogs whose key or kind changes with the query."""
    kinds.script, kinds.tables = changes(seed), (CHANGED,)
    text = "SELECT shop, COUNT(*) AS n, SUM(amount) AS a, MAX(amount) AS p FROM changed GROUP BY shop"
    _add(kinds, "log/turned-and-out", "kept", "shop n a p", text, "COUNT(*) AS n, SUM(amount) AS a, MAX(amount) AS p",
         "MAX(amount) AS p, COUNT(*) AS n", to="shop p n")  # fmt: skip
    _add(kinds, "log/batches-and-out", "kept", "shop n a p", text, ", SUM(amount) AS a", "", to="shop n p", conf={},
         new_conf=TWO)  # fmt: skip
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "changed", "rn <= 2")
    _add(kinds, "log/top-other-order", "refused", "shop id amount", top, "amount DESC, id", "amount ASC, id")
    _add(kinds, "log/top-other-partition", "lost", "shop id amount", top, "BY shop", "BY item")
    _add(kinds, "log/top-smaller-column-out", "kept", "shop id amount", top, "<= 2", "<= 1", ", amount FROM", " FROM",
         to="shop id")  # fmt: skip
    wide = table("changed", "id BIGINT, shop STRING, item STRING, amount BIGINT", "retract", "id")
    _add(kinds, "log/wider", "kept", "shop n a p", text, ", SUM(amount) AS a", "", tables=(wide,), to="shop n big")
    _add(kinds, "log/top-number-out", "kept", "shop id amount big", top.replace("amount FROM", "amount, rn FROM"),
         "amount, rn FROM", "amount FROM", to="shop id amount")  # fmt: skip
    sure = table("changed", "id BIGINT, shop STRING, item STRING, amount INT NOT NULL", "retract", "id")
    counts = "SELECT shop, COUNT(amount) AS n, SUM(amount) AS a FROM changed GROUP BY shop"
    _add(kinds, "log/not-null", "kept", "shop n a", counts, tables=(sure,))
    kinds.tables = (sure,)
    _add(kinds, "log/null", "kept", "shop n a", counts, tables=(CHANGED,))
    kinds.tables = (CHANGED,)
    own = "SELECT a.id, b.amount FROM changed a JOIN changed b ON a.id = b.id AND a.shop <> 'shop 1'"
    _add(kinds, "log/self-join-condition", "refused", "id amount", own, "<> 'shop 1'", "<> 'shop 2'")


if __name__ == "__main__":
    sys.exit(main(every_case, EXPECTED))
