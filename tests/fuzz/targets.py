"""What is fuzzed: for every format seeds that are sound, how they are damaged, and what reads them.

Formats inside of a container are damaged inside of it: blocks and records get the checksums that their new content has,
so that more than the checksum is tried.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import json
import pickle
import random
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.class_files import ClassPath
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.connectors.payloads.kind import (
    BUCKET_STATE,
    READER_STATE,
    SOURCE_COORDINATOR,
    CoordinatorFrame,
    Payload,
    write_element,
)
from pyspark_savepoint.formats.connectors.registry import recognise_coordinator, recognise_elements, states_of
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.formats.java_stream import parse_java_object
from pyspark_savepoint.formats.keyed.changelog import FileChanges
from pyspark_savepoint.formats.metadata import read_metadata, write_metadata
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.pickle_walker import read_pickle
from pyspark_savepoint.formats.rocksdb.block import CHECKSUMS, Protection
from pyspark_savepoint.formats.rocksdb.database import Database
from pyspark_savepoint.formats.rocksdb.manifest import read_manifest, read_records
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import BASE_IDS, KryoClasses
from pyspark_savepoint.formats.serializers.kryo.objects import (
    DamagedError,
    DescribedClasses,
    ForeignError,
    ObjectFormat,
    object_format,
    read_object,
    write_object,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Version
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.internal import logical_stream
from pyspark_savepoint.formats.serializers.sql.logical_types import EmbeddedType, LogicalType
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.variant import encode_variant
from pyspark_savepoint.statebackends.connectors.connector_states import list_states, state_elements
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogSource
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.data import unpacked
from tests.formats.rocksdb.rocksdb_files import FAMILY, locations, writer
from tests.formats.rocksdb.test_manifest import log
from tests.formats.serializers.kryo import test_kryo
from tests.formats.serializers.notation.test_notation import TYPES
from tests.fuzz.damage import damage_gently, damaged
from tests.fuzz.restructure import restructured
from tests.fuzz.seeds import seeds_of, snapshot_paths
from tests.statebackends.keyed_models import KEYED, LONG, Written
from tests.statebackends.sources.changelog_models import (
    ADD,
    ADD_ELEMENT,
    CLEAR,
    MERGE,
    REMOVE,
    SET,
    SET_INTERNAL,
    UPDATE,
    Change,
    change_set,
    logged,
)

#: Larger seeds only take longer.
MAX_SEED = 1 << 15
SEEDS = 24
MAX_TYPE = 4096


@dataclass(frozen=True)
class Target:
    """A format: a damaged input, and its reader, which may raise only errors of this package."""

    make: Callable[[random.Random], bytes]
    read: Callable[[bytes], object]


def _plain(seeds: Callable[[], list[bytes]], gently: float = 0.0) -> Callable[[random.Random], bytes]:
    """Some of the seeds, with parts of one another at times; ``gently``: the share that has one byte changed."""
    known = cache(seeds)

    def make(rng: random.Random) -> bytes:
        data = rng.choice(known())
        if rng.random() < gently:
            return damage_gently(rng, data)
        if rng.random() < 0.1:
            other = rng.choice(known())
            data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
        return restructured(rng, data)

    return make


@cache
def _snapshots(kind: str) -> list[Any]:
    """Small operators with keyed state of a kind of snapshot, whole in their metadata."""
    found = []
    for path in snapshot_paths():
        if kind in str(path):
            for seed in seeds_of(path):
                keyed = any(subtask.managed_keyed_state for subtask in seed.operators[0].subtasks.values())
                if keyed and len(write_metadata(seed)) < MAX_SEED:
                    found.append(seed)
        if len(found) >= SEEDS:
            break
    return found


def _damaged_snapshot(kind: str) -> Callable[[random.Random], bytes]:
    def make(rng: random.Random) -> bytes:
        seed = rng.choice(_snapshots(kind))
        if rng.random() < 0.2:
            return damage_gently(rng, write_metadata(seed))
        if rng.random() < 0.6:
            return damaged(rng, seed)
        operator = seed.operators[0]
        index = rng.choice(list(operator.subtasks))
        subtask = operator.subtasks[index]
        handle = subtask.managed_keyed_state
        if not hasattr(getattr(handle, "delegate", None), "data"):
            return damaged(rng, seed)
        data = restructured(rng, handle.delegate.data)
        changed = replace(subtask, managed_keyed_state=replace(handle, delegate=replace(handle.delegate, data=data)))
        operator = replace(operator, subtasks={**operator.subtasks, index: changed})
        return write_metadata(replace(seed, operators=(operator,)))

    return make


def _change_sets() -> list[bytes]:
    """The content of files of changes, of all operations."""
    values: list[tuple[str, int, Any]] = [
        ("total", SET, 5), ("total", CLEAR, None), ("name", SET_INTERNAL, "x"), ("items", SET, [1, 2]),
        ("items", ADD, [3]), ("items", ADD_ELEMENT, 4), ("by_name", ADD, {"a": 1}), ("by_name", ADD_ELEMENT, ("b", 2)),
        ("by_name", UPDATE, ("a", 3)), ("by_name", REMOVE, "a"), ("sums", SET_INTERNAL, ((0, 10), 7)),
        ("sums", MERGE, [(0, 10), (5, 30)]), ("sums", CLEAR, ((5, 30),)),
    ]  # fmt: skip
    log = [Change(key, *value) for key in (1, 2) for value in values]
    parts = [log, log[:5], log[10:13], [change for change in log if change.state == "by_name"]]
    return [change_set(logged(part, 4)) for part in parts]


def _read_changes(data: bytes) -> None:
    source = FileChanges(InlineLocation("the changelog", b"\0" + data), 0)
    groups = KeyGroupRange(0, 3)
    whole = ChangelogSource("the snapshot", (), (source,), len(data), groups, 4, "the operator", LONG)
    written = Written(whole, 4)
    written.rows(KEYED, 200)
    written.rows(("sums",), 1 << 20)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="savepoint-fuzz-")


def _read_tables(data: bytes) -> None:
    """Keyed state and timers of the first operator."""
    folder = Path(_folder().name)
    (folder / "_metadata").write_bytes(data)
    for operator in Snapshot.open(str(folder)).operators[:1]:
        for table in ("keyed_state", "timers"):
            request = TableRequest(str(folder), uid_hash=operator.operator_id.hex, table=table)
            for partition in open_table(request).partitions(1):
                for batch in partition.batches():
                    batch.validate(full=True)


def _metadata_seeds() -> list[bytes]:
    kinds = ("hashmap", "rocksdb", "changelog")
    return [write_metadata(seed) for kind in kinds for seed in _snapshots(kind)[:8]]


@cache
def _database() -> dict[str, bytes]:
    """A database with merges, deletions and deleted ranges, of some files."""
    with tempfile.TemporaryDirectory() as folder, writer(Path(folder) / "database") as opened:
        for part in range(3):
            for i in range(40):
                opened.family[bytes([i % 4]) + b"key-%03d" % (i + part)] = b"value" * (i % 5)
            del opened.family[b"\1key-005"]
            opened.family.delete_range(b"\2key", b"\2key-006")
            opened.family.flush()
        return opened.files()


def _damaged_block(rng: random.Random) -> bytes:
    """The database with one block of one table file changed within its size, and its checksum."""
    files = dict(_database())
    name = rng.choice([name for name in files if name.endswith(".sst")])
    data = bytearray(files[name])
    places, protection = _blocks(name)
    offset, size = rng.choice(places)
    content = restructured(rng, bytes(data[offset : offset + size]))[:size].ljust(size, b"\0")
    if rng.random() < 0.5:
        # The places of restarts stay.
        content = content[: size - 8] + bytes(data[offset + size - 8 : offset + size])
    data[offset : offset + size] = content
    span = np.array([offset]), np.array([offset + size + 1])
    found = CHECKSUMS[protection.kind](np.frombuffer(data, np.uint8), *span) + protection.modifiers(span[0])
    data[offset + size + 1 : offset + size + 5] = (int(found[0]) & 0xFFFFFFFF).to_bytes(4, "little")
    files[name] = bytes(data)
    return json.dumps({name: content.hex() for name, content in files.items()}).encode()


@cache
def _blocks(name: str) -> tuple[list[tuple[int, int]], Protection]:
    """Where the blocks of a table file are, also those about the file, and how they are checked."""
    with Database(locations(_database()), 1) as database:
        reader = database.family(FAMILY, 0, 255)
        file = next(file for run in reader.runs for file in run.tables() if file.info.name == name)
    found = list(zip(file.index.offset.tolist(), file.index.size.tolist(), strict=True))
    found += [(handle.offset, handle.size) for handle in file.meta.values()]
    return found, file.protection


def _read_database(data: bytes) -> None:
    files = {name: bytes.fromhex(content) for name, content in json.loads(data).items()}
    with Database(locations(files), 1) as database:
        reader = database.family(FAMILY, 0, 255)
        reader.read(0, 255)
        for _ in reader.steps(0, 255, 1):
            pass


def _damaged_manifest(rng: random.Random) -> bytes:
    name = next(name for name in _database() if name.startswith("MANIFEST"))
    records = [record for record, _ in read_records(_database()[name], name)]
    at = rng.randrange(len(records))
    change = rng.random()
    if change < 0.1:
        records *= rng.choice((2, 50))
    elif change < 0.2:
        del records[at]
    else:
        records[at] = restructured(rng, records[at])
    return log(*records)


def _read_families(data: bytes) -> None:
    for family in read_manifest(data, "MANIFEST").values():
        family.runs()


def _java_seeds() -> list[bytes]:
    leaf = LogicalType("INTEGER")
    row = LogicalType("ROW", names=("a", "b"), children=(leaf, LogicalType("VARCHAR", length=7)))
    kinds = [leaf, row, LogicalType("ARRAY", children=(row,)), LogicalType("MAP", children=(leaf, row))]
    kinds.append(LogicalType("ROW", names=("x", "y"), children=(row, LogicalType("DECIMAL", precision=9, scale=2))))
    return [logical_stream(kind) for kind in kinds]


def _read_java(data: bytes) -> None:
    parse_java_object(DataInputView(data))
    EmbeddedType.read(DataInputView(data))


@dataclass
class Pickled:
    """A class of a user's."""

    number: int


