"""The parts of the table of benchmarks: each measures some rows of it, in a Spark session with default settings."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa

from tests.benchmarks import data
from tests.benchmarks.measure import Figure, measured, of_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS = 128
CHANGED = 100


@dataclass(frozen=True)
class Run:
    """Where a part works, and on how many keys."""

    folder: Path
    keys: int
    runs: int = 5
    #: The kind of object store to measure; all by default.
    store: str | None = None

    def path(self, name: str) -> Path:
        """Return a path below the folder of the part."""
        return self.folder / name


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark as a user would, with room for the rivals' joins."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").appName("benchmarks").config(map=conf).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def to_nowhere(frame: DataFrame) -> None:
    """Compute all rows."""
    frame.write.format("noop").mode("overwrite").save()


# -- whole savepoints ------------------------------------------------------------------------------------------------


def pair(folder: Path, keys: int, *, ordered: bool = True) -> tuple[Path, Path]:
    """Write two savepoints: in the second one, each state has another value for 1 % of the keys."""
    old = data.write_savepoint(folder / "old", "long", keys, ordered=ordered)
    entries = data.entries

    def changed(found: Any, group: int, prefix: int, values: Any) -> bytearray:
        # By the key's bytes, so that both states change for the same keys.
        return entries(found, group, prefix, values + (found[:, -2:].astype(np.int64) @ [256, 1] % CHANGED == 0))

    with mock.patch.object(data, "entries", changed):
        return old, data.write_savepoint(folder / "new", "long", keys, ordered=ordered, parallelism=3)


def whole(run: Run) -> Iterator[Figure]:
    """Compare two savepoints, and edit one."""
    from pyspark_savepoint import Savepoint, history

    old_path, new_path = pair(run.path("pair"), run.keys)
    with session() as spark:
        old, new = (Savepoint.load(spark, str(path)) for path in (old_path, new_path))
        yield measured("`diff` in numbers", lambda: old.diff(new).collect(), aim=3, runs=run.runs)
        yield measured("`diff` in rows", lambda: to_nowhere(old.diff(new, data.UID)), aim=3, runs=run.runs)
        yield measured(
            "`history` in numbers, both",
            lambda: history(spark, str(run.path("pair")), changes=True).collect(),
            aim=3,
            runs=run.runs,
        )
        rows = old.keyed_state(data.UID)
        gone = [row["key"] for row in rows.where(f"count % {CHANGED} = 0").select("key").collect()]
        keys = spark.createDataFrame([(key,) for key in gone], "key bigint").localCheckpoint()
        totals = rows.selectExpr("key", "total + 1 AS total")
        verbs: dict[str, tuple[float, Callable[[], Savepoint]]] = {
            "`remove_keys`, 1 %": (3, lambda: old.remove_keys(data.UID, keys)),
            "`with_state`, one of two": (4, lambda: old.with_state(data.UID, "total", totals)),
            "`with_max_parallelism(512)`": (4, lambda: old.with_max_parallelism(512)),
            "`rename_state`": (1, lambda: old.rename_state(data.UID, "total", "sum")),
        }
        target = run.path("edited")
        for name, (aim, verb) in verbs.items():

            def edit(verb: Callable[[], Savepoint] = verb) -> None:
                shutil.rmtree(target, ignore_errors=True)
                verb().write(str(target))

            yield measured(name, edit, aim=aim, runs=run.runs)
            left = run.keys - (len(gone) if verb is verbs["`remove_keys`, 1 %"][1] else 0)
            assert Savepoint.load(spark, str(target)).keyed_state(data.UID).count() == left


# -- many files ------------------------------------------------------------------------------------------------------


def listing(run: Run) -> Iterator[Figure]:
    """List 200 operators of 128 subtasks, 25,600 state files; of fewer keys than a million, fewer operators."""
    operators = 200 if run.keys >= 1_000_000 else 4
    path = str(data.write_wide_savepoint(run.path("wide"), operators, 128))
    tables = {"states": (1.0, 2 * operators), "sizes": (1.5, 256 * operators), "metadata": (0.5, operators)}
    with session() as spark:
        for table, (aim, rows) in tables.items():

            def read(table: str = table, rows: int = rows) -> None:
                frame = spark.read.format("savepoint").option("table", table).load(path)
                assert len(frame.collect()) == rows

            name = f"`{table}`, {operators * 128:,} state files"
            yield measured(name, read, aim=aim, runs=run.runs)


# -- many key groups -------------------------------------------------------------------------------------------------

#: The most key groups that Flink has.
MOST_GROUPS = 32_768


def key_groups(run: Run) -> Iterator[Figure]:
    """Use 100,000 keys in 32,768 key groups with every verb, without Spark, beside the same keys in 128."""
    import pyspark_savepoint

    keys = min(run.keys, 100_000)
    rows = _numbers(keys, ("key", "total", "count"))

    def verbs(count: int) -> Verbs:
        old, new = (
            data.write_savepoint(run.path(f"{name}-{count}/savepoint"), "long", keys, max_parallelism=count)
            for name in ("old", "new")
        )
        return {
            "read": lambda: list(pyspark_savepoint.open(old).keyed_state(data.UID).batches()),
            **_verbs(old, new, run.path("target")),
            "remove_keys": _to(run, lambda: pyspark_savepoint.open(old).remove_keys(data.UID, [5])),
            "write": _to(
                run, lambda: pyspark_savepoint.create(max_parallelism=count).with_operator("a", rows, key="key")
            ),
        }

    yield from _each(run, verbs(MOST_GROUPS), verbs(GROUPS), f"{MOST_GROUPS:,} key groups", MOST_GROUPS - GROUPS)


def elements(run: Run) -> Iterator[Figure]:
    """Use an operator's list state of 1,000,000 LONG elements with every verb, without Spark."""
    import pyspark_savepoint

    count = min(run.keys, 1_000_000)
    base = data.write_savepoint(run.path("base"), "long", 100)

    def with_elements(changed: int) -> Any:
        numbers = np.arange(count) + (np.arange(count) % 100 == 3) * changed
        return pyspark_savepoint.open(base).with_list_state(data.UID, "list", pa.table({"value": pa.array(numbers)}))

    old, new = run.path("old/savepoint"), run.path("new/savepoint")
    for changed, path in enumerate((old, new)):
        with_elements(changed).write(path)
    verbs = {
        "read": lambda: list(pyspark_savepoint.open(old).list_state(data.UID, "list").batches()),
        **_verbs(old, new, run.path("target")),
        "write": _to(run, lambda: with_elements(0)),
    }
    yield from _each(run, verbs, {}, f"{count:,} elements", count)


