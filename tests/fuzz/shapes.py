"""Shapes of snapshots: sound ones that have very many of one thing, so that work which grows faster is noticed.

    python -m tests.fuzz.shapes                          every shape through every command, at two sizes
    python -m tests.fuzz.shapes --shape states case --command ls doctor --scale 4

A shape makes a snapshot of about ``n`` things; its bytes grow in proportion to ``n``. A command is a problem if twice
the bytes take more than :data:`RATIO` times the processor time or the memory (:class:`Measured`).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import io
import math
import statistics
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.command_line.main import main as command_line
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.snappy import ByteOutput
from pyspark_savepoint.formats.keyed.meta_info import (
    BackendStateType,
    KeyedBackendHeader,
    OperatorBackendHeader,
    StateMetaInfoSnapshot,
)
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStreamWriter
from pyspark_savepoint.formats.metadata import (
    NULL_PROPERTIES,
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
    write_metadata,
)
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import (
    KeyGroupRange,
    KeyGroupRangeOffsets,
    key_group_for_hash,
    range_for_operator_index,
)
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.operator_handles import ChannelStateHandle, OperatorStreamStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import (
    ByteStreamStateHandle,
    CheckpointedStateScope,
    FileStateHandle,
    SegmentFileStateHandle,
)
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.tables.keys import encode
from tests.data import located
from tests.fuzz.seeds import seeds_of
from tests.statebackends.keyed_models import VOID
from tests.statebackends.writing.written_operators import write

UID = "op"
HASHMAP, ROCKSDB = "lab/1.20.5-hashmap-native/savepoint", "lab/2.2.1-rocksdb-native/savepoint"
CHANGELOG = "datastream/udf-changelog-checkpoint-2.3/chk-2"
LONG = parse_type("LONG")
#: How much more processor time, or memory, twice the bytes may take; and what is not noticed, as it may be chance.
RATIO = 2.5
SECONDS, MEMORY = 0.1, 4 << 20
#: The power of the bytes by which time and memory may grow: n log n is below it, a square is 2.
SLOPE = 1.3
#: Values of one state in one key group: serialized key and value.
Entries = Sequence[tuple[bytes, bytes]]


def state(name: str, kind: str, type_text: str | TypeSerializer) -> StateMetaInfoSnapshot:
    """A keyed state."""
    value = parse_type(type_text) if isinstance(type_text, str) else type_text
    return StateMetaInfoSnapshot(
        name,
        BackendStateType.KEY_VALUE,
        {"KEYED_STATE_TYPE": kind},
        {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": VOID},
    )


def sample(kind: pa.DataType) -> Any:
    """A value of an Arrow type."""
    if pa.types.is_struct(kind):
        return {field.name: sample(field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(sample(kind.key_type), sample(kind.item_type))]
    if pa.types.is_list(kind):
        return [sample(kind.value_type)]
    if pa.types.is_binary(kind):
        return b"x"
    return "C0" if pa.types.is_string(kind) else 7


def bytes_of(serializer: TypeSerializer, value: Any = ...) -> bytes:
    """The bytes of a value, of some value if none is given."""
    kind = serializer.arrow_type(DecodeOptions())
    if isinstance(serializer, OpaqueSerializer):
        return b"value"
    if getattr(serializer, "subclasses", ()):
        return b"\1"  # null: a value would be of one of the classes
    data: bytes = encode(serializer, pa.array([sample(kind) if value is ... else value], kind))[0].as_py()
    return data


def keyed_subtask(
    states: Sequence[StateMetaInfoSnapshot],
    keys: Sequence[int] = (1,),
    max_parallelism: int = 128,
    owned: KeyGroupRange | None = None,
    key: TypeSerializer = LONG,
    own: bool = False,
) -> OperatorSubtaskState:
    """A subtask with keyed state, canonical: every key has the same value in every state; ``own``: key i in state i."""
    header = DataOutputView()
    KeyedBackendHeader(False, key, tuple(states)).write(header)
    data = bytearray(header.getvalue())
    owned = owned or KeyGroupRange(0, max_parallelism - 1)
    prefix = 1 if max_parallelism <= 128 else 2
    column = pa.array(keys, pa.int64())
    groups: dict[int, list[int]] = {}
    for number, code in zip(keys, LONG.java_hash(column).tolist(), strict=True):
        groups.setdefault(key_group_for_hash(code, max_parallelism), []).append(number)
    values = [bytes_of(meta.value_serializer) for meta in states if keys]
    offsets = []
    for group in range(owned.start, owned.end + 1):
        members = groups.get(group)
        offsets.append(len(data) if members else 0)
        for number, value in enumerate(values) if members else ():
            here = [each for each in members or () if not own or each == number]
            if not here:
                continue
            data += number.to_bytes(2, "big")
            entries = [group.to_bytes(prefix, "big") + bytes_of(key, each) + b"\0" for each in here]
            for at, entry in enumerate(entries):
                flag = 128 if at == len(entries) - 1 else 0
                data += len(entry).to_bytes(4, "big") + bytes([entry[0] | flag]) + entry[1:]
                data += len(value).to_bytes(4, "big") + value
        data += b"\xff\xff" if members else b""
    handle = KeyGroupsSavepointStateHandle(
        KeyGroupRangeOffsets(owned, tuple(offsets)), ByteStreamStateHandle("keyed", bytes(data))
    )
    return OperatorSubtaskState(managed_keyed_state=handle)


class _Buffer(ByteOutput):
    """A file in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: Any) -> None:
        self.data += data


