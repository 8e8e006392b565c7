"""FlinkKafkaConsumer continues at other positions: only its union state determines them."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.connectors.sources.kafka_consumer import last_offset
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState
from pyspark_savepoint.statebackends.connectors.edits.sources import (
    AT_LEAST_ONCE_WARNING,
    add_splits,
    positioned,
    remove_splits,
    start_over,
    with_offsets,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.statebackends.connectors.test_migrated_sources import consumer

__all__ = ["consumer"]
FIRST, SECOND = ("topic", 0), ("topic", 1)


def positions(source: SourceState) -> dict[tuple[str, int], int]:
    """Return the stored offsets of the last records read, from the written bytes."""
    written = SourceState.read(OpenOperator(source.opened.savepoint, source.written()))
    return {(split.value["topic"], split.value["partition"]): split.value["offset"] for split in written.splits}


def test_positions_are_those_of_the_next_record(consumer: OpenOperator) -> None:
    source = SourceState.read(consumer)
    assert positions(source) == {FIRST: 50, SECOND: 50}
    assert source.written() == consumer.operator
    rewound = with_offsets(source, {FIRST: 10})
    assert rewound.notes == (AT_LEAST_ONCE_WARNING,)
    assert positions(rewound.source) == {FIRST: 9, SECOND: 50}
    assert positions(with_offsets(source, None, by=-100, clamp=True).source) == {FIRST: -1, SECOND: -1}
    words = with_offsets(source, {FIRST: "latest", SECOND: "earliest"})
    assert positions(words.source) == {FIRST: last_offset("latest"), SECOND: last_offset("earliest")}
    with pytest.raises(OptionError, match="at latest"):
        with_offsets(words.source, None, by=1)
    with pytest.raises(OptionError, match="no stopping offsets"):
        with_offsets(source, {FIRST: {"stop_offset": 60}})
    shown = {"stream": "topic", "partition": "1", "offset": 7, "position": "7"}
    assert positioned(source, shown) == {"topic": "topic", "partition": 1, "offset": 7, "marker": None}


def test_partitions_are_added_and_forgotten(consumer: OpenOperator) -> None:
    source = SourceState.read(consumer)
    added = add_splits(source, [{"topic": "other", "partition": 3, "offset": 5}]).source
    assert positions(added) == {FIRST: 50, SECOND: 50, ("other", 3): 4}
    with pytest.raises(OptionError, match="exists already"):
        add_splits(source, [{"topic": "topic", "partition": 0, "offset": 5}])
    for forget in (None, False):
        with pytest.raises(OptionError, match="from the beginning"):
            remove_splits(source, [FIRST], forget)
    removed = remove_splits(source, ["topic"], forget=True)
    assert "topic-0, topic-1" in removed.notes[0]
    with pytest.raises(UnsupportedStateError, match="is not restored"):
        start_over(consumer)
