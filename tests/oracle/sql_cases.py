"""Savepoints of SQL jobs, one for each kind of plan node and each of its cases: the data set `sql` of `tests/data`.

    python -m tests.oracle.sql_cases                               # all cases, and the archive
    python -m tests.oracle.sql_cases --out FOLDER --cases limit    # cases whose names begin so, into a folder

`oracle.SqlCases` runs the queries over 60 orders and 12 rates, which follow from their numbers, and takes a savepoint
when all are through. Sinks keep every row that they get, with its kind, in operator state.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.data import pack
from tests.oracle import flink

VERSIONS = ("1.20.5", "2.3.0")
#: Flink 2.3 refuses a sink whose rows have another key, unless the statement says what happens then.
NOT_IN_2_3 = ("lookup-join-with-try-resolve", "sink-upsert")
ORDERS, RATES, BOTH = ["orders"], ["rates"], ["orders", "rates"]
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "300 ms",
    "table.exec.mini-batch.size": "7",
}
TWO_PHASES = {"table.optimizer.agg-phase-strategy": "TWO_PHASE"}
SPLIT = {**TWO_PHASES, "table.optimizer.distinct-agg.split.enabled": "true"}
LOOKUP = ("CREATE TABLE kept.shop.names (number INT, name STRING) WITH ('connector' = 'kept')",)
VERSIONED = (
    "CREATE TEMPORARY VIEW versions AS SELECT rk, rate, rts FROM (SELECT *, ROW_NUMBER() OVER"
    " (PARTITION BY rk ORDER BY rts DESC) AS r FROM rates) WHERE r = 1"
)

Case = dict[str, Any]


def case(query: str, tables: list[str] = ORDERS, **more: Any) -> Case:
    """A query over tables whose rows are kept, or whatever `more` says."""
    return {"query": query, "tables": tables, **more}


def statements(*inserts: str, setup: tuple[str, ...], tables: list[str] = ORDERS, **more: Any) -> Case:
    """Statements of their own."""
    return {"inserts": inserts, "setup": setup, "tables": tables, **more}


def over(frame: str, partition: str = "PARTITION BY k ", functions: str = "SUM(v) OVER w, COUNT(*) OVER w") -> Case:
    """Aggregates over windows of rows."""
    return case(f"SELECT id, k, {functions} FROM orders WINDOW w AS ({partition}ORDER BY ts{frame})")


def windows(kind: str, size: str, by: str = "item, ", time: str = "ts", source: str = "TABLE orders") -> str:
    """Aggregates over windows of time."""
    shown = "" if time == "pt" else "window_start, window_end, "
    return (
        f"SELECT {by}{shown}COUNT(*) AS n, SUM(v) AS s, COUNT(DISTINCT k) AS d FROM TABLE({kind}({source},"
        f" DESCRIPTOR({time}), {size})) GROUP BY {by}window_start, window_end"
    )


def rank(kind: str, size: str, order: str) -> str:
    """The first rows of each window."""
    return (
        "SELECT window_start, item, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end"
        f" ORDER BY price {order}) AS r FROM TABLE({kind}(TABLE orders, DESCRIPTOR(ts), {size}))) WHERE r <= 3"
    )


def rank_of_aggregates(order: str) -> str:
    """The first groups of each window."""
    return (
        "SELECT window_start, k, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end"
        f" ORDER BY total {order}) AS r FROM (SELECT k, window_start, window_end, SUM(price) AS total FROM"
        " TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY k, window_start, window_end))"
        " WHERE r <= 2"
    )


def window_function(kind: str, size: str, time: str = "ts") -> str:
    """Rows with the windows that they are in."""
    return (
        f"SELECT id, window_start, window_end, window_time FROM TABLE({kind}(TABLE orders, DESCRIPTOR({time}), {size}))"
    )


def total(kind: str, size: str, time: str = "ts") -> str:
    """One sum a window, of all rows."""
    return (
        f"SELECT SUM(price) AS total FROM TABLE({kind}(TABLE orders, DESCRIPTOR({time}), {size}))"
        " GROUP BY window_start, window_end"
    )


def lookup(condition: str = "", join: str = "JOIN", columns: str = "o.id, o.v, n.name") -> Case:
    """A join with a table that answers requests."""
    return case(
        f"SELECT {columns} FROM orders AS o {join} kept.shop.names FOR SYSTEM_TIME AS OF o.pt AS n"
        f" ON CAST(o.id AS INT) = n.number{condition}",
        setup=LOOKUP,
    )


def deduplicate(order: str, time: str = "ts") -> Case:
    """The first or the last row of each key."""
    return case(
        "SELECT id, k, item FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY"
        f" {time} {order}) AS r FROM orders) WHERE r = 1"
    )


def temporal(left: str, key: str = "o.k") -> Case:
    """A join with the version of a row at a time."""
    return case(
        f"SELECT o.id, r.rate FROM {left} AS o JOIN versions FOR SYSTEM_TIME AS OF o.ts AS r ON {key} = r.rk",
        BOTH,
        setup=(VERSIONED,),
    )


def aggregates(functions: str, **more: Any) -> Case:
    """Aggregates of each key."""
    return case(f"SELECT k, {functions} FROM orders GROUP BY k", **more)


def sink(columns: str, query: str, options: str = "", into: str = "", **more: Any) -> Case:
    """A sink with properties of its own."""
    create = f"CREATE TABLE kept.shop.sink ({columns}) {more.pop('by', '')} WITH ('connector' = 'kept'{options})"
    return statements(f"{more.pop('how', 'INSERT INTO')} kept.shop.sink {into} {query}", setup=(create,), **more)


def files(columns: str, query: str, table: str = "", partitioned: str = "") -> Case:
    """Rows of files, which a source looks for again and again."""
    create = (
        f"CREATE TEMPORARY TABLE files (id INT, name STRING, size BIGINT{columns}) {partitioned} WITH ('connector' ="
        " 'filesystem', 'format' = 'csv', 'path' = 'FILES', 'source.monitor-interval' = '1 s')"
    )
    return case(query, [], setup=(create,), pause=2500, files=table or "plain")


SIMPLE = "COUNT(*), SUM(v), AVG(v), MAX(price), MIN(item)"
DISTINCT = "COUNT(DISTINCT v), SUM(DISTINCT v), COUNT(DISTINCT item), COUNT(*)"
MINUTES = "INTERVAL '1' MINUTE"
HOPS = "INTERVAL '1' MINUTE, INTERVAL '3' MINUTE"

CASES: dict[str, Case] = {
    "async-calc-waiting": case("SELECT id, asked(id * 10 + 3) AS a FROM orders WHERE id < 5"),
    "calc-simple": case("SELECT id + 1 AS a, price / 2 AS b FROM orders"),
    "calc-filter": case("SELECT id, v, item FROM orders WHERE v > 5"),
    "calc-sarg": case("SELECT v FROM orders WHERE v = 1 OR v = 4 OR v IS NULL"),
    "calc-udf-simple": case("SELECT id, doubled(id) AS d FROM orders"),
    "calc-udf-complex": case("SELECT id, joined(k, v) AS a, doubled(id) AS b, joined(item, 3) AS c, ts FROM orders"),
    "calc-filter-pushdown": files("", "SELECT id, size FROM files WHERE size > 20"),
    "calc-project-pushdown": files("", "SELECT size, name FROM files"),
    "correlate-catalog-func": statements(
        "INSERT INTO kept.shop.sink SELECT k, part FROM orders, LATERAL TABLE(kept.shop.cut(item))",
        setup=(
            "CREATE FUNCTION kept.shop.cut AS 'oracle.Functions$Parts'",
            "CREATE TABLE kept.shop.sink (k STRING, part STRING) WITH ('connector' = 'kept')",
        ),
    ),
    "correlate-system-func": case("SELECT k, part FROM orders, LATERAL TABLE(parts(item))"),
    "correlate-join-filter": case("SELECT k, part FROM orders, LATERAL TABLE(parts(item)) WHERE size > 4"),
    "correlate-left-join": case("SELECT k, part FROM orders LEFT JOIN LATERAL TABLE(parts(item)) ON TRUE"),
    "correlate-cross-join-unnest": case("SELECT k, x FROM orders CROSS JOIN UNNEST(ARRAY[item, k]) AS u (x)"),
    "deduplicate-asc": deduplicate("ASC"),
    "deduplicate-desc": deduplicate("DESC"),
    "deduplicate-asc-proctime": deduplicate("ASC", "pt"),
    "deduplicate-desc-proctime": deduplicate("DESC", "pt"),
    "expand": aggregates(
        "COUNT(DISTINCT v), FIRST_VALUE(item)",
        conf={**MINI_BATCH, **SPLIT, "table.optimizer.incremental-agg-enabled": "false"},
    ),
    "incremental-aggregate": aggregates("COUNT(DISTINCT v), SUM(v)", conf={**MINI_BATCH, **SPLIT}),
    "expand-one-phase": aggregates(
        "COUNT(DISTINCT v), FIRST_VALUE(item)",
        conf={
            "table.optimizer.distinct-agg.split.enabled": "true",
            **MINI_BATCH,
            "table.optimizer.agg-phase-strategy": "ONE_PHASE",
        },
    ),
    "group-aggregate-simple": aggregates(SIMPLE),
    "group-aggregate-simple-mini-batch": aggregates(SIMPLE, conf=MINI_BATCH),
    "group-aggregate-two-phases": aggregates(SIMPLE, conf={**MINI_BATCH, **TWO_PHASES}),
    "group-aggregate-distinct": aggregates(DISTINCT),
    "group-aggregate-distinct-mini-batch": aggregates(DISTINCT, conf=MINI_BATCH),
    "group-aggregate-udf-with-merge": aggregates("texts(item), COUNT(*)"),
    "group-aggregate-udf-with-merge-mini-batch": aggregates("texts(item), COUNT(*)", conf=MINI_BATCH),
    "group-aggregate-udf-without-merge": aggregates("average(v), SUM(v)"),
    "group-aggregate-udf-without-merge-mini-batch": aggregates("average(v), SUM(v)", conf=MINI_BATCH),
    "group-aggregate-without-keys": case("SELECT COUNT(*), LISTAGG(k), STDDEV_POP(v) FROM orders"),
    "group-aggregate-of-changes": case(
        "SELECT n, COUNT(*), MAX(m) FROM (SELECT k, COUNT(*) AS n, MAX(id) AS m FROM orders GROUP BY k) GROUP BY n"
    ),
    "agg-with-state-ttl-hint": case(f"SELECT /*+ STATE_TTL('orders' = '8h') */ k, {SIMPLE} FROM orders GROUP BY k"),
    "limit": case("SELECT id, k, v FROM orders LIMIT 3"),
    "sort-limit-asc": case("SELECT id, k, v FROM orders ORDER BY id LIMIT 3"),
    "sort-limit-desc": case("SELECT id, k, v FROM orders ORDER BY id DESC LIMIT 3"),
    "sort-by-time": case("SELECT id, k FROM orders ORDER BY ts, id"),
    "rank-append": case(
        "SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM orders)"
        " WHERE r <= 2"
    ),
    "rank-with-number": case(
        "SELECT k, id, v, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM orders)"
        " WHERE r <= 2"
    ),
    "rank-updates": case(
        "SELECT k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM (SELECT k, v,"
        " COUNT(*) AS n FROM orders GROUP BY k, v)) WHERE r <= 2"
    ),
    "rank-retractions": case(
        "SELECT k, v, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s) AS r FROM (SELECT k, v,"
        " SUM(id) AS s FROM orders GROUP BY k, v)) WHERE r <= 2"
    ),
    "join-inner": case("SELECT o.id, r.rate FROM orders o JOIN rates r ON o.k = r.rk", BOTH),
    "join-left": case("SELECT o.id, r.rate FROM orders o LEFT JOIN rates r ON o.v = r.rate", BOTH),
    "join-full": case("SELECT o.id, r.rate FROM orders o FULL JOIN rates r ON o.v = r.rate", BOTH),
    "join-semi": case("SELECT id FROM orders WHERE k IN (SELECT rk FROM rates WHERE rate > 50)", BOTH),
    "join-anti": case("SELECT id FROM orders o WHERE NOT EXISTS (SELECT * FROM rates r WHERE r.rate = o.v)", BOTH),
    "interval-join": case(
        "SELECT o.id, r.rate FROM orders o JOIN rates r ON o.k = r.rk AND o.ts BETWEEN r.rts - INTERVAL '1' MINUTE AND"
        " r.rts + INTERVAL '1' MINUTE",
        BOTH,
    ),
    "interval-join-outer": case(
        "SELECT o.id, r.rate FROM orders o LEFT JOIN rates r ON o.k = r.rk AND o.ts BETWEEN r.rts AND"
        " r.rts + INTERVAL '5' SECOND",
        BOTH,
    ),
    "lookup-join-inner": lookup(),
    "lookup-join-left-join": lookup(join="LEFT JOIN"),
    "lookup-join-filter-pushdown": lookup(" AND n.name = 'name 7'"),
    "lookup-join-pre-filter": lookup(" AND o.v > 5", "LEFT JOIN"),
    "lookup-join-post-filter": lookup(" AND CHAR_LENGTH(n.name) > 6", "LEFT JOIN"),
    "lookup-join-pre-post-filter": lookup(" AND o.v > 5 AND CHAR_LENGTH(n.name) > 6", "LEFT JOIN"),
    "lookup-join-project-pushdown": lookup(columns="o.id, n.number"),
    "lookup-join-with-try-resolve": sink(
        "id INT PRIMARY KEY NOT ENFORCED, name STRING, n BIGINT",
        "SELECT o.m, n.name, o.n FROM (SELECT CAST(MAX(id) AS INT) AS m, COUNT(*) AS n, PROCTIME() AS pt FROM orders"
        " GROUP BY k) AS o JOIN kept.shop.names FOR SYSTEM_TIME AS OF o.pt AS n ON o.m = n.number",
        ", 'changes' = 'upsert'",
        conf={"table.optimizer.non-deterministic-update.strategy": "TRY_RESOLVE"},
        before=LOOKUP,
    ),
    "mini-batch-assigner-proc-time": aggregates("COUNT(DISTINCT v)", conf=MINI_BATCH),
    "mini-batch-assigner-row-time": case(
        "SELECT l.window_start, l.id, r.rate FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL"
        " '1' HOUR))) l JOIN (SELECT * FROM TABLE(TUMBLE(TABLE rates, DESCRIPTOR(rts), INTERVAL '1' HOUR))) r ON l.k ="
        " r.rk AND l.window_start = r.window_start AND l.window_end = r.window_end",
        BOTH,
        conf=MINI_BATCH,
    ),
    "over-aggregate-bounded-non-partitioned-rows": over(" ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", ""),
    "over-aggregate-bounded-partitioned-rows": over(" ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
    "over-aggregate-bounded-partitioned-preceding-rows": over(" ROWS BETWEEN 5 PRECEDING AND CURRENT ROW"),
    "over-aggregate-unbounded-partitioned-rows": over(" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    "over-aggregate-bounded-range": over(" RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW"),
    "over-aggregate-unbounded-range": over(" RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    "over-aggregate-proctime": case(
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY pt ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s FROM orders"
    ),
    "over-aggregate-lag": over("", functions="LAG(v, 1) OVER w, LAG(item, 2, 'none') OVER w"),
    "over-aggregate-udf": over(
        " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", functions="average(v) OVER w, FIRST_VALUE(item) OVER w"
    ),
    "sink-bucketing_hash-with-keys-with-count": sink(
        "id BIGINT, k STRING", "SELECT id, k FROM orders", by="DISTRIBUTED BY HASH(id) INTO 3 BUCKETS"
    ),
    "sink-bucketing_range_with_keys_without_count": sink(
        "id BIGINT, k STRING", "SELECT id, k FROM orders", by="DISTRIBUTED BY RANGE(id)"
    ),
    "sink-bucketing_with-count": sink(
        "id BIGINT, k STRING", "SELECT id, k FROM orders", by="DISTRIBUTED INTO 3 BUCKETS"
    ),
    "sink-bucketing_with-keys-and-count": sink(
        "id BIGINT, k STRING", "SELECT id, k FROM orders", by="DISTRIBUTED BY (id) INTO 3 BUCKETS"
    ),
    "sink-ndf-primary-key": sink(
        "id BIGINT, k STRING, PRIMARY KEY (k) NOT ENFORCED", "SELECT MAX(id), k FROM orders GROUP BY k"
    ),
    "sink-upsert": sink(
        "k STRING, m BIGINT, v INT, PRIMARY KEY (v) NOT ENFORCED",
        "SELECT k, MAX(id), COALESCE(v, -1) FROM orders GROUP BY k, COALESCE(v, -1)",
        ", 'changes' = 'upsert'",
    ),
    "sink-overwrite": sink("id BIGINT, k STRING", "SELECT id, k FROM orders", how="INSERT INTO"),
    "sink-partial-insert": sink(
        "id BIGINT, k STRING, price DECIMAL(10, 2), x DOUBLE", "SELECT id, k FROM orders", into="(id, k)"
    ),
    "sink-partition": sink(
        "id BIGINT, v INT, k STRING",
        "SELECT id, v FROM orders",
        into="PARTITION (k = 'static')",
        by="PARTITIONED BY (k)",
    ),
    "sink-writing-metadata": sink("id BIGINT, note STRING METADATA", "SELECT id, item FROM orders"),
    "sink-files": statements(
        "INSERT INTO out_files SELECT id, k FROM orders",
        setup=(
            "CREATE TEMPORARY TABLE out_files (id BIGINT, k STRING) PARTITIONED BY (k) WITH ('connector' ="
            " 'filesystem', 'format' = 'csv', 'path' = 'FILES', 'auto-compaction' = 'false')",
        ),
        files="out",
    ),
    "table-source-scan-filter-pushdown": files("", "SELECT * FROM files WHERE id > 3"),
    "table-source-scan-limit-pushdown": files("", "SELECT * FROM files LIMIT 2"),
    "table-source-scan-multiple-pushdowns": files("", "SELECT id FROM files WHERE size > 10 LIMIT 4"),
    "table-source-scan-partition-pushdown": files(
        ", p STRING", "SELECT * FROM files WHERE p = 'b'", "partitioned", "PARTITIONED BY (p)"
    ),
    "table-source-scan-project-pushdown": files("", "SELECT id, name FROM files"),
    "table-source-scan-reading-metadata": files(
        ", path STRING NOT NULL METADATA FROM 'file.path', made TIMESTAMP_LTZ(3) NOT NULL METADATA FROM"
        " 'file.modification-time'",
        "SELECT id, REGEXP_REPLACE(path, '.*/', '') AS name, made > TO_TIMESTAMP_LTZ(0, 3) AS ok FROM files",
    ),
    "table-source-scan-reuse-source": files("", "SELECT a.id, b.name FROM files AS a JOIN files AS b ON a.id = b.id"),
    "temporal-join-table-join": temporal("orders"),
    "temporal-join-table-join-key-from-map": temporal(
        "(SELECT *, REPLACE(tags['shop'], 's', 'k') AS t FROM orders)", "o.t"
    ),
    "temporal-join-table-join-nested-key": temporal(
        "(SELECT *, REPLACE(orders.deep.t, 'nested', 'k') AS t FROM orders)", "o.t"
    ),
    "temporal-join-temporal-function": case(
        "SELECT o.id, r.rate FROM orders AS o, LATERAL TABLE(rates_at(o.ts)) AS r WHERE o.k = r.rk", BOTH
    ),
    "temporal-join-proctime": case(
        "SELECT o.id, n.name FROM orders AS o LEFT JOIN kept.shop.names FOR SYSTEM_TIME AS OF o.pt AS n"
        " ON o.v = n.number",
        setup=LOOKUP,
    ),
    "union-all-two-sources": case(
        "SELECT id, v FROM orders UNION ALL SELECT CAST(rate AS BIGINT), rate FROM rates", BOTH
    ),
    "union-all-with-filter": case(
        "SELECT * FROM (SELECT id, v FROM orders UNION ALL SELECT CAST(rate AS BIGINT), rate FROM rates) WHERE v > 3",
        BOTH,
    ),
    "union-two-sources": case("SELECT id, v FROM orders UNION SELECT CAST(rate AS BIGINT), rate FROM rates", BOTH),
    "intersect": case("SELECT v FROM orders INTERSECT SELECT rate FROM rates", BOTH),
    "except": case("SELECT v FROM orders EXCEPT SELECT rate FROM rates", BOTH),
    "watermark-assigner-basic-filter": case("SELECT id, v, ts FROM orders WHERE v = 3"),
    "watermark-assigner-emitted": case("SELECT id, CURRENT_WATERMARK(ts) AS w FROM orders"),
    "window-aggregate-tumble-event-time": case(windows("TUMBLE", MINUTES)),
    "window-aggregate-tumble-event-time-two-phase-with-offset": case(
        windows("TUMBLE", "INTERVAL '1' HOUR, INTERVAL '6' MINUTE"), conf=TWO_PHASES
    ),
    "window-aggregate-tumble-proc-time": case(windows("TUMBLE", "INTERVAL '30' DAY", time="pt")),
    "window-aggregate-hop-event-time": case(windows("HOP", HOPS)),
    "window-aggregate-hop-event-time-two-phase": case(windows("HOP", HOPS), conf=TWO_PHASES),
    "window-aggregate-hop-event-time-with-offset": case(windows("HOP", HOPS + ", INTERVAL '10' SECOND")),
    "window-aggregate-cumulate-event-time": case(windows("CUMULATE", HOPS)),
    "window-aggregate-cumulate-event-time-two-phase-with-offset": case(
        windows("CUMULATE", HOPS + ", INTERVAL '10' SECOND"), conf=TWO_PHASES
    ),
    "window-aggregate-cumulate-event-time-two-phase-distinct-split": case(windows("CUMULATE", HOPS), conf=SPLIT),
    "window-aggregate-session-event-time": case(windows("SESSION", "INTERVAL '5' SECOND")),
    "window-aggregate-session-partition-event-time": case(
        windows("SESSION", "INTERVAL '2' MINUTE", source="TABLE orders PARTITION BY item")
    ),
    "window-aggregate-session-partition-event-time-two-phase": case(
        windows("SESSION", "INTERVAL '2' MINUTE", source="TABLE orders PARTITION BY item"), conf=TWO_PHASES
    ),
    "group-window-aggregate-tumble": case(
        "SELECT k, TUMBLE_START(ts, INTERVAL '1' HOUR), SUM(v) FROM orders GROUP BY k, TUMBLE(ts, INTERVAL '1' HOUR)"
    ),
    "group-window-aggregate-session": case(
        "SELECT k, SESSION_START(ts, INTERVAL '9' MINUTE), SUM(v) FROM orders"
        " GROUP BY k, SESSION(ts, INTERVAL '9' MINUTE)"
    ),
    "window-rank-tumble-tvf-min-top-n": case(rank("TUMBLE", "INTERVAL '5' MINUTE", "ASC")),
    "window-rank-tumble-tvf-max-top-n": case(rank("TUMBLE", "INTERVAL '5' MINUTE", "DESC")),
    "window-rank-hop-tvf-min-top-n": case(rank("HOP", HOPS, "ASC")),
    "window-rank-cumulate-tvf-min-top-n": case(rank("CUMULATE", HOPS, "ASC")),
    "window-rank-tumble-tvf-agg-min-top-n": case(rank_of_aggregates("ASC")),
    "window-rank-tumble-tvf-agg-max-top-n": case(rank_of_aggregates("DESC")),
    "window-deduplicate": case(
        "SELECT k, id, window_start FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER"
        " BY ts DESC) AS r FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))) WHERE r = 1"
    ),
    "window-table-function-tumble-tvf": case(window_function("TUMBLE", MINUTES)),
    "window-table-function-tumble-tvf-positive-offset": case(
        window_function("TUMBLE", MINUTES + ", INTERVAL '6' SECOND")
    ),
    "window-table-function-tumble-tvf-negative-offset": case(
        window_function("TUMBLE", MINUTES + ", INTERVAL '-6' SECOND")
    ),
    "window-table-function-tumble-tvf-agg": case(total("TUMBLE", MINUTES)),
    "window-table-function-tumble-tvf-agg-proc-time": case(total("TUMBLE", "INTERVAL '30' DAY", "pt")),
    "window-table-function-hop-tvf": case(window_function("HOP", HOPS)),
    "window-table-function-hop-tvf-agg": case(total("HOP", HOPS)),
    "window-table-function-hop-tvf-agg-proc-time": case(total("HOP", "INTERVAL '10' DAY, INTERVAL '30' DAY", "pt")),
    "window-table-function-cumulate-tvf": case(window_function("CUMULATE", HOPS)),
    "window-table-function-cumulate-tvf-agg": case(total("CUMULATE", HOPS)),
    "window-table-function-cumulate-tvf-agg-proc-time": case(
        total("CUMULATE", "INTERVAL '10' DAY, INTERVAL '30' DAY", "pt")
    ),
    "match-recognize": case(
        "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(f.v) AS a, g.v AS b"
        " AFTER MATCH SKIP PAST LAST ROW PATTERN (f+ g) DEFINE f AS f.v < 9, g AS g.v > 9)"
    ),
    "changelog-normalize": case(
        "SELECT rk, rate FROM changes",
        RATES,
        setup=("CREATE TEMPORARY VIEW changes AS SELECT rk, SUM(rate) AS rate FROM rates GROUP BY rk",),
    ),
    "drop-update-before": sink(
        "k STRING PRIMARY KEY NOT ENFORCED, n BIGINT",
        "SELECT k, COUNT(*) FROM orders GROUP BY k",
        ", 'changes' = 'upsert'",
    ),
}


def jobs(prefixes: list[str], out: Path) -> Iterator[Case]:
    """The lines for `oracle.SqlCases`, with files where a case reads some."""
    for name, told in CASES.items():
        if prefixes and not name.startswith(tuple(prefixes)):
            continue
        job = {"name": name, "conf": {}, **told}
        job["setup"] = [*job.pop("before", ()), *job.get("setup", ())]
        if "files" in job:
            folder = out / "files" / (f"out-{name}" if job["files"] == "out" else job["files"])
            lay_files(folder, job["files"])
            job["setup"] = [each.replace("'FILES'", f"'{folder.as_uri()}'") for each in job["setup"]]
        yield job


def lay_files(folder: Path, kind: str) -> None:
    """Three files of five rows each; in partitions, one a partition."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, partition in enumerate("abc"):
        part = folder / f"p={partition}" if kind == "partitioned" else folder
        part.mkdir(exist_ok=True)
        if kind != "out":
            rows = (f"{n},name {n},{n * n}\n" for n in range(5 * number, 5 * number + 5))
            (part / f"part-{partition}.csv").write_text("".join(rows))


