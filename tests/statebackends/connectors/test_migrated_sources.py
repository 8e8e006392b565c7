"""FlinkKafkaConsumer's union state becomes splits and an enumerator of KafkaSource."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE
from pyspark_savepoint.formats.connectors.registry import recognise_coordinator, recognise_elements
from pyspark_savepoint.formats.connectors.sources.kafka import (
    EARLIEST,
    KAFKA_ENUMERATOR,
    KAFKA_SPLITS,
    LATEST,
    KafkaEnumerator,
    KafkaSplit,
)
from pyspark_savepoint.formats.connectors.sources.kafka_consumer import KAFKA_CONSUMER, STATE, last_offset
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.connector_states import state_elements
from pyspark_savepoint.statebackends.connectors.edits.sources import new_source
from pyspark_savepoint.statebackends.connectors.migrated_sources import enumerator_version, kafka_source
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.statebackends.connectors.test_connector_tables import case


@pytest.fixture
def consumer(corpus: Path) -> OpenOperator:
    """The FlinkKafkaConsumer of a job of Flink 1.20: partitions 0 and 1 of ``topic``, read up to 50."""
    folder = corpus / "migration" / "flows" / "legacy-source-union-kryo" / "1.20.5-hashmap"
    savepoint = Snapshot.open(str(folder))
    opened = [OpenOperator(savepoint, operator) for operator in savepoint.operators]
    return next(each for each in opened if STATE in each.operator_state_names)


def at(opened: OpenOperator, *partitions: tuple[str, int, int | str]) -> OpenOperator:
    """The same consumer with other partitions, each with its next offset or a word."""
    elements: dict[int, list[bytes]] = {}
    for number, (topic, partition, following) in enumerate(partitions):
        value = {"class_id": 87, "topic": topic, "partition": partition, "offset": last_offset(following)}
        elements.setdefault(number % 2, []).append(KAFKA_CONSUMER.write(None, value).data)
    return OpenOperator(opened.savepoint, with_elements(opened, STATE, elements))


def migrated(
    opened: OpenOperator, release: str = "3.4.0", **more: str
) -> tuple[list[KafkaSplit], KafkaEnumerator, int]:
    """The splits, the enumerator and its version."""
    operator = kafka_source(opened, enumerator_version(release), more.get("not_set"), lose_data=False)
    after = OpenOperator(opened.savepoint, operator)
    assert after.operator_state_names == [READER_STATE]
    elements = [data for _, data in state_elements(after, READER_STATE, TableRequest(opened.savepoint.path))]
    found = recognise_elements("splits", READER_STATE, elements)
    assert found.kind is KAFKA_SPLITS
    assert operator.coordinator_state is not None
    coordinator = recognise_coordinator(operator.coordinator_state.data)
    assert coordinator.kind is KAFKA_ENUMERATOR
    return list(found.values), coordinator.values[0], coordinator.payloads[0].version or 0


@pytest.mark.parametrize(("release", "version"), [("3.0.1", 1), ("3.4.0-1.20", 2), ("4.0.1", 2), ("5.0", 3)])
def test_kafka_source_goes_on_behind_the_last_record(consumer: OpenOperator, release: str, version: int) -> None:
    splits, enumerator, written = migrated(consumer, release)
    assert splits == [KafkaSplit("topic", 0, 51), KafkaSplit("topic", 1, 51)]
    assert written == version
    assert [(known.topic, known.partition, known.assigned) for known in enumerator.partitions] == [
        ("topic", 0, True), ("topic", 1, True),
    ]  # fmt: skip
    # New partitions are read from their beginning, as by FlinkKafkaConsumer.
    assert enumerator.initial_discovery_finished


def test_words_become_markers(consumer: OpenOperator) -> None:
    source = at(consumer, ("a", 0, "earliest"), ("a", 1, "latest"), ("b", 0, "committed"), ("b", 1, 0), ("c", 0, 7))
    splits, _, _ = migrated(source)
    assert {(split.topic, split.partition): split.offset for split in splits} == {
        ("a", 0): -2, ("a", 1): -1, ("b", 0): -3, ("b", 1): 0, ("c", 0): 7,
    }  # fmt: skip


def test_a_partition_without_an_offset_is_read_only_where_the_user_says(consumer: OpenOperator) -> None:
    source = at(consumer, ("a", 0, "not set"), ("a", 1, 9))
    with pytest.raises(OptionError, match=r"a-0 has no offset yet(.|\n)*not_set='earliest'"):
        migrated(source)
    for word, marker in (("earliest", EARLIEST), ("latest", LATEST)):
        splits, _, _ = migrated(source, not_set=word)
        assert KafkaSplit("a", 0, marker) in splits
        assert KafkaSplit("a", 1, 9) in splits


def test_what_would_be_read_twice_or_lost_is_refused(corpus: Path, consumer: OpenOperator) -> None:
    same = at(consumer, ("a", 0, 9), ("a", 0, 9))
    assert migrated(same)[0] == [KafkaSplit("a", 0, 9)]
    with pytest.raises(UnsupportedStateError, match=r"two offsets(.|\n)*9 and 10"):
        migrated(at(consumer, ("a", 0, 9), ("a", 0, 10)))
    handle = next(iter(consumer.operator.subtasks.values())).managed_operator_state
    more = {index: replace(each, raw_operator_state=handle) for index, each in consumer.operator.subtasks.items()}
    other = OpenOperator(consumer.savepoint, replace(consumer.operator, subtasks=more))
    with pytest.raises(UnsupportedStateError, match=r"raw operator state(.|\n)*lose_data=True"):
        kafka_source(other, 2, None, lose_data=False)
    assert isinstance(kafka_source(other, 2, None, lose_data=True).coordinator_state, ByteStreamStateHandle)
    path, _ = case(corpus, "2.3.0-kafka-v5.0.0")
    source = Snapshot.open(path)
    with pytest.raises(StateNotFoundError, match="no FlinkKafkaConsumer"):
        kafka_source(OpenOperator(source, source.operators[0]), 2, None, lose_data=False)
    with pytest.raises(OptionError, match="not a release of the Kafka connector"):
        enumerator_version("newest")


@pytest.mark.parametrize("release", ["3.0.1", "3.4.0", "5.0"])
def test_a_new_source_has_the_bytes_of_a_migrated_one(consumer: OpenOperator, release: str) -> None:
    migrated_operator = kafka_source(consumer, enumerator_version(release), None, lose_data=False)
    stateless = OpenOperator(consumer.savepoint, replace(consumer.operator, subtasks={}))
    rows = [{"topic": "topic", "partition": partition, "offset": 51} for partition in (0, 1)]
    new = new_source(stateless, "kafka", enumerator_version(release), rows)
    assert new.coordinator_state is not None
    assert migrated_operator.coordinator_state is not None
    assert new.coordinator_state.data == migrated_operator.coordinator_state.data

    def elements(operator: OperatorState) -> list[bytes]:
        opened = OpenOperator(consumer.savepoint, operator)
        return sorted(data for _, data in state_elements(opened, READER_STATE, TableRequest(consumer.savepoint.path)))

    assert elements(new) == elements(migrated_operator)
    with pytest.raises(OptionError, match="some connectors only"):
        new_source(stateless, "pulsar", 1, [])
    with pytest.raises(OptionError, match="column 'partition' of a split is missing"):
        new_source(stateless, "kafka", 1, [{"topic": "topic"}])
