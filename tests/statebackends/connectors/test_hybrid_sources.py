"""Splits and enumerators of HybridSource, of savepoints that real Flink wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE, SPLITS, Payload, Position, write_element
from pyspark_savepoint.formats.connectors.registry import recognise_elements
from pyspark_savepoint.formats.connectors.sources.hybrid import Wrapped
from tests.statebackends.connectors.test_connector_tables import case, rows


@pytest.mark.parametrize("name", ["2.3.0-hybrid-first", "2.3.0-hybrid-second"])
def test_hybrid_sources_show_the_splits_of_the_source_that_runs(corpus: Path, name: str) -> None:
    path, expected = case(corpus, name)
    columns = ("subtask", "split_id", "source_index", "next", "to")
    assert sorted(tuple(row[column] for column in columns) for row in rows(path, "splits")) == sorted(
        (split["subtask"], split["id"], split["source"], split["wrapped"]["from"], split["wrapped"]["to"])
        for split in expected["source"]["readers"]
    )
    (known,) = rows(path, "source_coordinator")
    assert (known["connector"], known["source_index"]) == (
        "hybrid_number_sequence",
        expected["source"]["enumerator"]["source"],
    )


def test_splits_of_an_unknown_source_are_bytes_of_a_hybrid_source() -> None:
    def element(index: int, split: bytes, split_id: bytes = b"\0\1a") -> bytes:
        head = index.to_bytes(4, "big", signed=True) + split_id + (7).to_bytes(4, "big")
        return write_element(Payload(0, head + len(split).to_bytes(4, "big") + split))

    found = recognise_elements(SPLITS, READER_STATE, [element(1, b"abc")])
    assert found.kind is not None
    assert (found.kind.name, found.values) == ("hybrid", (Wrapped(1, 7, b"abc", "a"),))
    for wrong in (element(-1, b"abc"), element(1001, b"abc"), element(1, b"abc", b"\0\0"), element(1, b"")[:-1]):
        assert recognise_elements(SPLITS, READER_STATE, [wrong]).kind is None
    kafka = b"\0\1t" + (3).to_bytes(4, "big") + (9).to_bytes(8, "big") + b"\x80" + bytes(7)
    inner = element(1, kafka).replace((7).to_bytes(4, "big"), bytes(4), 1)
    found = recognise_elements(SPLITS, READER_STATE, [inner])
    assert found.kind is not None
    assert found.kind.name == "hybrid_kafka"
    assert found.kind.positions is not None
    assert list(found.kind.positions(found.values[0])) == [Position("t", 3, 9)]
