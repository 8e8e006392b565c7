"""Canonical savepoints of any size for measurements: two value states, as Flink lays them out.

Millions of keys would take a Flink job minutes to build; the bytes here are the same (the tests read a real one of
the same shape). One operator ``bench``, keys long or 13-character strings, states ``total`` LONG and ``count`` INT.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets, range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from tests.statebackends.keyed_models import VOID, basic

UID = "bench"


def key_groups(hashes: Any, max_parallelism: int) -> Any:
    """The key group of every Java hash."""
    with np.errstate(over="ignore"):
        c = hashes.astype(np.uint32) * np.uint32(0xCC9E2D51)
        c = (c << np.uint32(15)) | (c >> np.uint32(17))
        c *= np.uint32(0x1B873593)
        c = (c << np.uint32(13)) | (c >> np.uint32(19))
        c = c * np.uint32(5) + np.uint32(0xE6546B64)
        c ^= np.uint32(4)
        c = (c ^ (c >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        c = (c ^ (c >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        c ^= c >> np.uint32(16)
    return np.abs(c.view(np.int32).astype(np.int64)) % max_parallelism


def make_keys(kind: str, count: int) -> tuple[Any, Any]:
    """Serialized keys as rows of bytes, and their Java hashes."""
    numbers = np.arange(count, dtype=np.uint64)
    if kind == "long":
        with np.errstate(over="ignore"):
            values = numbers * np.uint64(0x9E3779B97F4A7C15)
        return values.astype(">u8").view(np.uint8).reshape(count, 8), (values ^ (values >> np.uint64(32)))
    text = np.empty((count, 14), np.uint8)
    text[:, 0] = 14
    text[:, 1:5] = np.frombuffer(b"key-", np.uint8)
    rest = numbers.copy()
    for digit in range(13, 4, -1):
        text[:, digit] = 48 + (rest % np.uint64(10)).astype(np.uint8)
        rest //= np.uint64(10)
    hashes = np.zeros(count, np.uint32)
    for column in range(1, 14):
        hashes = hashes * np.uint32(31) + text[:, column]
    return text, hashes


def entries(keys: Any, group: int, prefix: int, values: Any) -> bytearray:
    """One state's entries of one key group, its last one flagged."""
    count, key_size = keys.shape
    width = values.dtype.itemsize
    size = prefix + key_size + 1
    rows = np.zeros((count, 4 + size + 4 + width), np.uint8)
    rows[:, 0:4] = np.frombuffer(size.to_bytes(4, "big"), np.uint8)
    rows[:, 4 : 4 + prefix] = np.frombuffer(group.to_bytes(prefix, "big"), np.uint8)
    rows[:, 4 + prefix : 4 + prefix + key_size] = keys
    rows[:, 4 + size : 8 + size] = np.frombuffer(width.to_bytes(4, "big"), np.uint8)
    rows[:, 8 + size :] = values.astype(values.dtype.newbyteorder(">")).view(np.uint8).reshape(count, width)
    rows[-1, 4] |= 0x80
    return bytearray(rows.tobytes())


def write_savepoint(
    path: Path, kind: str, count: int, *, max_parallelism: int = 128, parallelism: int = 2, ordered: bool = True
) -> Path:
    """A canonical savepoint; ``ordered``: sorted by key as RocksDB writes it, else shuffled as the hashmap does."""
    path.mkdir(parents=True)
    keys, hashes = make_keys(kind, count)
    groups = key_groups(np.asarray(hashes & np.uint64(0xFFFFFFFF) if kind == "long" else hashes), max_parallelism)
    shuffle = np.random.default_rng(1)
    subtasks = {}
    for index in range(parallelism):
        owned = range_for_operator_index(max_parallelism, parallelism, index)
        name = f"state-{index}"
        offsets, size = _write_stream(
            path / name, kind, keys, groups, owned, max_parallelism, shuffle if not ordered else None
        )
        handle = KeyGroupsSavepointStateHandle(
            KeyGroupRangeOffsets(owned, tuple(offsets)), RelativeFileStateHandle(name, size)
        )
        subtasks[index] = OperatorSubtaskState(managed_keyed_state=handle)
    operator = OperatorState(OperatorID.from_uid(UID), parallelism, max_parallelism, subtasks=subtasks)
    (path / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, 1, operators=(operator,))))
    return path


def header_of(kind: str, states: Mapping[str, str]) -> bytes:
    """Return the header of a stream with value states, whose types are stems of Flink's serializers."""
    registered = tuple(
        StateMetaInfoSnapshot(
            name,
            BackendStateType.KEY_VALUE,
            {"KEYED_STATE_TYPE": "VALUE"},
            {"VALUE_SERIALIZER": basic(stem), "NAMESPACE_SERIALIZER": VOID},
        )
        for name, stem in states.items()
    )
    head = DataOutputView()
    KeyedBackendHeader(False, basic("Long" if kind == "long" else "String"), registered).write(head)
    return head.getvalue()


def _write_stream(
    path: Path, kind: str, keys: Any, groups: Any, owned: KeyGroupRange, max_parallelism: int, shuffle: Any
) -> tuple[list[int], int]:
    head = header_of(kind, {"total": "Long", "count": "Int"})
    prefix = 2 if max_parallelism > 128 else 1
    offsets = []
    with path.open("wb") as file:
        file.write(head)
        for group in owned:
            rows = np.flatnonzero(groups == group)
            offsets.append(file.tell() if len(rows) else 0)
            if not len(rows):
                continue
            order = np.lexsort(keys[rows].T[::-1]) if shuffle is None else shuffle.permutation(len(rows))
            rows = rows[order]
            for state, dtype in enumerate((np.int64, np.int32)):
                file.write(state.to_bytes(2, "big"))
                if state and shuffle is not None:
                    rows = rows[shuffle.permutation(len(rows))]
                file.write(entries(keys[rows], group, prefix, (rows % 1000003).astype(dtype)))
            file.write(b"\xff\xff")
        return offsets, file.tell()


def write_wide_savepoint(path: Path, operators: int, subtasks: int, *, keys: int = 2000) -> Path:
    """A savepoint of many small state files: each operator has the same keys, in a file per subtask."""
    path.mkdir(parents=True)
    serialized, hashes = make_keys("long", keys)
    groups = key_groups(np.asarray(hashes & np.uint64(0xFFFFFFFF)), 128)
    files = []
    for index in range(subtasks):
        owned = range_for_operator_index(128, subtasks, index)
        offsets, size = _write_stream(path / "file", "long", serialized, groups, owned, 128, None)
        files.append((KeyGroupRangeOffsets(owned, tuple(offsets)), size, (path / "file").read_bytes()))
    (path / "file").unlink()
    described = []
    for number in range(operators):
        states = {}
        for index, (offsets_of_file, size, data) in enumerate(files):
            name = f"{number}-{index}"
            (path / name).write_bytes(data)
            handle = KeyGroupsSavepointStateHandle(offsets_of_file, RelativeFileStateHandle(name, size))
            states[index] = OperatorSubtaskState(managed_keyed_state=handle)
        described.append(OperatorState(OperatorID.from_uid(f"{UID}-{number}"), subtasks, 128, subtasks=states))
    (path / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, 1, operators=tuple(described))))
    return path