def _pickle_seeds() -> list[bytes]:
    shared = ["x"]
    values: list[Any] = [
        None, 1, -(2**70), 1.5, "text", b"bytes", [1, [2, [3]]], {"a": {"b": [shared, shared]}}, (1, (2, 3)),
        decimal.Decimal("1.25"), datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        datetime.date(2024, 1, 2), datetime.time(3, 4), datetime.timedelta(5, 6, 7), uuid.UUID(int=8), 1j,
        collections.OrderedDict(a=[1]), collections.Counter("aab"), collections.deque([1]), Pickled(3),
        [Pickled(number) for number in range(5)], list(range(30)), {str(i): i for i in range(20)}, {1, 2},
        frozenset("ab"), range(3),
    ]  # fmt: skip
    return [pickle.dumps(value, protocol) for value in values for protocol in range(6)]


def _kryo_seeds() -> list[bytes]:
    """Class name and value, of Kryo 2 and 5."""
    rows = [row for row in test_kryo.ROWS if len(row) > 3]
    return [
        bytes([version]) + test_kryo.utf(kind) + bytes.fromhex(data)
        for _, kind, *both, _ in rows
        for version, data in zip((2, 5), both, strict=True)
        if data != "-"
    ]


def _read_kryo(data: bytes) -> None:
    view = DataInputView(data)
    version, kind = view.read_u8(), view.read_utf()
    known = kind if kind in _kryo_classes() else "java.lang.Object"
    value = bytes(view.data[view.position :])
    at = Cursors.over([value], options=DecodeOptions(kryo=5 if version == 5 else 2))
    _kryo(known).decode(at).validate(full=True)


