"""The checkpoint with a changelog that ships with the project holds the same as the savepoint of the same job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.copies import copy_snapshot
from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import SavepointError, StateFileNotFoundError, UnsafePathError
from pyspark_savepoint.formats.metadata.keyed_handles import ChangelogStateBackendHandle, ChangelogStateHandleStreamImpl
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entries_table import EntriesTable
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from pyspark_savepoint.write.copying import pin_snapshot
from tests.corpus.expected import RecordedSnapshot, differences
from tests.oracle.flink import Generated

FOLDER = Path(__file__).parent / "savepoints" / "changelog"
#: When it was written, milliseconds; the times of last access are between.
WRITTEN = (1_795_000_000_000, 1_796_000_000_000)


def snapshot_below(folder: Path, shop: Generated, parallelism: int = 2) -> RecordedSnapshot:
    """The checkpoint in a folder, with what the shop's savepoint is expected to hold."""
    (path,) = folder.glob("checkpoints/*/chk-*")
    meta = {**shop.expected["meta"], "savepoint": str(path.relative_to(folder)), "writtenBetween": WRITTEN}
    # Its changelogs are beside the folder of checkpoints, not in it.
    snapshot = RecordedSnapshot(folder, parallelism=parallelism, options={"allow_outside": True})
    snapshot.__dict__["expected"] = {**shop.expected, "meta": meta}
    return snapshot


def handles(snapshot: RecordedSnapshot) -> Iterator[ChangelogStateBackendHandle]:
    for operator in Snapshot.open(snapshot.path).operators:
        for subtask in operator.subtasks.values():
            if subtask.managed_keyed_state is not None:
                assert isinstance(subtask.managed_keyed_state, ChangelogStateBackendHandle)
                yield subtask.managed_keyed_state


def test_it_has_parts_and_changes_everywhere(shop: Generated) -> None:
    found = list(handles(snapshot_below(FOLDER, shop)))

    assert len(found) == 4
    for handle in found:
        assert handle.materialized
        (changes,) = handle.non_materialized
        assert isinstance(changes, ChangelogStateHandleStreamImpl)
        assert changes.handles_and_offsets


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_it_holds_what_the_savepoint_holds(shop: Generated, parallelism: int) -> None:
    assert differences(snapshot_below(FOLDER, shop, parallelism)) == []


@pytest.mark.thorough("less memory", sets=("16384",))
@pytest.mark.parametrize("memory", [1 << 11, 1 << 14])
def test_little_memory_gives_the_same(shop: Generated, memory: int) -> None:
    snapshot = snapshot_below(FOLDER, shop)
    snapshot.options.update(memory=memory, batch_rows=100)

    assert differences(snapshot) == []


def test_a_damaged_or_missing_file_is_named_with_its_operator(shop: Generated, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "copy")
    snapshot = snapshot_below(tmp_path / "copy", shop)
    (accounts,) = [each for each in snapshot.operators("keyed") if each["uid"] == "accounts"]
    files = sorted((tmp_path / "copy" / "dstl").rglob("*-*-*"))
    whole = {path: path.read_bytes() for path in files}
    messages: list[tuple[Path, str]] = []
    for path, data in whole.items():
        for position in (0, 12, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
            try:
                snapshot.table(accounts, state="total")
            except SavepointError as error:
                messages.append((path, str(error)))
        path.write_bytes(data)
    assert len(messages) >= 6
    assert [text for path, text in messages if str(path) not in text or "accounts" not in text] == []
    for path in files:
        path.unlink()
    with pytest.raises(StateFileNotFoundError, match="accounts") as raised:
        snapshot.table(accounts, state="total")
    assert any(path.name in str(raised.value) for path in files)
    (rest,) = [each for each in snapshot.operators("operator") if each["uid"] == "currency-converter"]
    assert snapshot.table(rest, state="rates").num_rows > 0


def test_changelogs_are_followed_out_of_the_jobs_folder_only_where_that_is_allowed(
    shop: Generated, tmp_path: Path
) -> None:
    shutil.copytree(FOLDER, tmp_path / "copy")
    snapshot = snapshot_below(tmp_path / "copy", shop)
    (accounts,) = [each for each in snapshot.operators("keyed") if each["uid"] == "accounts"]
    rows = snapshot.table(accounts, state="total").num_rows
    assert rows > 0

    snapshot.options["allow_outside"] = False
    with pytest.raises(UnsafePathError, match="allowOutside"):
        snapshot.table(accounts, state="total")
    root = Path(snapshot.path).parent
    shutil.move(tmp_path / "copy" / "dstl" / root.name / "dstl", root / "dstl")
    assert snapshot.table(accounts, state="total").num_rows == rows


def test_a_link_out_of_the_changelog_is_not_followed(shop: Generated, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "copy")
    snapshot = snapshot_below(tmp_path / "copy", shop)
    (accounts,) = [each for each in snapshot.operators("keyed") if each["uid"] == "accounts"]
    for path in (tmp_path / "copy" / "dstl").rglob("*-*-*"):
        shutil.move(path, tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)

    with pytest.raises(UnsafePathError, match="a symbolic link leads out"):
        snapshot.table(accounts, state="total")


def test_compressed_changelogs_are_carried_over(shop: Generated, tmp_path: Path) -> None:
    """The handles of their files have the size of the content, which is larger than the file."""
    path = snapshot_below(FOLDER, shop).path
    copy_snapshot(Snapshot.open(path, allow_outside=True), str(tmp_path / "copy"))
    assert pin_snapshot(Snapshot.open(path, allow_outside=True), str(tmp_path / "held"))[0] == 3
    base = pyspark_savepoint.open(path, allow_outside=True)
    base.rename_state("currency-converter", "rates", "courses").write(tmp_path / "renamed")
    sizes = {handle.state_size for handle in Snapshot.open(path).metadata.changelogs}
    for name, differing in (("copy", 0), ("held", 0), ("renamed", 2)):
        carried = Snapshot.open(str(tmp_path / name))
        assert {handle.state_size for handle in carried.metadata.changelogs} == sizes
        assert [
            row for row in pyspark_savepoint.open(tmp_path / name).inspect.verify().rows() if row["status"] != "ok"
        ] == []
        compared = list(base.diff(tmp_path / name).rows())
        assert len(compared) == 15 + differing // 2
        assert len([row for row in compared if row["added"] or row["removed"] or row["changed"]]) == differing


def test_timers_have_the_bytes_of_their_keys(shop: Generated) -> None:
    """Rows of deleted keys, and key groups of another max parallelism, are found by them."""
    snapshot = snapshot_below(FOLDER, shop)
    savepoint = Snapshot.open(snapshot.path, allow_outside=True)
    found = 0
    for operator in map(partial(OpenOperator, savepoint), savepoint.operators):
        states = KeyedStates.of(operator)
        timers = EntriesRequest(tuple(meta for meta in states.metas if meta[1]), keys=True)
        if states.key_serializer is None or not timers.states:
            continue
        table = EntriesTable(operator, TableRequest(snapshot.path, entries=timers))
        for row in (row for part in table.partitions(2) for batch in part.batches() for row in batch.to_pylist()):
            key = row["serialized_key"]
            at = Cursors(np.frombuffer(key, np.uint8).copy(), np.zeros(1, np.int64), np.array([len(key)]))
            skip_rows(states.key_serializer, at)
            assert at.position.tolist() == [len(key)]
            assert row["key"][8:].startswith(key)
            found += 1
    assert found > 100
