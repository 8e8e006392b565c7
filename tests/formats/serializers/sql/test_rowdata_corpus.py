"""Every row of real SQL savepoints: keys in their key groups, values to the last byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.layout import count_until_end, decode_elements
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.data import located
from tests.formats.serializers.codec_checks import encode

LAB = "lab/2.2.1-hashmap-canonical-sql/savepoint"
END_OF_KEY_GROUP = 0xFFFF
OPTIONS = DecodeOptions(row_kind=True)


@dataclass
class Entries:
    """The entries of one state: key groups, composite keys without the prefix, values."""

    meta: StateMetaInfoSnapshot
    key: TypeSerializer
    max_parallelism: int
    groups: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)


def states_of(path: Path, uid: str | None = None) -> Iterator[Entries]:
    """All keyed states of a canonical savepoint, except timers."""
    savepoint = Snapshot.open(str(path))
    for operator in [savepoint.operator(uid=uid)] if uid else savepoint.operators:
        for subtask in operator.subtasks.values():
            handle = subtask.managed_keyed_state
            if handle is None:
                continue
            assert isinstance(handle, KeyGroupsSavepointStateHandle)
            with savepoint.open_state(handle.delegate, operator) as source:
                data = bytes(source.read(0, source.size))
            header = KeyedBackendHeader.read(DataInputView(data))
            states = [Entries(meta, header.key_serializer, operator.max_parallelism) for meta in header.states]
            for key_group, offset in handle.offsets:
                if offset:
                    read_key_group(DataInputView(data[offset:]), key_group, states)
            yield from (state for state in states if state.values and state.meta.state_type != "TIMER")


def read_key_group(view: DataInputView, key_group: int, states: list[Entries]) -> None:
    state = view.read_u16()
    while state != END_OF_KEY_GROUP:
        key = bytearray(view.read_blob())
        last = key[0] & 0x80
        key[0] &= 0x7F
        assert key[0] == key_group
        states[state].groups.append(key_group)
        states[state].keys.append(bytes(key[1:]))
        states[state].values.append(view.read_blob())
        if last:
            state = view.read_u16()


def check(serializer: TypeSerializer, at: Cursors) -> pa.Array:
    """Values that end at the ends are read, and rows are written as they were."""
    start = at.position.copy()
    column = serializer.decode(at)
    column.validate(full=True)
    if isinstance(serializer, RowDataSerializer):
        written = [at.buffer[first:end].tobytes() for first, end in zip(start, at.position, strict=True)]
        assert encode(serializer, column) == written
    return column


def check_values(state: Entries, at: Cursors) -> None:
    """The values of VALUE, LIST and MAP states, as far as their serializers are SQL's own."""
    serializer = state.meta.value_serializer
    if state.meta.state_type == "LIST":
        (element,) = serializer.children
        decode_elements(element, at, count_until_end(element, at, 1), 1).validate(full=True)
    elif state.meta.state_type == "MAP":
        assert not at.buffer[at.position].any()
        at.position += 1
        check(serializer.children[1], at)
    else:
        check(serializer, at)
    at.expect_end()


@pytest.mark.parametrize("folder", ["sql", "migration/sql", LAB])
def test_rows_of_real_savepoints(folder: str) -> None:
    paths = [path.parent for path in sorted(located(folder).rglob("_metadata"))]
    rows = 0
    for state in (state for path in paths for state in states_of(path)):
        at = Cursors.over(state.keys, options=OPTIONS)
        keys = check(state.key, at)
        hashes = state.key.java_hash(keys).tolist()
        assert [key_group_for_hash(java_hash, state.max_parallelism) for java_hash in hashes] == state.groups
        if not state.meta.value_serializer.opaque_parts():
            check_values(state, Cursors.over(state.values, options=OPTIONS))
        rows += len(keys)
    assert rows > 370


def test_content_of_a_real_savepoint(corpus: Path) -> None:
    """The last row of every key, as the job that wrote the savepoint knew it."""
    described = json.loads((corpus / LAB).with_name("expected.json").read_text())
    expected = {row["id"]: row for row in described["operators"][0]["dedup-last"]}
    found = {}
    for state in states_of(corpus / LAB, "29_deduplicate"):
        column = check(state.meta.value_serializer, Cursors.over(state.values, options=OPTIONS))
        found |= {row["f0"]: row for row in column.to_pylist()}
    assert found.keys() == expected.keys()
    for key, row in found.items():
        want = expected[key]
        values = [row[f"f{index}"] for index in range(11)]
        assert values[:2] == [key, want["k"]]
        assert (str(values[2]) if values[2] is not None else None) == want["dec"]
        assert (values[3].isoformat(timespec="milliseconds") if values[3] else None) == at_millis(want["ts"])
        assert values[4:9] == [want[name] for name in ("vc", "d", "i", "flag", "tags")]
        assert values[9] == (None if want["props"] is None else [tuple(entry) for entry in want["props"]["map"]])
        assert (None if values[10] is None else list(values[10].values())) == (want["sub"] and want["sub"]["row"])


def at_millis(text: str | None) -> str | None:
    """Java leaves out what is zero."""
    return None if text is None else datetime.fromisoformat(text).isoformat(timespec="milliseconds")