def _object_seeds() -> list[bytes]:
    """Values of the classes of the data set migration: the version of Kryo, and the bytes."""
    found = []
    for version, release in ((2, "1.20.5"), (5, "2.3.0")):
        cases = json.loads((unpacked() / "migration" / f"bytes-{release}.json").read_text())
        values = [value for name, case in cases.items() if name.startswith("kryo-") for value in case["values"]]
        found += [bytes([version]) + bytes.fromhex(value) for value in values if value[0] != "!"]
    return [seed for seed in found if len(seed) < MAX_TYPE]


@cache
def _object_format(version: Version) -> ObjectFormat:
    classes = DescribedClasses([ClassPath([str(unpacked() / "migration" / "classes")])])
    ids = {**BASE_IDS, 85: "miglab.Model$KObjects", 86: "miglab.Model$KLeaf"}
    return object_format(version, KryoClasses(ids), classes)


def _read_objects(data: bytes) -> None:
    """Read an object of classes that class files describe, and write it in both versions."""
    try:
        found, _ = read_object(data[1:], _object_format(2 if data[:1] == b"\2" else 5))
        for version in (2, 5):
            write_object(found, _object_format(2 if version == 2 else 5))
    except (DamagedError, ForeignError) as error:
        raise CorruptStateError("the object is refused", found=str(error)) from None


@cache
def _kryo_classes() -> frozenset[str]:
    return frozenset(row[1] for row in test_kryo.ROWS)


@cache
def _kryo(kind: str) -> Any:
    return test_kryo.kryo(kind)


