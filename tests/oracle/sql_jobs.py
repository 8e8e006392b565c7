"""SQL and CEP: real Flink's jobs, whose state ``with_state`` and ``remove_keys`` correct, and which go on from there.

    python -m tests.oracle.sql_jobs 1.20.5 2.2.1

Each job runs over 50 numbers and takes a savepoint. What it keeps is corrected, Flink starts the same job from the
changed savepoint on both backends, and emits of the next 20 numbers what the correction says. Ends with 1 where it does
not.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from tests.oracle.flink import BACKENDS, PATIENCE, run

BEFORE, ALL = 50, 70
EVEN = "SELECT * FROM t WHERE MOD(id, 2) = 0"
FEW = "SELECT * FROM t WHERE id < 10 OR id >= 66"
ROW_NUMBER = "SELECT *, ROW_NUMBER() OVER (PARTITION BY {} DESC) AS rn FROM t"


@dataclass(frozen=True)
class Corrected:
    """A job: its query over ``t(id, k, v, s)`` (none: the harness's pattern), its corrections, what it emits then."""

    query: str | None
    #: By state: the expression that takes the place of its column.
    states: Mapping[str, str]
    emitted: Callable[[], Iterable[str]]
    #: Keys that are removed.
    removed: str | None = None
    #: The order of two inputs is random: only the final rows are compared.
    net: bool = False


def numbers(before: int = 0) -> Iterator[tuple[int, str, int, str]]:
    """The rows of the table: those before the savepoint, or those after it."""
    for n in range(before) if before else range(BEFORE, ALL):
        yield n, f"k{n % 3}", n % 7, f"s{n % 5}"


# -- what jobs emit after the savepoint -----------------------------------------------------------------------


def aggregated() -> Iterator[str]:
    """Counts and sums: ten more and a hundred more, one key is gone."""
    kept: dict[str, tuple[int, int]] = {}
    for _, k, v, _ in numbers(BEFORE):
        count, total = kept.get(k, (10, 100))
        kept[k] = count + 1, total + v
    del kept["k2"]
    for _, k, v, _ in numbers():
        if k in kept:
            count, total = kept[k]
            yield f"-U[{k}, {count}, {total}]"
            kept[k] = count + 1, total + v
        else:
            kept[k] = 1, v
        yield f"{'+I' if kept[k][0] == 1 else '+U'}[{k}, {kept[k][0]}, {kept[k][1]}]"


def deduplicated() -> Iterator[str]:
    """The last row of a key: its id is a thousand more."""
    last = {s: n + 1000 for n, _, _, s in numbers(BEFORE)}
    for n, _, _, s in numbers():
        yield from (f"-U[{s}, {last[s]}]", f"+U[{s}, {n}]")
        last[s] = n


def top_two() -> Iterator[str]:
    """The two highest ids of a key: one of them becomes so high that it stays, all values are a hundred more."""
    top: dict[str, list[tuple[int, int]]] = {"k0": [], "k1": [], "k2": []}
    for n, k, v, _ in numbers(BEFORE):
        top[k] = [*top[k], (n + 1000 * (n == BEFORE - 1), v + 100)][-2:]
    for n, k, v, _ in numbers():
        lowest = min(top[k])
        yield from (f"-D[{k}, {lowest[1]}, {lowest[0]}]", f"+I[{k}, {v}, {n}]")
        top[k] = [max(top[k]), (n, v)]


def few(before: int = 0) -> Iterator[tuple[int, str]]:
    """The right side of the joins."""
    for n, k, _, _ in numbers(before):
        if n < 10 or n >= 66:
            yield n, k


def joined() -> Iterator[str]:
    """Left ids are two thousand more, right ones a thousand; right rows of one key count twice."""
    right = [(n + 1000, k) for n, k in few(BEFORE) for _ in range(1 + (k == "k1"))]
    left = [(n + 2000, k) for n, k, _, _ in numbers(BEFORE) if n % 2 == 0]
    new_left, new_right = [(n, k) for n, k, _, _ in numbers() if n % 2 == 0], list(few())
    for one, other in ((new_left, right), (left, new_right), (new_left, new_right)):
        yield from (f"+I[{n}, {m}]" for n, k in one for m, other_k in other if k == other_k)


def outer_joined() -> Iterator[str]:
    """The right side is emptied: rows on the left have no partner until a new one arrives."""
    left = [(n + 2000, k) for n, k, _, _ in numbers(BEFORE) if n % 2 == 0]
    new_left, new_right = [(n, k) for n, k, _, _ in numbers() if n % 2 == 0], list(few())
    yield from (f"-D[{n}, null]" for n, _ in left)
    yield from (f"+I[{n}, {m}]" for n, k in [*left, *new_left] for m, other_k in new_right if k == other_k)


def matched() -> Iterator[str]:
    """The first events of partial matches are a thousand more; those of one key are forgotten."""
    for last in (60, 61):
        yield from (f"(k{last % 3},{first + 1000}), (k{last % 3},{last})" for first in range(last % 3, 12, 3))


MORE_EVENTS = (
    "transform_values({0}, (id, event) -> named_struct('ref_count', event.ref_count, 'element', "
    "named_struct('f0', event.element.f0, 'f1', event.element.f1 + 1000)))"
)
MORE_IDS = "transform_keys({0}, (row, n) -> named_struct('f0', row.f0 + {1}, 'f1', row.f1))"
JOBS: Mapping[str, Corrected] = {
    "aggregate": Corrected(
        "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k",
        {"accState": "named_struct('f0', {0}.f0 + 10, 'f1', {0}.f1 + 100)"},
        aggregated,
        removed="key.f0 = 'k2'",
    ),
    "deduplicate": Corrected(
        f"SELECT s, id FROM ({ROW_NUMBER.format('s ORDER BY pt')}) WHERE rn = 1",
        {"deduplicate-state": "named_struct('f0', {0}.f0 + 1000, 'f1', {0}.f1, 'f2', {0}.f2)"},
        deduplicated,
    ),
    "top-n": Corrected(
        f"SELECT k, v, id FROM ({ROW_NUMBER.format('k ORDER BY id')}) WHERE rn <= 2",
        {
            "data-state-with-append": "map_from_entries(transform(map_entries({0}), e -> struct("
            "named_struct('f0', e.key.f0 + IF(e.key.f0 = 49, 1000, 0)) AS key, transform(e.value, row -> named_struct("
            "'f0', row.f0 + IF(row.f0 = 49, 1000, 0), 'f1', row.f1, 'f2', row.f2 + 100)) AS value)))"
        },
        top_two,
    ),
    "join": Corrected(
        f"SELECT a.id, b.id AS other FROM ({EVEN}) a JOIN ({FEW}) b ON a.k = b.k",
        {
            "left-records": MORE_IDS.format("{0}", 2000),
            "right-records": "transform_values("
            + MORE_IDS.format("{0}", 1000)
            + ", (row, n) -> n + IF(row.f1 = 'k1', 1, 0))",
        },
        joined,
        net=True,
    ),
    "outer join": Corrected(
        f"SELECT a.id, b.id AS other FROM ({EVEN}) a LEFT JOIN ({FEW}) b ON a.k = b.k",
        {
            "left-records": "transform_values("
            + MORE_IDS.format("{0}", 2000)
            + ", (row, n) -> named_struct('f0', n.f0, 'f1', 0))",
            "right-records": "map_filter({0}, (row, n) -> false)",
        },
        outer_joined,
        net=True,
    ),
    "pattern": Corrected(
        None,
        {
            "sharedBuffer-events": MORE_EVENTS,
            "nfaStateName": "IF(key = 'k2', named_struct('partial_matches', "
            "filter({0}.partial_matches, m -> m.previous_buffer_entry IS NULL), "
            "'completed_matches', {0}.completed_matches), {0})",
        },
        matched,
    ),
}


# -- running them ----------------------------------------------------------------------------------------------


def ran(release: str, folder: Path, jobs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Flink's answers, in one cluster."""
    given = "".join(json.dumps(job) + "\n" for job in jobs)
    arguments = [f"--out={folder.resolve()}", "--parallelism=4", "--conf=restart-strategy=none"]
    arguments += [f"--conf={name}={value}" for name, value in PATIENCE.items()]
    return [
        json.loads(line)
        for line in run(release, "oracle.Sql", arguments, given=given, sql=True, timeout=540).splitlines()
    ]


def corrected(spark: SparkSession, path: Path, job: Corrected, new: Path) -> None:
    """Write the savepoint of a job with its corrections."""
    states = pyspark_savepoint.open(path).states().to_arrow().to_pylist()
    (operator,) = {state["operator_uid_hash"] for state in states if state["table"] == "keyed_state"}
    base = changed = Savepoint.load(spark, path)
    for name, expression in job.states.items():
        value = expression.format(f"`{name}`")
        rows = base.keyed_state(operator, state=name).selectExpr("key", f"{value} AS `{name}`")
        changed = changed.with_state(operator, name, rows)
    if job.removed:
        changed = changed.remove_keys(operator, _keys(base, operator, job))
    changed.write(new)


def _keys(base: Savepoint, operator: str, job: Corrected) -> DataFrame:
    return base.keyed_state(operator, state=next(iter(job.states))).where(str(job.removed)).select("key")


def remaining(emitted: Iterable[str]) -> Counter[str]:
    """Return how often each row remains at the end of a changelog."""
    left: Counter[str] = Counter()
    for text in emitted:
        left[text[2:]] += 1 if text.startswith("+") else -1
    return Counter({row: count for row, count in left.items() if count})


def differences(name: str, answer: Mapping[str, Any]) -> str | None:
    """Return the errors in the output of a job after the savepoint; None if there are none."""
    if "error" in answer:
        return str(answer["error"])
    job, found = JOBS[name], answer["emitted"]
    expected = list(job.emitted())
    if job.net:
        return None if remaining(found) == remaining(expected) else f"{remaining(found)} is not {remaining(expected)}"
    if name == "pattern":
        found, expected = sorted(found), sorted(expected)
    return None if found == expected else f"{found} is not {expected}"


def mistakes(
    spark: SparkSession, release: str, folder: Path, names: Iterable[str] = JOBS, backends: Iterable[str] = ("hashmap",)
) -> tuple[list[str], int]:
    """Return the rows of a release that differ from the corrections, by job, and the number of compared rows."""
    names, backends = list(names), list(backends)
    folder.mkdir(parents=True)
    jobs = [{"name": name, "query": JOBS[name].query, "count": BEFORE} for name in names]
    paths = [folder / f"base-{number}" for number in range(len(jobs))]
    ran(release, folder / "write", [{**job, "savepoint": str(path)} for job, path in zip(jobs, paths, strict=True)])
    again = []
    for job, path in zip(jobs, paths, strict=True):
        changed = path.with_name(path.name.replace("base", "changed"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            corrected(spark, path, JOBS[str(job["name"])], changed)
        again += [
            {**job, "count": ALL, "restore": str(changed), "backend": backend, "conf": dict(BACKENDS[backend])}
            for backend in backends
        ]
    lines, rows = [], 0
    for job, answer in zip(again, ran(release, folder / "restore", again), strict=True):
        problem = differences(str(job["name"]), answer)
        rows += len(answer.get("emitted", ()))
        if problem is not None:
            lines.append(f"{release}, {job['backend']}, {job['name']}: {problem}")
    return lines, rows


def main() -> int:
    """Run all jobs on the releases that are named."""
    from tests.oracle.matrix.__main__ import session

    failed = False
    for release in sys.argv[1:] or ["1.20.5", "2.2.1"]:
        with tempfile.TemporaryDirectory(prefix="savepoint-sql-") as folder:
            lines, rows = mistakes(session(), release, Path(folder) / release, backends=("hashmap", "rocksdb"))
        print(f"{release}: {len(JOBS)} jobs on 2 backends, {rows} rows emitted, {len(lines)} differ", flush=True)
        print(*lines, sep="\n")
        failed |= bool(lines)
    return failed


if __name__ == "__main__":
    sys.exit(main())
