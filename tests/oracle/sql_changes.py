"""SQL jobs whose query changes: what real Flink writes with the old query, restores with the new one, and emits.

    python -m tests.oracle.sql_changes 1.20.5 [CASE ...]       # records the cases anew, to build/data/sql-changes

A case has tables, the old query (OLD), the new one (NEW), and a script of numbered changes of the tables. OLD plays the
first :data:`BEFORE` of them, and a savepoint is taken; NEW is restored from what the savepoint becomes, and plays the
rest. What it emits must be what NEW emits of the rest where it played all of it from the beginning; of a case that
fills what is added, what the query ``truth`` emits, which counts what came after the savepoint alone.

Recorded are both compiled plans, the savepoint ``before``, that of NEW at the same number (``golden``, without
``truth``), and in ``case.json`` the rows that NEW must emit, and what a user gives the verb.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.flink import BACKENDS, PATIENCE, FlinkError, command_line

#: How many changes are played before the savepoint, and in all.
BEFORE, ALL = 40, 64
#: Seconds that a job has. The JVM itself gives up after 90 without progress, which a busy machine makes longer.
TIME_LIMIT = 300.0
RECORDED = Path("build", "data", "sql-changes")
Script = Sequence[tuple[str, str, Mapping[str, Any]]]


def table(name: str, columns: str, changes: str = "insert", key: str = "") -> str:
    """The statement that creates a table of the connector ``replay``."""
    primary = f", PRIMARY KEY ({key}) NOT ENFORCED" if key else ""
    return f"CREATE TABLE {name} ({columns}{primary}) WITH ('connector' = 'replay', 'changes' = '{changes}')"


ORDERS = table(
    "orders",
    "id BIGINT, shop STRING, item STRING, price INT, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, "
    "pt AS PROCTIME()",
)
WIDE_ORDERS = ORDERS.replace("price INT", "price BIGINT")
PAYMENTS = table("payments", "shop STRING, paid INT")


AGGREGATE = re.compile(r"(?P<call>[A-Z_]+\(.*?\))(?: FILTER \(WHERE (?P<condition>.*)\))? AS \w+")


def from_now_on(old: str, new: str) -> str | None:
    """Return the calls of NEW where those that OLD does not have count what comes after the savepoint alone.

    None if one of them is no plain call of an aggregate.
    """
    known = {call.rpartition(" AS ")[0] for call in split_calls(old)}
    found = []
    for call in split_calls(new):
        said, _, name = call.rpartition(" AS ")
        match = AGGREGATE.fullmatch(call)
        if said not in known:
            if match is None or not said.startswith(("COUNT(", "SUM(", "AVG(", "MIN(", "MAX(", "FIRST_", "LAST_")):
                return None
            only = f"id >= {BEFORE}" + (f" AND {match['condition']}" if match["condition"] else "")
            said = f"{match['call']} FILTER (WHERE {only})"
        found.append(f"{said} AS {name}")
    return ", ".join(found)


def split_calls(calls: str) -> list[str]:
    """Return calls one by one: those end with `` AS name``."""
    found = [""]
    for part in calls.split(", "):
        found[-1] += f", {part}" if found[-1] else part
        if found[-1].count("(") == found[-1].count(")") and part.split()[-2:-1] == ["AS"]:
            found.append("")
    return found[:-1]


def moment(number: int) -> str:
    """Ten seconds after one another."""
    return f"2026-03-01T00:{number // 6:02}:{number % 6 * 10:02}"


def orders() -> Script:
    """Orders of three shops; some prices are NULL."""
    return [
        (
            "orders",
            "+I",
            {
                "id": n,
                "shop": f"shop {n % 3}",
                "item": f"item {n % 5}",
                "price": None if n % 9 == 4 else n * 7 % 20,
                "amount": n * n % 47,
                "ts": moment(n),
            },
        )
        for n in range(ALL)
    ]


def with_payments() -> Script:
    """Orders, and a payment after every three."""
    return [
        ("payments", "+I", {"shop": f"shop {n // 4 % 4}", "paid": n % 7}) if n % 4 == 3 else change
        for n, change in enumerate(orders())
    ]


@dataclass(frozen=True)
class Query:
    """A query with the columns of its sink, over these tables."""

    columns: str
    text: str
    tables: Sequence[str] = (ORDERS,)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def job(self) -> dict[str, Any]:
        """The statements of the job."""
        created = [*self.tables, table("sink", self.columns, "retract")]
        return {"tables": created, "inserts": [f"INSERT INTO sink {self.text}"], "conf": dict(self.conf)}


@dataclass(frozen=True)
class Case:
    """A change of a query. ``given`` are arguments of ``evolve``; ``backfill`` the query's own rows as history."""

    old: Query
    new: Query
    script: Script
    truth: Query | None = None
    given: Mapping[str, Any] = field(default_factory=dict)