def many_states(run: Run) -> Iterator[Figure]:
    """Use an operator of 2,000 value states and 50 keys with every verb, without Spark."""
    import pyspark_savepoint

    count, old, new = 2_000, run.path("old/savepoint"), run.path("new/savepoint")
    rows = _numbers(50, ("key", *(f"state-{number}" for number in range(count))))
    for path in (old, new):
        pyspark_savepoint.create(max_parallelism=GROUPS).with_operator(data.UID, rows, key="key").write(path)
    verbs = {
        "read": lambda: list(pyspark_savepoint.open(old).keyed_state(data.UID).batches()),
        **_verbs(old, new, run.path("target")),
        "write": _to(run, lambda: pyspark_savepoint.create(max_parallelism=GROUPS).with_operator("a", rows, key="key")),
    }
    yield from _each(run, verbs, {}, f"{count:,} states", count)


Verbs = dict[str, Callable[[], Any]]


def _verbs(old: Path, new: Path, target: Path) -> Verbs:
    """Return verbs that look at whole snapshots, without Spark, and erase a key. No folder holds both."""
    import pyspark_savepoint

    def erase() -> None:
        shutil.rmtree(target, ignore_errors=True)
        pyspark_savepoint.open(old).erase([5], to=target)

    return {
        "sizes": lambda: pyspark_savepoint.open(old).inspect.sizes().to_arrow(),
        "verify": lambda: pyspark_savepoint.open(old).inspect.verify().to_arrow(),
        "diff": lambda: pyspark_savepoint.open(old).diff(pyspark_savepoint.open(new)).to_arrow(),
        "dry run of erase": lambda: pyspark_savepoint.open(old).erase([5], dry_run=True),
        "erase": erase,
    }


