"""Changes of which no other list has the kind: bounds, versions, options of the planner, statements, two at once.

    python -m tests.oracle.sql_untried 1.20.5 2.3.0 [--backend rocksdb] [--only WORDS] [--seed 7]

The options and the lines are those of ``sql_tried``. ``EXPECTED`` is what came after each was looked into: of 178 that
were written before they ran, 46 came otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tests.oracle.sql_changes import ORDERS, PAYMENTS, Case, Script, table
from tests.oracle.sql_kinds import CHANGED, MINI, PAID, Kinds, changes, expecting, main, orders
from tests.oracle.sql_layers import three
from tests.oracle.sql_rewordings import Sinks
from tests.oracle.sql_tried import BEST, TWO, WINDOWS

#: What was expected of each change.
EXPECTED: dict[str, str] = {}
_add = expecting(EXPECTED)
SPLIT = {**TWO, "table.optimizer.distinct-agg.split.enabled": "true"}
#: Rates with another column, whose value follows from the rate.
RATES = table("rates", "shop STRING, rate INT, fee AS rate * 2, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", "upsert",
              "shop")  # fmt: skip
NEWEST = table("newest", "id BIGINT, shop STRING, item STRING, amount INT", "upsert", "id")
HINT = "/*+ STATE_TTL({}) */"


def every_case(seed: int) -> Mapping[str, Case]:
    """The changes."""
    kinds = Kinds(seed)
    _joins_by_time(kinds, seed)
    _looked_up(kinds, seed)
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    _ranks(kinds)
    _over(kinds)
    _windows(kinds)
    _patterns(kinds)
    _calls(kinds)
    _options(kinds, seed)
    _keys_of_sinks(kinds)
    _statements(kinds, seed)
    _other_sources(kinds, seed)
    _normalized(kinds, seed)
    assert set(EXPECTED) == set(kinds.cases)
    return kinds.cases


def _joins_by_time(kinds: Kinds, seed: int) -> None:
    """Add other bounds of interval joins with another column or key, and other columns of versions."""
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID)
    near = (
        "SELECT o.id, p.paid FROM orders o JOIN paid p ON o.shop = p.shop AND o.ts BETWEEN p.ts - INTERVAL '60' SECOND "
        "AND p.ts + INTERVAL '40' SECOND"
    )
    left = near.replace(" JOIN", " LEFT JOIN")
    _add(kinds, "bounds/upper-narrower", "kept", "id paid", near, "'40' SECOND", "'10' SECOND")
    _add(kinds, "bounds/upper-wider", "lost", "id paid", near, "'40' SECOND", "'70' SECOND")
    _add(kinds, "bounds/past-only", "kept", "id paid", near, "+ INTERVAL '40'", "- INTERVAL '5'")
    _add(kinds, "bounds/left-narrower", "lost", "id paid", left, "'40' SECOND", "'10' SECOND", "'60' SECOND",
         "'30' SECOND")  # fmt: skip
    beside = f"{left} AND o.amount > p.paid * 3"
    _add(kinds, "bounds/left-condition", "lost", "id paid", beside, "* 3", "* 6")
    _add(kinds, "bounds/left-condition-gone", "lost", "id paid", beside, " AND o.amount > p.paid * 3", "")
    _add(kinds, "bounds/moved", "kept", "id paid", near, "- INTERVAL '60'", "+ INTERVAL '10'")
    _add(kinds, "bounds/with-column-out", "kept", "id item paid", near.replace("o.id", "o.id, o.item"), "o.item, ", "",
         "'40' SECOND", "'20' SECOND", to="id paid")  # fmt: skip
    _add(kinds, "bounds/with-key", "lost", "id paid", near, "o.shop = p.shop",
         "o.shop = p.shop AND o.price = p.paid", "'40' SECOND", "'20' SECOND")  # fmt: skip
    behind = f"SELECT COUNT(*) AS n, SUM(paid) AS a FROM ({near})"
    _add(kinds, "bounds/behind", "refused", "n a", behind, "'40' SECOND", "'20' SECOND")
    semi = "SELECT id, amount FROM orders o WHERE EXISTS (SELECT * FROM paid p WHERE o.shop = p.shop AND o.ts BETWEEN "
    semi += "p.ts - INTERVAL '60' SECOND AND p.ts)"
    _add(kinds, "bounds/semi", "kept", "id amount", semi, "amount FROM", "amount + 1 FROM")
    kinds.script, kinds.tables = orders(seed, "rates"), (ORDERS, RATES)
    at = "SELECT o.id, r.rate FROM orders o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop"
    _add(kinds, "versions/other-column", "kept", "id rate", at, "r.rate", "r.fee AS rate")
    _add(kinds, "versions/computed-column", "kept", "id rate", at, "r.rate", "r.rate, r.fee AS paid", to="id rate paid")
    wide = at.replace("o.id", "o.id, o.item")
    _add(kinds, "versions/column-out-and-inner", "kept", "id item rate", wide, "o.item, ", "", "LEFT JOIN", "JOIN",
         to="id rate")  # fmt: skip
    _add(kinds, "versions/left-key", "refused", "id rate", at, "o.shop = r.shop", "UPPER(o.shop) = r.shop")
    summed = f"SELECT rate, COUNT(*) AS n, SUM(id) AS big FROM ({at}) GROUP BY rate"
    _add(kinds, "versions/grouped-inner", "refused", "rate n big", summed, "LEFT JOIN", "JOIN")
    log = "CREATE VIEW versions AS " + BEST.format("shop, paid, ts", "shop", "ts DESC", "paid", "rn = 1")
    kinds.script, kinds.tables = orders(seed, "paid"), (ORDERS, PAID, log)
    text = "SELECT o.id, v.paid FROM orders o JOIN versions FOR SYSTEM_TIME AS OF o.ts AS v ON o.shop = v.shop"
    _add(kinds, "versions/of-view", "kept", "id paid", text, "v.paid", "v.paid + 1 AS paid")
    _add(kinds, "versions/of-view-left", "kept", "id paid", text, "JOIN versions", "LEFT JOIN versions")
    _add(kinds, "versions/of-view-column", "lost", "id paid", text, "o.id, ", "o.id, o.item, ", to="id item paid")


def _looked_up(kinds: Kinds, seed: int) -> None:
    """Add lookups where there was none, and to another side of an operator with state."""
    looked = table("names", "shop STRING, s STRING").replace("'connector'", "'lookup' = '{}', 'connector'")
    names: Script = [("names", "+I", {"shop": f"shop {n}", "s": f"name {n % 2}"}) for n in range(3)]
    kinds.script = [*orders(seed), *names]
    by_shop = "SELECT o.shop, COUNT(*) AS n, SUM(o.amount) AS a FROM orders o GROUP BY o.shop"
    into = "orders o {}JOIN names FOR SYSTEM_TIME AS OF o.pt AS k ON o.shop = k.shop "
    last = BEST.format("item, id, amount", "item", "pt DESC", "orders", "rn = 1")
    for kind in ("sync", "async"):
        kinds.tables = (ORDERS, looked.format(kind))
        _add(kinds, f"lookup-{kind}/in-front-left", "refused", "shop n a", by_shop, "orders o ", into.format("LEFT "))
        _add(kinds, f"lookup-{kind}/in-front", "refused", "shop n a", by_shop, "orders o ", into.format(""))
        _add(kinds, f"lookup-{kind}/gone", "refused", "shop n a", by_shop.replace("orders o ", into.format("")),
             into.format(""), "orders o ")  # fmt: skip
        both = by_shop.replace("orders o ", into.format("")).replace("o.shop, COUNT", "k.s AS shop, COUNT")
        both = both.replace("BY o.shop", "BY k.s")
        turned = ("COUNT(*) AS n, SUM(o.amount) AS a", "SUM(o.amount) AS a, COUNT(*) AS n")
        _add(kinds, f"lookup-{kind}/calls-turned", "kept", "shop n a", both, *turned, to="shop a n")
        behind = f"SELECT id, k.s FROM (SELECT *, PROCTIME() AS now FROM ({last})) o LEFT JOIN names FOR SYSTEM_TIME "
        behind += "AS OF o.now AS k ON o.item = k.shop"
        _add(kinds, f"lookup-{kind}/behind-last", "kept", "id s", behind, "id, k.s", "id + 1, k.s")


def _ranks(kinds: Kinds) -> None:
    """Add other partitions and orders of ranks, together with another number."""
    top = BEST.format("shop, item, id, amount", "shop", "amount DESC, id", "orders", "rn <= 3")
    names = "shop item id amount"
    _add(kinds, "rank/other-partition", "lost", names, top, "BY shop", "BY item")
    _add(kinds, "rank/partition-gone-smaller", "kept", names, top, "PARTITION BY shop ", "", "<= 3", "<= 2")
    _add(kinds, "rank/partition-more-smaller", "lost", names, top, "BY shop", "BY shop, item", "<= 3", "<= 2")
    _add(kinds, "rank/smaller-with-column-out", "kept", names, top, "item, ", "", "<= 3", "<= 1", to="shop id amount")
    counted = "(SELECT shop, item, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop, item)"
    best = BEST.format("shop, item, n, a", "shop", "{}", counted, "rn <= 2")
    _add(kinds, "rank/of-counts-by-sums", "lost", "shop item n a", best.format("n DESC, item"), "n DESC", "a DESC")
    _add(kinds, "rank/of-counts-partition", "kept", "shop item n a", best.format("n DESC, item, shop"), "BY shop",
         "BY item")  # fmt: skip
    _add(kinds, "rank/of-counts-ascending", "lost", "shop item n a", best.format("n DESC, item"), "n DESC", "n ASC")
    grown = "(SELECT shop, amount, MAX(id) AS id FROM orders GROUP BY shop, amount)"
    several = BEST.format("shop, id, amount", "shop", "id DESC", grown, "rn <= amount")
    _add(kinds, "rank/number-of-rows", "refused", "shop id amount", several, "id DESC", "id ASC")
    first = BEST.format("shop, id, amount", "shop", "pt DESC", "orders", "rn = 1")
    _add(kinds, "rank/last-to-first", "refused", "shop id amount", first, "pt DESC", "pt ASC")
    _add(kinds, "rank/last-to-largest", "lost", "shop id amount", first, "pt DESC", "amount DESC, id")
    grouped = f"SELECT amount, COUNT(*) AS n FROM ({first}) GROUP BY amount"
    _add(kinds, "rank/last-to-first-grouped", "refused", "amount n", grouped, "pt DESC", "pt ASC")
    limited = "SELECT shop, id, amount FROM orders ORDER BY amount DESC, id LIMIT 6"
    _add(kinds, "rank/limit-offset", "refused", "shop id amount", limited, "LIMIT 6", "LIMIT 3 OFFSET 3")


def _over(kinds: Kinds) -> None:
    """Add LAG and other ranges of OVER."""
    over = "SELECT shop, id, {} FROM orders WINDOW w AS (PARTITION BY shop ORDER BY ts{})"
    lag = over.format("LAG(amount, 1) OVER w AS a", "")
    _add(kinds, "over/lag-two", "refused", "shop id a", lag, "amount, 1", "amount, 2")
    _add(kinds, "over/lag-other-column", "refused", "shop id a", lag, "LAG(amount", "LAG(price")
    _add(kinds, "over/lag-column-behind", "kept", "shop id a", lag, "shop, id, ", "shop, id + 1 AS id, ")
    _add(
        kinds,
        "over/lag-added",
        "refused",
        "shop id a",
        lag,
        "AS a",
        "AS a, LAG(price, 1) OVER w AS p",
        to="shop id a p",
    )
    both = over.format("LAG(amount, 1) OVER w AS a, LAG(price, 1) OVER w AS p", "")
    of_amount, of_price = "LAG(amount, 1) OVER w AS {}", "LAG(price, 1) OVER w AS {}"
    _add(kinds, "over/lags-crossed", "refused", "shop id a p", both, of_amount.format("a"), of_price.format("a"),
         of_price.format("p"), of_amount.format("p"))  # fmt: skip
    turned = f"{of_price}, {of_amount}".format("p", "a")
    _add(kinds, "over/lags-turned", "refused", "shop id a p", both, f"{of_amount}, {of_price}".format("a", "p"), turned,
         to="shop id p a")  # fmt: skip
    near = " RANGE BETWEEN INTERVAL '{}' SECOND PRECEDING AND CURRENT ROW"
    sums = over.format("SUM(amount) OVER w AS a, COUNT(*) OVER w AS n", near.format(90))
    _add(kinds, "over/range-narrower", "refused", "shop id a n", sums, "'90'", "'40'")
    _add(kinds, "over/range-wider", "refused", "shop id a n", sums, "'90'", "'99'")
    _add(kinds, "over/range-to-rows", "refused", "shop id a n", sums, near.format(90),
         " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW")  # fmt: skip
    _add(kinds, "over/range-filter", "refused", "shop id a n", sums, "FROM orders", "FROM orders WHERE price > 4")
    _add(kinds, "over/range-partition", "refused", "shop id a n", sums, "BY shop", "BY item")
    _add(kinds, "over/range-calls-turned", "kept", "shop id a n", sums, "SUM(amount) OVER w AS a, COUNT(*) OVER w AS n",
         "COUNT(*) OVER w AS n, SUM(amount) OVER w AS a", to="shop id n a")  # fmt: skip


def _windows(kinds: Kinds) -> None:
    """Add windows with an offset, another step or gap, and rows of windows that are joined or ranked."""
    keys = "shop window_start window_end"
    text = "SELECT shop, window_start, window_end, {} FROM {} GROUP BY shop, window_start, window_end"
    sums = "COUNT(*) AS n, SUM(amount) AS a"
    turned = (sums, "SUM(amount) AS a, COUNT(*) AS n")
    minutes = "INTERVAL '{}' MINUTE"
    tumble = text.format(sums, WINDOWS.format("TUMBLE", "", minutes.format(2)))
    offset = (minutes.format(2), f"{minutes.format(2)}, INTERVAL '30' SECOND")
    _add(kinds, "window/offset", "refused", f"{keys} n a", tumble, *offset)
    shifted = tumble.replace(*offset)
    _add(kinds, "window/offset-calls-turned", "kept", f"{keys} n a", shifted, *turned, to=f"{keys} a n")
    _add(kinds, "window/offset-gone", "refused", f"{keys} n a", shifted, *offset[::-1])
    hop = text.format(sums, WINDOWS.format("HOP", "", f"{minutes.format(1)}, {minutes.format(4)}"))
    _add(kinds, "window/hop-slide", "refused", f"{keys} n a", hop, "'1' MINUTE", "'2' MINUTE")
    _add(kinds, "window/hop-to-cumulate", "refused", f"{keys} n a", hop, "HOP", "CUMULATE")
    steps = text.format(sums, WINDOWS.format("CUMULATE", "", f"{minutes.format(1)}, {minutes.format(4)}"))
    _add(kinds, "window/step", "refused", f"{keys} n a", steps, "'1' MINUTE", "'2' MINUTE")
    _add(kinds, "window/step-calls-turned", "kept", f"{keys} n a", steps, *turned, to=f"{keys} a n")
    gap = text.format(sums, WINDOWS.format("SESSION", " PARTITION BY shop", "INTERVAL '50' SECOND"))
    _add(kinds, "window/gap-longer", "refused", f"{keys} n a", gap, "'50'", "'80'")
    _add(kinds, "window/gap-calls-turned", "kept", f"{keys} n a", gap, *turned, to=f"{keys} a n")
    _add(kinds, "window/gap-to-tumble", "refused", f"{keys} n a", gap, gap, tumble)
    sets = tumble.replace("GROUP BY shop, window_start, window_end",
                          "GROUP BY window_start, window_end, GROUPING SETS ((shop), ())")  # fmt: skip
    _add(kinds, "window/sets-calls-turned", "kept", f"{keys} n a", sets, *turned, to=f"{keys} a n")
    _add(kinds, "window/to-sets", "lost", f"{keys} n a", tumble, tumble, sets)
    ends = f"SELECT shop, TUMBLE_END(ts, {minutes.format(2)}) AS st, {sums} FROM orders GROUP BY shop, TUMBLE(ts, "
    ends += f"{minutes.format(2)})"
    _add(kinds, "window/function-end", "kept", "shop st n a", ends, "TUMBLE_END", "TUMBLE_START")
    distinct = tumble.replace(sums, "COUNT(DISTINCT item) FILTER (WHERE amount > 9) AS n, SUM(amount) AS a")
    _add(kinds, "window/distinct-filter-other", "lost", f"{keys} n a", distinct, "> 9", "> 19")
    _add(kinds, "window/two-phase", "kept", f"{keys} n a", tumble, conf={},
         new_conf={"table.optimizer.agg-phase-strategy": "ONE_PHASE"})  # fmt: skip
    _add(kinds, "window/two-phase-turned", "kept", f"{keys} n a", tumble, *turned, to=f"{keys} a n",
         conf={"table.optimizer.agg-phase-strategy": "ONE_PHASE"}, new_conf={})  # fmt: skip
    counted = BEST.format("shop, n, a", "window_start, window_end", "n DESC, shop", f"({tumble})", "rn <= 2")
    _add(kinds, "window/best-of-counts", "kept", "shop n a", counted, "<= 2", "<= 1")
    _add(kinds, "window/best-of-counts-order", "refused", "shop n a", counted, "n DESC", "a DESC")


def _patterns(kinds: Kinds) -> None:
    """Add other patterns, with a call or a key behind."""
    text = (
        "SELECT shop, f, b_id FROM orders MATCH_RECOGNIZE (PARTITION BY shop ORDER BY ts MEASURES SUM(A.amount) AS f, "
        "B.id AS b_id ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) DEFINE A AS A.amount > 20, B AS "
        "B.amount <= 20)"
    )
    names = "shop f b_id"
    _add(kinds, "pattern/measure-other", "kept", names, text, "SUM(A.amount)", "MAX(A.amount)")
    _add(kinds, "pattern/quantifier", "lost", names, text, "A+ B", "A{2,} B")
    _add(kinds, "pattern/skip-next", "lost", names, text, "SKIP PAST LAST ROW", "SKIP TO NEXT ROW")
    _add(kinds, "pattern/condition", "lost", names, text, "<= 20", "<= 15")
    _add(kinds, "pattern/one-more", "lost", names, text, "A+ B)", "A+ B C)", "A AS", "C AS C.amount > 5, A AS")
    _add(kinds, "pattern/partition-more", "lost", names, text, "BY shop ORDER", "BY shop, item ORDER")


def _calls(kinds: Kinds) -> None:
    """Add calls that are kept in other ways, with FILTER and DISTINCT."""
    group = "SELECT shop, {} FROM orders GROUP BY shop"

    def calls(name: str, expected: str, columns: str, old: str, new: str, to: str = "", **more: Any) -> None:
        one, other = group.format(old), group.format(new)
        _add(kinds, f"calls/{name}", expected, f"shop {columns}", one, one, other, to=f"shop {to or columns}", **more)

    filters = "COUNT(*) FILTER (WHERE amount > 20) AS n, COUNT(*) FILTER (WHERE price > 9) AS c"
    calls("filters-crossed", "kept", "n c", filters, "COUNT(*) FILTER (WHERE price > 9) AS n, "
          "COUNT(*) FILTER (WHERE amount > 20) AS c")  # fmt: skip
    calls("filter-to-case", "lost", "n", "COUNT(*) FILTER (WHERE amount > 20) AS n",
          "COUNT(CASE WHEN amount > 20 THEN 1 END) AS n")  # fmt: skip
    large, dear = (f"COUNT(DISTINCT item) FILTER (WHERE {one})" for one in ("amount > 20", "price > 9"))
    distinct = f"{large} AS n, {dear} AS c"
    calls("distinct-filters-crossed", "kept", "n c", distinct, f"{dear} AS n, {large} AS c")
    calls("distinct-filter-gone", "kept", "n c", distinct, f"{dear} AS n", "n")
    calls("list-distinct-turned", "kept", "s n", "LISTAGG(DISTINCT item) AS s, COUNT(*) AS n",
          "COUNT(*) AS n, LISTAGG(DISTINCT item) AS s", "n s")  # fmt: skip
    calls("list-distinct-to-plain", "lost", "s", "LISTAGG(DISTINCT item) AS s", "LISTAGG(item) AS s")
    calls("list-distinct-added", "lost", "n", "COUNT(*) AS n", "COUNT(*) AS n, LISTAGG(DISTINCT item) AS s", "n s")
    calls("list-beside-count", "lost", "n", "COUNT(DISTINCT item) AS n", "COUNT(DISTINCT item) AS n, LISTAGG(DISTINCT "
          "item) AS s", "n s")  # fmt: skip
    calls("list-separator", "lost", "s", "LISTAGG(item, '-') AS s", "LISTAGG(item, '+') AS s")
    calls("list-filter", "lost", "s", "LISTAGG(item) AS s", "LISTAGG(item) FILTER (WHERE amount > 9) AS s")
    calls("array-turned", "refused", "list n", "ARRAY_AGG(amount) AS list, COUNT(*) AS n",
          "COUNT(*) AS n, ARRAY_AGG(amount) AS list", "n list")  # fmt: skip
    calls("array-distinct", "refused", "list", "ARRAY_AGG(amount) AS list", "ARRAY_AGG(DISTINCT amount) AS list")
    calls("array-ignores-nulls", "refused", "list", "ARRAY_AGG(price) AS list",
          "ARRAY_AGG(price) FILTER (WHERE price IS NOT NULL) AS list")  # fmt: skip
    calls("array-other-column", "refused", "list", "ARRAY_AGG(price) AS list", "ARRAY_AGG(amount) AS list")
    calls("array-of-json", "refused", "s n", "JSON_ARRAYAGG(amount) AS s, COUNT(*) AS n",
          "COUNT(*) AS n, JSON_ARRAYAGG(amount) AS s", "n s")  # fmt: skip
    calls("first-to-last", "lost", "f", "FIRST_VALUE(amount) AS f", "LAST_VALUE(amount) AS f")
    calls("first-other-column", "lost", "f", "FIRST_VALUE(amount) AS f", "FIRST_VALUE(price) AS f")
    sums = "COUNT(*) AS n, SUM(price) AS p"
    keys = f"SELECT shop, item, MOD(id, 2) AS c, {sums} FROM orders GROUP BY shop, item, MOD(id, 2)"
    _add(kinds, "calls/keys-turned-and-call-out", "kept", "shop item c n p", keys, ", SUM(price) AS p", "",
         "GROUP BY shop, item, MOD(id, 2)", "GROUP BY MOD(id, 2), item, shop", to="shop item c n")  # fmt: skip
    steps = "SELECT amount / 10 AS f, COUNT(*) AS n FROM orders GROUP BY amount / 10"
    _add(kinds, "calls/key-other-width", "lost", "f n", steps, "/ 10", "/ 5", "BY amount / 10", "BY amount / 5")
    cases = "CASE WHEN amount > 20 THEN 'large' ELSE 'small' END"
    sized = f"SELECT {cases} AS s, COUNT(*) AS n FROM orders GROUP BY {cases}"
    _add(kinds, "calls/key-case-other", "lost", "s n", sized, "> 20", "> 30", "> 20", "> 30")
    _add(kinds, "calls/key-case-label", "lost", "s n", sized, "'large'", "'big'", "'large'", "'big'")
    _add(kinds, "calls/key-of-subquery", "kept", "s n", sized, sized,
         f"SELECT s, COUNT(*) AS n FROM (SELECT {cases} AS s FROM orders) GROUP BY s")  # fmt: skip
    having = group.format(sums)
    _add(kinds, "calls/having-of-new-call", "lost", "shop n p", having, "BY shop", "BY shop HAVING MAX(amount) > 30")
    _add(kinds, "calls/having-and-turned", "kept", "shop n p", having, sums, "SUM(price) AS p, COUNT(*) AS n",
         "BY shop", "BY shop HAVING COUNT(*) > 3", to="shop p n")  # fmt: skip
    grouped = "SELECT shop, item FROM orders GROUP BY shop, item"
    _add(kinds, "calls/distinct-as-group", "kept", "shop item", "SELECT DISTINCT shop, item FROM orders",
         "SELECT DISTINCT shop, item FROM orders", grouped)  # fmt: skip
    _add(kinds, "calls/distinct-counted", "lost", "shop item", "SELECT DISTINCT shop, item FROM orders",
         "SELECT DISTINCT shop, item FROM orders", grouped.replace("item FROM", "item, COUNT(*) AS n FROM"),
         to="shop item n")  # fmt: skip


def _options(kinds: Kinds, seed: int) -> None:
    """Add options of the planner that change together with the query."""
    both = "SELECT shop, COUNT(DISTINCT item) AS n, SUM(amount) AS a, MAX(price) AS p FROM orders GROUP BY shop"
    names = "shop n a p"
    turned = ("COUNT(DISTINCT item) AS n, SUM(amount) AS a", "SUM(amount) AS a, COUNT(DISTINCT item) AS n")
    for name, conf, new_conf in (
        ("batches-on", {}, MINI), ("two-phases-on", {}, TWO), ("split-on", {}, SPLIT), ("split-off", SPLIT, {}),
        ("split", SPLIT, SPLIT), ("two-phases", TWO, TWO),
    ):  # fmt: skip
        expected = "lost" if name.startswith("split") else "kept"
        _add(kinds, f"options/{name}-turned", expected, names, both, *turned, to="shop a n p", conf=conf,
             new_conf=new_conf)  # fmt: skip
        _add(kinds, f"options/{name}-call-out", expected, names, both, ", MAX(price) AS p", "", to="shop n a",
             conf=conf, new_conf=new_conf)  # fmt: skip
    filtered = both.replace("COUNT(DISTINCT item)", "COUNT(DISTINCT item) FILTER (WHERE amount > 9)")
    _add(kinds, "options/two-phases-filter-turned", "kept", names, filtered,
         *(one.replace("item)", "item) FILTER (WHERE amount > 9)") for one in turned), to="shop a n p", conf=TWO,
         new_conf=TWO)  # fmt: skip
    buckets = {**SPLIT, "table.optimizer.distinct-agg.split.bucket-num": "16"}
    _add(kinds, "options/split-buckets", "lost", names, both, conf=SPLIT, new_conf=buckets)
    shared = "WITH x AS (SELECT shop, item, COUNT(*) AS n FROM orders GROUP BY shop, item) SELECT a.item, a.n, b.n "
    shared += "AS c FROM x a JOIN x b ON a.item = b.item AND a.shop <> b.shop"
    apart = {"table.optimizer.reuse-sub-plan-enabled": "false"}
    _add(kinds, "options/parts-apart", "lost", "item n c", shared, conf={}, new_conf=apart)
    _add(kinds, "options/parts-together", "lost", "item n c", shared, conf=apart, new_conf={})
    kinds.script, kinds.tables = orders(seed, "payments"), (ORDERS, PAYMENTS)
    joined = "SELECT o.id, o.item, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    hint = HINT.format("'o' = '1d', 'p' = '3d'")
    _add(kinds, "options/hint-of-sides-longer", "kept", "id item paid",
         joined.replace("SELECT o", f"SELECT {hint} o", 1), "'1d'", "'2d'", "'3d'", "'1d'")  # fmt: skip
    _add(kinds, "options/hint-and-column-out", "kept", "id item paid", joined, "SELECT o", f"SELECT {hint} o",
         "o.item, ", "", to="id paid")  # fmt: skip
    _add(kinds, "options/hint-gone-and-left", "kept", "id item paid", joined.replace("SELECT o", f"SELECT {hint} o", 1),
         f"{hint} ", "", " JOIN", " LEFT JOIN")  # fmt: skip
    live = {"table.exec.state.ttl": "1 d"}
    _add(kinds, "options/live-and-column-out", "kept", "id item paid", joined, "o.item, ", "", to="id paid", conf={},
         new_conf=live)  # fmt: skip
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    _add(kinds, "options/live-and-turned", "kept", names, both, *turned, to="shop a n p", conf={}, new_conf=live)
    _add(kinds, "options/live-gone-and-call-out", "kept", names, both, ", MAX(price) AS p", "", to="shop n a",
         conf=live, new_conf={})  # fmt: skip
    last = BEST.format("item, id, amount", "item", "pt DESC", "orders", "rn = 1")
    _add(kinds, "options/live-last-column-out", "kept", "item id amount", last, ", amount", "", to="item id",
         conf=live, new_conf=live)  # fmt: skip
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 4")
    _add(kinds, "options/live-top-smaller", "kept", "shop id amount", top, "<= 4", "<= 2", conf=live, new_conf=live)


def _keys_of_sinks(kinds: Kinds) -> None:
    """Add sinks whose key changes together with the query."""
    conf = {"table.exec.sink.require-on-conflict": "false"}
    text = "SELECT MAX(item) AS item, shop AS s, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop"
    _add(kinds, "sink/other-key-and-column-out", "kept", "item s n a", text, ", SUM(amount) AS a", "", to="item s n",
         conf=conf, key="item", new_key="n")  # fmt: skip
    _add(kinds, "sink/longer-key", "kept", "item s n a", text, conf=conf, key="item", new_key="item, n")
    _add(kinds, "sink/key-turned", "kept", "item s n a", text, conf=conf, key="item, n", new_key="n, item")
    _add(kinds, "sink/materializer-on-and-column-out", "kept", "item s n a", text, ", SUM(amount) AS a", "",
         to="item s n", conf=conf, key="s", new_key="item")  # fmt: skip
    _add(kinds, "sink/materializer-of-filter", "lost", "item s n a", text, "BY shop", "BY shop HAVING COUNT(*) > 2",
         conf=conf, key="item")  # fmt: skip


def _statements(kinds: Kinds, seed: int) -> None:
    """Add statement sets of which one statement changes, comes or goes, and what they share."""
    kinds.script, kinds.tables = orders(seed), (ORDERS,)
    by_shop = "SELECT shop, COUNT(*) AS n, SUM(amount) AS a FROM orders GROUP BY shop"
    by_item = by_shop.replace("shop", "item")
    best = BEST.format("shop, id, amount", "shop", "amount DESC, id", "orders", "rn <= 2")
    shop, item = "shop STRING, n BIGINT, a INT", "item STRING, n BIGINT, a INT"
    rank = "shop STRING, id BIGINT, amount INT"
    turned = by_item.replace("COUNT(*) AS n, SUM(amount) AS a", "SUM(amount) AS a, COUNT(*) AS n")

    def sets(name: str, expected: str, old: tuple[str, str], new: tuple[str, str], **more: Any) -> None:
        EXPECTED[f"statements/{name}"] = expected
        queries = [Sinks(columns, text, kinds.tables, more.get("conf", {})) for columns, text in (old, new)]
        kinds.cases[f"statements/{name}"] = Case(*queries, kinds.script, None, {"fill": "initial"})

    two = (f"{shop};{item}", f"{by_shop};{by_item}")
    sets("one-turned", "kept", two, (f"{shop};item STRING, a INT, n BIGINT", f"{by_shop};{turned}"))
    sets("swapped-and-turned", "kept", two, (f"item STRING, a INT, n BIGINT;{shop}", f"{turned};{by_shop}"))
    sets("one-in-front", "lost", two, (f"{rank};{shop};{item}", f"{best};{by_shop};{by_item}"))
    sets("first-gone", "lost", two, (item, by_item))
    sets("alike", "kept", (f"{shop};{shop}", f"{by_shop};{by_shop}"), (shop, by_shop))
    where = by_shop.replace("GROUP", "WHERE price > 5 GROUP")
    sets("one-filtered", "refused", two, (f"{shop};{item}", f"{where};{by_item}"))
    both = f"{shop};{shop}"
    sets("conditions-swapped", "kept", (both, f"{by_shop};{where}"), (both, f"{where};{by_shop}"))
    view = f"CREATE VIEW v AS {by_shop}"
    kinds.tables = (ORDERS, view)
    behind = "n BIGINT, c BIGINT", "SELECT n, COUNT(*) AS c FROM v GROUP BY n"
    plain = shop, "SELECT * FROM v"
    sets("view-read-twice", "lost", plain, (f"{shop};{behind[0]}", f"{plain[1]};{behind[1]}"))
    sets("view-read-once", "lost", (f"{shop};{behind[0]}", f"{plain[1]};{behind[1]}"), behind)
    kinds.tables = (ORDERS,)
    star = "CREATE VIEW v AS SELECT * FROM orders WHERE amount > 5"
    kinds.tables = (ORDERS, star)
    more = (ORDERS.replace("price INT", "price INT, more INT"), star)
    _add(kinds, "statements/star-view-wider", "kept", "shop n a", by_shop.replace("orders", "v"), tables=more)
    last = BEST.format("*", "item", "pt DESC", "v", "rn = 1").replace("SELECT * FROM (", "SELECT item, id FROM (", 1)
    _add(kinds, "statements/star-view-wider-last", "kept", "item id", last, tables=more)
    other = (ORDERS, star.replace("> 5", "> 8"))
    _add(kinds, "statements/view-other-condition", "refused", "shop n a", by_shop.replace("orders", "v"), tables=other)
    kinds.tables = (ORDERS,)


def _other_sources(kinds: Kinds, seed: int) -> None:
    """Add unions with another source, and joins of other tables."""
    kinds.script, kinds.tables = three(seed), (ORDERS, PAYMENTS, PAID)
    one = "SELECT shop, amount AS a FROM orders"
    two = f"{one} UNION ALL SELECT shop, paid AS a FROM payments"
    third = f"{two} UNION ALL SELECT shop, paid AS a FROM paid"
    sums = "SELECT shop, COUNT(*) AS n, SUM(a) AS a FROM ({}) GROUP BY shop"
    _add(kinds, "sources/union-of-third", "kept", "shop n a", sums.format(two), two, third)
    _add(kinds, "sources/union-without-third", "lost", "shop n a", sums.format(third), third, two)
    _add(kinds, "sources/union-table-other", "lost", "shop n a", sums.format(two), "FROM payments", "FROM paid")
    _add(kinds, "sources/union-calls-turned", "kept", "shop n a", sums.format(third), "COUNT(*) AS n, SUM(a) AS a",
         "SUM(a) AS a, COUNT(*) AS n", to="shop a n")  # fmt: skip
    joined = "SELECT o.id, p.paid FROM orders o JOIN payments p ON o.shop = p.shop"
    _add(kinds, "sources/join-table-other", "lost", "id paid", joined, "JOIN payments", "JOIN paid")
    _add(kinds, "sources/join-more", "lost", "id paid", joined, "= p.shop", "= p.shop JOIN paid q ON q.shop = p.shop")
    semi = "SELECT id, amount FROM orders o WHERE EXISTS (SELECT * FROM payments p WHERE p.shop = o.shop{})"
    _add(kinds, "sources/semi-second-key", "lost", "id amount", semi.format(""), "= o.shop)",
         "= o.shop AND p.paid = o.price)")  # fmt: skip
    _add(kinds, "sources/semi-table-other", "lost", "id amount", semi.format(""), "FROM payments", "FROM paid")
    twice = semi.format("") + " AND NOT EXISTS (SELECT * FROM paid q WHERE q.shop = o.shop AND q.paid = o.amount)"
    _add(kinds, "sources/anti-added", "lost", "id amount", semi.format(""), semi.format(""), twice)
    average = "SELECT id, amount FROM orders WHERE amount > (SELECT {}(paid) FROM payments)"
    _add(kinds, "sources/scalar-other", "lost", "id amount", average.format("AVG"), "AVG", "MAX")
    _add(kinds, "sources/scalar-column", "kept", "id amount", average.format("AVG"), "id, amount", "id + 1, amount")
    distinct = two.replace("UNION ALL", "UNION")
    _add(kinds, "sources/union-distinct-third", "kept", "shop a", distinct, distinct,
         third.replace("UNION ALL", "UNION"))  # fmt: skip


def _normalized(kinds: Kinds, seed: int) -> None:
    """Add tables whose changes come without the row of before, and changelogs."""
    rows = [("newest", "-D" if kind == "-D" else "+U", row) for _, kind, row in changes(seed) if kind != "-U"]
    last = {"id": 99, "shop": "shop 1", "item": "item 1"}
    rest = [("newest", "+U", {**last, "amount": number}) for number in range(64 - len(rows))]
    kinds.script, kinds.tables = [*rows[:30], *rest, *rows[30:]], (NEWEST,)
    text = "SELECT id, item, amount FROM newest"
    _add(kinds, "normalized/column-out", "kept", "id item amount", text, "item, ", "", to="id amount")
    _add(kinds, "normalized/column-more", "lost", "id item amount", text, "amount FROM", "amount, shop FROM",
         to="id item amount shop")  # fmt: skip
    where = f"{text} WHERE amount > 3"
    _add(kinds, "normalized/condition", "refused", "id item amount", text, text, where)
    _add(kinds, "normalized/condition-of-key", "refused", "id item amount", text, "FROM newest",
         "FROM newest WHERE id > 3")  # fmt: skip
    _add(kinds, "normalized/condition-other", "refused", "id item amount", where, "> 3", "> 5")
    sums = "SELECT shop, COUNT(*) AS n, SUM(amount) AS a, MAX(amount) AS p FROM newest GROUP BY shop"
    _add(kinds, "normalized/calls-turned", "kept", "shop n a p", sums, "SUM(amount) AS a, MAX(amount) AS p",
         "MAX(amount) AS p, SUM(amount) AS a", to="shop n p a")  # fmt: skip
    _add(kinds, "normalized/grouped-by-other", "lost", "shop n a p", sums, "SELECT shop", "SELECT item", "BY shop",
         "BY item")  # fmt: skip
    _add(kinds, "normalized/call-added", "kept", "shop n a p", sums, "AS p", "AS p, MIN(amount) AS f",
         to="shop n a p f")  # fmt: skip
    _add(kinds, "normalized/batches", "kept", "shop n a p", sums, conf={}, new_conf=MINI)
    top = BEST.format("shop, id, amount", "shop", "amount DESC, id", "newest", "rn <= 2")
    _add(kinds, "normalized/top-larger", "kept", "shop id amount", top, "<= 2", "<= 3")
    _add(kinds, "normalized/top-partition", "lost", "shop id amount", top, "BY shop", "BY item")
    changed = (NEWEST.replace("'upsert'", "'retract'"),)
    _add(kinds, "normalized/no-more", "refused", "shop n a p", sums, tables=changed)
    kinds.script, kinds.tables = changes(seed), (CHANGED,)
    calls = "SELECT shop, {} FROM changed GROUP BY shop"
    live, least = {"table.exec.state.ttl": "1 d"}, calls.format("MIN(amount) AS f")
    for name, conf, new_conf in (("", live, live), ("-begins", {}, live), ("-ends", live, {})):
        _add(kinds, f"changed/live{name}-other-end", "kept", "shop f", least, "MIN", "MAX", conf=conf,
             new_conf=new_conf)  # fmt: skip
        _add(kinds, f"changed/live{name}-both-ends", "kept", "shop f", least, "AS f", "AS f, MAX(amount) AS a",
             to="shop f a", conf=conf, new_conf=new_conf)  # fmt: skip
    for name, expected, columns, old, new, to in (
        ("list-turned", "kept", "s n", "LISTAGG(item) AS s, COUNT(*) AS n", "COUNT(*) AS n, LISTAGG(item) AS s", "n s"),
        ("array-turned", "refused", "list n", "ARRAY_AGG(amount) AS list, COUNT(*) AS n",
         "COUNT(*) AS n, ARRAY_AGG(amount) AS list", "n list"),
        ("first-turned", "kept", "f a", "FIRST_VALUE(amount) AS f, MAX(amount) AS a",
         "MAX(amount) AS a, FIRST_VALUE(amount) AS f", "a f"),
        ("two-maxima-turned", "kept", "f big", "MAX(amount) AS f, MAX(id) AS big", "MAX(id) AS big, MAX(amount) AS f",
         "big f"),
        ("filters-crossed", "kept", "n c",
         "COUNT(*) FILTER (WHERE amount > 4) AS n, COUNT(*) FILTER (WHERE amount < 3) AS c",
         "COUNT(*) FILTER (WHERE amount < 3) AS n, COUNT(*) FILTER (WHERE amount > 4) AS c", "n c"),
        ("distinct-filter", "refused", "n", "COUNT(DISTINCT item) AS n",
         "COUNT(DISTINCT item) FILTER (WHERE amount > 4) AS n", "n"),
        ("average-to-sum", "kept", "a", "AVG(amount) AS a", "SUM(amount) AS a", "a"),
    ):  # fmt: skip
        one, other = calls.format(old), calls.format(new)
        _add(kinds, f"changed/{name}", expected, f"shop {columns}", one, one, other, to=f"shop {to}")


if __name__ == "__main__":
    sys.exit(main(every_case, EXPECTED))