def of_shop(aggregates: str, columns: str, **more: Any) -> Query:
    """A query with aggregates of each shop."""
    return Query(f"shop STRING, {columns}", f"SELECT shop, {aggregates} FROM orders GROUP BY shop", **more)


def joined(columns: str, selected: str, *, kind: str = "JOIN", more: str = "", **others: Any) -> Query:
    """A query that joins orders and payments of a shop."""
    text = f"SELECT {selected} FROM orders o {kind} payments p ON o.shop = p.shop{more}"
    return Query(columns, text, (ORDERS, PAYMENTS), **others)


def top(limit: int, selected: str = "shop, amount, id", columns: str = "shop STRING, amount INT, id BIGINT") -> Query:
    """A query with the largest orders of each shop."""
    ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC, id) AS rn FROM orders"
    return Query(columns, f"SELECT {selected} FROM ({ranked}) WHERE rn <= {limit}")


def windowed(aggregates: str, columns: str) -> Query:
    """A query with aggregates of each shop in two minutes."""
    rows = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' MINUTE))"
    return Query(
        f"shop STRING, window_start TIMESTAMP(3), {columns}",
        f"SELECT shop, window_start, {aggregates} FROM {rows} GROUP BY shop, window_start, window_end",
    )


def gaps(aggregates: str, columns: str) -> Query:
    """A query with aggregates of each item in windows that end with a gap of 70 seconds."""
    return Query(
        f"item STRING, st TIMESTAMP(3), {columns}",
        f"SELECT item, SESSION_START(ts, INTERVAL '70' SECOND) AS st, {aggregates} FROM orders GROUP BY item, "
        "SESSION(ts, INTERVAL '70' SECOND)",
    )


def last(selected: str, columns: str, rows: str = "orders") -> Query:
    """A query with the last order of each item."""
    numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY pt DESC) AS rn FROM {rows}"
    return Query(columns, f"SELECT {selected} FROM ({numbered}) WHERE rn = 1")


BOTH = of_shop("COUNT(*) AS n, SUM(price) AS total", "n BIGINT, total INT")
COUNT = of_shop("COUNT(*) AS n", "n BIGINT")
JOINED = joined("id BIGINT, amount INT, paid INT", "o.id, o.amount, p.paid")
FILL = {"fill": "initial"}

DISTINCT = "SELECT {0}COUNT(DISTINCT amount) AS u, SUM(DISTINCT amount) AS z FROM orders GROUP BY {1}"
WINDOWED = windowed("COUNT(*) AS n, SUM(amount) AS total", "n BIGINT, total INT")
GROWING = Query(
    "item STRING, n BIGINT",
    "SELECT item, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, item) AS rn FROM (SELECT item, COUNT(*) AS n "
    "FROM orders GROUP BY item)) WHERE rn <= 2",
)


def of_sums(calls: str, columns: str = "shop STRING, a INT") -> Query:
    """A query with aggregates of the sums of each shop's items: they change, and are also taken out."""
    sums = "SELECT shop, item, SUM(price - 9) AS n FROM orders GROUP BY shop, item"
    return Query(columns, f"SELECT shop, {calls} AS a FROM ({sums}) GROUP BY shop")