def operator_subtask(
    lists: Sequence[str] = (), broadcasts: Sequence[str] = (), elements: int = 1
) -> OperatorSubtaskState:
    """A subtask with operator state: list states of LONG with some elements, and broadcast states."""
    long = {"VALUE_SERIALIZER": LONG}
    header = OperatorBackendHeader(
        5,
        False,
        tuple(
            StateMetaInfoSnapshot(
                name, BackendStateType.OPERATOR, {"OPERATOR_STATE_DISTRIBUTION_MODE": "SPLIT_DISTRIBUTE"}, long
            )
            for name in lists
        ),
        tuple(
            StateMetaInfoSnapshot(
                name,
                BackendStateType.BROADCAST,
                {"OPERATOR_STATE_DISTRIBUTION_MODE": "BROADCAST"},
                {"KEY_SERIALIZER": LONG, **long},
            )
            for name in broadcasts
        ),
    )
    file = _Buffer()
    writer = OperatorStreamWriter(file, header)
    data = np.frombuffer(bytes(8 * elements), np.uint8)
    for name in lists:
        writer.add_list(name, data, np.arange(elements + 1, dtype=np.int64) * 8)
    for name in broadcasts:
        pairs = np.arange(elements, dtype=">i8").repeat(2)
        writer.add_broadcast(name, elements, pairs.view(np.uint8))
    states = tuple(writer.finish().values())
    return OperatorSubtaskState(
        managed_operator_state=OperatorStreamStateHandle(states, ByteStreamStateHandle("operator", bytes(file.data)))
    )


def operator(
    subtasks: Mapping[int, OperatorSubtaskState] | OperatorSubtaskState,
    uid: str = UID,
    max_parallelism: int = 128,
    name: str | None = None,
) -> OperatorState:
    """An operator."""
    subtasks = {0: subtasks} if isinstance(subtasks, OperatorSubtaskState) else subtasks
    return OperatorState(OperatorID.from_uid(uid), len(subtasks), max_parallelism, name or uid, uid, subtasks=subtasks)


def snapshot(*operators: OperatorState, masters: Sequence[MasterState] = ()) -> CheckpointMetadata:
    """A savepoint of Flink 2.3."""
    return CheckpointMetadata(6, 1, tuple(masters), operators, NULL_PROPERTIES)


