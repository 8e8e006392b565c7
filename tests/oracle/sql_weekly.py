"""Changes that come every week: a key from a CASE, another table, conditions moved, types of keys, clauses of sinks.

    python -m tests.oracle.sql_weekly 1.20.5 2.3.0 [--backend rocksdb] [--only WORDS] [--seed 7]

The options and the lines are those of ``sql_tried``. ``EXPECTED`` is what came after each was looked into: of 130
predictions, 25 came otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tests.oracle.sql_changes import ORDERS, PAYMENTS, Case, Script, table
from tests.oracle.sql_kinds import CHANGED, KEEP, MINI, PAID, RATES, Kinds, changes, expecting, main, orders
from tests.oracle.sql_rewordings import Sinks, functions
from tests.oracle.sql_tried import BEST, TWO, WINDOWS

#: What was expected of each change.
EXPECTED: dict[str, str] = {}
_add = expecting(EXPECTED)
MINUTES = "INTERVAL '{}' MINUTE"
SUMS = "COUNT(*) AS n, SUM(amount) AS a"
TURNED = "SUM(amount) AS a, COUNT(*) AS n"
BY_SHOP = f"SELECT shop, {SUMS} FROM orders GROUP BY shop"
JOINED = "SELECT o.id, o.price, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
LATE = ORDERS.replace("FOR ts AS ts", "FOR ts AS ts - INTERVAL '20' SECOND")
LIVE = {"table.exec.state.ttl": "1 d"}


def every_case(seed: int) -> Mapping[str, Case]:
    """The changes."""
    kinds = Kinds(seed)
    _keys(kinds)
    _conditions(kinds)
    _windows(kinds)
    _functions(kinds)
    _options(kinds, seed)
    _watermarks(kinds, seed)
    _types(kinds, seed)
    _joins(kinds, seed)
    _views(kinds, seed)
    _statements(kinds, seed)
    _tables(kinds, seed)
    _changelogs(kinds, seed)
    assert set(EXPECTED) == set(kinds.cases)
    return kinds.cases


def _keys(kinds: Kinds) -> None:
    """Add keys that a CASE makes of a column, or of another key."""
    size = "CASE WHEN amount > 20 THEN 'large' ELSE 'small' END"
    home = "CASE shop WHEN 'shop 1' THEN 'home' ELSE 'abroad' END"
    more = f"SELECT shop, {{}} AS s, {SUMS} FROM orders GROUP BY shop, {{}}"
    _add(kinds, "case/of-rows-more", "lost", "shop n a", BY_SHOP, BY_SHOP, more.format(size, size), to="shop s n a")
    _add(kinds, "case/of-key-more", "kept", "shop n a", BY_SHOP, BY_SHOP, more.format(home, home), to="shop s n a")
    both = more.format(home, home)
    _add(kinds, "case/of-key-out", "kept", "shop s n a", both, both, BY_SHOP, to="shop n a")
    alone = f"SELECT {home} AS s, {SUMS} FROM orders GROUP BY {home}"
    _add(kinds, "case/instead-of-key", "kept", "shop n a", BY_SHOP, BY_SHOP, alone, to="s n a")
    lists = both.replace(SUMS, "LISTAGG(item) AS text, FIRST_VALUE(amount) AS f")
    _add(kinds, "case/of-key-out-of-lists", "kept", "shop s text f", lists, f", {home} AS s", "", f", {home}", "",
         to="shop text f")  # fmt: skip
    _add(kinds, "case/of-rows-out", "kept", "shop s n a", more.format(size, size), f", {size} AS s", "", f", {size}",
         "", to="shop n a")  # fmt: skip
    bucket = "SELECT shop, DATE_FORMAT(ts, 'HH:mm') AS s, COUNT(*) AS n FROM orders GROUP BY shop, DATE_FORMAT(ts, "
    bucket += "'HH:mm')"
    _add(kinds, "case/minute-more", "lost", "shop n", "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop",
         "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop", bucket, to="shop s n")  # fmt: skip
    named = "COALESCE(shop, '?')"
    _add(kinds, "case/default-of-key", "kept", "shop n a", BY_SHOP, "SELECT shop", f"SELECT {named} AS shop", "BY shop",
         f"BY {named}")  # fmt: skip
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 2")
    _add(kinds, "case/partition-of-key", "kept", "shop id amount", top, "BY shop", f"BY shop, {home}")


def _conditions(kinds: Kinds) -> None:
    """Add conditions that move between WHERE, FILTER and CASE, and those of a key alone."""
    where = BY_SHOP.replace("GROUP", "WHERE amount > 20 GROUP")
    large = "FILTER (WHERE amount > 20)"
    filters = BY_SHOP.replace(SUMS, f"COUNT(*) {large} AS n, SUM(amount) {large} AS a")
    _add(kinds, "where/to-filter", "kept", "shop n a", where, where, filters)
    _add(kinds, "where/from-filter", "kept", "shop n a", filters, filters, where)
    _add(kinds, "where/to-filter-and-all", "lost", "shop n a", where, where,
         BY_SHOP.replace(SUMS, f"COUNT(*) {large} AS n, SUM(amount) AS a"))  # fmt: skip
    _add(kinds, "where/key-narrower", "kept", "shop n a", BY_SHOP, "GROUP", "WHERE shop <> 'shop 1' GROUP")
    named = BY_SHOP.replace("GROUP", "WHERE shop IN ('shop 0', 'shop 2') GROUP")
    _add(kinds, "where/key-narrower-list", "refused", "shop n a", named, "'shop 0', 'shop 2'", "'shop 0'")
    _add(kinds, "where/key-wider", "refused", "shop n a", named, " WHERE shop IN ('shop 0', 'shop 2')", "")
    _add(kinds, "where/between", "kept", "shop n a", where.replace("amount > 20", "amount BETWEEN 5 AND 30"),
         "amount BETWEEN 5 AND 30", "amount >= 5 AND amount <= 30")  # fmt: skip
    _add(kinds, "where/list-to-or", "kept", "shop n a", named, "shop IN ('shop 0', 'shop 2')",
         "(shop = 'shop 2' OR shop = 'shop 0')")  # fmt: skip
    given = "SELECT shop, COUNT(*) AS n FROM orders WHERE price IS NOT NULL GROUP BY shop"
    _add(kinds, "where/count-of-given", "kept", "shop n", given, "COUNT(*)", "COUNT(price)")
    _add(kinds, "where/count-of-key", "lost", "shop n", "SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop",
         "COUNT(*)", "COUNT(shop)")  # fmt: skip
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 2")
    _add(kinds, "where/key-of-rank", "kept", "shop id amount", top, "FROM orders",
         "FROM orders WHERE shop <> 'shop 1'")  # fmt: skip
    last = BEST.format("item, id", "item", "pt DESC", "orders", "rn = 1")
    _add(kinds, "where/key-of-last", "kept", "item id", last, "FROM orders", "FROM orders WHERE item <> 'item 1'")
    window = f"SELECT shop, window_start, {SUMS} FROM {WINDOWS.format('TUMBLE', '', MINUTES.format(2))} GROUP BY shop, "
    window += "window_start, window_end"
    _add(kinds, "where/key-of-window", "refused", "shop window_start n a", window, "GROUP",
         "WHERE shop <> 'shop 1' GROUP")  # fmt: skip
    few = window.replace("GROUP", "WHERE amount > 20 GROUP")
    _add(kinds, "where/window-to-filter", "refused", "shop window_start n a", few, " WHERE amount > 20", "", SUMS,
         f"COUNT(*) {large} AS n, SUM(amount) {large} AS a")  # fmt: skip
    _add(kinds, "where/window-to-filter-kept", "kept", "shop window_start n a", few, " WHERE amount > 20", "", SUMS,
         f"COUNT(*) {large} AS n, SUM(amount) {large} AS a", given=KEEP)  # fmt: skip
    _add(kinds, "where/default-behind", "kept", "shop n a", BY_SHOP, "SUM(amount) AS a",
         "COALESCE(SUM(amount), 0) + 1 AS a")  # fmt: skip


def _windows(kinds: Kinds) -> None:
    """Add windows of another kind, and windows over windows."""
    keys = "shop window_start window_end"
    text = f"SELECT shop, window_start, window_end, {SUMS} FROM {{}} GROUP BY shop, window_start, window_end"
    tumble = text.format(WINDOWS.format("TUMBLE", "", MINUTES.format(4)))
    cumulate = text.format(WINDOWS.format("CUMULATE", "", f"{MINUTES.format(1)}, {MINUTES.format(4)}"))
    _add(kinds, "windows/to-cumulate", "refused", f"{keys} n a", tumble, tumble, cumulate)
    _add(kinds, "windows/from-cumulate", "refused", f"{keys} n a", cumulate, cumulate, tumble)
    _add(kinds, "windows/cumulate-batches", "kept", f"{keys} n a", cumulate, SUMS, TURNED, to=f"{keys} a n", conf={},
         new_conf={"table.optimizer.agg-phase-strategy": "ONE_PHASE"})  # fmt: skip
    inner = f"SELECT shop, window_time AS rt, {SUMS} FROM {WINDOWS.format('TUMBLE', '', MINUTES.format(1))} GROUP BY "
    inner += "shop, window_start, window_end, window_time"
    kinds.tables = (ORDERS, f"CREATE VIEW minutes AS {inner}")
    outer = "SELECT shop, window_start, window_end, SUM(n) AS n, MAX(a) AS a FROM TABLE(CUMULATE(TABLE minutes, "
    outer += f"DESCRIPTOR(rt), {MINUTES.format(2)}, {MINUTES.format(4)})) GROUP BY shop, window_start, window_end"
    smaller = (ORDERS, kinds.tables[1].replace(MINUTES.format(1), "INTERVAL '30' SECOND"))
    _add(kinds, "windows/inner-of-cumulate", "refused", f"{keys} n a", outer, tables=smaller)
    _add(kinds, "windows/outer-call-out", "kept", f"{keys} n a", outer, ", MAX(a) AS a", "", to=f"{keys} n")
    kinds.tables = (ORDERS,)
    gap = text.format(WINDOWS.format("SESSION", " PARTITION BY shop", "INTERVAL '40' SECOND"))
    _add(kinds, "windows/gap-minute", "kept", f"{keys} n a", gap.replace("'40' SECOND", "'1' MINUTE"), "'1' MINUTE",
         "'60' SECOND", SUMS, TURNED, to=f"{keys} a n")  # fmt: skip
    _add(kinds, "windows/gap-longer-turned", "refused", f"{keys} n a", gap, "'40'", "'70'", SUMS, TURNED,
         to=f"{keys} a n")  # fmt: skip
    minute = f"SELECT shop, FLOOR(ts TO MINUTE) AS st, {SUMS} FROM orders GROUP BY shop, FLOOR(ts TO MINUTE)"
    tumbling = f"SELECT shop, window_start AS st, {SUMS} FROM {WINDOWS.format('TUMBLE', '', MINUTES.format(1))} GROUP "
    tumbling += "BY shop, window_start, window_end"
    _add(kinds, "windows/of-minutes", "lost", "shop st n a", minute, minute, tumbling)
    best = BEST.format("shop, id, amount", "window_start, window_end, shop", "amount DESC, id",
                       WINDOWS.format("TUMBLE", "", MINUTES.format(2)), "rn <= 2")  # fmt: skip
    _add(kinds, "windows/best-to-all-time", "lost", "shop id amount", best, best,
         BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 2"))  # fmt: skip


def _functions(kinds: Kinds) -> None:
    """Add functions of a user with another name, in keys, conditions, joins and windows."""
    tables, kinds.tables = kinds.tables, (ORDERS, *functions(f="Twice", total="Total"))
    renamed = (ORDERS, *functions(g="Twice", whole="Total"))
    key = "SELECT f(amount) AS a, COUNT(*) AS n FROM orders GROUP BY f(amount)"
    _add(kinds, "functions/key", "kept", "a n", key, "f(", "g(", "f(", "g(", tables=renamed)
    where = "SELECT shop, COUNT(*) AS n FROM orders WHERE f(amount) > 20 GROUP BY shop"
    _add(kinds, "functions/where", "kept", "shop n", where, "f(", "g(", tables=renamed)
    whole = "SELECT shop, CAST(total(amount) AS INT) AS a, COUNT(*) AS n FROM orders GROUP BY shop"
    _add(kinds, "functions/aggregate-turned", "refused", "shop a n", whole, "CAST(total(amount) AS INT) AS a, COUNT(*) "
         "AS n", "COUNT(*) AS n, CAST(whole(amount) AS INT) AS a", to="shop n a", tables=renamed)  # fmt: skip
    last = BEST.format("item, f(amount) AS a", "item", "pt DESC", "orders", "rn = 1")
    _add(kinds, "functions/behind", "kept", "item a", last, "f(", "g(", tables=renamed)
    gone = whole.replace("total(", "SUM(")
    _add(kinds, "functions/to-builtin", "refused", "shop a n", whole, whole, gone, tables=renamed)
    kinds.tables = tables


def _options(kinds: Kinds, seed: int) -> None:
    """Add options of the planner and hints that come with another change."""
    lists = "SELECT shop, LISTAGG(item) AS s, AVG(amount) AS a, MIN(price) AS p FROM orders GROUP BY shop"
    _add(kinds, "options/phases-of-lists", "kept", "shop s a p", lists, ", MIN(price) AS p", "", to="shop s a",
         conf={}, new_conf=TWO)  # fmt: skip
    _add(kinds, "options/phases-of-lists-off", "kept", "shop s a p", lists, "AVG(amount)", "SUM(amount)", conf=TWO,
         new_conf={})  # fmt: skip
    top = BEST.format("shop, item, id", "shop, item", "amount DESC, id", "orders", "rn <= 3")
    _add(kinds, "options/batches-of-rank", "kept", "shop item id", top, "BY shop, item", "BY item, shop", "<= 3",
         "<= 2", conf={}, new_conf=MINI)  # fmt: skip
    large = "FILTER (WHERE amount > 20)"
    filters = f"SELECT shop, COUNT(*) {large} AS n, SUM(price) AS p FROM orders GROUP BY shop"
    _add(kinds, "options/phases-and-live", "kept", "shop n p", filters, f"COUNT(*) {large} AS n, SUM(price) AS p",
         f"SUM(price) AS p, COUNT(*) {large} AS n", to="shop p n", conf=LIVE, new_conf={**TWO, **LIVE})  # fmt: skip
    idle = {"table.exec.source.idle-timeout": "10 min"}
    window = f"SELECT shop, window_start, {SUMS} FROM {WINDOWS.format('TUMBLE', '', MINUTES.format(2))} GROUP BY shop, "
    window += "window_start, window_end"
    _add(kinds, "options/idle-and-turned", "kept", "shop window_start n a", window, SUMS, TURNED,
         to="shop window_start a n", conf={}, new_conf=idle)  # fmt: skip
    whole = {"table.optimizer.source.predicate-pushdown-enabled": "false", "table.exec.rank.topn-cache-size": "7"}
    _add(kinds, "options/rank-cache", "kept", "shop item id", top, "<= 3", "<= 2", conf={}, new_conf=whole)
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    hint = "/*+ STATE_TTL('o' = '1d') */ "
    hinted = JOINED.replace("SELECT ", f"SELECT {hint}")
    _add(kinds, "options/live-to-hint", "kept", "id price paid", JOINED, "SELECT ", f"SELECT {hint}", conf=LIVE,
         new_conf={})  # fmt: skip
    _add(kinds, "options/hint-and-key", "kept", "id price paid", hinted, "= p.shop",
         "= p.shop AND o.price = p.paid")  # fmt: skip
    wide = (ORDERS.replace("price INT", "price BIGINT"), PAYMENTS)
    _add(kinds, "options/hint-and-type", "kept", "id price paid", hinted, tables=wide, to="id n paid")
    left = JOINED.replace(" JOIN", " LEFT JOIN")
    _add(kinds, "options/batches-of-left", "kept", "id price paid", left, "o.price, ", "", to="id paid", conf={},
         new_conf=MINI)  # fmt: skip
    _add(kinds, "options/batches-off-to-inner", "kept", "id price paid", left, "LEFT JOIN", "JOIN", conf=MINI,
         new_conf={})  # fmt: skip
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _watermarks(kinds: Kinds, seed: int) -> None:
    """Add watermarks that are later or earlier, with another change."""
    later, earlier = (LATE,), (ORDERS,)
    window = f"SELECT shop, window_start, {SUMS} FROM {WINDOWS.format('TUMBLE', '', MINUTES.format(2))} GROUP BY shop, "
    window += "window_start, window_end"
    _add(kinds, "watermark/later-and-turned", "kept", "shop window_start n a", window, SUMS, TURNED,
         to="shop window_start a n", tables=later)  # fmt: skip
    gap = window.replace("TUMBLE(TABLE orders", "SESSION(TABLE orders PARTITION BY shop")
    gap = gap.replace(MINUTES.format(2), "INTERVAL '40' SECOND")
    _add(kinds, "watermark/later-of-gap", "lost", "shop window_start n a", gap, tables=later)
    first = BEST.format("item, id", "item", "ts ASC", "orders", "rn = 1")
    _add(kinds, "watermark/later-of-first", "kept", "item id", first, tables=later)
    kinds.tables = later
    _add(kinds, "watermark/earlier-and-call-out", "kept", "shop window_start n a", window, ", SUM(amount) AS a", "",
         to="shop window_start n", tables=earlier)  # fmt: skip
    over = "SELECT id, SUM(amount) OVER (PARTITION BY shop ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a "
    over += "FROM orders"
    _add(kinds, "watermark/earlier-of-over", "lost", "id a", over, tables=earlier)
    kinds.script = orders(seed, "paid")
    kinds.tables = (ORDERS, PAID)
    near = "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts BETWEEN p.ts - INTERVAL '60' "
    near += "SECOND AND p.ts + INTERVAL '30' SECOND"
    _add(kinds, "watermark/later-of-one-side", "kept", "id paid", near, tables=(LATE, PAID))
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _types(kinds: Kinds, seed: int) -> None:
    """Add columns that are wider, longer, never NULL, or of another kind of time, where rows are kept."""
    wide = (ORDERS.replace("amount INT", "amount BIGINT"),)
    text = "SELECT shop, window_start, {} FROM {} GROUP BY shop, window_start, window_end"
    hop = text.format("COUNT(DISTINCT amount) AS n, SUM(amount) AS a", WINDOWS.format("HOP", "", f"{MINUTES.format(1)}"
                      f", {MINUTES.format(3)}"))  # fmt: skip
    _add(kinds, "types/wider-in-hop", "kept", "shop window_start n a", hop, tables=wide, to="shop window_start n big")
    gap = text.format("MAX(amount) AS a, AVG(amount) AS p", WINDOWS.format("SESSION", " PARTITION BY shop",
                      "INTERVAL '40' SECOND"))  # fmt: skip
    _add(kinds, "types/wider-in-gap", "kept", "shop window_start a p", gap, tables=wide, to="shop window_start big n")
    over = "SELECT id, SUM(amount) OVER w AS a, MAX(amount) OVER w AS p FROM orders WINDOW w AS (PARTITION BY shop "
    over += "ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    _add(kinds, "types/wider-in-over", "kept", "id a p", over, tables=wide, to="id big n")
    match = (
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY shop ORDER BY ts MEASURES A.id AS a_id, B.id AS b_id AFTER "
        "MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.amount > 20, B AS B.amount > 10)"
    )
    _add(kinds, "types/wider-in-match", "lost", "shop a_id b_id", match, tables=wide)
    _add(kinds, "types/column-more-in-match", "lost", "shop a_id b_id", match,
         tables=(ORDERS.replace("price INT", "price INT, more INT"),))  # fmt: skip
    sure = (ORDERS.replace("shop STRING", "shop STRING NOT NULL"),)
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 3")
    _add(kinds, "types/sure-in-top", "kept", "shop id amount", top, tables=sure)
    _add(kinds, "types/sure-in-over", "kept", "id a p", over, tables=sure)
    _add(kinds, "types/sure-in-gap", "refused", "shop window_start a p", gap, tables=sure)
    _add(kinds, "types/sure-in-match", "lost", "shop a_id b_id", match, tables=sure)
    short = (ORDERS.replace("shop STRING", "shop VARCHAR(20)"),)
    kinds.tables = short
    _add(kinds, "types/longer-in-top", "kept", "shop id amount", top, "<= 3", "<= 2", tables=(ORDERS,))
    _add(kinds, "types/longer-in-hop", "kept", "shop window_start n a", hop, tables=(ORDERS,))
    _add(kinds, "types/longer-in-over", "kept", "id a p", over, tables=(ORDERS,))
    kinds.tables = (ORDERS,)
    local = (ORDERS.replace("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"),)
    _add(kinds, "types/local-time-in-group", "kept", "shop n a", BY_SHOP, tables=local)
    _add(kinds, "types/local-time-in-over", "refused", "id a p", over, tables=local)
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    near = "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts BETWEEN p.ts - INTERVAL '60' "
    near += "SECOND AND p.ts + INTERVAL '30' SECOND"
    sure_sides = tuple(one.replace("shop STRING", "shop STRING NOT NULL") for one in (ORDERS, PAID))
    _add(kinds, "types/sure-in-near", "refused", "id paid", near, tables=sure_sides)
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    at = "SELECT o.id, o.amount, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop"
    _add(kinds, "types/wider-at", "kept", "id amount rate", at,
         tables=(wide[0], RATES.replace("rate INT", "rate BIGINT")), to="id big n")  # fmt: skip
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    priced = "SELECT o.id, p.paid FROM orders o JOIN payments p ON o.shop = p.shop AND o.price = p.paid"
    wide_both = (ORDERS.replace("price INT", "price BIGINT"), PAYMENTS.replace("paid INT", "paid BIGINT"))
    _add(kinds, "types/wider-keys-of-join", "kept", "id paid", priced, tables=wide_both, to="id big")
    _add(kinds, "types/wider-key-of-left", "kept", "id paid", priced, tables=(wide_both[0], PAYMENTS))
    _add(kinds, "types/wider-keys-to-left", "kept", "id paid", priced, " JOIN", " LEFT JOIN", tables=wide_both,
         to="id big")  # fmt: skip
    sure_sides = tuple(one.replace("shop STRING", "shop STRING NOT NULL") for one in (ORDERS, PAYMENTS))
    _add(kinds, "types/sure-in-join", "kept", "id price paid", JOINED, tables=sure_sides)
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _joins(kinds: Kinds, seed: int) -> None:
    """Add joins of another kind, and those that change in two ways."""
    looked = table("names", "shop STRING, rate INT").replace("'connector'", "'lookup' = 'sync', 'connector'")
    names: Script = [("names", "+I", {"shop": f"shop {n}", "rate": n}) for n in range(3)]
    kinds.script, kinds.tables = [*orders(seed, "rates"), *names], (ORDERS, RATES, looked)
    at = "SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop"
    now = at.replace("rates", "names").replace("o.ts", "o.pt")
    _add(kinds, "joins/lookup-to-versions", "lost", "id rate", now, now, at)
    _add(kinds, "joins/versions-to-lookup", "lost", "id rate", at, at, now)
    plain = at.replace(" FOR SYSTEM_TIME AS OF o.ts AS", "")
    _add(kinds, "joins/versions-to-plain", "lost", "id rate", at, at, plain)
    _add(kinds, "joins/versions-left-and-column", "lost", "id rate", at, " JOIN", " LEFT JOIN", "o.id,",
         "o.id, o.item,", to="id item rate")  # fmt: skip
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    near = "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts BETWEEN p.ts - INTERVAL '60' "
    near += "SECOND AND p.ts + INTERVAL '30' SECOND"
    forever = near.partition(" AND o.ts")[0]
    _add(kinds, "joins/to-interval", "lost", "id paid", forever, forever, near)
    _add(kinds, "joins/from-interval", "lost", "id paid", near, near, forever)
    _add(kinds, "joins/interval-inner-and-narrower", "kept", "id paid", near.replace(" JOIN", " LEFT JOIN"),
         "LEFT JOIN", "JOIN", "'60'", "'40'")  # fmt: skip
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    left = JOINED.replace(" JOIN", " LEFT JOIN")
    _add(kinds, "joins/inner-and-turned", "kept", "id price paid", left, "LEFT JOIN", "JOIN", "o.id, o.price, p.paid",
         "p.paid, o.price, o.id", to="paid price id")  # fmt: skip
    _add(kinds, "joins/inner-and-column-out", "kept", "id price paid", left, "LEFT JOIN", "JOIN", "o.price, ", "",
         to="id paid")  # fmt: skip
    _add(kinds, "joins/letters-of-keys", "kept", "id price paid", JOINED, "o.shop = p.shop",
         "UPPER(o.shop) = UPPER(p.shop)")  # fmt: skip
    _add(kinds, "joins/key-trimmed", "kept", "id price paid", left, "o.shop = p.shop",
         "TRIM(o.shop) = p.shop")  # fmt: skip
    _add(kinds, "joins/where-to-on-inner", "kept", "id price paid", f"{JOINED} WHERE p.paid > 3", " WHERE", " AND")
    _add(kinds, "joins/key-of-where", "kept", "id price paid", JOINED, JOINED,
         "SELECT o.id, o.price, p.paid FROM orders o, payments p WHERE p.shop = o.shop")  # fmt: skip
    _add(kinds, "joins/key-condition", "refused", "id price paid", JOINED, "= p.shop", "= p.shop WHERE o.shop <> "
         "'shop 1'")  # fmt: skip
    distinct = JOINED.replace("payments p", "(SELECT DISTINCT shop, paid FROM payments) p")
    _add(kinds, "joins/distinct-side-column", "refused", "id price paid", distinct, "o.price,", "o.price, o.item,",
         to="id price item paid")  # fmt: skip
    last = "(SELECT shop, paid FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY paid DESC) AS rn FROM "
    last += "payments) WHERE rn = 1)"
    best = JOINED.replace("payments p", f"{last} p")
    _add(kinds, "joins/best-side-left", "kept", "id price paid", best, " JOIN", " LEFT JOIN")
    _add(kinds, "joins/best-side-column-out", "kept", "id price paid", best, "o.price, ", "", to="id paid")
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _views(kinds: Kinds, seed: int) -> None:
    """Add views and parts of a query that get a name, or lose it, with another change."""
    where = "SELECT shop, COUNT(*) AS n, SUM(amount) AS a FROM orders WHERE price > 4 GROUP BY shop"
    view = (ORDERS, "CREATE VIEW dear AS SELECT id, shop, amount FROM orders WHERE price > 4")
    _add(kinds, "views/condition", "kept", "shop n a", where, "orders WHERE price > 4", "dear", SUMS, TURNED,
         to="shop a n", tables=view)  # fmt: skip
    part = f"WITH x AS (SELECT shop, amount FROM orders WHERE price > 4) SELECT shop, {SUMS} FROM x GROUP BY shop"
    _add(kinds, "views/part-inlined", "kept", "shop n a", part, part, where)
    shared = (
        f"WITH x AS ({BY_SHOP}) SELECT shop, n, a FROM x WHERE n > 3 UNION ALL SELECT shop, n, a FROM x WHERE a > 40"
    )
    apart = f"{BY_SHOP} HAVING COUNT(*) > 3 UNION ALL {BY_SHOP} HAVING SUM(amount) > 40"
    _add(kinds, "views/part-twice", "kept", "shop n a", shared, shared, apart)
    behind = f"SELECT n, MAX(a) AS a FROM ({BY_SHOP}) GROUP BY n"
    named = (ORDERS, f"CREATE VIEW sums AS {BY_SHOP}")
    _add(kinds, "views/results", "kept", "n a", behind, f"({BY_SHOP})", "sums", tables=named)
    distinct = f"SELECT n FROM ({BY_SHOP})"
    _add(kinds, "views/distinct-behind", "lost", "n", distinct, "SELECT n", "SELECT DISTINCT n")
    _add(kinds, "views/distinct-of-rows", "lost", "shop item", "SELECT shop, item FROM orders", "SELECT", "SELECT "
         "DISTINCT")  # fmt: skip
    counted = "SELECT shop, COUNT(*) AS n FROM (SELECT DISTINCT shop, item FROM orders) GROUP BY shop"
    _add(kinds, "views/distinct-to-count", "refused", "shop n", counted, counted,
         "SELECT shop, COUNT(DISTINCT item) AS n FROM orders GROUP BY shop")  # fmt: skip
    last = BEST.format("shop, id, amount", "shop", "ts DESC", "orders", "rn = 1")
    _add(kinds, "views/last-as-call", "lost", "shop id amount", last, last,
         "SELECT shop, LAST_VALUE(id) AS id, LAST_VALUE(amount) AS amount FROM orders GROUP BY shop")  # fmt: skip
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    joining = (ORDERS, PAYMENTS, "CREATE VIEW both AS SELECT o.*, p.paid FROM orders o JOIN payments p ON o.shop = "
               "p.shop")  # fmt: skip
    _add(kinds, "views/join", "kept", "id price paid", JOINED, JOINED, "SELECT id, price, paid FROM `both`",
         tables=(*joining[:2], joining[2].replace("both", "`both`")))  # fmt: skip
    kinds.script, kinds.tables = orders(seed), (ORDERS,)


def _statements(kinds: Kinds, seed: int) -> None:
    """Add sinks that come, go, or get their columns in another order."""
    shop = "shop STRING, n BIGINT, a INT"
    rows, best = (
        "id BIGINT, shop STRING",
        BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 2"),
    )
    last = BEST.format("item, id", "item", "pt DESC", "orders", "rn = 1")

    def sets(name: str, expected: str, old: tuple[str, str], new: tuple[str, str]) -> None:
        EXPECTED[f"sinks/{name}"] = expected
        kinds.cases[f"sinks/{name}"] = Case(
            *(Sinks(*one) for one in (old, new)), kinds.script, None, {"fill": "initial"}
        )

    sets("copy-in-front", "kept", (shop, BY_SHOP), (f"{rows};{shop}", f"SELECT id, shop FROM orders;{BY_SHOP}"))
    sets("copy-behind-and-turned", "kept", (shop, BY_SHOP), (f"shop STRING, a INT, n BIGINT;{rows}",
         f"{BY_SHOP.replace(SUMS, TURNED)};SELECT id, shop FROM orders"))  # fmt: skip
    often = f"SELECT shop FROM ({BY_SHOP}) WHERE n > 4"
    sets("same-result-twice", "lost", (shop, BY_SHOP), (f"{shop};shop STRING", f"{BY_SHOP};{often}"))
    sets("rank-more", "lost", (shop, BY_SHOP), (f"{shop};shop STRING, id BIGINT, amount INT", f"{BY_SHOP};{best}"))
    sets("last-and-grouped", "lost", ("item STRING, id BIGINT", last), ("item STRING, id BIGINT;n BIGINT",
         f"{last};SELECT COUNT(*) AS n FROM ({last})"))  # fmt: skip
    columns = BEST.format("shop, item, id, amount", "shop", "amount DESC, id", "orders", "rn <= 2")
    _add(kinds, "sinks/columns-of-rank", "kept", "shop item id amount", columns, "shop, item, id, amount FROM",
         "amount, id, shop, item FROM", to="amount id shop item")  # fmt: skip
    conf = {"table.exec.sink.require-on-conflict": "false"}
    keyed = "SELECT MAX(item) AS item, shop AS s, COUNT(*) AS n FROM orders GROUP BY shop"
    _add(kinds, "sinks/columns-of-materializer", "kept", "item s n", keyed, "MAX(item) AS item, shop AS s, COUNT(*) "
         "AS n", "COUNT(*) AS n, shop AS s, MAX(item) AS item", to="n s item", conf=conf, key="item")  # fmt: skip
    off = {**conf, "table.exec.sink.upsert-materialize": "NONE"}
    _add(kinds, "sinks/materializer-off", "lost", "item s n", keyed, conf=conf, new_conf=off, key="item")
    _add(kinds, "sinks/constant-more", "kept", "shop n a", BY_SHOP, "shop, COUNT", "shop, 'eu' AS s, COUNT",
         to="shop s n a")  # fmt: skip


def _tables(kinds: Kinds, seed: int) -> None:
    """Add tables and columns with other names."""
    other = ORDERS.replace("TABLE orders", "TABLE bought")
    script = [(name, kind, row) for _, kind, row in orders(seed)[::2] for name in ("orders", "bought")]
    kinds.script, kinds.tables = script, (ORDERS,)
    given = {"fill": "initial", "sources": {"bought": "orders"}}
    _add(kinds, "tables/renamed", "lost", "shop n a", BY_SHOP, "FROM orders", "FROM bought", tables=(other,))
    _add(kinds, "tables/renamed-and-turned", "kept", "shop n a", BY_SHOP, "FROM orders", "FROM bought", SUMS, TURNED,
         to="shop a n", tables=(other,), given=given)  # fmt: skip
    kinds.script = orders(seed)
    cost = (ORDERS.replace("amount INT", "amount INT, dear AS price + amount"),)
    both = "SELECT shop, SUM(price + amount) AS a FROM orders GROUP BY shop"
    _add(kinds, "tables/computed-for-sum", "kept", "shop a", both, "price + amount", "dear", tables=cost)  # fmt: skip
    through = ORDERS, "CREATE VIEW sold AS SELECT id, shop, price AS cost, amount AS pieces, ts FROM orders"
    _add(kinds, "tables/columns-by-view", "kept", "shop n a", BY_SHOP, "SUM(amount)", "SUM(pieces)", "FROM orders",
         "FROM sold", tables=through)  # fmt: skip
    fewer = (ORDERS.replace("price INT, ", ""),)
    _add(kinds, "tables/column-gone", "kept", "shop n a", BY_SHOP, SUMS, TURNED, to="shop a n", tables=fewer)


def _changelogs(kinds: Kinds, seed: int) -> None:
    """Add changelogs with another key, or whose conditions move."""
    upsert = table("changed", "id BIGINT, shop STRING, item STRING, amount INT", "upsert", "id")
    kinds.script, kinds.tables = changes(seed), (upsert,)
    text = f"SELECT shop, {SUMS} FROM changed GROUP BY shop"
    _add(kinds, "log/other-key", "refused", "shop n a", text, tables=(upsert.replace("KEY (id)", "KEY (item)"),))
    _add(kinds, "log/key-and-turned", "refused", "shop n a", text, SUMS, TURNED, to="shop a n",
         tables=(upsert.replace("KEY (id)", "KEY (id, item)"),))  # fmt: skip
    _add(kinds, "log/to-appends", "refused", "shop n a", text, tables=(upsert.replace("'upsert'", "'insert'"),))
    last = "SELECT id, shop, amount FROM changed"
    _add(kinds, "log/plain-column-more", "lost", "id shop amount", last, "shop, amount", "shop, item, amount",
         to="id shop item amount")  # fmt: skip
    kinds.tables = (CHANGED,)
    where = text.replace("GROUP", "WHERE amount > 4 GROUP")
    large = "FILTER (WHERE amount > 4)"
    _add(kinds, "log/where-to-filter", "refused", "shop n a", where, " WHERE amount > 4", "", SUMS,
         f"COUNT(*) {large} AS n, SUM(amount) {large} AS a")  # fmt: skip
    _add(kinds, "log/key-condition", "kept", "shop n a", text, "GROUP", "WHERE shop <> 'shop 1' GROUP")
    _add(kinds, "log/count-of-column", "refused", "shop n a", text, "COUNT(*)", "COUNT(amount)")
    both, calls = "COUNT(DISTINCT amount) AS n, SUM(DISTINCT amount) AS a", "SELECT shop, {} FROM changed GROUP BY shop"
    turned = "SUM(DISTINCT amount) AS a, COUNT(DISTINCT amount) AS n"
    _add(kinds, "log/distinct-turned", "kept", "shop n a", calls.format(both), both, turned, to="shop a n")
    _add(kinds, "log/distinct-one-out", "kept", "shop n a", calls.format(both), ", SUM(DISTINCT amount) AS a", "",
         to="shop n")  # fmt: skip
    few = both.replace("SUM(DISTINCT amount) AS a", f"COUNT(DISTINCT amount) {large} AS c")
    _add(kinds, "log/distinct-filter-alone", "kept", "shop n c", calls.format(few), "COUNT(DISTINCT amount) AS n, ", "",
         to="shop c")  # fmt: skip
    _add(kinds, "log/distinct-more", "refused", "shop n", calls.format("COUNT(DISTINCT amount) AS n"), "AS n",
         f"AS n, COUNT(DISTINCT amount) {large} AS c", to="shop n c")  # fmt: skip
    by_item = f"SELECT shop, item, {both} FROM changed GROUP BY shop, item"
    _add(kinds, "log/distinct-keys-merged", "refused", "shop item n a", by_item, "shop, item, COUNT", "shop, COUNT",
         "BY shop, item", "BY shop", to="shop n a")  # fmt: skip
    counts = "(SELECT shop, item, COUNT(*) AS n FROM changed GROUP BY shop, item)"
    top = BEST.format("shop, item, n", "shop", "n DESC, item", counts, "rn <= 2")
    _add(kinds, "log/top-of-counts-larger", "kept", "shop item n", top, "<= 2", "<= 3")
    _add(kinds, "log/top-of-counts-order", "refused", "shop item n", top, "n DESC", "n ASC")


if __name__ == "__main__":
    sys.exit(main(every_case, EXPECTED))