def over_rows(calls: str, columns: str) -> Query:
    """A query with aggregates of five orders of a shop; orders of the last 40 seconds wait for the watermark."""
    late = ORDERS.replace("FOR ts AS ts", "FOR ts AS ts - INTERVAL '40' SECOND")
    rows = "WINDOW w AS (PARTITION BY shop ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)"
    return Query(f"id BIGINT, {columns}", f"SELECT id, {calls} FROM orders {rows}", (late,))


CASES: Mapping[str, Case] = {
    "over-distinct-added": Case(
        over_rows("SUM(price) OVER w AS a", "a INT"),
        over_rows("SUM(price) OVER w AS a, COUNT(DISTINCT price) OVER w AS n", "a INT, n BIGINT"),
        orders(),
    ),
    "over-maximum-added": Case(
        over_rows("SUM(price) OVER w AS a", "a INT"),
        over_rows("SUM(price) OVER w AS a, MAX(price) OVER w AS b", "a INT, b INT"),
        orders(),
    ),
    "maximum-beside-minimum": Case(
        of_sums("MIN(n)"), of_sums("MIN(n) AS b, MAX(n)", "shop STRING, b INT, a INT"), orders()
    ),
    "maximum-for-minimum": Case(of_sums("MIN(n)"), of_sums("MAX(n)"), orders()),
    "distinct-average-of-sum": Case(
        of_shop("SUM(DISTINCT amount) AS a", "a INT"), of_shop("AVG(DISTINCT amount) AS a", "a INT"), orders()
    ),
    "filter-in-front": Case(
        BOTH,
        Query(BOTH.columns, BOTH.text.replace("FROM orders", "FROM orders WHERE id >= 0")),
        orders(),
        given={"filters": "keep"},
    ),
    "sum-added": Case(
        COUNT,
        BOTH,
        orders(),
        of_shop(f"COUNT(*) AS n, SUM(price) FILTER (WHERE id >= {BEFORE}) AS total", "n BIGINT, total INT"),
        FILL,
    ),
    "sum-backfilled": Case(COUNT, BOTH, orders(), given={"backfill": ["total"]}),
    "sum-removed": Case(
        of_shop("COUNT(*) AS n, SUM(price) AS total, MAX(item) AS last", "n BIGINT, total INT, last STRING"),
        of_shop("COUNT(*) AS n, MAX(item) AS last", "n BIGINT, last STRING"),
        orders(),
    ),
    "sums-reordered": Case(
        of_shop("SUM(price) AS p, SUM(amount) AS a", "p INT, a INT"),
        of_shop("SUM(amount) AS a, SUM(price) AS p", "a INT, p INT"),
        orders(),
    ),
    "average-taken-apart": Case(
        of_shop("AVG(amount) AS m", "m INT"),
        of_shop("SUM(amount) AS total, COUNT(amount) AS n", "total INT, n BIGINT"),
        orders(),
    ),
    "sum-of-wider-column": Case(
        BOTH,
        Query(BOTH.columns.replace("total INT", "total BIGINT"), BOTH.text, (WIDE_ORDERS,)),
        orders(),
    ),
    "distinct-sum-added": Case(
        of_shop("COUNT(DISTINCT amount) AS u", "u BIGINT"),
        of_shop("COUNT(DISTINCT amount) AS u, SUM(DISTINCT amount) AS z", "u BIGINT, z INT"),
        orders(),
    ),
    "grouping-column-removed": Case(
        Query(
            "shop STRING, item STRING, n BIGINT, total INT, m INT",
            "SELECT shop, item, COUNT(*) AS n, SUM(price) AS total, AVG(amount) AS m FROM orders GROUP BY shop, item",
        ),
        of_shop("COUNT(*) AS n, SUM(price) AS total, AVG(amount) AS m", "n BIGINT, total INT, m INT"),
        orders(),
    ),
    "join-column-added": Case(
        JOINED,
        joined("id BIGINT, amount INT, item STRING, paid INT", "o.id, o.amount, o.item, p.paid"),
        with_payments(),
        Query(
            "id BIGINT, amount INT, item STRING, paid INT",
            "SELECT o.id, o.amount, o.item, p.paid FROM (SELECT id, shop, amount, CASE WHEN id >= "
            f"{BEFORE} THEN item END AS item FROM orders) o JOIN payments p ON o.shop = p.shop",
            (ORDERS, PAYMENTS),
        ),
        FILL,
    ),
    "join-columns-moved": Case(
        JOINED,
        Query(
            JOINED.columns,
            JOINED.text,
            (
                table(
                    "orders",
                    "ts TIMESTAMP(3), amount INT, item STRING, shop STRING, price INT, id BIGINT, WATERMARK FOR ts AS "
                    "ts, pt AS PROCTIME()",
                ),
                PAYMENTS,
            ),
        ),
        with_payments(),
    ),
    "join-becomes-left": Case(
        JOINED, joined("id BIGINT, amount INT, paid INT", "o.id, o.amount, p.paid", kind="LEFT JOIN"), with_payments()
    ),
    "join-condition-added": Case(
        JOINED,
        joined("id BIGINT, amount INT, paid INT", "o.id, o.amount, p.paid", more=" AND o.amount < p.paid + 3"),
        with_payments(),
    ),
    "last-row-column-added": Case(
        last("item, id", "item STRING, id BIGINT"),
        last("item, id, amount", "item STRING, id BIGINT, amount INT"),
        orders(),
        last(
            "item, id, amount",
            "item STRING, id BIGINT, amount INT",
            f"(SELECT id, item, CASE WHEN id >= {BEFORE} THEN amount END AS amount, pt FROM orders)",
        ),
        FILL,
    ),
    "top-5-to-3": Case(top(5), top(3), orders()),
    "top-with-rank": Case(
        top(3), top(3, "shop, amount, id, rn", "shop STRING, amount INT, id BIGINT, rn BIGINT"), orders()
    ),
    "window-sum-added": Case(
        windowed("COUNT(*) AS n", "n BIGINT"),
        windowed("COUNT(*) AS n, SUM(amount) AS total", "n BIGINT, total INT"),
        orders(),
        windowed(f"COUNT(*) AS n, SUM(amount) FILTER (WHERE id >= {BEFORE}) AS total", "n BIGINT, total INT"),
        FILL,
    ),
    "distinct-keys-merged": Case(
        Query("shop STRING, item STRING, u BIGINT, z INT", DISTINCT.format("shop, item, ", "shop, item")),
        Query("shop STRING, u BIGINT, z INT", DISTINCT.format("shop, ", "shop")),
        orders(),
    ),
    "keys-gone": Case(
        of_shop("COUNT(DISTINCT item) AS u, MAX(price) AS hi", "u BIGINT, hi INT"),
        Query(
            "shop STRING, u BIGINT, hi INT",
            "SELECT 'all' AS shop, COUNT(DISTINCT item) AS u, MAX(price) AS hi FROM orders",
        ),
        orders(),
    ),
    "window-keys-merged": Case(
        Query(WINDOWED.columns, WINDOWED.text.replace("GROUP BY shop", "GROUP BY item, shop")), WINDOWED, orders()
    ),
    "gap-window-sum-removed": Case(
        gaps("COUNT(*) AS n, SUM(price) AS total, MAX(item) AS last", "n BIGINT, total INT, last STRING"),
        gaps("COUNT(*) AS n, MAX(item) AS last", "n BIGINT, last STRING"),
        orders(),
    ),
    "growing-top-2-to-4": Case(GROWING, Query(GROWING.columns, GROWING.text.replace("<= 2", "<= 4")), orders()),
    "time-to-live": Case(BOTH, Query(BOTH.columns, BOTH.text, conf={"table.exec.state.ttl": "1 d"}), orders()),
}