def cased(count: int, length: int = 16) -> list[str]:
    """Names that differ only in case."""
    assert count <= 1 << length
    return ["".join("aA"[number >> bit & 1] for bit in range(length)) for number in range(count)]


def _one(states: Sequence[StateMetaInfoSnapshot], **more: Any) -> CheckpointMetadata:
    return snapshot(operator(keyed_subtask(states, **more), max_parallelism=more.get("max_parallelism", 128)))


def _nested(text: str, count: int) -> CheckpointMetadata:
    """Many states of a type that is 30 deep."""
    deep = parse_type(text * 30 + "LONG" + ">" * 30)
    return _one([state(f"s{i}", "VALUE", deep) for i in range(count)])


def _subtasks(count: int) -> CheckpointMetadata:
    states = [state("s", "VALUE", "LONG")]
    each = {}
    for index in range(count):
        owned = range_for_operator_index(count, count, index)
        each[index] = keyed_subtask(states, (), count, owned)
    return snapshot(operator(each, max_parallelism=count))


def _channels(count: int) -> CheckpointMetadata:
    data = ByteStreamStateHandle("channels", b"\0\0\0\4\0\0\0\0" * 2)
    handles = tuple(ChannelStateHandle(0, (0, i), (0,), 8, data) for i in range(count))
    return snapshot(operator(replace(keyed_subtask([state("s", "VALUE", "LONG")]), input_channel_state=handles)))


def _sparse(count: int) -> CheckpointMetadata:
    """Every state has one key that no other has."""
    return _one([state(f"s{i}", "VALUE", "LONG") for i in range(count)], keys=range(count), own=True)


def _declared(count: int) -> CheckpointMetadata:
    """One handle of all key groups, of an operator that says to have had a subtask for each."""
    whole = operator(keyed_subtask([state(f"s{i}", "VALUE", "LONG") for i in range(20)], (1,), count), UID, count)
    return snapshot(replace(whole, parallelism=count))


def _paths(count: int) -> CheckpointMetadata:
    """Handles whose paths have as many parts as a text can hold."""
    owned = [range_for_operator_index(count, count, index) for index in range(count)]
    subtasks = {
        index: OperatorSubtaskState(
            managed_keyed_state=KeyGroupsSavepointStateHandle(
                KeyGroupRangeOffsets(groups, (0,)), FileStateHandle("file:/" + "a/" * 32_000 + f"{index}", 1)
            )
        )
        for index, groups in enumerate(owned)
    }
    return snapshot(operator(subtasks, max_parallelism=count))


def _timers(count: int) -> CheckpointMetadata:
    timer = parse_type("TIMER<LONG, VOID_NAMESPACE>")
    metas = [
        StateMetaInfoSnapshot(
            f"_timer_state/{domain}_{i}", BackendStateType.PRIORITY_QUEUE, {}, {"VALUE_SERIALIZER": timer}
        )
        for i in range(count)
        for domain in ("event", "processing")
    ]
    return _one(metas, keys=())


def _fields(names: Sequence[str]) -> str:
    return f"POJO<com.shop.Wide>({', '.join(f'{name} LONG' for name in names)})"


def _subclasses(numbers: Sequence[int]) -> str:
    registered = ", ".join(f"C{i} POJO<C{i}>(x LONG, f{i} INT)" for i in numbers)
    return f"POJO<com.shop.Base>(x LONG) REGISTERED({registered}) SUBCLASSES({registered.replace('C', 'D')})"


@functools.cache
def real_subtask(path: str, uid: str) -> OperatorSubtaskState:
    """The first subtask of an operator that real Flink wrote, its bytes inline."""
    wanted = OperatorID.from_uid(uid)
    (found,) = (each for seed in seeds_of(located(path)) for each in seed.operators if each.operator_id == wanted)
    return OperatorSubtaskState(managed_keyed_state=found.subtasks[0].managed_keyed_state)


