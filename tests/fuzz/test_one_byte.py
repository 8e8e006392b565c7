"""A flipped bit after the header of a stream is detected, or changes one value: never another row."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.metadata import CheckpointMetadata, write_metadata
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.data import unpacked
from tests.fuzz.seeds import SHOP, seeds_of

pytestmark = pytest.mark.slow("damaged snapshots by the hundred")

FLIPS = 150
SNAPSHOTS = {
    "full": (SHOP / "savepoint", "accounts"),
    "heap": (unpacked() / "lab" / "1.20.5-hashmap-native" / "savepoint", None),
    "snappy": (unpacked() / "lab" / "2.3.0-hashmap-canonical-compressed" / "savepoint", None),
}


def with_stream(seed: CheckpointMetadata, data: bytes) -> bytes:
    """The snapshot with another keyed stream in its first subtask that has one."""
    operator = seed.operators[0]
    index, subtask = next((i, s) for i, s in operator.subtasks.items() if s.managed_keyed_state is not None)
    handle = subtask.managed_keyed_state
    changed = replace(handle, delegate=replace(handle.delegate, data=data))
    subtasks = {**operator.subtasks, index: replace(subtask, managed_keyed_state=changed)}
    return write_metadata(replace(seed, operators=(replace(operator, subtasks=subtasks),)))


def rows(folder: Path, seed: CheckpointMetadata) -> Counter[str]:
    """All rows of the table of keys, as text."""
    found: Counter[str] = Counter()
    table = open_table(TableRequest(str(folder), uid_hash=seed.operators[0].operator_id.hex, table="keyed_state"))
    for partition in table.partitions(1):
        for batch in partition.batches():
            batch.validate(full=True)
            found.update(repr(row) for row in batch.to_pylist())
    return found


def smallest_keyed(path: Path, uid: str | None) -> CheckpointMetadata:
    """An operator with keyed state: of the uid, or the smallest that reads."""
    keyed = [
        seed
        for seed in seeds_of(path)
        if any(s.managed_keyed_state is not None for s in seed.operators[0].subtasks.values())
        and uid in (None, seed.operators[0].uid)
    ]
    return min(keyed, key=lambda seed: seed.operators[0].state_size)


@pytest.mark.parametrize("form", SNAPSHOTS)
def test_a_flipped_bit_changes_one_row_at_most(form: str, tmp_path: Path) -> None:
    seed = smallest_keyed(*SNAPSHOTS[form])
    handle = next(s.managed_keyed_state for s in seed.operators[0].subtasks.values() if s.managed_keyed_state)
    data = handle.delegate.data
    (tmp_path / "_metadata").write_bytes(with_stream(seed, data))
    sound = rows(tmp_path, seed)
    assert sound
    head = min(offset for offset in handle.offsets.offsets if offset > 0)
    rng = random.Random(form)
    refused = changed = 0
    for _ in range(FLIPS):
        damaged = bytearray(data)
        damaged[rng.randrange(head, len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / "_metadata").write_bytes(with_stream(seed, bytes(damaged)))
        try:
            found = rows(tmp_path, seed)
        except SavepointError:
            refused += 1
            continue
        changed += found != sound
        # The value of a changed key is missing from the old row, and has a new row.
        assert (sound - found).total() <= 1
        assert (found - sound).total() <= 2
    if form == "snappy":
        assert (refused, changed) == (FLIPS, 0)
        return
    assert refused > FLIPS // 10
    # Few: a changed key is detected by its key group.
    assert changed > FLIPS // 20
