"""State that the requested release cannot read is found before a write, and rewritten or rejected by name."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import UnsupportedVersionError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.flink_releases import CLASSES, RELEASES, lifetime, release_of, why_unknown
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.operator_handles import (
    FileMergingOperatorStreamStateHandle,
    MergedChannelStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle, EmptySegmentFileStateHandle
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.registry import known_serializers
from pyspark_savepoint.formats.snapshot.changes import without_empty_segments
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources
from pyspark_savepoint.statebackends.writing.planning.release_fit import (
    OperatorFit,
    meta_problems,
    operator_fit,
    refuse_misfits,
)
from tests.statebackends.writing.written_operators import digests, read, write

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
ROWS = pa.table({"key": pa.array([1, 2], pa.int64()), "n": pa.array([10, 20], pa.int64())})


def fits(path: Path, version: tuple[int, int]) -> dict[str, OperatorFit]:
    """What a release makes of every operator of a snapshot, as far as it is not all well."""
    savepoint = Snapshot.open(str(path), allow_outside=True)
    found = {
        op.uid or op.operator_id.hex: operator_fit(OpenOperator(savepoint, op), release_of(version))
        for op in savepoint.operators
    }
    return {uid: fit for uid, fit in found.items() if fit != OperatorFit()}


def test_every_release_reads_what_it_wrote_itself(corpus: Path) -> None:
    for case in ("2.2.1-rocksdb-native", "2.2.1-forst-native", "2.2.1-hashmap-canonical-sql"):
        assert fits(corpus / "lab" / case / "savepoint", (2, 2)) == {}
    assert fits(corpus / "lab" / "1.20.5-hashmap-native" / "savepoint", (1, 20)) == {}
    assert fits(SHOP, (2, 3)) == {}


def test_streams_that_are_too_new_are_written_anew(corpus: Path) -> None:
    found = fits(corpus / "lab" / "2.2.1-rocksdb-native" / "savepoint", (1, 16))
    assert {fit.keyed_state for uid, fit in found.items() if uid.startswith(("kv-", "window-"))} == {
        "files of RocksDB 8, and Flink 1.16 has RocksDB 6"
    }
    assert {found[uid].operator_state for uid in ("op-list", "op-union", "op-broadcast")} == {
        "operator state of version 6"
    }
    assert {uid for uid, fit in found.items() if fit.problems} == {"kv-kryo"}
    assert "values were written by Kryo 5, and Flink 1.16 reads with Kryo 2" in found["kv-kryo"].problems[0].why
    # Kryo 2 and Kryo 5 write most classes differently, in either direction.
    older = fits(corpus / "lab" / "1.20.5-hashmap-native" / "savepoint", (2, 2)).values()
    assert {why for fit in older for _, why in fit.problems} == {
        "values were written by Kryo 2, and Flink 2.2 reads with Kryo 5"
    }
    # 1.18 knows version 6, and reads it where it is not compressed.
    assert "op-list" not in fits(corpus / "lab" / "2.2.1-rocksdb-native" / "savepoint", (1, 18))
    compressed = corpus / "lab" / "2.3.0-hashmap-canonical-compressed" / "savepoint"
    assert fits(compressed, (1, 18))["op-list"].operator_state == "compressed operator state"
    assert "op-list" not in fits(compressed, (1, 19))


def test_changelogs_get_another_form_with_1_18(corpus: Path) -> None:
    folder = Path(__file__).parents[2] / "oracle" / "savepoints" / "changelog" / "checkpoints"
    (path,) = (path.parent for path in folder.rglob("_metadata"))
    assert {fit.keyed_state for fit in fits(path, (1, 17)).values() if fit.keyed_state}
    assert not any(fit.keyed_state for fit in fits(path, (1, 18)).values())


@pytest.mark.parametrize(
    ("type_text", "since", "until"),
    [
        ("SET<LONG>", (2, 0), None),
        ("TABLE_GLOBAL_WINDOW", (2, 0), None),
        ("VARIANT", (2, 1), None),
        ("BITMAP", (2, 3), None),
        ("SORTED_LONG", (2, 3), None),
        ("SCALA_ENUM<a.B>(C=0)", None, (2, 0)),
        ("EITHER<LONG, STRING>", None, None),
    ],
)
def test_classes_that_only_some_releases_have(
    type_text: str, since: tuple[int, int] | None, until: tuple[int, int] | None
) -> None:
    serializer = parse_type(type_text, since or (1, 16))
    assert lifetime(serializer.snapshot_class) == (since, until)
    known = [release.version for release in RELEASES if why_unknown(serializer.snapshot_class, release.version) is None]
    assert known == [r.version for r in RELEASES if (since or (0, 0)) <= r.version < (until or (9, 9))]


def test_the_table_names_classes_that_are_read() -> None:
    """A class that nobody could meet would be a slip of the pen."""
    classes = known_serializers()
    assert all(any(name.startswith(start) for name in classes) for start, _, _ in CLASSES)


def test_every_part_is_named_at_once() -> None:
    states = [
        StateDescriptor(f"s{i}", StateKind.VALUE, parse_type("SET<LONG>", (2, 0)), NO_NAMESPACE, "x").meta_info()
        for i in range(3)
    ]
    states.append(StateDescriptor("v", StateKind.VALUE, parse_type("VARIANT", (2, 1)), NO_NAMESPACE, "x").meta_info())
    problems = [("one", problem) for problem in meta_problems(states, release_of((1, 20)), 2)]
    problems += [(f"operator-{i}", problem) for i in range(400) for _, problem in problems[:1]]
    with pytest.raises(UnsupportedVersionError, match=r"Flink 1\.20 could not read") as caught:
        refuse_misfits(problems, (1, 20))
    text = str(caught.value)
    assert "SetSerializerSnapshot came with Flink 2.0: one (s0, s1, s2)" in text
    assert "VariantSerializerSnapshot came with Flink 2.1: one (v)" in text
    assert len(text) <= 2048
    refuse_misfits([], (1, 20))


def test_handles_that_a_release_does_not_know() -> None:
    merged = MergedChannelStateHandle(0, 3, ByteStreamStateHandle("x", b"abc"), b"")
    subtask = OperatorSubtaskState(input_channel_state=(merged,))
    operator = OperatorState(OperatorID.from_uid("a"), 1, 128, subtasks={0: subtask})
    location = SnapshotLocation(LocalFileSystem(), "/nowhere")
    savepoint = Snapshot(location, "/nowhere/_metadata", CheckpointMetadata(6, 1, operators=(operator,)))
    assert operator_fit(OpenOperator(savepoint, operator), release_of((2, 1))).problems == ()
    assert operator_fit(OpenOperator(savepoint, operator), release_of((2, 0))).problems[0].place == "records in flight"
    empty = FileMergingOperatorStreamStateHandle((), "/t", "/s", True, EmptySegmentFileStateHandle())
    with_empty = replace(operator, subtasks={0: OperatorSubtaskState(managed_operator_state=empty)})
    assert without_empty_segments(with_empty).subtasks[0].managed_operator_state is None


# -- a table appended -----------------------------------------------------------------------------------------


def test_an_append_for_an_older_release_writes_untouched_operator_state_anew(tmp_path: Path) -> None:
    shutil.copytree(SHOP, tmp_path / "sp")
    before = {
        name: read(tmp_path / "sp", uid="warehouse-export", table="operator_state", state=name)
        for name in ("pending_orders", "exported_until")
    }
    write(tmp_path / "sp", [ROWS], uid="new", flink_version=(1, 16))
    savepoint = Snapshot.open(str(tmp_path / "sp"))
    assert savepoint.metadata.version == 4
    versions = {s.header().version for op in savepoint.operators for s in operator_sources(savepoint, op)}
    assert versions == {5}
    assert fits(tmp_path / "sp", (1, 16)) == {}
    assert {
        name: read(tmp_path / "sp", uid="warehouse-export", table="operator_state", state=name) for name in before
    } == before
    assert [row["n"] for row in read(tmp_path / "sp", uid="new")] == [10, 20]
    # The operator's other operator state too, where keyed state of it is written.
    shutil.rmtree(tmp_path / "sp")
    shutil.copytree(SHOP, tmp_path / "sp")
    write(tmp_path / "sp", [ROWS], uid="currency-converter", flink_version=(1, 17))
    assert fits(tmp_path / "sp", (1, 17)) == {}


def test_an_append_is_refused_where_it_cannot_be_kept(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus / "lab" / "2.2.1-rocksdb-native" / "savepoint", tmp_path / "sp")
    before = digests(tmp_path)
    with pytest.raises(UnsupportedVersionError) as caught:
        write(tmp_path / "sp", [ROWS], uid="new", flink_version=(1, 16))
    text = str(caught.value)
    assert "files of RocksDB 8, and Flink 1.16 has RocksDB 6" in text
    assert "Savepoint.load(spark, path).write(new_path, flink_version=...)" in text
    assert "Kryo 5" in text
    assert digests(tmp_path) == before
    # What is written is looked at as well: its types may come from a newer savepoint.
    source = corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint"
    write(tmp_path / "new", [ROWS], type_source=f"{source}#kv-long", types={"n": "LONG"}, flink_version=(1, 16))
