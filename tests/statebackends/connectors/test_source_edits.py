"""Changed sources: readers and enumerators say what section 3.3 of Flink's behaviour asks for, all else stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import CoordinatorFrame, Payload
from pyspark_savepoint.formats.connectors.sources.kafka import (
    KAFKA_ENUMERATOR,
    NONE,
    KafkaEnumerator,
    KafkaPartition,
    KafkaSplit,
)
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState, connector_states, state_elements
from pyspark_savepoint.statebackends.connectors.connector_table import offsets_of
from pyspark_savepoint.statebackends.connectors.edits.sources import (
    AT_LEAST_ONCE_WARNING,
    add_splits,
    key_columns,
    positioned,
    remove_splits,
    split_rows,
    start_over,
    with_offsets,
)
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

SOURCE = "e5a72f353fc1e6bbf3bd96a41384998c"
V2, V3 = "2.2.1-kafka-v4.0.1", "2.3.0-kafka-v5.0.0"
ORDERS_1 = ("orders", 1)


def opened(corpus: Path, case: str) -> OpenOperator:
    savepoint = Snapshot.open(find_snapshots(str(corpus / "connectors" / case))[0].path)
    return OpenOperator(savepoint, savepoint.operator(uid_hash=SOURCE))


def source_of(corpus: Path, case: str) -> SourceState:
    return SourceState.read(opened(corpus, case))


def written(source: SourceState) -> SourceState:
    """What is read after a change, from the bytes that it wrote."""
    return SourceState.read(OpenOperator(source.opened.savepoint, source.written()))


def kafka(source: SourceState) -> dict[Any, int]:
    return {(split.value.topic, split.value.partition): split.value.offset for split in source.splits}


def status(source: SourceState) -> dict[Any, bool]:
    return {(known.topic, known.partition): known.assigned for known in source.enumerator.partitions}


def with_enumerator(source: SourceState, version: int, enumerator: KafkaEnumerator) -> SourceState:
    """The source as another release of the connector would have written it."""
    frame = CoordinatorFrame(KAFKA_ENUMERATOR.write(version, enumerator))
    handle = ByteStreamStateHandle("coordinator", frame.bytes())
    operator = replace(source.opened.operator, coordinator_state=handle)
    return SourceState.read(OpenOperator(source.opened.savepoint, operator))


def with_unassigned(source: SourceState, offset: int) -> SourceState:
    """orders-1 is not assigned."""
    source = remove_splits(source, [ORDERS_1], forget=True).source
    version = source.enumerator_version
    split = KafkaSplit("orders", 1, offset) if version == 3 else None
    partitions = (*source.enumerator.partitions, KafkaPartition("orders", 1, False, split))
    source = replace(source, enumerator=replace(source.enumerator, partitions=partitions))
    return written(source)


@pytest.mark.parametrize("case", ["1.20.5-kafka-v3.4.0", V2, V3, "2.3.0-seq", "2.3.0-files", "1.20.5-files"])
def test_a_source_that_is_not_changed_stays_byte_for_byte(corpus: Path, case: str) -> None:
    source = source_of(corpus, case)
    assert source.written() == source.opened.operator
    same = with_offsets(source, {}).source
    assert same.written() == source.opened.operator


@pytest.mark.parametrize("case", ["1.20.5-kafka-v3.4.0", V2, V3])
def test_a_kafka_offset_changes_its_eight_bytes_alone(corpus: Path, case: str) -> None:
    source = source_of(corpus, case)
    before = source.opened.operator
    edited = with_offsets(source, {ORDERS_1: 10, ("orders", 2): 150})
    after = edited.source.written()

    assert edited.notes == (AT_LEAST_ONCE_WARNING,)
    assert after.coordinator_state == before.coordinator_state
    differ = {}
    for index, subtask in before.subtasks.items():
        old, new = subtask.managed_operator_state, after.subtasks[index].managed_operator_state
        assert isinstance(old.delegate, ByteStreamStateHandle)  # type: ignore[union-attr]
        assert isinstance(new.delegate, ByteStreamStateHandle)  # type: ignore[union-attr]
        assert old.states == new.states  # type: ignore[union-attr]
        pairs = zip(old.delegate.data, new.delegate.data, strict=True)  # type: ignore[union-attr]
        differ[index] = sum(a != b for a, b in pairs)
    assert differ == {0: 1, 1: 1}
    assert kafka(written(edited.source)) == kafka(source) | {ORDERS_1: 10, ("orders", 2): 150}


def test_kafka_positions_by_topic_by_words_and_by_numbers(corpus: Path) -> None:
    source = source_of(corpus, V3)
    before = kafka(source)

    by_topic = with_offsets(source, {"orders": "latest"})
    assert by_topic.notes == ()
    assert kafka(by_topic.source) == {key: -1 if key[0] == "orders" else offset for key, offset in before.items()}
    assert set(kafka(written(with_offsets(source, None, to="earliest").source)).values()) == {-2}
    with pytest.raises(OptionError, match="cannot be moved by -100: with clamp"):
        with_offsets(source, None, by=-100)
    moved = with_offsets(source, None, by=-100, clamp=True)
    assert kafka(moved.source) == {key: max(0, offset - 100) for key, offset in before.items()}
    assert moved.notes == (AT_LEAST_ONCE_WARNING,)
    assert with_offsets(source, None, by=5).notes == ()
    stopped = with_offsets(source, {ORDERS_1: {"stop_offset": 130}}).source
    (stop,) = (split.value for split in stopped.splits if split.value.split_id == "orders-1")
    assert (stop.offset, stop.stop) == (before[ORDERS_1], 130)
    other = with_offsets(stopped, split_rows(source)).source
    assert other.splits == source.splits


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({ORDERS_1: -7}, "whole number from 0"),
        ({ORDERS_1: -(1 << 63)}, "whole number from 0"),
        ({ORDERS_1: 1.5}, "whole number from 0"),
        ({ORDERS_1: True}, "whole number from 0"),
        ({ORDERS_1: "begin"}, "one of latest, earliest, committed"),
        ({ORDERS_1: {"offset": 1, "marker": "latest"}}, "not both"),
        ({ORDERS_1: {"stop_marker": "earliest"}}, "one of latest, committed, none"),
        ({("orders", 9): 1}, r"no split orders-9(.|\n)*add_splits"),
        ({("orders", 1, 2): 1}, "name a split by topic, partition"),
        ({"orders": 1, ORDERS_1: 2}, "given twice"),
    ],
)
def test_a_position_that_flink_would_not_read_from_is_refused(
    corpus: Path, offsets: dict[Any, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        with_offsets(source_of(corpus, V3), offsets)


def test_an_offset_that_is_not_known_yet_is_not_moved(corpus: Path) -> None:
    source = with_offsets(source_of(corpus, V3), {ORDERS_1: "latest"}).source
    with pytest.raises(OptionError, match="orders-1 has no offset yet"):
        with_offsets(source, None, by=-1)
    with pytest.raises(OptionError, match="give one of"):
        with_offsets(source, {ORDERS_1: 1}, by=1)


def test_offsets_of_partitions_that_are_not_assigned_are_the_enumerators_or_a_readers(corpus: Path) -> None:
    source = with_unassigned(source_of(corpus, V3), 120)
    moved = written(with_offsets(source, {ORDERS_1: 190}).source)
    assert ORDERS_1 not in kafka(moved)
    assert status(moved)[ORDERS_1] is False
    assert [known.split.offset for known in moved.enumerator.partitions if not known.assigned] == [190]

    # Version 2 keeps no offset: a reader has the partition from now on.
    source = with_unassigned(source_of(corpus, V2), 0)
    moved = written(with_offsets(source, {ORDERS_1: 190}).source)
    assert kafka(moved)[ORDERS_1] == 190
    assert status(moved)[ORDERS_1] is True
    with pytest.raises(OptionError, match="no offset yet"):
        with_offsets(source, None, by=1)


def test_kafka_partitions_are_added_to_reader_and_enumerator(corpus: Path) -> None:
    for case in (V2, V3):
        source = source_of(corpus, case)
        added = written(add_splits(source, [{"topic": "orders", "partition": 7, "offset": 5}]).source)
        assert kafka(added) == kafka(source) | {("orders", 7): 5}
        assert status(added) == status(source) | {("orders", 7): True}
        # Where the job's settings start: the enumerator assigns it.
        left = written(add_splits(source, [{"topic": "orders", "partition": 7}]).source)
        assert kafka(left) == kafka(source)
        assert status(left) == status(source) | {("orders", 7): False}
        assert {known.split.offset for known in left.enumerator.partitions if not known.assigned and known.split} <= {
            NONE
        }
        for again in ({"topic": "orders", "partition": 1, "offset": 0}, {"topic": "orders", "partition": 1}):
            with pytest.raises(OptionError, match="orders-1 exists already"):
                add_splits(source, [again])
        with pytest.raises(OptionError, match="given twice"):
            add_splits(source, [{"topic": "x", "partition": 7, "offset": 5}, {"topic": "x", "partition": 7}])


def test_removed_kafka_partitions_are_never_read_or_forgotten(corpus: Path) -> None:
    for case in (V2, V3):
        source = source_of(corpus, case)
        rest = {key: offset for key, offset in kafka(source).items() if key != ORDERS_1}
        with pytest.raises(OptionError, match=r"forget=False(.|\n)*forget=True"):
            remove_splits(source, [ORDERS_1], None)
        never = remove_splits(source, [ORDERS_1], forget=False)
        assert never.notes == ()
        assert kafka(written(never.source)) == rest
        assert status(written(never.source)) == status(source)
        forgotten = remove_splits(source, [ORDERS_1], forget=True)
        assert "orders-1" in forgotten.notes[0]
        assert kafka(written(forgotten.source)) == rest
        assert ORDERS_1 not in status(written(forgotten.source))
        # What is never read is given back at an offset.
        back = written(add_splits(written(never.source), [{"topic": "orders", "partition": 1, "offset": 3}]).source)
        assert (kafka(back), status(back)) == (rest | {ORDERS_1: 3}, status(source))
        pending = written(remove_splits(with_unassigned(source, 3), ["orders"], forget=False).source)
        assert all(status(pending).values())


def test_a_partition_of_two_splits_is_refused_until_it_is_removed(corpus: Path) -> None:
    source = source_of(corpus, V3)
    twice = replace(source, splits=(*source.splits, replace(source.splits[0], subtask=1)))
    twice = written(twice)
    with pytest.raises(OptionError, match="exists twice"):
        with_offsets(twice, None, to="latest")
    name = (source.splits[0].value.topic, source.splits[0].value.partition)
    once = written(remove_splits(twice, [name], forget=False).source)
    assert name not in kafka(once)


def test_a_partition_that_the_enumerator_would_find_as_new_is_made_known_to_it(corpus: Path) -> None:
    source = source_of(corpus, V3)
    rest = tuple(known for known in source.enumerator.partitions if (known.topic, known.partition) != ORDERS_1)
    wrong = replace(source, enumerator=replace(source.enumerator, partitions=rest))
    assert ORDERS_1 not in status(wrong)
    assert status(written(with_offsets(wrong, {ORDERS_1: 7}).source))[ORDERS_1] is True


def test_kafka_enumerators_of_old_releases_keep_their_version(corpus: Path) -> None:
    source = source_of(corpus, V2)
    known = tuple(KafkaPartition(topic, number) for topic, number in kafka(source))
    first = with_enumerator(source, 1, KafkaEnumerator(known))
    added = written(add_splits(first, [{"topic": "new", "partition": 0, "marker": "earliest"}]).source)
    assert (added.enumerator_version, status(added)["new", 0]) == (1, True)
    with pytest.raises(OptionError, match="assigned partitions only"):
        add_splits(first, [{"topic": "new", "partition": 0}])
    readers = tuple(
        KafkaPartition(split.value.topic, split.value.partition, True, split.value, split.subtask)
        for split in source.splits
    )
    oldest = with_enumerator(
        source, 0, KafkaEnumerator(tuple(sorted(readers, key=lambda r: r.reader or 0)), True, (0, 1))
    )
    added = written(add_splits(oldest, [{"topic": "new", "partition": 0, "offset": 1}]).source)
    assert (added.enumerator_version, status(added)["new", 0]) == (0, True)


def test_starting_over(corpus: Path) -> None:
    for case in (V2, V3):
        found = SourceState.read(OpenOperator(opened(corpus, case).savepoint, start_over(opened(corpus, case))))
        assert (found.splits, found.enumerator) == ((), KafkaEnumerator((), False))
    # For all other kinds, also unknown ones, the state of the enumerator is removed.
    for case in ("2.3.0-seq", "2.3.0-files", "2.3.0-txnsink"):
        there = opened(corpus, case)
        operator = start_over(there)
        assert operator.coordinator_state is None
        assert state_elements(OpenOperator(there.savepoint, operator), "SourceReaderState", TableRequest("")) == []


def test_number_sequences(corpus: Path) -> None:
    source = source_of(corpus, "2.3.0-seq")

    def numbers(found: SourceState) -> dict[str, tuple[int, int]]:
        return {split.value.split_id: (split.value.next, split.value.to) for split in found.splits}

    assert numbers(source) == {"1": (90, 199), "2": (289, 399)}
    edited = with_offsets(source, {"1": 50, "2": 300})
    assert edited.notes == (AT_LEAST_ONCE_WARNING,)
    assert numbers(written(edited.source)) == {"1": (50, 199), "2": (300, 399)}
    assert numbers(written(with_offsets(source, None, by=10).source)) == {"1": (100, 199), "2": (299, 399)}
    added = written(add_splits(source, [{"split_id": "3", "next": 1000, "to": 1010}]).source)
    assert numbers(added) == numbers(source) | {"3": (1000, 1010)}
    assert numbers(written(remove_splits(source, ["2"], None).source)) == {"1": (90, 199)}
    for wrong, message in (({"1": 200}, "ends at 199"), ({"1": "latest"}, "is a number"), ({"7": 1}, "no split 7")):
        with pytest.raises(OptionError, match=message):
            with_offsets(source, wrong)
    for row in ({"split_id": "2", "next": 0, "to": 1}, {"split_id": "x", "next": 0, "to": 1}):
        with pytest.raises(OptionError):
            add_splits(source, [row]).source.written()


def test_files(corpus: Path) -> None:
    source = source_of(corpus, "2.3.0-files-continuous")

    def positions(found: SourceState) -> dict[str, Any]:
        pending = ((split.split_id, split.position) for split in found.enumerator.splits)
        return {split.value.split_id: split.value.position for split in found.splits} | dict(pending)

    before = {"0000000004": (-1, 15), "0000000003": (-1, 18), "0000000002": None}
    assert positions(source) == before
    edited = with_offsets(source, {"0000000004": 5, "0000000002": 60})
    assert edited.notes == (AT_LEAST_ONCE_WARNING,)
    assert positions(written(edited.source)) == before | {"0000000004": (-1, 5), "0000000002": (-1, 60)}
    start = with_offsets(source, {"0000000004": "earliest", "0000000003": {"position_offset": 6}}).source
    assert positions(written(start)) == before | {"0000000004": None, "0000000003": (6, 0)}
    assert positions(with_offsets(source, None, by=-16, clamp=True).source)["0000000004"] == (-1, 0)
    with pytest.raises(OptionError, match="cannot be moved by -16: with clamp"):
        with_offsets(source, None, by=-16)
    with pytest.raises(OptionError, match="counts from byte 6"):
        with_offsets(start, None, by=1)

    row = {"path": "file:/in/e.txt", "length": 480}
    added = written(add_splits(source, [row]).source)
    new = added.enumerator.splits[-1]
    assert (new.split_id, str(new.path), new.length, new.size) == ("0000000005", "file:/in/e.txt", 480, 480)
    with pytest.raises(OptionError, match="exists already"):
        add_splits(source, [row | {"split_id": "0000000002"}])
    with pytest.raises(OptionError, match="a path is a URI"):
        add_splits(source, [row | {"path": "e.txt"}])

    with pytest.raises(OptionError, match="give forget"):
        remove_splits(source, ["0000000002"], None)
    never = remove_splits(source, ["0000000002"], forget=False)
    assert never.notes == ()
    assert never.source.enumerator.processed == source.enumerator.processed
    forgotten = remove_splits(source, ["0000000002"], forget=True)
    assert "b.txt is read again" in forgotten.notes[0]
    assert written(forgotten.source).enumerator.splits == ()
    gone = set(source.enumerator.processed) - set(forgotten.source.enumerator.processed)
    assert [path.rpartition("/")[2] for path in gone] == ["b.txt"]
    # A bounded source keeps no paths: nothing finds the file again.
    bounded = source_of(corpus, "2.3.0-files")
    assert written(remove_splits(bounded, ["0000000003"], None).source).enumerator.splits == ()


def test_what_would_have_no_effect_is_refused(corpus: Path) -> None:
    source = source_of(corpus, V3)
    with pytest.raises(OptionError, match=r"no column 'ofset': did you mean 'offset'"):
        with_offsets(source, {ORDERS_1: {"ofset": 7}})
    with pytest.raises(OptionError, match="no column 'offsets'"):
        add_splits(source, [{"topic": "orders", "partition": 9, "offsets": 7}])
    with pytest.raises(OptionError, match="nothing finds a split of numbers again"):
        remove_splits(source_of(corpus, "2.3.0-seq"), ["1"], forget=True)
    files = source_of(corpus, "2.3.0-files")
    with pytest.raises(OptionError, match="does not look for new files"):
        remove_splits(files, [files.splits[0].value.split_id], forget=True)


def test_sources_that_are_not_known_are_not_changed(corpus: Path) -> None:
    with pytest.raises(UnsupportedStateError, match="the format is unknown"):
        source_of(corpus, "2.3.0-txnsink")
    there = opened(corpus, V3)
    with pytest.raises(UnsupportedStateError, match="would assign all splits again"):
        SourceState.read(OpenOperator(there.savepoint, replace(there.operator, coordinator_state=None)))
    with pytest.raises(StateNotFoundError, match="not a source"):
        SourceState.read(OpenOperator(there.savepoint, replace(there.operator, coordinator_state=None, subtasks={})))
    none = CoordinatorFrame(Payload(1, bytes(4))).bytes()
    bare = replace(there.operator, coordinator_state=ByteStreamStateHandle("c", none), subtasks={})
    with pytest.raises(UnsupportedStateError, match=r"name the connector, if it is a known one: connector='"):
        SourceState.read(OpenOperator(there.savepoint, bare))
    named = SourceState.read(OpenOperator(there.savepoint, bare), "number_sequence")
    added = add_splits(named, [{"split_id": "1", "next": 0, "to": 9}]).source.written()
    assert [split.value.to for split in SourceState.read(OpenOperator(there.savepoint, added)).splits] == [9]


def test_other_states_of_a_compressed_stream_stay(corpus: Path) -> None:
    path = str(corpus / "lab" / "2.3.0-hashmap-canonical-compressed" / "savepoint")
    savepoint = Snapshot.open(path)
    several = OpenOperator(savepoint, savepoint.operator(uid="op-list"))
    names = several.operator_state_names
    before = {name: state_elements(several, name, TableRequest(path)) for name in names}
    assert len(names) > 1

    changed = OpenOperator(savepoint, with_elements(several, names[0], {0: [b"other"]}))
    assert state_elements(changed, names[0], TableRequest(path)) == [(0, b"other")]
    for name in names[1:]:
        assert state_elements(changed, name, TableRequest(path)) == before[name]


@pytest.mark.parametrize("case", [V3, "2.3.0-seq", "2.3.0-files-continuous"])
def test_rows_of_table_offsets_say_where_to_go_on(corpus: Path, case: str) -> None:
    source = source_of(corpus, case)
    elsewhere = with_offsets(source, None, by=3).source
    found = connector_states(source.opened.savepoint, elsewhere.written(), "splits", TableRequest(""))
    rows = [positioned(source, row) for state in found for row in offsets_of(state)]
    keys = {tuple(row[name] for name in key_columns(source)): row for row in rows}
    assert with_offsets(source, keys).source.splits == elsewhere.splits
