"""Damaged payloads: whatever the bytes, a state is recognised or shown as bytes, and its rows fit their columns."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import (
    COMMITTABLES,
    READER_STATE,
    SPLITS,
    CoordinatorFrame,
    Payload,
    write_element,
)
from pyspark_savepoint.formats.connectors.registry import (
    KINDS,
    Recognition,
    recognise_coordinator,
    recognise_elements,
)
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.connectors.connector_states import list_states, state_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.formats.connectors import test_other_sources as sources
from tests.formats.connectors import test_sinks as sinks
from tests.formats.connectors.test_sinks import blob, committer, i32, i64, request, utf

CURSOR = blob(bytes.fromhex("aced000570"))
MANIFESTS = i32(2) + blob(blob(b"\xc2\x01" + blob(b"{}") + b"\4ab") + blob(b"") + i32(1) + utf("f"))
XID = i32(201) + b"\2ab" + b"\1c"
PENDING = bytes.fromhex("2c853c89") + b"\1" + utf("p") + i64(80) + i32(1) + blob(sinks.S3 + bytes(12))
#: A valid payload for each kind without bytes of real Flink, by table and operator state.
MADE: list[tuple[str, str, bytes]] = [
    *(
        (SPLITS, READER_STATE, write_element(Payload(version, data)))
        for version, data in (
            (2, utf(sources.ARN, "s", "LATEST") + b"\1\1" + i64(3) + b"\1" + utf("7") + i32(0) + utf("0", "9") + b"\0"),
            (4, sources.stream("binlog-split", sources.MYSQL_OFFSET, b"", i32(4) + b"\1")),
            (6, sources.stream("stream-split", sources.LSN, b"\1", i32(4) + b"\0\1")),
            (5, sources.snapshot(sources.LSN, b"\0")),
            (2, utf("t") + i32(3, 1, 0, 9) + CURSOR + b"\1" + blob(bytes.fromhex("080a1014")) + b"\0"),
            (0, i32(1) + utf("a") + i32(0) + blob(utf("t") + i32(3) + i64(9, 12))),
        )
    ),
    (SPLITS, sources.CONSUMER_STATE, sources.consumer_shard(b"495\xb7")),
    *(
        (COMMITTABLES, "streaming_committer_raw_states", write_element(Payload(2, committer(request(version, data)))))
        for version, data in (
            (1, b"\0\3" + i64(4711) + utf("prefix-0")),
            (2, bytes.fromhex("1e765c80") + utf("odd") + b"\1" + i32(2) + blob(PENDING) + b"\0\1" + utf("/old")),
            (1, utf("job", "op") + i64(12) + blob(MANIFESTS)),
            (1, i64(3, 4) + utf("persistent://t/n/a")),
        )
    ),
    (COMMITTABLES, "state", b"\1\1" + utf("p") + i64(11) + b"\0\3" + i64(17) + i32(0) + b"\1" + i32(1) + utf("q")),
    (COMMITTABLES, "XaSinkState", i32(1) + XID + i32(1) + i64(7) + i32(2) + XID),
    (COMMITTABLES, "iceberg-files-committer-state", i32(1) + i64(12) + b"\0" + blob(MANIFESTS)),
    (
        COMMITTABLES,
        "remaining_requests_raw_state",
        write_element(Payload(1, bytes.fromhex("2fc61e19") + utf("odd") + i32(2, 0) + i32(1, 0))),
    ),
]


def rows_fit(found: Recognition) -> bool:
    """Make the columns of what was recognised; return whether something was."""
    if found.kind is None:
        return False
    rows = [row for value in found.values for row in found.kind.rows(value)]
    for field in found.kind.columns:
        pa.array([row.get(field.name) for row in rows], field.type)
    if found.kind.positions is not None:
        assert all(len(list(found.kind.positions(value))) < 10**6 for value in found.values)
    return True


def damaged(data: bytes, chance: random.Random) -> list[bytes]:
    """Return the data cut off, and with some bytes replaced by ones that lengths, flags and texts dislike."""
    found = [data[:cut] for cut in range(0, len(data), max(1, len(data) // 20))]
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 4))):
            changed[chance.randrange(len(data))] = chance.choice(
                (0, 1, 2, 0x7F, 0x80, 0xED, 0xFF, chance.randrange(256))
            )
        found.append(bytes(changed))
    at = chance.randrange(len(data))
    return [*found, data + b"\0", data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :], data[:at] + bytes(8) + data[at:]]


@pytest.mark.parametrize("made", MADE, ids=[f"{state}-{number}" for number, (_, state, _) in enumerate(MADE)])
def test_damaged_payloads_made_by_hand(made: tuple[str, str, bytes]) -> None:
    table, state, data = made
    assert rows_fit(recognise_elements(table, state, [data])), "the payload itself is good"
    for wrong in damaged(data, random.Random(len(data))):
        rows_fit(recognise_elements(table, state, [wrong]))
        rows_fit(recognise_elements(table, state, [data, wrong]))


def test_damaged_payloads_of_real_flink(corpus: Path) -> None:
    chance, recognised = random.Random(7), 0
    for found in find_snapshots(str(corpus / "connectors")):
        savepoint = Snapshot.open(found.path)
        for operator in savepoint.operators:
            for state in list_states(operator):
                elements = state_elements(OpenOperator(savepoint, operator), state, TableRequest(found.path))
                tables = {kind.table for kind in KINDS if state in kind.states}
                for table in tables:
                    for wrong in damaged(elements[0][1], chance):
                        recognised += rows_fit(recognise_elements(table, state, [wrong]))
            if operator.coordinator_state is not None:
                for wrong in damaged(operator.coordinator_state.data, chance):
                    recognised += rows_fit(recognise_coordinator(wrong))
    assert recognised


def test_enumerators_made_by_hand() -> None:
    split = utf(sources.ARN, "s", "LATEST") + b"\0"
    for version, data in ((1, b"\1" + utf("s") + i32(1, 0) + blob(split) + i32(2)), (3, i32(1) + utf("t") + i32(3, 0))):
        whole = CoordinatorFrame(Payload(version, data)).bytes()
        assert rows_fit(recognise_coordinator(whole))
        for wrong in damaged(whole, random.Random(version)):
            rows_fit(recognise_coordinator(wrong))


def test_what_no_column_holds_is_refused() -> None:
    huge = (1 << 63) - 1
    for offset in (huge, -2, -915623761777):
        value = {"class_id": 87, "topic": "t", "partition": 0, "offset": offset}
        payload = next(kind for kind in KINDS if kind.name == "kafka_consumer").write(None, value)
        assert recognise_elements(SPLITS, "topic-partition-offset-states", [payload.data]).kind is None
    with pytest.raises(SavepointError, match="surrogates"):
        next(kind for kind in KINDS if kind.states == ("iceberg-flink-job-id",)).read(Payload(None, b"\2\x80\xb0\3"))
