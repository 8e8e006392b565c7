"""Texts and files that users hand over, of very many of one thing: work and memory grow as their bytes do.

    python -m tests.fuzz.texts                                every one of them, at three sizes
    python -m tests.fuzz.texts --text "plan: sources" --scale 4

Plans, EXPLAIN, names of fields, types in every notation, keys, offsets, job descriptions, jars, rows in CSV and JSON,
conditions, schemas, reports. A case makes the input of about ``n`` things, and what reads it. It is a problem if time
or memory grow faster than the bytes (:func:`tests.fuzz.shapes.growth`); errors of this package are answers.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark_savepoint
from pyspark_savepoint.api.schemas import differences, read_schema
from pyspark_savepoint.api.spark import streaming_log
from pyspark_savepoint.formats.class_files import ClassPath, parse_class, parse_field_type
from pyspark_savepoint.formats.class_files.java_types import SignatureError
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions
from pyspark_savepoint.formats.metadata import OperatorState, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.notation.python_types import parse_python_types
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.ddl import arrow_columns
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import operator_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan
from pyspark_savepoint.statebackends.jobs.restore.job_reader import describe_job
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import CompiledPlan
from pyspark_savepoint.statebackends.type_extraction.releases import ExtractionRelease
from pyspark_savepoint.statebackends.type_extraction.words import TypeInference
from pyspark_savepoint.text.conditions import parse_condition
from tests.fuzz.shapes import (
    UID,
    Measured,
    growth,
    keyed_subtask,
    operator,
    run_command,
    snapshot,
    state,
    timed,
)

Work = Callable[[], Any]


@dataclass(frozen=True)
class Text:
    """What makes an input of ``n`` things in a folder: its bytes, and what reads it. ``count``: some ten ms of work."""

    make: Callable[[int, Path], tuple[int, Work]]
    count: int


def text(make: Callable[[int], str], read: Callable[[str], object], count: int) -> Text:
    """A case whose input is a text."""

    def made(n: int, _: Path) -> tuple[int, Work]:
        given = make(n)
        return len(given.encode()), lambda: read(given)

    return Text(made, count)


def file(name: str, make: Callable[[int], str | bytes], read: Callable[[Path], object], count: int) -> Text:
    """A case whose input is a file."""

    def made(n: int, folder: Path) -> tuple[int, Work]:
        given = make(n)
        data = given.encode() if isinstance(given, str) else given
        path = folder / name
        path.write_bytes(data)
        return len(data), lambda: read(path)

    return Text(made, count)


# -- snapshots that the texts are about ----------------------------------------------------------------------


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="savepoint-texts-")


def kept(name: str, *operators: OperatorState) -> str:
    """The path of a savepoint, made once."""
    path = Path(_folder().name) / name
    if not path.exists():
        path.mkdir()
        (path / "_metadata").write_bytes(write_metadata(snapshot(*operators)))
    return str(path)


def rows_of(fields: int) -> str:
    """A savepoint of an aggregate of SQL, whose accumulator has some fields."""
    kind = f"ROW_DATA<{', '.join(['BIGINT'] * fields)}>"
    return kept(f"rows-{fields}", operator(keyed_subtask([state("accState", "VALUE", kind)])))


def small() -> str:
    """A savepoint with a LONG for each key."""
    return kept("small", operator(keyed_subtask([state("s", "VALUE", "LONG")], (1, 2, 3))))


def many(n: int) -> str:
    """A savepoint of many operators without state."""
    operators = (OperatorState(OperatorID.from_uid(f"o{i}"), 1, 128, f"o{i}", f"o{i}") for i in range(n))
    return kept(f"operators-{n}", *operators)


# -- names of fields -----------------------------------------------------------------------------------------


def compiled(
    fields: Sequence[str] | str = ("k", "a"), nodes: Sequence[Mapping[str, Any]] = (), **aggregate: Any
) -> str:
    """A compiled plan: a source, an exchange, an aggregate whose uid is that of the savepoint's operator."""
    listed = ", ".join(f"`{name}` BIGINT" for name in fields)
    kind = fields if isinstance(fields, str) else f"ROW<{listed}>"
    first = [
        {"id": 1, "type": "stream-exec-table-source-scan_1", "outputType": kind},
        {
            "id": 2,
            "type": "stream-exec-exchange_1",
            "outputType": kind,
            "inputProperties": [{"requiredDistribution": {"keys": [0]}}],
        },
        {"id": 3, "type": "stream-exec-group-aggregate_1", "outputType": kind, "aggCalls": [], **aggregate},
    ]
    edges = [{"source": 1, "target": 2}, {"source": 2, "target": 3}]
    more = [{"source": 1, "target": node["id"]} for node in nodes]
    return json.dumps({"nodes": [*first, *nodes], "edges": [*edges, *more]})