# -- real Flink ---------------------------------------------------------------------------------------------------


class Jobs:
    """A JVM that runs jobs over scripts, one after the other (``oracle.SqlChanges``)."""

    def __init__(self, version: str, folder: Path, backend: str = "hashmap") -> None:
        self.version, self.backend = version, backend
        arguments = [f"--out={folder.resolve()}", "--parallelism=2"]
        arguments += [f"--conf={name}={value}" for name, value in {**BACKENDS[backend], **PATIENCE}.items()]
        self._command = command_line(version, "oracle.SqlChanges", arguments, sql=True)
        self._log = (folder / "log").open("w+b")
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, encoding="utf-8"
        )

    def run(self, *, limit: float = TIME_LIMIT, **job: Any) -> dict[str, Any]:
        """Run a job; the answer has the rows that arrived, or the error.

        A JVM that gives none within ``limit`` seconds is ended: the error has what its threads did then, and the next
        job gets another JVM.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job, default=str) + "\n")
        self._process.stdin.flush()
        late: list[str] = []
        timer = threading.Timer(limit, lambda: late.append(threads_of(self._process)))
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        timer.join()
        if late:
            self._process.communicate()
            self._process = self._start()
            return {"error": [late[0], f"no answer in {limit:g} seconds"]}
        if not line:
            self._log.seek(0)
            raise FlinkError(f"Flink {self.version} ended: {self._log.read()[-2000:].decode(errors='replace')}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def done(self, **job: Any) -> dict[str, Any]:
        """Run a job that must not fail."""
        answer = self.run(**job)
        if "error" in answer:
            raise FlinkError("\n".join(answer["error"]))
        return answer

    def close(self) -> None:
        """End the JVM."""
        self._process.communicate()
        self._log.close()


@contextmanager
def jobs(version: str, folder: Path, backend: str = "hashmap") -> Iterator[Jobs]:
    """A JVM for jobs, which ends with the block."""
    running = Jobs(version, folder, backend)
    try:
        yield running
    finally:
        running.close()


def threads_of(process: subprocess.Popen[str]) -> str:
    """End a JVM, and return what its threads did."""
    dump = subprocess.run(["jstack", str(process.pid)], capture_output=True, encoding="utf-8", check=False)
    process.kill()
    return dump.stdout or dump.stderr


def record(flink: Jobs, case: Case, folder: Path) -> None:
    """Record a case in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    script = list(case.script)
    old = {**case.old.job, "plan": folder / "old.json", "script": script}
    flink.done(**old, until=BEFORE, savepoint=folder / "before")
    flink.done(**case.new.job, plan=folder / "new.json")
    truth = {**(case.truth or case.new).job, "plan": folder / "truth.json", "script": script}
    golden = {"savepoint": folder / "golden"} if case.truth is None else {}
    emitted = flink.done(**truth, until=BEFORE, end=ALL, **golden)
    (folder / "truth.json").unlink()
    described = {"script": script, "conf": dict(case.new.conf), "given": dict(case.given), "expected": emitted["after"]}
    (folder / "case.json").write_text(json.dumps(described), "utf-8")


def emitted_after(flink: Jobs, folder: Path, savepoint: Path) -> list[tuple[str, str]] | str:
    """What NEW emits after it was restored from a savepoint; the text of Flink's error if it was not."""
    case = json.loads((folder / "case.json").read_text("utf-8"))
    answer = flink.run(
        plan=folder / "new.json",
        conf=case["conf"],
        script=case["script"],
        restore=savepoint.resolve().as_uri(),
        **{"from": BEFORE},
        until=ALL,
    )
    if "error" in answer:
        return "\n".join(answer["error"])
    return [(sink, row) for sink, row in answer["before"]]


def expected_after(folder: Path) -> Counter[tuple[str, str]]:
    """What NEW must emit: two inputs have no order."""
    case = json.loads((folder / "case.json").read_text("utf-8"))
    return Counter((sink, row) for sink, row in case["expected"])


def main() -> None:
    """Record cases."""
    version, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work, jobs(version, Path(work)) as flink:
        for name in names or CASES:
            record(flink, CASES[name], RECORDED / version / name)
            print(name, flush=True)


if __name__ == "__main__":
    main()
