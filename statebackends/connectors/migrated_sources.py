"""From FlinkKafkaConsumer to KafkaSource, which Flink cannot do: union state becomes splits and an enumerator.

    last offset read n      split at n + 1
    earliest, latest,       split with the marker -2, -1 or -3
    committed
    every partition         assigned in the enumerator, whose first discovery is over

So new partitions are read from their beginning, as FlinkKafkaConsumer does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE, CoordinatorFrame, write_element
from pyspark_savepoint.formats.connectors.registry import recognise_elements
from pyspark_savepoint.formats.connectors.sources.kafka import (
    COMMITTED,
    EARLIEST,
    KAFKA_ENUMERATOR,
    KAFKA_SPLITS,
    LATEST,
    KafkaEnumerator,
    KafkaPartition,
    KafkaSplit,
)
from pyspark_savepoint.formats.connectors.sources.kafka_consumer import KAFKA_CONSUMER, STATE, next_offset
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.statebackends.connectors.connector_states import list_states, state_elements
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

KAFKA_SOURCE = "kafka-source"
MARKERS: Mapping[str, int] = MappingProxyType({"earliest": EARLIEST, "latest": LATEST, "committed": COMMITTED})


def enumerator_version(release: str) -> int:
    """Return the version of the enumerator that a release of the connector writes; later releases read it too.

    >>> [enumerator_version(release) for release in ("1.17", "3.0.2", "3.1", "4.0.1", "5.0.0")]
    [1, 1, 2, 2, 3]
    """
    parts = release.split("-")[0].split(".")
    if len(parts) < 2 or not all(part.isdecimal() and part.isascii() for part in parts[:2]):
        raise OptionError("this is not a release of the Kafka connector", expected="such as 3.4.0", found=release)
    number = int(parts[0]), int(parts[1])
    if number < (3, 1):
        return 1
    return 2 if number < (5, 0) else 3


def kafka_source(opened: OpenOperator, version: int, not_set: str | None, lose_data: bool) -> OperatorState:
    """Return the operator with the state of a KafkaSource in place of that of a FlinkKafkaConsumer.

    ``version`` is that of the enumerator. ``not_set`` is where reading starts in partitions that have no offset yet.
    """
    operator = opened.operator
    if STATE not in list_states(operator):
        raise StateNotFoundError(
            "the operator is no FlinkKafkaConsumer with partitions",
            operator=operator.label,
            expected=f"operator state {STATE!r}",
        )
    elements = state_elements(opened, STATE, TableRequest(opened.savepoint.path))
    recognition = recognise_elements("splits", STATE, [data for _, data in elements], KAFKA_CONSUMER.name)
    if recognition.kind is None:
        raise UnsupportedStateError(
            "the partitions have an unknown format, so they cannot be migrated",
            operator=operator.label,
            found=recognition.reason,
        )
    _refuse_other_state(opened, lose_data)
    splits: dict[tuple[str, int], tuple[int, KafkaSplit]] = {}
    for (subtask, _), value in zip(elements, recognition.values, strict=True):
        split = _split(operator, value["topic"], value["partition"], value["offset"], not_set)
        first_split = splits.setdefault((split.topic, split.partition), (subtask, split))[1]
        if first_split != split:
            raise UnsupportedStateError(
                "a partition has two offsets, one of which would be read twice or skipped",
                operator=operator.label,
                found=f"{split.split_id}: {first_split.offset} and {split.offset}",
            )
    enumerator = KafkaEnumerator(
        tuple(KafkaPartition(split.topic, split.partition, True, split) for _, split in splits.values())
    )
    coordinator = CoordinatorFrame(KAFKA_ENUMERATOR.write(version, enumerator)).bytes()
    by_subtask: dict[int, list[bytes]] = {}
    for subtask, split in splits.values():
        by_subtask.setdefault(subtask, []).append(write_element(KAFKA_SPLITS.write(0, split)))
    empty = replace(operator, subtasks=dict.fromkeys(operator.subtasks, OperatorSubtaskState()))
    changed = with_elements(OpenOperator(opened.savepoint, empty), READER_STATE, by_subtask)
    return replace(changed, coordinator_state=ByteStreamStateHandle(KAFKA_SOURCE, coordinator))


def _split(operator: OperatorState, topic: str, partition: int, last: int, not_set: str | None) -> KafkaSplit:
    following, word = next_offset(last)
    if following is not None:
        return KafkaSplit(topic, partition, following)
    marker = MARKERS.get(word or "", MARKERS.get(not_set or ""))
    if marker is None:
        raise OptionError(
            f"partition {topic}-{partition} has no offset yet, and KafkaSource needs one",
            operator=operator.label,
            remedy=f"choose where to read it: not_set={', '.join(map(repr, MARKERS))}",
        )
    return KafkaSplit(topic, partition, marker)


def _refuse_other_state(opened: OpenOperator, lose_data: bool) -> None:
    """Raise UnsupportedStateError for state that a source would not have, unless it may be lost."""
    others = [name for name in opened.operator_state_names if name != STATE]
    for subtask in opened.operator.subtasks.values():
        if subtask.managed_keyed_state or subtask.raw_keyed_state:
            others.append("keyed state")
        if subtask.raw_operator_state:
            others.append("raw operator state")
        if subtask.input_channel_state or subtask.result_subpartition_state:
            others.append("records in flight")
    if others and not lose_data:
        raise UnsupportedStateError(
            "the operator has other state besides the partitions, which KafkaSource would not read",
            operator=opened.operator.label,
            found=", ".join(dict.fromkeys(others)),
            remedy="lose_data=True drops it",
        )