def call(**given: Any) -> dict[str, Any]:
    """An aggregate call."""
    return {"name": "EXPR$0", "internalName": "$SUM$1", "argList": [1], "filterArg": -1, **given}


def node_of(plan: str) -> object:
    """The node of the aggregate in a compiled plan."""
    return CompiledPlan(json.loads(plan)).node(OperatorID.from_uid("3_group-aggregate"))


def listed(plan: str) -> None:
    """Table ``states`` of as many operators as the plan has nodes, which have their hashes alone."""
    count = len(json.loads(plan)["nodes"])
    uids = (OperatorID.from_uid(f"{i}_calc") for i in range(4, count + 1))
    path = kept(f"calcs-{count}", *(OperatorState(uid, 1, 128, None, None) for uid in uids))
    for _ in pyspark_savepoint.open(path).table("states", fieldNames=plan).rows():
        pass


def named(names: str) -> object:
    """The schema of a table with the names."""
    return pyspark_savepoint.open(rows_of(3)).keyed_state(UID, fieldNames=names).schema


def calcs(n: int) -> list[dict[str, Any]]:
    """Nodes of a plan without aggregates."""
    return [
        {"id": 4 + i, "type": f"stream-exec-calc_{i}", "outputType": "ROW<`a` BIGINT>", "description": f"Calc {i}"}
        for i in range(n)
    ]


def globals_of(n: int) -> str:
    """EXPLAIN: many global aggregates of one local one, which is reused."""
    calls = ", ".join(f"SUM(a{i}) AS s{i}" for i in range(n))
    local = f"LocalGroupAggregate(groupBy=[k], select=[k, {calls}])(reuse_id=[1])\n"
    reused = "GlobalGroupAggregate(groupBy=[k{}], select=[k])\n+- Reused(reference_id=[1])\n"
    return local + "".join(reused.format(i) for i in range(n))


def chain(n: int) -> str:
    """EXPLAIN: exchanges, each of which reuses the one before it."""
    first = "Values(fields=[a])(reuse_id=[0])\n"
    return first + "".join(
        f"Exchange(x=[{i}])(reuse_id=[{i}])\n+- Reused(reference_id=[{i - 1}])\n" for i in range(1, n)
    )


def aggregate(select: str, window: str = "") -> str:
    """EXPLAIN: one aggregate."""
    return f"GroupAggregate(groupBy=[k], {window}select=[k, {select}])\n+- Exchange(distribution=[hash[k]])\n"


