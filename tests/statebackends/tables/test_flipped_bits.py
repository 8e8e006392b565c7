"""Every flipped bit of keyed state is refused, changes nothing, or changes what nothing can check: a value, or a key
that stays in its key group. Never is an entry lost or another one touched, and in compressed state nothing passes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource
from tests.statebackends.keyed_models import KEYED, RAW, Model, Written, write

#: Every third bit: all places in a byte, and all kinds of bytes.
STEP = 3
MODEL: Model = {
    7: {"total": -1, "name": "Ünïcode", "items": [1, 2]},
    -300: {"total": 1 << 40, "by_name": {"a": 1, "bc": None}},
    1 << 50: {"name": "", "items": [9], "by_name": {"": -5}},
}


def found(written: Written) -> Counter[str]:
    """All rows as text."""
    return Counter(repr(row) for row in written.rows(KEYED, 1 << 16))


def flips(source: KeyedSource) -> list[int]:
    """Every bit of the stream behind its header."""
    head = min(offset for offset in source.offsets.offsets if offset)
    return list(range(8 * head, 8 * source.location.size))


def flipped(written: Written, bit: int) -> Counter[str] | None:
    """The rows of the stream with one bit changed; None where that is refused."""
    source = written.source
    assert isinstance(source, KeyedSource)
    assert isinstance(source.location, InlineLocation)
    data = bytearray(source.location.data)
    data[bit // 8] ^= 1 << bit % 8
    damaged = replace(source, location=replace(source.location, data=bytes(data)))
    try:
        return found(Written(damaged, written.max_parallelism))
    except SavepointError:
        return None


def content(source: KeyedSource) -> tuple[set[int], set[int]]:
    """The bytes of keys, user keys and values, and those of namespaces; all other bytes locate these."""
    inside: tuple[set[int], set[int]] = (set(), set())
    with source.open(RAW) as stream:
        for block in stream.blocks(set(source.key_group_range), set(range(len(stream.header.states))), False, 1):
            spans: list[tuple[Longs, Longs, set[int]]] = [
                (block.key_start, block.key_end, inside[0]),
                (block.user_start, block.user_end, inside[0]),
                (block.value_start, block.value_end, inside[0]),
                (block.namespace_start, block.namespace_end, inside[1]),
            ]
            for starts, ends, found_in in spans:
                for start, end in zip(starts + block.origin.base, ends + block.origin.base, strict=True):
                    found_in.update(range(int(start), int(end)))
    return inside


@pytest.mark.parametrize("heap", [False, True], ids=["full", "heap"])
def test_only_content_of_one_entry_changes_without_a_word(heap: bool) -> None:
    written = write(MODEL, heap=heap, max_parallelism=8)
    source = written.source
    assert isinstance(source, KeyedSource)
    sound, (inside, namespaces) = found(written), content(source)
    assert isinstance(source.location, InlineLocation)
    data, fates = source.location.data, Counter[str]()
    for bit in flips(source)[::STEP]:
        rows = flipped(written, bit)
        if rows is None:
            fates["error"] += 1
        elif rows == sound:
            fates["same"] += 1
            # The zero of a namespace that is none, and commas between elements: Flink passes over them too.
            assert bit // 8 in namespaces or data[bit // 8] == ord(","), bit
        else:
            fates["other"] += 1
            assert bit // 8 in inside, bit
            assert (sound - rows).total() == 1, bit
            assert (rows - sound).total() <= 2, bit
    assert fates["error"] > 2 * fates["other"] > 0


@pytest.mark.parametrize("heap", [False, True], ids=["full", "heap"])
def test_no_flipped_bit_of_compressed_state_passes(heap: bool) -> None:
    written = write(MODEL, heap=heap, compressed=True, max_parallelism=8)
    assert isinstance(written.source, KeyedSource)
    sound = found(written)
    passed = [bit for bit in flips(written.source) if (rows := flipped(written, bit)) is not None and rows != sound]
    assert passed == []