def _to(run: Run, changed: Callable[[], Any]) -> Callable[[], None]:
    """Return work that writes a changed savepoint."""
    target = run.path("written/savepoint")

    def write() -> None:
        shutil.rmtree(target, ignore_errors=True)
        changed().write(target)

    return write


def _numbers(rows: int, columns: Sequence[str]) -> pa.Table:
    return pa.table({column: pa.array(np.arange(rows)) for column in columns})


def _each(run: Run, verbs: Verbs, without: Verbs, what: str, count: int) -> Iterator[Figure]:
    """Measure verbs, and name the processor time for each of some things, beyond that of the same verbs without."""
    for name, verb in verbs.items():
        base = measured(name, without[name], runs=run.runs).processor if name in without else (0.0, 0.0)
        figure = measured(f"`{name}`, {what}", verb, runs=run.runs)
        assert base is not None
        assert figure.processor is not None
        each = (figure.processor[1] - base[1]) / count * 1e6
        yield replace(figure, name=f"{figure.name}: {each:.2f} microseconds of the processor for each")


# -- generic types ---------------------------------------------------------------------------------------------------

#: What is read of Kryo 5, each with a data set of real Flink 2.3.0 that has values of it, and whose own classes.
OF_KRYO = {
    "UUID": "kryo-uuid",
    "Optional": "kryo-optional",
    "ZonedDateTime": "kryo-zoned-date-time",
    "Object": "kryo-object",
    "ArrayList of three": "kryo-array-list",
    "HashMap of two": "kryo-hash-map",
    "own class of nine fields": "kryo-u-simple",
}


def kryo(run: Run) -> Iterator[Figure]:
    """Decode 100,000 values of generic types, and of pickled dictionaries, without Spark: one column each."""
    import pickle

    from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
    from pyspark_savepoint.formats.data_view import DataInputView
    from pyspark_savepoint.formats.pickle_walker import decode_pyflink
    from pyspark_savepoint.formats.serializers.base import UnknownPayloads
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
    from pyspark_savepoint.formats.serializers.registry import snapshot_reader
    from tests.data import unpacked

    count, folder = min(run.keys, 100_000), unpacked() / "migration"
    classes = JobClasses((str(folder / "classes"),))
    known = json.loads((folder / "bytes-2.3.0.json").read_text())
    columns: dict[str, Callable[[], Any]] = {}
    for name, case in OF_KRYO.items():
        snapshot = DataInputView(bytes.fromhex(known[case]["snapshot"]))
        serializer = snapshot_reader(snapshot, UnknownPayloads(classes=classes)).versioned()
        values = [bytes.fromhex(value) for value in known[case]["values"]]
        rows = [values[row % len(values)] for row in range(count)]

        def decode(serializer: Any = serializer, rows: list[bytes] = rows) -> None:
            serializer.decode(Cursors.over(rows, options=DecodeOptions(kryo=5)))

        columns[f"{name}, Kryo"] = decode
    pickled = pa.array([pickle.dumps({"user": f"u-{row}", "count": row, "tags": ["a", "b"]}) for row in range(count)])
    columns["dict of three, pickled, as VARIANT"] = lambda: decode_pyflink(pickled)
    for name, work in columns.items():
        figure = measured(name, work, runs=run.runs)
        assert figure.processor is not None
        yield replace(
            figure, name=f"{name}: {figure.processor[1] / count * 1e6:.1f} microseconds of the processor a value"
        )


# -- four times as many keys -----------------------------------------------------------------------------------------


def large(run: Run) -> Iterator[Figure]:
    """Read four times as many keys in 128 key groups."""
    for order, aim in (("sorted", 3.0), ("shuffled", 4.0)):
        yield _read(run, 4 * run.keys, order, aim=aim, runs=run.runs)


