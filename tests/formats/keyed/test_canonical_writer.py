"""Keyed streams, written: byte for byte what the specification says, whatever order entries arrive in."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import SpillError
from pyspark_savepoint.formats.io import local_files, snappy
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter, Entries
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.serializers.basic.primitives import NumberSerializer
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE
from tests.open_files import open_files

Pairs = list[tuple[bytes, bytes]]
#: Entries by key group and state.
Content = dict[int, dict[int, Pairs]]
STATES = 4
LONG = NumberSerializer.of("org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot")
METAS = tuple(
    StateMetaInfoSnapshot(
        f"state {i}",
        BackendStateType.KEY_VALUE,
        {"KEYED_STATE_TYPE": "VALUE"},
        {"VALUE_SERIALIZER": LONG, "NAMESPACE_SERIALIZER": NO_NAMESPACE},
    )
    for i in range(STATES)
)
FIRST, LAST = 3, 40


def header(compressed: bool) -> tuple[KeyedBackendHeader, bytes]:
    head = KeyedBackendHeader(compressed, LONG, METAS)
    view = DataOutputView()
    head.write(view)
    return head, view.getvalue()


def entries(pairs: Pairs) -> Entries:
    """Spans that do not lie side by side."""
    keys, values = [[b"<" + pair[i] for pair in pairs] for i in (0, 1)]
    key_end, value_end = [np.cumsum([len(part) for part in parts], dtype=np.int64) for parts in (keys, values)]
    key_start = key_end - np.array([len(key) for key in keys], np.int64) + 1
    value_start = value_end - np.array([len(value) for value in values], np.int64) + 1
    buffers = [np.frombuffer(b"".join(parts), np.uint8) for parts in (keys, values)]
    return Entries(buffers[0], key_start, key_end, buffers[1], value_start, value_end)


def expected(content: Content, prefix: int) -> dict[int, bytes]:
    """The bytes of every key group, written down a byte at a time."""
    groups = {}
    for key_group, states in content.items():
        out = bytearray()
        for state in sorted(state for state in states if states[state]):
            out += state.to_bytes(2, "big")
            for i, (key, value) in enumerate(states[state]):
                composite = bytearray(key_group.to_bytes(prefix, "big") + key)
                composite[0] |= 0x80 if i == len(states[state]) - 1 else 0
                out += len(composite).to_bytes(4, "big") + composite + len(value).to_bytes(4, "big") + value
        groups[key_group] = bytes(out) + b"\xff\xff" if out else b""
    return groups


def check(data: bytes, offsets: tuple[int, ...], content: Content, prefix: int, compressed: bool) -> None:
    """Check that the file is the header, then the key groups at their offsets."""
    at = len(header(compressed)[1])
    assert data[:at] == header(compressed)[1]
    starts = [offset for offset in offsets if offset] + [len(data)]
    parts = expected(content, prefix)
    for key_group, offset in zip(range(FIRST, LAST + 1), offsets, strict=True):
        part = parts.get(key_group, b"")
        if not part:
            assert offset == 0
            continue
        assert offset == at
        at = starts[starts.index(offset) + 1]
        found = data[offset:at]
        if compressed:
            assert found.startswith(snappy.IDENTIFIER)
            found = snappy.decompress(memoryview(found), None, 0).tobytes()
        assert found == part
    assert at == len(data)


pairs = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20)), max_size=4)
contents = st.dictionaries(
    st.integers(FIRST, LAST), st.dictionaries(st.integers(0, STATES - 1), pairs, max_size=STATES), max_size=6
)
FORMS = {"prefix": st.sampled_from([1, 2]), "compressed": st.booleans(), "memory": st.sampled_from([0, 100, 1 << 20])}


def writer(file: io.BytesIO, prefix: int, compressed: bool, memory: int) -> CanonicalKeyedStreamWriter:
    head, _ = header(compressed)
    return CanonicalKeyedStreamWriter(file, head, KeyGroupRange(FIRST, LAST), 128 if prefix == 1 else 129, memory)


@given(content=contents, seed=st.integers(0, 9), **FORMS)
def test_states_in_any_order_and_piece_by_piece(
    content: Content, seed: int, prefix: int, compressed: bool, memory: int
) -> None:
    chance, file = random.Random(seed), io.BytesIO()
    with writer(file, prefix, compressed, memory) as out:
        for key_group in sorted(content):
            left = {state: list(pairs) for state, pairs in content[key_group].items()}
            while left:
                state = chance.choice(list(left))
                count = chance.randrange(3)
                out.add(key_group, state, entries(left[state][:count]))
                left[state] = left[state][count:]
                if not left[state]:
                    del left[state]
        found = out.finish()
    assert found.key_group_range == KeyGroupRange(FIRST, LAST)
    check(file.getvalue(), found.offsets, content, prefix, compressed)


def cut(content: Content, chance: random.Random) -> Iterator[tuple[list[int], dict[int, list[Pairs]]]]:
    """The rows as batches bring them: some key groups, the last of which may go on in the next batch."""
    rest = {key_group: dict(content[key_group]) for key_group in sorted(content)}
    while rest:
        groups = list(rest)[: chance.randrange(1, 5)]
        part = {state: [list(rest[group].get(state, [])) for group in groups] for state in range(STATES)}
        if chance.randrange(2):
            for state, of_groups in part.items():
                keep = chance.randrange(len(of_groups[-1]) + 1)
                rest[groups[-1]][state] = of_groups[-1][keep:]
                of_groups[-1] = of_groups[-1][:keep]
            groups_done = groups[:-1] if any(rest[groups[-1]].values()) else groups
        else:
            groups_done = groups
        for group in groups_done:
            del rest[group]
        yield groups, part


@given(content=contents, seed=st.integers(0, 9), **FORMS)
def test_several_key_groups_at_once(content: Content, seed: int, prefix: int, compressed: bool, memory: int) -> None:
    chance, file = random.Random(seed), io.BytesIO()
    with writer(file, prefix, compressed, memory) as out:
        for groups, part in cut(content, chance):
            parts = []
            for state in chance.sample(range(STATES), STATES):
                bounds = np.concatenate([[0], np.cumsum([len(of_group) for of_group in part[state]])]).astype(np.int64)
                parts.append((state, entries([pair for of_group in part[state] for pair in of_group]), bounds))
            out.add_groups(np.array(groups, np.int32), parts)
        found = out.finish()
        counts = {key_group: sum(map(len, states.values())) for key_group, states in content.items()}
        assert out.entries.tolist() == [counts.get(key_group, 0) for key_group in range(FIRST, LAST + 1)]
    check(file.getvalue(), found.offsets, content, prefix, compressed)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_key_group_in_little_memory(compressed: bool, tmp_path: Path) -> None:
    chance, file = random.Random(4), io.BytesIO()
    content: Content = {7: {state: [] for state in range(STATES)}, 9: {1: [(b"k", b"v")]}}
    head, _ = header(compressed)
    with CanonicalKeyedStreamWriter(file, head, KeyGroupRange(FIRST, LAST), 128, 50_000, str(tmp_path)) as out:
        for _ in range(300):
            for state in range(STATES):
                some = [(chance.randbytes(9), bytes(chance.randrange(400))) for _ in range(20)]
                content[7][state] += some
                out.add(7, state, entries(some))
        assert not list(tmp_path.iterdir())
        # The first state is written at once; of the others, all but the memory's bytes are on the disk.
        waiting = sum(len(key) + len(value) for state in range(1, STATES) for key, value in content[7][state])
        assert sum(spooled.stat().st_size for spooled in open_files(tmp_path)) > waiting - 50_000
        out.add(9, 1, entries(content[9][1]))
        found = out.finish()
    check(file.getvalue(), found.offsets, content, 1, compressed)


def test_chunks_are_full(tmp_path: Path) -> None:
    file = io.BytesIO()
    values: Sequence[bytes] = [random.Random(i).randbytes(1000) for i in range(3000)]
    with writer(file, 1, True, 1 << 20) as out:
        for value in values:
            out.add(5, 0, entries([(b"key", value)]))
        offsets = out.finish().offsets
    data = file.getvalue()
    start = offsets[5 - FIRST]
    sizes = [size for _, _, size in snappy.scan_chunks(memoryview(data)[start:], None, 0)]
    assert set(sizes[:-1]) == {snappy.MAX_CHUNK_CONTENT}


def test_key_groups_must_ascend_and_belong_here() -> None:
    out = writer(io.BytesIO(), 1, False, 0)
    out.add(5, 0, entries([(b"k", b"v")]))
    with pytest.raises(ValueError, match="ascend"):
        out.add(4, 0, entries([(b"k", b"v")]))
    with pytest.raises(ValueError, match="not among"):
        out.add(LAST + 1, 0, entries([(b"k", b"v")]))
    with pytest.raises(ValueError, match="no state 4"):
        out.add(6, STATES, entries([(b"k", b"v")]))


def test_nothing_is_a_head_and_zeros() -> None:
    file = io.BytesIO()
    out = writer(file, 2, True, 0)
    out.add(5, 0, entries([]))
    assert set(out.finish().offsets) == {0}
    assert file.getvalue() == header(True)[1]


@pytest.mark.parametrize("size", [1, 50_000])
def test_a_full_disk_says_which_and_what_to_do(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files.tempfile, "TemporaryFile", lambda **_: open("/dev/full", "w+b"))  # noqa: SIM115
    head, _ = header(False)
    with CanonicalKeyedStreamWriter(io.BytesIO(), head, KeyGroupRange(0, 9), 128, 0, str(tmp_path)) as out:
        out.add(1, 1, entries([(b"k", bytes(size))]))
        with pytest.raises(SpillError, match="No space left") as caught:
            out.add(1, 1, entries([(b"l", b"v")]))
    assert caught.value.facts["path"] == str(tmp_path)
    assert "sortMemory" in caught.value.facts["remedy"]