FIELD_NAMES: Mapping[str, Text] = {
    "compiled: equal calls": text(lambda n: compiled(aggCalls=[call() for _ in range(n)]), node_of, 1000),
    "compiled: calls of long arguments": text(
        lambda n: compiled(["k", "a" * n], aggCalls=[call(argList=[1, 1]) for _ in range(n // 20)]), node_of, 20_000
    ),
    "compiled: a call of many arguments": text(
        lambda n: compiled(["k", "a" * n], aggCalls=[call(argList=[1] * n)]), node_of, 40_000
    ),
    "compiled: sorted by one long name": text(
        lambda n: compiled(["a" * n], sortSpec={"fields": [{"index": 0}] * (n // 10)}), node_of, 20_000
    ),
    "compiled: a key of one long name": text(
        lambda n: compiled(["a" * n]).replace('"keys": [0]', f'"keys": {[0] * (n // 10)}'), node_of, 20_000
    ),
    "compiled: filters by a long name": text(
        lambda n: compiled(["k", "a" * n], aggCalls=[call(filterArg=1) for _ in range(n // 20)]), node_of, 20_000
    ),
    "compiled: fields": text(lambda n: compiled([f"f{i}" for i in range(n)]), node_of, 10_000),
    "compiled: quotes of a field": text(lambda n: compiled("ROW<" + "`" * (2 * n)), node_of, 40_000),
    "compiled: a quoted field that does not end": text(lambda n: compiled("ROW<`a" + "``" * n), node_of, 40_000),
    "compiled: quoted texts": text(lambda n: compiled("ROW<" + "'a'" * n), node_of, 40_000),
    "compiled: brackets of a row": text(lambda n: compiled("ROW<" * n), node_of, 40_000),
    "compiled: digits of a window": text(
        lambda n: compiled(windowing={"window": {"type": "TumblingWindow", "size": "PT" + "1" * n + "H"}}),
        node_of,
        100_000,
    ),
    "compiled: nodes and operators": text(lambda n: compiled(nodes=calcs(n)), listed, 300),
    "compiled: one input of many nodes": text(
        lambda n: compiled([f"f{i}" for i in range(n)], nodes=calcs(n)), listed, 300
    ),
    "names: columns": text(lambda n: json.dumps({f"c{i}": ["a"] for i in range(n)}), named, 2000),
    "names: of one column": text(lambda n: json.dumps({"accState": [f"a{i}" for i in range(n)]}), named, 2000),
    "explain: equal calls": text(lambda n: aggregate(", ".join(["SUM(a) AS s"] * n)), named, 1000),
    "explain: equal calls, all nodes": text(lambda n: aggregate("SUM(a) AS s") * n, named, 300),
    "explain: globals of one local": text(globals_of, named, 150),
    "explain: reused chains": text(chain, named, 500),
    "explain: quotes": text(lambda n: aggregate("'" * n), named, 20_000),
    "explain: brackets": text(lambda n: aggregate("(" * n), named, 20_000),
    "explain: letters of a window": text(lambda n: aggregate("a", f"window=[TUMBLE({'a' * n})], "), named, 10_000),
    "explain: items of a window": text(lambda n: aggregate("a", f"window=[TUMBLE({'size=(' * n})], "), named, 3_000),
    "explain: spaces": text(lambda n: "== Optimized Execution Plan ==" + " " * n + "x", named, 20_000),
    "explain: grouping and calls": text(
        lambda n: (
            f"GroupAggregate(groupBy=[{', '.join(f'g{i}' for i in range(n))}], select=["
            + ", ".join(f"SUM(a{i}) AS s{i}" for i in range(n))
            + "])\n"
        ),
        named,
        1000,
    ),
    "explain: digits": text(
        lambda n: f"Rank(strategy=[UpdateFastStrategy[{'1' * n}]])\n+- Values(fields=[a])\n", named, 20_000
    ),
}


# -- plans and descriptions of jobs --------------------------------------------------------------------------


def plan(nodes: Sequence[Mapping[str, Any]], settings: Mapping[str, Any] | None = None) -> str:
    """An execution plan, with settings."""
    numbered = [{"id": i, "type": f"n{i}", "parallelism": 1, **node} for i, node in enumerate(nodes, 1)]
    return json.dumps({"nodes": numbered, "settings": settings or {}})


def after(*ids: int) -> dict[str, Any]:
    """A node behind others."""
    return {"predecessors": [{"id": number, "ship_strategy": "FORWARD"} for number in ids]}


def planned(given: str) -> object:
    """The job of a plan, with the ids of its operators."""
    parsed = json.loads(given)
    return operator_ids(from_execution_plan(parsed, parsed["settings"])), describe_job(given)


def restored(given: str) -> object:
    """The verdicts about a job and a snapshot that has as many operators, all others."""
    job = describe_job(given)
    return check_restore(Snapshot.open(many(len(job.operators))), job)


def described(operators: Sequence[Mapping[str, Any]], **more: Any) -> str:
    """A description of a job."""
    return json.dumps({"operators": operators, **more})


def writers(n: int) -> list[dict[str, Any]]:
    """A chain of operators that yield: whether one is chained depends on the head of those before it."""
    return [{}, *({**after(i), "type": f"{i}: Writer"} for i in range(1, n))]


PLANS: Mapping[str, Text] = {
    "plan: sources": text(lambda n: plan([{} for _ in range(n)]), planned, 500),
    "plan: sources with uids": text(
        lambda n: plan([{} for _ in range(n)], {str(i): {"uid": f"u{i}"} for i in range(1, n + 1)}), planned, 400
    ),
    "plan: sources of one writer": text(
        lambda n: plan([*({} for _ in range(n)), {**after(*range(1, n + 1)), "type": "x: Writer"}]), planned, 500
    ),
    "plan: sources in one operator": text(
        lambda n: plan(
            [*({} for _ in range(n)), after(*range(1, n + 1))], {str(n + 1): {"chaining": "HEAD_WITH_SOURCES"}}
        ),
        planned,
        500,
    ),
    "plan: a chain": text(lambda n: plan([{}, *(after(i) for i in range(1, n))]), planned, 500),
    "plan: a chain of writers": text(lambda n: plan(writers(n)), planned, 500),
    "plan: outputs of one source": text(
        lambda n: plan([{}, *(after(1) for _ in range(n))], {"1": {"outputs": [f"n{i}" for i in range(n + 1, 1, -1)]}}),
        planned,
        500,
    ),
    "plan: inputs one after the other": text(
        lambda n: plan([{}, *(after(i) for i in range(1, n)), after(*range(1, n + 1))]), planned, 400
    ),
    "plan: restored": text(lambda n: plan([{} for _ in range(n)]), restored, 300),
    "rest: vertices": text(
        lambda n: json.dumps({"nodes": [{"id": f"{i:032x}", "description": f"v{i}<br/>w"} for i in range(n)]}),
        restored,
        300,
    ),
    "rest: a chain": text(
        lambda n: json.dumps({"nodes": [{"id": f"{1:032x}", "description": "a &lt;<br/>" * n}]}), describe_job, 5000
    ),
    "job: operators": text(
        lambda n: described([{"uid": f"u{i}", "states": {"s": "LONG"}} for i in range(n)]), restored, 300
    ),
    "job: operators whose names are those of others": text(
        lambda n: described([{"uid": f"o{i}x", "name": f"o{i}"} for i in range(n)]), restored, 200
    ),
    "job: states": text(
        lambda n: described([{"uid": "o0", "key": "LONG", "states": {f"s{i}": "LONG" for i in range(n)}}]),
        restored,
        500,
    ),
    "job: classes": text(lambda n: described([], classes=[f"c.C{i}" for i in range(n)]), describe_job, 20_000),
    "job: unknown fields": text(lambda n: described([{"uid": "o0", "f" * n: 1}]), describe_job, 20_000),
}


# -- types ---------------------------------------------------------------------------------------------------


def inferred(notation: str) -> object:
    """The type that Flink infers from the classes of the notation."""
    return TypeInference(ExtractionRelease.parse("2.2")).parse(notation)


def pojo(count: int, kind: str = "LONG") -> str:
    """The notation of a class with many fields."""
    return f"POJO<com.shop.Wide>({', '.join(f'f{i} {kind}' for i in range(count))})"


def pojos(count: int) -> str:
    """The notation of a class whose fields are classes."""
    return f"POJO<com.shop.Wide>({', '.join(f'f{i} POJO<com.shop.C{i}>(x LONG)' for i in range(count))})"


def classes_of(words: str) -> object:
    """All classes of option ``kryoTypes``."""
    return WordClasses.parse(words)


def generic(signature: str) -> None:
    """The type in a signature of a class."""
    with contextlib.suppress(SignatureError):
        parse_field_type(signature)


TYPES: Mapping[str, Text] = {
    **{
        f"{how}: {what}": text(make, read, count // (4 if how == "inferred" else 1))
        for how, read in (("type", lambda given: parse_type(parse_type(given).flink_type)), ("inferred", inferred))
        for what, make, count in (
            ("fields", pojo, 1500),
            ("fields of classes", pojos, 600),
            ("rows", lambda n: f"ROW<{', '.join(['LONG'] * n)}>", 2000),
            ("nested", lambda n: "LIST<" * 40 + pojo(n // 4) + ">" * 40, 1500),
            ("lists in fields", lambda n: pojo(n // 40, "LIST<" * 40 + "LONG" + ">" * 40), 1500),
            ("maps of maps", lambda n: "MAP<STRING, " * 40 + pojo(n // 4) + ">" * 40, 1500),
        )
    },
    "type: deep": text(lambda n: "LIST<" * n, parse_type, 20_000),
    "type: constants": text(lambda n: f"ENUM<c.E>({', '.join(f'C{i}' for i in range(n))})", parse_type, 10_000),
    "type: subclasses": text(
        lambda n: f"POJO<c.B>(x LONG) SUBCLASSES({', '.join(f'C{i} POJO<C{i}>(x LONG)' for i in range(n))})",
        parse_type,
        500,
    ),
    "type: quotes": text(lambda n: "POJO<c.B>(`" + "``" * n, parse_type, 20_000),
    "type: spaces": text(lambda n: " " * n + "!", parse_type, 100_000),
    "type: a long word": text(lambda n: "L" * n, parse_type, 20_000),
    "type: dots": text(lambda n: "a." * n, parse_type, 20_000),
    "type: digits": text(lambda n: f"DECIMAL({'9' * n}, 2)", parse_type, 20_000),
    "type: rows of SQL": text(lambda n: f"ROW_DATA<{', '.join(['BIGINT'] * n)}>", parse_type, 2000),
    "pyTypes: states": text(lambda n: "; ".join(f"s{i} LONG" for i in range(n)), parse_python_types, 1000),
    "pyTypes: quotes": text(lambda n: "`a" + "``" * n, parse_python_types, 20_000),
    "pyTypes: quoted names": text(lambda n: "`a``b`" * n, parse_python_types, 10_000),
    "pyTypes: spaces": text(lambda n: "a" + " " * n, parse_python_types, 20_000),
    "kryoTypes: classes": text(lambda n: "; ".join(f"c.C{i}(x LONG)" for i in range(n)) + " " * n, classes_of, 2000),
    "kryoTypes: fields": text(lambda n: f"c.C({', '.join(f'f{i} LONG' for i in range(n))})", classes_of, 4000),
    "kryoTypes: arrays of arrays": text(lambda n: f"c.C(x int{'[]' * n})", classes_of, 5000),
    "kryoTypes: an enum": text(lambda n: f"c.E ENUM({', '.join(f'C{i}' for i in range(n))})", classes_of, 5000),
    "columns: many": text(lambda n: ", ".join(f"c{i} int" for i in range(n)), arrow_columns, 3000),
    "columns: in a struct": text(
        lambda n: f"s struct<{', '.join(f'c{i}: int' for i in range(n))}>", arrow_columns, 3000
    ),
    "columns: quotes": text(lambda n: "`a" + "``" * n, arrow_columns, 20_000),
    "columns: deep": text(lambda n: "a " + "array<" * n, arrow_columns, 20_000),
    "generics: arguments": text(lambda n: "Lc/C<" + "Ljava/lang/Long;" * n + ">;", generic, 3000),
    "generics: deep": text(lambda n: "Lc/C<" * n, generic, 20_000),
    "generics: arrays": text(lambda n: "[" * n + "J", generic, 20_000),
}


# -- keys, positions, options --------------------------------------------------------------------------------


def looked_up(keys: str) -> object:
    """The rows of keys."""
    return pyspark_savepoint.open(small()).keyed_state(UID, keys=json.loads(keys)).to_arrow()


def grouped(groups: str) -> object:
    """The rows of key groups."""
    return pyspark_savepoint.open(small()).keyed_state(UID, keyGroups=groups).to_arrow()


def conditioned(condition: str) -> object:
    """A condition on the columns of a table."""
    return parse_condition(condition, pyspark_savepoint.open(small()).keyed_state(UID).schema)


def partitions(logged: str) -> object:
    """Offsets that Spark logs."""
    return streaming_log.partitions_of(logged)


def sources(log: str) -> object:
    """The sources of a batch in Spark's log."""
    metadata, found = streaming_log._sources("offsets/1", log)
    return metadata, {name: streaming_log.partitions_of(one or "") for name, one in found.items()}


def with_option(name: str, path: Callable[[], str] = small) -> Callable[[str], object]:
    """Reads table ``states`` with an option."""
    return lambda given: list(pyspark_savepoint.open(path()).table("states", **{name: given}).rows())


OPTIONS: Mapping[str, Text] = {
    "keys: numbers": text(lambda n: json.dumps(list(range(n))), looked_up, 5000),
    "keys: equal": text(lambda n: json.dumps([1] * n), looked_up, 5000),
    "keys: digits": text(lambda n: f'["{"1" * n}"]', looked_up, 20_000),
    "keyGroups: equal": text(lambda n: ",".join(["0-127"] * n), grouped, 10_000),
    "keyGroups: each": text(lambda n: ",".join(str(i % 128) for i in range(n)), grouped, 10_000),
    "uids: many": text(lambda n: json.dumps([f"u{i}" for i in range(n)]), with_option("uids"), 5000),
    "uids: and operators": text(
        lambda n: json.dumps([f"o{i}" for i in range(n)]),
        lambda uids: with_option("uids", lambda: many(500))(uids),
        500,
    ),
    "storageOptions: many": text(lambda n: json.dumps({f"o{i}": "x" for i in range(n)}), StorageOptions.parse, 5000),
    "log: partitions": text(lambda n: json.dumps({"orders": {str(i): i for i in range(n)}}), partitions, 20_000),
    "log: topics": text(lambda n: json.dumps({f"t{i}": {"0": 1} for i in range(n)}), partitions, 10_000),
    "log: sources": text(lambda n: 'v1\n{"batchWatermarkMs":0}\n' + '{"t":{"0":1}}\n' * n + "-", sources, 5000),
    "log: digits": text(lambda n: f'{{"t":{{"{"1" * n}":1}}}}', partitions, 2000),
    "set-offsets": text(
        lambda n: " ".join(f"orders-{i}=1" for i in range(n)),
        lambda words: run_command("set-offsets", small(), "/nowhere/new", "--set", *words.split()),
        1000,
    ),
    "keys of the command": text(
        lambda n: " ".join(map(str, range(n))),
        lambda words: run_command("show", small(), UID, "--keys", *words.split()),
        2000,
    ),
    "condition: values": text(lambda n: f"key IN ({', '.join(map(str, range(n)))})", conditioned, 1000),
    "condition: ANDs": text(lambda n: " AND ".join(f"key > {i}" for i in range(n)), conditioned, 500),
    "condition: brackets": text(lambda n: "(" * n + "key = 1" + ")" * n, conditioned, 300),
    "condition: a long text": text(lambda n: f"key = '{'a' * n}'", conditioned, 50_000),
    "condition: quotes": text(lambda n: f"key = '{chr(39) * n}", conditioned, 20_000),
    "condition: digits": text(lambda n: f"key = {'1' * n}", conditioned, 20_000),
    "condition: spaces": text(lambda n: f"key{' ' * n}!", conditioned, 20_000),
}


# -- files ---------------------------------------------------------------------------------------------------


def class_file(name: str, above: str = "java/lang/Object", fields: Sequence[str] = ()) -> bytes:
    """A class of LONG fields."""
    texts = [name, above, "J", *fields]
    pool = b"".join(b"\1" + len(one).to_bytes(2, "big") + one.encode() for one in texts)
    pool += b"\7\0\1" + b"\7\0\2"
    first = len(texts) + 1
    members = b"".join(b"\0\1" + number.to_bytes(2, "big") + b"\0\3\0\0" for number in range(4, first))
    head = bytes.fromhex("cafebabe0000003d") + (first + 2).to_bytes(2, "big") + pool + b"\0\x21"
    this = first.to_bytes(2, "big") + (first + 1).to_bytes(2, "big") + b"\0\0"
    return head + this + len(fields).to_bytes(2, "big") + members + b"\0\0" + b"\0\0"


def overlapping(n: int) -> bytes:
    """A jar whose entries all have the same bytes: what is inflated is the square of what is in the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.jar"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
            jar.writestr("C00000.class", bytes(1000 * n))
        data = path.read_bytes()
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    entry = data[start:end]
    directory = b"".join(entry.replace(b"C00000", b"C%05d" % i) for i in range(n))
    tail = data[end:]
    counts = n.to_bytes(2, "little") * 2
    return data[:start] + directory + tail[:8] + counts + len(directory).to_bytes(4, "little") + tail[16:]


def jar(n: int) -> bytes:
    """A jar of many classes, each below the one before it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.jar"
        with zipfile.ZipFile(path, "w") as made:
            for i in range(n):
                made.writestr(f"C{i}.class", class_file(f"C{i}", f"C{i - 1}" if i else "java/lang/Object"))
        return path.read_bytes()


def subclasses(path: Path) -> object:
    """All classes below one."""
    classes = ClassPath([str(path)])
    return classes.find("C0"), classes.subclasses("C0")


def put(path: Path) -> None:
    """Rows of a file, put into an operator."""
    run_command("put", small(), str(path.parent / "new"), UID, str(path), "--dry-run")


def typed(path: Path) -> None:
    """Rows of a file, put into a new operator, whose types follow from them."""
    run_command("put", small(), str(path.parent / "new"), "another", str(path), "--dry-run", "--key", "key")


def csv(header: str, *rows: str) -> str:
    """A CSV file."""
    return "\n".join([header, *rows]) + "\n"


def schema(n: int) -> str:
    """A file of a schema."""
    states = [{"table": "keyed_state", "state": f"s{i}", "value": "LONG"} for i in range(n)]
    return json.dumps({"operators": [{"uid": UID, "states": states}]})


def compared(path: Path) -> object:
    """The differences of a schema from an empty one."""
    return differences(read_schema(path), {"operators": []})


FILES: Mapping[str, Text] = {
    "jar: classes": file("a.jar", jar, subclasses, 100),
    "jar: overlapping entries": file("a.jar", overlapping, subclasses, 200),
    "class: fields": file(
        "C0.class",
        lambda n: class_file("C0", fields=[f"f{i}" for i in range(n)]),
        lambda path: parse_class(path.read_bytes()),
        2000,
    ),
    "csv: rows": file("a.csv", lambda n: csv("key,s", *(f"{i},{i}" for i in range(n))), put, 5000),
    "csv: columns": file(
        "a.csv", lambda n: csv("key," + ",".join(f"s{i}" for i in range(n)), "1" + ",1" * n), put, 500
    ),
    "csv: one long field": file("a.csv", lambda n: csv("key,s", f"1,{'a' * n}"), put, 200_000),
    "csv: quotes": file("a.csv", lambda n: csv("key,s", f'1,"{chr(34) * n}'), put, 100_000),
    "csv: digits": file("a.csv", lambda n: csv("key,s", f"1,{'9' * n}"), put, 50_000),
    "json: rows": file("a.json", lambda n: "".join(f'{{"key": {i}, "s": {i}}}\n' for i in range(n)), put, 3000),
    "json: new rows": file("a.json", lambda n: "".join(f'{{"key": {i}, "s": {i}}}\n' for i in range(n)), typed, 3000),
    "json: columns": file(
        "a.json", lambda n: json.dumps({"key": 1, **{f"s{i}": i for i in range(n)}}) + "\n", typed, 500
    ),
    "json: nested": file("a.json", lambda n: '{"key": 1, "s": ' + "[" * n + "]" * n + "}\n", typed, 20_000),
    "json: a column for each row": file(
        "a.json", lambda n: "".join(f'{{"key": {i}, "s{i}": {i}}}\n' for i in range(n)), typed, 300
    ),
    "json: digits": file("a.json", lambda n: f'{{"key": 1, "s": {"9" * n}}}\n', put, 20_000),
    "json: an exponent": file("a.json", lambda n: f'{{"key": 1, "s": 1e{"9" * n}}}\n', put, 20_000),
    "json: a number of many digits": file("a.json", lambda n: f'{{"key": 1, "s": 1e{10**6 * n}}}\n' * n, put, 100),
    "csv: new rows": file("a.csv", lambda n: csv("key,s", *(f"{i},{i}" for i in range(n))), typed, 3000),
    "csv: new digits": file("a.csv", lambda n: csv("key,s", f"1,{'9' * n}"), typed, 20_000),
    "csv: new exponents": file("a.csv", lambda n: csv("key,s", f"1,1e{'9' * n}"), typed, 20_000),
    "csv: new numbers of many digits": file("a.csv", lambda n: csv("key,s", *[f"1,1e{10**6 * n}"] * n), typed, 100),
    "csv: header": file("a.csv", lambda n: csv(",".join(f"c{i}" for i in range(n))), typed, 3000),
    "schema: states": file("a.json", schema, compared, 3000),
    "schema: of a snapshot": file(
        "a.json", schema, lambda path: run_command("schema", small(), "--expect", str(path)), 2000
    ),
    "report: operators": file(
        "a.json",
        lambda n: json.dumps({"operators": [{"uid": f"u{i}", "states": []} for i in range(n)]}),
        lambda path: run_command("verify-erasure", small(), str(path), "--keys", "1"),
        3000,
    ),
}
TEXTS: Mapping[str, Text] = {**FIELD_NAMES, **PLANS, **TYPES, **OPTIONS, **FILES}


@contextmanager
def made(name: str, count: int) -> Iterator[tuple[int, Work]]:
    """An input of some size, and what reads it."""
    with tempfile.TemporaryDirectory(prefix="savepoint-text-") as folder:
        yield TEXTS[name].make(count, Path(folder))


def measured(name: str, count: int, *, memory: bool = False) -> Measured:
    """What it takes to read an input of some size."""
    with made(name, count) as (size, work):
        return timed(size, work, memory=memory)


def problem_of(name: str, scale: float = 1.0, *, memory: bool = False) -> tuple[str | None, Measured]:
    """Say what grew faster than the bytes at three sizes, thrice, as chance does not repeat itself; and the last."""
    count = max(2, int(TEXTS[name].count * scale))
    for _ in range(3):
        costs = []
        for times in (1, 2, 4):
            try:
                costs.append(measured(name, count * times, memory=memory))
            except Exception as error:  # one that is not of this package is a problem
                return f"{type(error).__name__}: {error}"[:300], Measured(0, 0, 0)
        problem = growth(costs)
        if problem is None:
            break
    return problem, costs[-1]


def main() -> int:
    """Print what grows faster than the bytes; 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.texts", description=__doc__)
    parser.add_argument("--text", nargs="*", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--scale", type=float, default=1.0, help="times the size of each")
    parser.add_argument("--memory", action="store_true", help="compare memory, too (slow)")
    parser.add_argument("--all", action="store_true", help="print what each took")
    args = parser.parse_args()
    found = 0
    for name in args.text:
        for memory in (False, True) if args.memory else (False,):
            problem, large = problem_of(name, args.scale, memory=memory)
            found += problem is not None
            if problem or large.seconds > 2 or args.all:
                told = problem or f"{large.seconds:.2f} s, {large.memory:,} for {large.size:,} bytes"
                print(f"{'PROBLEM' if problem else 'took'}: {name}: {told}", flush=True)
    print(f"{len(args.text)} texts and files: {found} problems")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