def scale(run: Run) -> Iterator[Figure]:
    """Read a quarter to 25 times as many keys, and 2.5 times as many in one key group: the cost of a row stays flat."""
    for order in ("sorted", "shuffled"):
        for keys in (run.keys // 4, run.keys * 5 // 2, run.keys * 25):
            yield _a_row(_read(run, keys, order, runs=3), keys)
        keys = run.keys * 5 // 2
        yield _a_row(_read(run, keys, order, runs=3, max_parallelism=1, parallelism=1), keys)


def _read(
    run: Run, keys: int, order: str, *, runs: int, aim: float | None = None, max_parallelism: int = 128,
    parallelism: int = 4,
) -> Figure:  # fmt: skip
    path = data.write_savepoint(
        run.path("savepoint"), "long", keys,
        ordered=order == "sorted", max_parallelism=max_parallelism, parallelism=parallelism,
    )  # fmt: skip
    with session() as spark:

        def read() -> None:
            to_nowhere(spark.read.format("savepoint").option("uid", data.UID).load(str(path)))

        groups = " in one key group" if max_parallelism == 1 else ""
        figure = measured(f"read {keys:,} keys{groups}, {order}", read, aim=aim, runs=runs)
    shutil.rmtree(path)
    return figure


def _a_row(figure: Figure, rows: int) -> Figure:
    """Name what the workers take of the processor for a row."""
    assert figure.processor is not None
    return replace(figure, name=f"{figure.name}: {figure.processor[1] * 1e9 / rows:.0f} ns a row in Python")


# -- changes ---------------------------------------------------------------------------------------------------------


def changes(run: Run) -> Iterator[Figure]:
    """Find what changed for 1 % of the keys between incremental checkpoints of RocksDB, without Spark.

    Its table files were written by RocksDB itself, as Flink configures it, and compacted before. Once with two numbers
    of a key, once with a text of 200 letters for a quarter of the keys: a block has few of those.
    """
    import numpy as np

    from tests.benchmarks.rocksdb_data import IncrementalJob

    for keys, text in ((run.keys, 0), (run.keys // 4, 200)):
        job = IncrementalJob(run.path(f"job-{text}"), "long", keys, text=text)
        random = np.random.default_rng(1)
        job.put(random.permutation(keys), np.arange(keys))
        job.each(lambda family: family.compact_range(None, None))
        job.checkpoint(1)
        few = keys // 100
        order = np.lexsort(job.keys.T[::-1])
        kind = f"with {text} letters " if text else ""
        versions = {2: f"{kind}that lie together", 3: f"{kind}at random"}
        for version, rows in ((2, order[keys // 3 :][:few]), (3, random.choice(keys, few, replace=False))):
            job.put(rows, np.arange(few) + version * keys)
            job.checkpoint(version)
        job.close()
        yield from _changes_both_ways(job.path, data.UID, versions, run.runs, 2 * few)


@dataclass(frozen=True)
class FlinkJob:
    """A job of real Flink that is measured: ``part`` of the keys, options, and what is other in its source."""

    kind: str
    steps: int
    options: tuple[str, ...] = ()
    part: int = 1
    changes: Mapping[str, str] = field(default_factory=dict)


#: A memtable takes all keys, so that they are one sorted file of a state, as after a compaction.
NO_COMPACTIONS = (
    "--conf.state.backend.rocksdb.compaction.style=NONE",
    "--conf.state.backend.rocksdb.writebuffer.size=512mb",
    "--conf.state.backend.rocksdb.memory.managed=false",
)
#: One state with a text of 200 letters instead of two with numbers.
OF_TEXTS = {
    "static long time(long n) {": "static String text(long n) { StringBuilder b = new StringBuilder(); new Random(n)"
    ".ints(200, 'a', 'z' + 1).forEach(b::appendCodePoint); return b.toString(); } static long time(long n) {",
    "ValueState<Long> total = getRuntimeContext()": "ValueState<String> total = getRuntimeContext()",
    'ValueStateDescriptor<>("total", Types.LONG)': 'ValueStateDescriptor<>("total", Types.STRING)',
    "total.update((total.value() == null ? 0 : total.value()) + n % 1000 + 1);": "total.update(text(n));",
    "seen.update(n);": "",
}
FLINK_JOBS = (
    FlinkJob("with two numbers, without compactions", 5, NO_COMPACTIONS),
    FlinkJob("with 200 letters, without compactions", 5, NO_COMPACTIONS, 4, OF_TEXTS),
    FlinkJob("with two numbers, with compactions", 9),
)


def changes_of_flink(run: Run) -> Iterator[Figure]:
    """Find what changed for 1 % of the keys between incremental checkpoints of jobs of real Flink, without Spark.

    Of the checkpoints of each kind that is shown of which the fewest bytes are read: where RocksDB compacts, it does so
    to a whole column family now and then, and what is compacted between two checkpoints is in files that one alone has.
    """
    for number, job in enumerate(FLINK_JOBS):
        folder = run.path(f"flink-{number}")
        taken = _run_job(job, folder, run.keys // job.part)
        path, versions = folder / "checkpoints", dict[int, str]()
        for parity, which in enumerate(("that lie together", "at random")):
            sizes = {}
            for version in (number for number, step in taken.items() if step > 1 and step % 2 == parity):
                before = _bytes_read()
                _read_changes(path, "accounts", version)
                sizes[version] = _bytes_read() - before
            versions[min(sizes, key=lambda version: sizes[version])] = f"{which}, {job.kind}"
        yield from _changes_both_ways(path, "accounts", versions, run.runs, None)


def _run_job(job: FlinkJob, folder: Path, keys: int) -> dict[int, int]:
    """Run a job that has all keys, then changes 1 % of them in each step; return the steps of its checkpoints.

    The keys of a step are together in even steps, at random in odd ones; the first checkpoint has some steps.
    """
    from tests.oracle.make_data import LAB

    few = keys // 100
    of_steps = "{s} * R; n < end; n++) model.apply(n);"
    changed = {
        "static long key(long n) { long s = n / R, i = n % R; return s == 0 ? i % KEYS :": "static long key(long n) { "
        "long s = (n - KEYS) / R, i = n - KEYS; return i < 0 ? n : s % 2 == 0 ? KEYS / 3 + s * R + i % R :",
        "return n / R == 0 ? (int) (n % 7) :": "if (n >= 0) return 1; return",
        "long end = (long) (s + 1) * R;": "long end = KEYS + (long) s * R;",
        f"for (long n = (long) {of_steps.format(s='s')}": "",
        "in.keyBy(new Key(), Types.LONG).window(": "in.filter(n -> n < 0).keyBy(new Key(), Types.LONG).window(",
        "k > 60_000": "k > 3_600_000",
        "get(60, TimeUnit.SECONDS)": "get(600, TimeUnit.SECONDS)",
    }
    told = {"out": folder, "backend": "rocksdb-incr", "keys": keys, "records": few, "steps": job.steps}
    arguments = [*(f"--{name}={value}" for name, value in told.items()), *job.options]
    jobs = replace(LAB, changes={"History": {**changed, **job.changes}})
    jobs.run("2.3.0", "flinklab.History", arguments, wanted=folder / "history.json")
    found = json.loads((folder / "history.json").read_text())["checkpoints"]
    return {each["id"]: (each["records"] - keys) // few - 1 for each in found}


def _changes_both_ways(path: Path, uid: str, versions: dict[int, str], runs: int, rows: int | None) -> Iterator[Figure]:
    """Read the changes of some versions by merging both sides, and by the files that differ, and count the bytes."""
    from pyspark_savepoint.formats.rocksdb.sst import SstFile
    from pyspark_savepoint.statebackends.merging import keyed_input

    usual, reading = keyed_input.LEAST_COMMON, SstFile.read
    for version, which in versions.items():
        for name, least in (("merging both sides", -1), ("files that differ", usual)):
            keyed_input.LEAST_COMMON = least
            size, blocks, known = 0, 0, dict[str, int]()

            def counted(file: SstFile, source: Any, chosen: Any, *rest: Any) -> Any:
                nonlocal blocks
                blocks += len(file.index.size[chosen])
                known[file.path] = max(known.get(file.path, 0), len(file.index.size))  # noqa: B023
                return reading(file, source, chosen, *rest)

            def read(version: int = version) -> None:
                nonlocal size, blocks
                before, blocks = _bytes_read(), 0
                count = _read_changes(path, uid, version)
                size = _bytes_read() - before
                assert count
                assert rows in (None, count)

            with mock.patch.object(SstFile, "read", counted):
                figure = measured(f"changes of keys {which}, {name}", read, runs=runs)
            of = f"{blocks:,} data blocks, of the {sum(known.values()):,} of these files"
            yield replace(figure, name=f"{figure.name}: {size / 1e6:.1f} MB read, {of}")
    keyed_input.LEAST_COMMON = usual


def _read_changes(path: Path, uid: str, version: int) -> int:
    """Read the changes of a version, and return how many there are."""
    from pyspark_savepoint import open_changes

    table = open_changes(path, uid, start=version, end=version, allow_outside=True)
    return sum(batch.num_rows for batch in table.batches())


def _bytes_read() -> int:
    """Return the bytes that this process has read from files."""
    return int(Path("/proc/self/io").read_text().split()[1])


# -- writing ---------------------------------------------------------------------------------------------------------


def write(run: Run) -> Iterator[Figure]:
    """Write a DataFrame, and give the same rows to a data source in Python that does nothing with them."""
    from pyspark_savepoint.engines.spark.distribution import key_by

    target = run.path("written")
    keys = {"LONG": ("id", 1.6), "STRING": ("concat('user-', lpad(cast(id as string), 8, '0'))", 2.3)}
    with session() as spark:
        spark.dataSource.register(nothing())
        for kind, (key, aim) in keys.items():
            plain = spark.range(0, run.keys, 1, 2).selectExpr(
                f"{key} AS key", "id * 2 AS total", "int(id % 7) AS visits"
            )
            laid_out = key_by(plain, "key", max_parallelism=GROUPS)
            for layout, frame in (("", plain), (" after `key_by`", laid_out)):

                def save(frame: DataFrame = frame) -> None:
                    shutil.rmtree(target, ignore_errors=True)
                    options = {"uid": data.UID, "key": "key", "maxParallelism": str(GROUPS)}
                    frame.write.format("savepoint").options(**options).mode("append").save(str(target))

                def discard(frame: DataFrame = frame) -> None:
                    frame.write.format("nothing").mode("append").save()

                yield measured(f"write {kind} keys{layout}", save, aim=aim, runs=run.runs)
                name = f"a data source that does nothing, {kind} keys{layout}"
                yield measured(name, discard, runs=run.runs)


def nothing() -> type:
    """Return a data source that reads its rows and forgets them; a class of its own, for workers have no tests."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class NothingWriter(DataSourceArrowWriter):
        def write(self, iterator: Any) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class Nothing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "nothing"

        def writer(self, schema: Any, overwrite: bool) -> NothingWriter:
            return NothingWriter()

    return Nothing


# -- a fresh process -------------------------------------------------------------------------------------------------

#: Prints the seconds from Spark's start to the answer.
FIRST_QUERY = """
    import os, sys, time
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def partitions(self):
            return [InputPartition(number) for number in range(2)]

        def read(self, partition):
            import pyarrow as pa
            yield pa.record_batch([pa.array([1, 2]), pa.array([1, 2]), pa.array([1, 2], pa.int32())],
                                  names=["key", "total", "count"])

    class Trivial(DataSource):
        @classmethod
        def name(cls):
            return "trivial"

        def schema(self):
            return "key bigint, total bigint, count int"

        def reader(self, schema):
            return Reader()

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR",
            "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if sys.argv[3] == "daemon":
        conf["spark.python.daemon.module"] = "pyspark_savepoint.daemon"
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    spark.dataSource.register(Trivial)
    start = time.perf_counter()
    rows = spark.read.format(sys.argv[1]).option("uid", "bench").load(sys.argv[2]).selectExpr("sum(total)").collect()
    print(time.perf_counter() - start)
"""


def first(run: Run) -> Iterator[Figure]:
    """Ask the first query of a process, from ``load`` to the answer, with compiled kernels on disk."""
    keys = min(run.keys, 1_000_000)
    path = data.write_savepoint(run.path("savepoint"), "long", keys)
    ways = {
        f"first query of a process, {keys:,} keys": ("savepoint", "", 3.0),
        "the same with `pyspark_savepoint.daemon`": ("savepoint", "daemon", None),
        "the same of a data source in Python with four rows": ("trivial", "", None),
    }
    for name, (source, daemon, aim) in ways.items():
        command = [sys.executable, "-c", textwrap.dedent(FIRST_QUERY), source, str(path), daemon]
        times = []
        for _ in range(run.runs + 1):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            times.append(float(done.stdout.split()[-1]))
        yield of_times(name, times, aim=aim)
    with tempfile.TemporaryDirectory(dir=run.folder) as cache:
        command = [sys.executable, "-m", "pyspark_savepoint", "warm-up"]
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        name = "`pyspark-savepoint warm-up`: first without compiled kernels, then with them"

        def warm_up() -> None:
            subprocess.run(command, env=environment, capture_output=True, check=True)

        yield measured(name, warm_up, runs=run.runs)


# -- a fresh machine -------------------------------------------------------------------------------------------------

#: Does one thing after Spark has started; prints what that took: seconds, and those of the processor.
FIRST_USE = """
    import json, os, sys, time
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition
    from pyspark.sql.datasource import WriterCommitMessage
    from tests.benchmarks.measure import used

    use, source, keys, path, target = sys.argv[1:]

    class Reader(DataSourceReader):
        def __init__(self, keys):
            self.keys = keys

        def partitions(self):
            return [InputPartition(number) for number in range(2)]

        def read(self, partition):
            numbers = range(self.keys // 2)
            yield pa.record_batch([pa.array(numbers, pa.int64()), pa.array(numbers, pa.int64()),
                                   pa.array(numbers, pa.int32())], names=["key", "total", "count"])

    class Writer(DataSourceArrowWriter):
        def write(self, iterator):
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class Trivial(DataSource):
        @classmethod
        def name(cls):
            return "trivial"

        def schema(self):
            return "key bigint, total bigint, count int"

        def reader(self, schema):
            return Reader(int(self.options["keys"]))

        def writer(self, schema, overwrite):
            return Writer()

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR",
            "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    options = {"uid": "bench"} if source == "savepoint" else {"keys": keys}
    # Spark looks for installed sources when the first is used or registered: that is part of both.
    before, start = used(), time.perf_counter()
    if source == "trivial":
        spark.dataSource.register(Trivial)
    if use == "write":
        frame = spark.range(0, int(keys), 1, 2).selectExpr("id AS key", "id * 2 AS total", "int(id % 7) AS count")
        frame.write.format(source).options(key="key", maxParallelism="128", **options).mode("append").save(target)
    else:
        rows = spark.read.format(source).options(**options).load(path)
        rows.show() if use == "show" else rows.selectExpr("sum(total)", "sum(count)").collect()
    seconds, after = time.perf_counter() - start, used()
    print(json.dumps([seconds, after[0] - before[0], after[1] - before[1]]), file=sys.stderr)
"""
#: The first uses: keys, and seconds of the processor beyond those that Spark itself takes, that each is to take.
FIRST_USES = {
    ("show", 5_000): 3.0, ("read", 5_000): 4.0, ("write", 5_000): 8.0,
    ("read", 50_000): None, ("write", 50_000): None, ("read", 200_000): None, ("write", 200_000): None,
}  # fmt: skip
#: The same with compiled code that came with the job.
WITH_CODE = {("read", 200_000): 0.5, ("write", 200_000): 0.5}


def first_use(run: Run) -> Iterator[Figure]:
    """Use it on a machine without compiled kernels: seconds of the processor beyond those of a trivial source."""
    code = run.path("code.zip")
    warm_up = [sys.executable, "-m", "pyspark_savepoint", "warm-up", "--file", str(code)]
    subprocess.run(warm_up, capture_output=True, check=True)
    uses = [(use, aim, None) for use, aim in FIRST_USES.items()] + [(use, aim, code) for use, aim in WITH_CODE.items()]
    for (use, keys), aim, shipped in uses:
        path = run.path(f"savepoint-{keys}")
        if not path.exists():
            data.write_savepoint(path, "long", keys)
        spent: dict[str, list[tuple[float, float, float]]] = {"savepoint": [], "trivial": []}
        # One after the other, so that other work on the machine slows down both.
        for _ in range(run.runs + 1 if aim is not None else 1):
            for source, times in spent.items():
                times.append(_used_first(run, use, source, keys, path, shipped))
        java, python = (statistics.median(each) for each in zip(*(used[1:] for used in spent["trivial"]), strict=True))
        beyond = [used[1] + used[2] - java - python for used in spent["savepoint"]]
        own = tuple(statistics.median(used[place] for used in spent["savepoint"]) for place in (1, 2))
        ratio = (own[0] + own[1]) / (java + python)
        what = f"first `{use}`, {keys:,} keys" + (", with shipped code" if shipped is not None else "")
        name = f"{what}: {ratio:.1f} times the {java:.1f} + {python:.1f} s of a trivial source"
        yield Figure(name, aim, beyond[0], tuple(beyond[1:]), (own[0], own[1]))


def _used_first(
    run: Run, use: str, source: str, keys: int, path: Path, code: Path | None
) -> tuple[float, float, float]:
    """Return seconds, and those of the processor of Java and of Python, of a use with an empty home and cache.

    ``code`` is what ``warm-up --file`` made on another machine. Bytecode of the package may be kept: pip writes it
    when it installs.
    """
    with tempfile.TemporaryDirectory(dir=run.folder) as room:
        home, cache, target = (f"{room}/{name}" for name in ("home", "cache", "target"))
        os.mkdir(home)
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"HOME": home, "NUMBA_CACHE_DIR": cache, "PYSPARK_SAVEPOINT_CODE": str(code or "")}
        command = [sys.executable, "-c", textwrap.dedent(FIRST_USE), use, source, str(keys), str(path), target]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, java, python = json.loads(done.stderr.splitlines()[-1])
    return seconds, java, python


# -- functions on state backends -------------------------------------------------------------------------------------


def word_count(run: Run) -> Iterator[Figure]:
    """Count as many records as there are keys elsewhere, of a tenth as many keys, on every backend; Flink does too."""
    yield from _word_counts(run, run.keys, run.runs)


def word_count_whole(run: Run) -> Iterator[Figure]:
    """Count ten times as many records on RocksDB, once; Flink does too."""
    yield from _word_counts(run, 10 * run.keys, 0, only="function on rocksdb")


def _word_counts(run: Run, records: int, runs: int, only: str = "") -> Iterator[Figure]:
    from tests.benchmarks import flink_word_count, test_word_count
    from tests.oracle.flink import FlinkError

    test_word_count.RECORDS, test_word_count.KEYS = records, records // 10
    target, what = run.path("counts"), f"WordCount, {records:,} records of INT keys"
    try:
        times = [flink_word_count.seconds(run.path("flink"), records, "rocksdb") for _ in range(runs + 1)]
        yield of_times(f"{what}: Flink {flink_word_count.VERSION} on RocksDB", times)
    except (FlinkError, OSError, subprocess.SubprocessError) as error:
        print(f"Flink does not run here, its figure is that of the README: {error}", file=sys.stderr)
    with session() as spark:
        for way, count in test_word_count.WAYS.items():
            if only and only != way:
                continue

            def work(count: Any = count) -> None:
                shutil.rmtree(target, ignore_errors=True)
                count(spark, "int", str(target))

            yield measured(f"{what}: {way}", work, runs=runs)


def stores(run: Run) -> Iterator[Figure]:
    """Verbs in S3 and Azure with 50 ms for each request, beside raw reads of the same bytes."""
    from tests.benchmarks.stores import stores as in_stores

    yield from in_stores(run.folder, run.keys, run.store)


PARTS: dict[str, Callable[[Run], Iterator[Figure]]] = {
    "whole": whole,
    "listing": listing,
    "key-groups": key_groups,
    "elements": elements,
    "many-states": many_states,
    "kryo": kryo,
    "large": large,
    "scale": scale,
    "changes": changes,
    "changes-flink": changes_of_flink,
    "write": write,
    "stores": stores,
    "first": first,
    "first-use": first_use,
    "word-count": word_count,
    "word-count-whole": word_count_whole,
}
