"""Keys outside of their key group are refused: Flink would never find them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets, key_group_for_hash
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource, keyed_sources
from tests.fuzz.seeds import SHOP
from tests.statebackends.keyed_models import KEYED, RAW, Model, Written, by_key, expected, write

MODEL: Model = {key: {"total": key, "items": [1, 2]} for key in range(40)}


@pytest.mark.parametrize("heap", [False, True])
def test_a_key_in_another_key_group_is_damage(heap: bool) -> None:
    sound = write(MODEL, heap=heap, max_parallelism=4)
    assert by_key(sound.rows(KEYED, 1 << 20)) == expected(MODEL, KEYED)

    with pytest.raises(CorruptStateError, match="belongs to another one") as raised:
        Written(sound.source, 3).rows(KEYED, 1 << 20)

    facts = raised.value.facts
    assert facts["path"] == "the stream"
    assert facts["operator"] == "the operator"
    assert "key group" in facts["found"]
    assert "option('raw', 'key')" in facts["remedy"]


def test_a_handle_of_other_key_groups_is_noticed() -> None:
    source = write(MODEL, heap=False, max_parallelism=4).source
    assert isinstance(source, KeyedSource)
    first = source.offsets.offsets[0]
    shifted = replace(source, offsets=KeyGroupRangeOffsets(KeyGroupRange(1, 1), (first,)))

    with pytest.raises(CorruptStateError, match="key group 1 does not match the format"):
        Written(shifted, 4).rows(KEYED, 1 << 20)


@pytest.mark.parametrize("heap", [False, True])
def test_of_many_keys_every_one_is_checked(heap: bool) -> None:
    sound = write({key: {"total": key} for key in range(6000)}, heap=heap, max_parallelism=2)
    source = sound.source
    assert isinstance(source, KeyedSource)
    with source.open(RAW) as stream:
        block = next(iter(stream.blocks({1}, {0}, False, 1 << 30)))
    strayed = next(
        i
        for i in range(1, len(block))
        if key_group_for_hash(java_hash(block.buffer[block.key_start[i] : block.key_end[i]].tobytes()) ^ 1, 2) == 0
    )
    assert isinstance(source.location, InlineLocation)
    data = bytearray(source.location.data)
    data[block.origin.base + int(block.key_end[strayed]) - 1] ^= 1
    damaged = replace(source, location=replace(source.location, data=bytes(data)))

    with pytest.raises(CorruptStateError, match="belongs to another one"):
        Written(damaged, 2).rows(("total",), 1 << 20, batch_rows=1 << 20)


def java_hash(key: bytes) -> int:
    """Of a small long."""
    return int.from_bytes(key, "big")


@pytest.mark.parametrize(
    "options",
    [{"state": "spent_by_currency", "flatten": True}, {"table": "timers"}, {"state": "total"}],
    ids=["flatten", "timers", "keyed_state"],
)
def test_every_table_of_keyed_state_checks_its_keys(options: dict[str, Any], tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shutil.copytree(SHOP / "savepoint", shop)
    request = TableRequest(str(shop), uid="accounts", **options)
    assert sum(batch.num_rows for part in open_table(request).partitions(1) for batch in part.batches())
    name = options.get("state", "_timer_state/event_user-timers")
    savepoint = Snapshot.open(str(shop))
    source = keyed_sources(savepoint, savepoint.operator(uid="accounts"))[0]
    assert isinstance(source, KeyedSource)
    with source.open(RAW) as stream:
        state = next(i for i, meta in enumerate(stream.header.states) if meta.name == name)
        block = next(
            b for b in stream.blocks(set(source.key_group_range), {state}, False, 1) if len(b.entries_of(state))
        )
        entry = int(block.entries_of(state)[0])
    # The lowest digit of a long: behind the timestamp in timers.
    digit = block.origin.base + int(block.key_start[entry]) + (15 if "table" in options else 7)
    path = Path(source.location.path)
    data = bytearray(path.read_bytes())
    data[digit] ^= 1
    path.write_bytes(data)

    (part,) = open_table(request).partitions(1)
    with pytest.raises(CorruptStateError, match="belongs to another one"):
        list(part.batches())