def _rescaled(path: str, uid: str, count: int) -> CheckpointMetadata:
    """A subtask per part of the key groups, each with all files, as after a restore with another parallelism."""
    handle: Any = real_subtask(path, uid).managed_keyed_state
    parts = (range_for_operator_index(handle.key_group_range.end + 1, count, index) for index in range(count))
    subtasks = {
        index: OperatorSubtaskState(managed_keyed_state=handle.intersection(part)) for index, part in enumerate(parts)
    }
    return snapshot(operator(subtasks))


def _changes(count: int, handles: int) -> CheckpointMetadata:
    """The changes of a changelog again and again, in as many handles."""
    handle: Any = real_subtask(CHANGELOG, "function").managed_keyed_state
    (part,) = handle.non_materialized
    parts = (replace(part, changes=part.changes * (count // handles)),) * handles
    changed = OperatorSubtaskState(managed_keyed_state=replace(handle, non_materialized=parts))
    return snapshot(operator(changed))


def _files(count: int) -> CheckpointMetadata:
    """A database with files that its manifest does not name."""
    handle: Any = real_subtask(ROCKSDB, "kv-tuple").managed_keyed_state
    more = tuple(replace(handle.private_state[0], local_path=f"{i:06}.sst") for i in range(1000, 1000 + count))
    return snapshot(operator(OperatorSubtaskState(managed_keyed_state=replace(handle, shared_state=more))))


def _segments(count: int) -> CheckpointMetadata:
    """Subtasks whose state is a part of one file."""
    scope = CheckpointedStateScope.EXCLUSIVE
    subtasks = {
        index: OperatorSubtaskState(
            managed_keyed_state=KeyGroupsSavepointStateHandle(
                KeyGroupRangeOffsets(range_for_operator_index(count, count, index), (0,)),
                SegmentFileStateHandle("file:/shared/one", index, 1, scope, f"{index}"),
            )
        )
        for index in range(count)
    }
    return snapshot(operator(subtasks, max_parallelism=count))


def _met(count: int) -> CheckpointMetadata:
    """Subtasks that each met a subclass of a POJO that no other met."""
    subtasks = {}
    for index in range(count):
        text = f"POJO<com.shop.Base>(x LONG) SUBCLASSES(D{index} POJO<D{index}>(x LONG, f{index} INT))"
        owned = range_for_operator_index(count, count, index)
        subtasks[index] = keyed_subtask([state("s", "VALUE", text)], (), count, owned)
    return snapshot(operator(subtasks, max_parallelism=count))


def _inherited(count: int) -> CheckpointMetadata:
    """A POJO whose subclass has a subclass, and so on, 20 times, in many states."""
    text = "POJO<C0>(x LONG)"
    for level in range(1, 20):
        text = f"POJO<C{level}>(x LONG, y{level} LONG) SUBCLASSES(D{level} {text})"
    deep = parse_type(text)
    return _one([state(f"s{i}", "VALUE", deep) for i in range(count)])


@dataclass(frozen=True)
class Shape:
    """A kind of snapshot: how it is made of a number, and the number that takes some tenths of a second.

    ``most`` is the largest number: there are no more than 32,768 key groups, and a real file has those that it has.
    """

    make: Callable[[int], CheckpointMetadata]
    count: int
    most: int = 32_768


SHAPES: Mapping[str, Shape] = {
    "states": Shape(lambda n: _one([state(f"state-{i}", "VALUE", "LONG") for i in range(n)]), 1000),
    "case": Shape(lambda n: _one([state(name, "VALUE", "LONG") for name in cased(n)]), 1000),
    "states named as columns": Shape(
        lambda n: _one(
            [state(name, "VALUE", "LONG") for name in ["key", *("state_" * i + "key" for i in range(1, n))]]
        ),
        60,
    ),
    "states and keys of their own": Shape(_sparse, 300),
    "states and key groups": Shape(
        lambda n: _one([state(f"s{i}", "VALUE", "LONG") for i in range(n)], keys=range(n), max_parallelism=n, own=True),
        500,
    ),
    "declared parallelism": Shape(_declared, 500),
    "unknown serializers": Shape(
        lambda n: _one([state(f"s{i}", "VALUE", OpaqueSerializer("com.shop.Own", 1, b"x" * 9)) for i in range(n)]), 40
    ),
    "map states": Shape(lambda n: _one([state(f"s{i}", "MAP", "MAP<STRING, LONG>") for i in range(n)]), 1000),
    "list states": Shape(lambda n: _one([state(f"s{i}", "LIST", "LIST<LONG>") for i in range(n)]), 1000),
    "long names": Shape(lambda n: _one([state(f"{i}" + "x" * 60_000, "VALUE", "LONG") for i in range(n)]), 12),
    "operators": Shape(
        lambda n: snapshot(
            *(operator(keyed_subtask([state("s", "VALUE", "LONG")]), UID + f"-{i}" * (i > 0)) for i in range(n))
        ),
        400,
    ),
    "operators without state": Shape(
        lambda n: snapshot(
            operator(keyed_subtask([state("s", "VALUE", "LONG")])),
            *(OperatorState(OperatorID(i.to_bytes(16, "big")), 1, 1 + i % 32_768, None, None) for i in range(n)),
        ),
        8000,
        1_000_000,
    ),
    "operators of case": Shape(
        lambda n: snapshot(*(operator(keyed_subtask([state("s", "VALUE", "LONG")]), uid) for uid in cased(n))), 400
    ),
    "operators of one name": Shape(
        lambda n: snapshot(
            *(operator(keyed_subtask([state("s", "VALUE", "LONG")]), f"o{i}", name="same") for i in range(n))
        ),
        400,
    ),
    "subtasks": Shape(_subtasks, 500),
    "key groups": Shape(lambda n: _one([state("s", "VALUE", "LONG")], keys=range(n), max_parallelism=n), 4000),
    "states and keys": Shape(
        lambda n: _one([state(f"s{i}", "VALUE", "LONG") for i in range(50)], keys=range(n), max_parallelism=128), 500
    ),
    "fields": Shape(lambda n: _one([state("s", "VALUE", _fields([f"f{i}" for i in range(n)]))]), 1000),
    "fields of case": Shape(lambda n: _one([state("s", "VALUE", _fields(cased(n)))]), 1000),
    "subclasses": Shape(lambda n: _one([state("s", "VALUE", _subclasses(range(n)))]), 500),
    "states with subclasses": Shape(
        lambda n: _one([state(f"s{i}", "VALUE", _subclasses([i, i + 1])) for i in range(n)]), 300
    ),
    "rows": Shape(lambda n: _one([state("s", "VALUE", f"ROW<{', '.join(['LONG'] * n)}>")]), 1000),
    "deep lists": Shape(lambda n: _nested("LIST<", n), 30),
    "deep tuples": Shape(lambda n: _nested("TUPLE<", n), 30),
    "enum": Shape(
        lambda n: _one([state("s", "VALUE", f"ENUM<com.shop.Suit>({', '.join(f'C{i}' for i in range(n))})")]), 4000
    ),
    "operator states": Shape(lambda n: snapshot(operator(operator_subtask([f"l{i}" for i in range(n)]))), 1000),
    "operator states of case": Shape(lambda n: snapshot(operator(operator_subtask(cased(n)))), 1000),
    "broadcast states": Shape(lambda n: snapshot(operator(operator_subtask((), [f"b{i}" for i in range(n)]))), 1000),
    "broadcast entries": Shape(
        lambda n: snapshot(operator(operator_subtask((), ["b"], elements=n))), 50_000, 10_000_000
    ),
    "elements": Shape(lambda n: snapshot(operator(operator_subtask(["l"], elements=n))), 50_000, 10_000_000),
    "operator states in subtasks": Shape(
        lambda n: snapshot(operator(dict.fromkeys(range(n), operator_subtask([f"l{i}" for i in range(20)])))), 50
    ),
    "heap subtasks": Shape(lambda n: _rescaled(HASHMAP, "kv-tuple", n), 32, 64),
    "RocksDB subtasks": Shape(lambda n: _rescaled(ROCKSDB, "kv-tuple", n), 16, 64),
    "RocksDB files": Shape(_files, 100),
    "changes": Shape(lambda n: _changes(n, 1), 200),
    "changelog handles": Shape(lambda n: _changes(n, n), 200),
    "segments of a file": Shape(_segments, 2000),
    "subclasses that subtasks met": Shape(_met, 100),
    "subclasses of subclasses": Shape(_inherited, 30),
    "timers": Shape(_timers, 400),
    "channels": Shape(_channels, 3000),
    "paths": Shape(_paths, 20),
    "masters": Shape(
        lambda n: snapshot(
            operator(keyed_subtask([state("s", "VALUE", "LONG")])),
            masters=[MasterState(1, f"m{i}", b"x") for i in range(n)],
        ),
        4000,
    ),
}


def run_command(*words: str) -> None:
    """A command of the command line, whose output nobody reads; its errors are of this package."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        command_line(list(words))
    if "this is a bug" in err.getvalue():
        raise AssertionError(err.getvalue()[:2000])


def read_table(path: str, **request: Any) -> None:
    """All rows of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for partition in open_table(TableRequest(path, **request)).partitions(2):
            for _ in partition.batches():
                pass


def _refusable(work: Callable[[], object]) -> None:
    with contextlib.suppress(SavepointError):
        work()


def _write(path: str, uid: str, column: str, **how: Any) -> None:
    """A row of an operator, written into the snapshot."""
    rows = pa.table({"key": pa.array([5], pa.int64()), column: pa.array([5], pa.int64())})
    _refusable(lambda: write(path, [rows], uid=uid, key=("key",), **how))


def _folder(path: str, scratch: str) -> str:
    """A folder of the snapshot as two checkpoints of a job."""
    data = (Path(path) / "_metadata").read_bytes()
    for number in (1, 2):
        folder = Path(scratch) / "job" / f"chk-{number}"
        folder.mkdir(parents=True)
        (folder / "_metadata").write_bytes(data[:8] + number.to_bytes(8, "big") + data[16:])
    return f"{scratch}/job"


def _small(path: str) -> str:
    """A savepoint of one operator that no shape has."""
    Path(path).mkdir()
    metadata = snapshot(operator(keyed_subtask([state("s", "VALUE", "LONG")]), "small"))
    (Path(path) / "_metadata").write_bytes(write_metadata(metadata))
    return path


def _rest(path: str, scratch: str) -> tuple[str, ...]:
    """The words of a split for what it does not name, where there is anything."""
    return ("--rest", f"{scratch}/b") if len(Snapshot.open(path).operators) > 1 else ()


def _erase_and_verify(path: str, scratch: str) -> None:
    run_command("erase", path, f"{scratch}/new", "--keys", "1", "--report", f"{scratch}/report.json")
    run_command("verify-erasure", f"{scratch}/new", f"{scratch}/report.json", "--keys", "1")


#: What a hostile snapshot goes through: commands, tables, an edit. Each gets the snapshot and an empty folder.
COMMANDS: Mapping[str, Callable[[str, str], None]] = {
    **{
        name: (lambda path, _, words=words: run_command(words[0], path, *words[1:]))  # type: ignore[misc]
        for name, words in {
            "ls": ("ls",),
            "show": ("show", UID),
            "show timers": ("show", UID, "--table", "timers"),
            "sizes": ("sizes",),
            "heaviest": ("heaviest",),
            "verify": ("verify",),
            "doctor": ("doctor",),
            "offsets": ("offsets",),
            "schema": ("schema",),
            "metrics": ("metrics",),
            "show keys": ("show", UID, "--keys", "1", "5"),
            "show files": ("show", "--table", "files"),
            "retained": ("retained",),
            "vacuum": ("vacuum",),
            "check-migration": ("check-migration", "--flink", "1.20"),
        }.items()
    },
    "diff": lambda path, _: run_command("diff", path, path),
    "diff of an operator": lambda path, _: run_command("diff", path, path, UID),
    "check-restore": lambda path, _: run_command("check-restore", path, path),
    "report": lambda path, scratch: run_command("report", path, "--file", f"{scratch}/report.html"),
    "export": lambda path, scratch: run_command("export", path, UID, "--file", f"{scratch}/rows.parquet"),
    "verify-erasure": lambda path, scratch: _erase_and_verify(path, scratch),
    "merge": lambda path, scratch: run_command("merge", path, _small(f"{scratch}/small"), f"{scratch}/new"),
    "split": lambda path, scratch: run_command("split", path, "--to", f"{scratch}/a", UID, *_rest(path, scratch)),
    **{
        name: (lambda path, scratch, words=words: run_command(words[0], path, f"{scratch}/new", *words[1:]))  # type: ignore[misc]
        for name, words in {
            "cp": ("cp",),
            "pin": ("pin",),
            "migrate": ("migrate", "--flink", "1.20"),
            "erase": ("erase", "--keys", "1", "5"),
            "remove": ("remove", f"{UID}.s1"),
            "remove-keys": ("remove-keys", UID, "--keys", "1"),
            "rename": ("rename", f"{UID}=another"),
            "rename a state": ("rename", f"{UID}.s1=another"),
            "copy-operator": ("copy-operator", UID, "copy"),
            "set-max-parallelism": ("set-max-parallelism", "32768"),
            "set-offsets": ("set-offsets", "--by", "1"),
            "portable": ("rename", f"{UID}=another", "--portable"),
        }.items()
    },
    "relocate": lambda path, scratch: run_command("relocate", path, "file:/a", "file:/b", f"{scratch}/new"),
    **{
        name: (lambda path, scratch, words=words: run_command(words[0], _folder(path, scratch), *words[1:]))  # type: ignore[misc]
        for name, words in {
            "ls of a folder": ("ls",),
            "changes": ("changes", UID, "--limit", "0"),
            "net changes": ("changes", UID, "--net", "--start", "2"),
            "changes of timers": ("changes", UID, "--table", "timers"),
            "offsets of a folder": ("offsets", "--history"),
        }.items()
    },
    "report of a folder": lambda path, scratch: run_command(
        "report", _folder(path, scratch), "--file", f"{scratch}/report.html"
    ),
    "write an operator": lambda path, _: _write(path, "another", "s"),
    "overwrite an operator": lambda path, _: _write(path, UID, "s", overwrite=True),
    "add a state": lambda path, _: _write(path, UID, "added", state="added", overwrite=True),
    "overwrite a state": lambda path, _: _write(path, UID, "s1", state="s1", overwrite=True),
    **{
        table: (lambda path, _, table=table: _refusable(lambda: read_table(path, table=table)))  # type: ignore[misc]
        for table in ("metadata", "statements", "ttl_ages")
    },
    "operator_state": lambda path, _: _refusable(lambda: read_table(path, uid=UID, table="operator_state", state="l0")),
    "wrong state": lambda path, _: _refusable(lambda: read_table(path, uid=UID, state="sttae-1")),
    "keyed_state": lambda path, _: _refusable(lambda: read_table(path, uid=UID, table="keyed_state")),
    "in_flight": lambda path, _: _refusable(lambda: read_table(path, uid=UID, table="in_flight")),
}


@dataclass(frozen=True)
class Measured:
    """Bytes of a snapshot, and what a command took."""

    size: int
    seconds: float
    memory: int

    def problem(self, smaller: Measured) -> str | None:
        """Say what grew faster than the bytes did; None if nothing did."""
        allowed = RATIO / 2 * self.size / smaller.size
        if self.seconds > allowed * smaller.seconds + SECONDS:
            return f"{smaller.seconds:.2f} s for {smaller.size:,} bytes, {self.seconds:.2f} s for {self.size:,}"
        if self.memory > allowed * smaller.memory + MEMORY:
            return f"{smaller.memory:,} bytes for {smaller.size:,} bytes, {self.memory:,} for {self.size:,}"
        return None


@contextlib.contextmanager
def made(metadata: CheckpointMetadata) -> Iterator[tuple[str, int]]:
    """A folder with the snapshot, and its bytes."""
    with tempfile.TemporaryDirectory(prefix="savepoint-shape-") as folder:
        path = Path(folder) / "savepoint"
        path.mkdir()
        data = write_metadata(metadata)
        (path / "_metadata").write_bytes(data)
        yield str(path), len(data)


def timed(size: int, work: Callable[[], object], *, memory: bool = False) -> Measured:
    """What some work takes: processor seconds, or the peak of Python's memory; errors of this package are answers."""
    gc.disable()  # its passes come in steps: twice as many objects then took up to 2.9 times as long
    if memory:
        tracemalloc.start()
    start = time.process_time()
    try:
        _refusable(work)
        seconds = time.process_time() - start
        return Measured(size, seconds, tracemalloc.get_traced_memory()[1] if memory else 0)
    finally:
        gc.enable()
        tracemalloc.stop()


def growth(costs: Sequence[Measured]) -> str | None:
    """Say what grows faster than the bytes: the slope of a line through the logarithms is that of a square, not of one.

    Less than :data:`SECONDS` and :data:`MEMORY` count as that much, so that only what is noticed has a slope.
    """
    sizes = [math.log(cost.size) for cost in costs]
    for what, floor, values in (
        ("seconds", SECONDS, [cost.seconds for cost in costs]),
        ("bytes of memory", MEMORY, [float(cost.memory) for cost in costs]),
    ):
        slope = statistics.linear_regression(sizes, [math.log(max(value, floor)) for value in values]).slope
        if slope > SLOPE:
            listed = ", ".join(f"{value:,.2f} for {cost.size:,}" for cost, value in zip(costs, values, strict=True))
            return f"{what} grow by the power of {slope:.2f}: {listed} bytes"
    return None


def measured(shape: str, command: str, count: int, *, memory: bool = False) -> Measured:
    """What a command takes for a shape of some size: processor seconds, or the peak of Python's memory."""
    with made(SHAPES[shape].make(count)) as (path, size), tempfile.TemporaryDirectory() as scratch:
        return timed(size, lambda: COMMANDS[command](path, scratch), memory=memory)


def problem_of(shape: str, command: str, scale: float = 1.0, *, memory: bool = False) -> tuple[str | None, Measured]:
    """Say what grew faster than the bytes, thrice, as chance does not repeat itself; and what the larger one took."""
    count = max(2, min(int(SHAPES[shape].count * scale), SHAPES[shape].most // 2))
    for _ in range(3):  # what is interpreted at one size can be compiled at the next
        small, large = (measured(shape, command, each, memory=memory) for each in (count, 2 * count))
        problem = large.problem(small)
        if problem is None:
            break
    return problem, large


def main() -> int:
    """Print what grows faster than the bytes; 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.shapes", description=__doc__)
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--command", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--scale", type=float, default=1.0, help="times the size of each shape")
    parser.add_argument("--memory", action="store_true", help="compare memory, too (slow)")
    args = parser.parse_args()
    found = 0
    for command in args.command:
        measured("states", command, 2)  # compiles
        for shape in args.shape:
            for memory in (False, True) if args.memory else (False,):
                problem, large = problem_of(shape, command, args.scale, memory=memory)
                found += problem is not None
                if problem or large.seconds > 1:
                    told = problem or f"{large.seconds:.1f} s for {large.size:,} bytes"
                    print(f"{'PROBLEM' if problem else 'slow'}: {command} of {shape}: {told}", flush=True)
    print(f"{len(args.command)} commands, {len(args.shape)} shapes: {found} problems")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