AVRO = [
    {"type": "record", "name": "a.R", "fields": [
        {"name": "x", "type": ["null", "long"]},
        {"name": "y", "type": {"type": "array", "items": {"type": "map", "values": "string"}}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
    ]},
    {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]},
    {"type": "array", "items": "null"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
]  # fmt: skip


def _avro_seeds() -> list[bytes]:
    """Length and text of a schema, and a value."""
    value = bytes.fromhex("0000000100000000000000050201610162000000000001abcd")
    return [
        len(text).to_bytes(2, "big") + text.encode() + value
        for text in (*map(json.dumps, AVRO), '["null", "string"]', '"long"')
    ]


def _read_avro(data: bytes) -> None:
    size = int.from_bytes(data[:2], "big")
    text = data[2 : 2 + size].decode("latin-1").replace("'", "''")
    serializer = parse_type(f"AVRO<'{text}'>")
    serializer.decode(Cursors.over([data[2 + size :]])).validate(full=True)


def _read_notation(data: bytes) -> None:
    serializer = parse_type(data.decode("utf-8", "replace"))
    hash(serializer)
    serializer.arrow_type(DecodeOptions())


def _notation_seeds() -> list[bytes]:
    return [text.encode() for text in TYPES]


def _types(rng: random.Random) -> bytes:
    """Types with types of one another in them, or damaged anywhere."""
    if rng.random() < 0.5:
        return _plain_notation(rng)
    texts = [text for text in TYPES if "'" not in text]
    text = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        inner = _inner_types(text)
        if not inner or len(text) > MAX_TYPE:
            break
        start, end = rng.choice(inner)
        text = text[:start] + rng.choice(texts) + text[end:]
    return text.encode()


def _inner_types(text: str) -> list[tuple[int, int]]:
    """Return the spans of the arguments of types: after ``<``, ``(`` or a comma, up to the matching end."""
    found = []
    for start in (at + 1 for at, char in enumerate(text) if char in "<(,"):
        depth = 0
        for end in range(start, len(text)):
            if depth == 0 and text[end] in ">),":
                found.append((start, end))
                break
            depth += (text[end] in "<(") - (text[end] in ">)")
    return found


_plain_notation = _plain(_notation_seeds)


#: Before the bytes of a coordinator, which no operator state has.
COORDINATOR = "coordinator"


def _connector_seeds() -> list[bytes]:
    """Table, state, and an element of the state; or the state of a coordinator."""
    found: set[tuple[str, bytes]] = set()
    for path in sorted((unpacked() / "connectors").rglob("_metadata")):
        savepoint = Snapshot.open(str(path.parent))
        for operator in savepoint.operators:
            if operator.coordinator_state is not None:
                found.add((f"{SOURCE_COORDINATOR}/{COORDINATOR}", operator.coordinator_state.data))
            opened = OpenOperator(savepoint, operator)
            for table in ("splits", "committables", "in_flight"):
                for state in set(states_of(table, list_states(operator))) & list_states(operator):
                    elements = state_elements(opened, state, TableRequest(savepoint.path))
                    found |= {(f"{table}/{state}", data) for _, data in elements}
    for case in json.loads((unpacked() / "connectors" / "bytes" / "kafka.json").read_text()):
        if "hex" in case and isinstance(case.get("version"), int):
            payload = Payload(case["version"], bytes.fromhex(case["hex"]))
            found.add((f"splits/{READER_STATE}", write_element(payload)))
            found.add((f"{SOURCE_COORDINATOR}/{COORDINATOR}", CoordinatorFrame(payload).bytes()))
    return [bytes([len(name)]) + name.encode() + data for name, data in sorted(found)]


def _read_connector(data: bytes) -> None:
    """Read an element by whatever kind recognises it, to columns and back."""
    name = data[1 : 1 + data[0]].decode("latin-1") if data else ""
    table, _, state = name.partition("/")
    element = data[1 + len(name) :]
    if state == COORDINATOR:
        recognition = recognise_coordinator(element)
    else:
        recognition = recognise_elements(table, state, [element], None, [BUCKET_STATE])
    kind = recognition.kind
    if kind is None:
        raise CorruptStateError("no kind reads it", found=recognition.reason)
    (payload,), (value,) = recognition.payloads, recognition.values
    assert kind.write(payload.version, value) == payload
    rows = list(kind.rows(value))
    for field in kind.columns:
        pa.array([row.get(field.name) for row in rows], field.type).validate(full=True)
    pa.array([row.get("split_id") for row in rows], pa.string())
    for place in kind.positions(value) if kind.positions is not None else ():
        pa.array([place.stream, str(place.partition), str(place.next)], pa.string())


TARGETS: Mapping[str, Target] = {
    "connectors": Target(_plain(_connector_seeds, gently=0.5), _read_connector),
    "metadata": Target(_plain(_metadata_seeds), read_metadata),
    "canonical": Target(_damaged_snapshot("canonical"), _read_tables),
    "heap": Target(_damaged_snapshot("hashmap-native"), _read_tables),
    "changelog": Target(_plain(_change_sets, gently=0.6), _read_changes),
    "rocksdb": Target(_damaged_block, _read_database),
    "manifest": Target(_damaged_manifest, _read_families),
    "java": Target(_plain(_java_seeds), _read_java),
    "pickle": Target(_plain(_pickle_seeds), lambda data: encode_variant(read_pickle(data))),
    "kryo": Target(_plain(_kryo_seeds), _read_kryo),
    "kryo objects": Target(_plain(_object_seeds), _read_objects),
    "avro": Target(_plain(_avro_seeds), _read_avro),
    "notation": Target(_types, _read_notation),
}