def write(version: str, prefixes: list[str], out: Path) -> None:
    """Have a release run the cases; each savepoint becomes `NAME-VERSION`."""
    scratch = out / "scratch"
    scratch.mkdir(parents=True)
    all_jobs = [job for job in jobs(prefixes, scratch) if version < "2.3" or job["name"] not in NOT_IN_2_3]
    given = "".join(
        json.dumps({name: each for name, each in job.items() if name != "files"}) + "\n" for job in all_jobs
    )
    arguments = [f"--out={scratch}", "--parallelism=8", "--conf=state.backend.type=hashmap"]
    arguments += [f"--conf={key}={value}" for key, value in flink.PATIENCE.items()]
    answers = flink.run(version, "oracle.SqlCases", arguments, given=given, timeout=1500, sql=True).splitlines()
    for job, line in zip(all_jobs, answers, strict=True):
        answer = json.loads(line)
        if "error" in answer:
            print(f"{version} {job['name']}: {answer['error'][:600]}", file=sys.stderr, flush=True)
        else:
            Path(answer["savepoint"]).rename(out / f"{job['name']}-{'.'.join(version.split('.')[:2])}")
    shutil.rmtree(scratch)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.sql_cases")
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--out", type=Path, help="keep the savepoints here, and make no archive")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = told.out or Path(scratch)
        for version in told.versions:
            write(version, told.cases, out)
        if told.out is None:
            print(pack("sql", out))


if __name__ == "__main__":
    main()
