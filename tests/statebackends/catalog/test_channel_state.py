"""Records in flight of unaligned checkpoints: counted and reported, and never read as state."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.metadata import write_metadata
from pyspark_savepoint.formats.metadata.operator_handles import ChannelStateHandle, MergedChannelStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
IN_FLIGHT = RelativeFileStateHandle("in-flight", 700)


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    table = open_table(TableRequest(str(path), **options))
    return [row for part in table.partitions(2) for batch in part.batches() for row in batch.to_pylist()]


@pytest.fixture
def unaligned(tmp_path: Path) -> Path:
    """The shop's savepoint as if records had been in flight to and from its accounts."""
    shutil.copytree(SHOP, tmp_path / "snapshot")
    (tmp_path / "snapshot" / "in-flight").write_bytes(bytes(700))
    savepoint = Snapshot.open(str(SHOP))
    operators = []
    for operator in savepoint.operators:
        subtasks = dict(operator.subtasks)
        if operator.uid == "accounts":
            single = ChannelStateHandle(0, (0, 1), (0, 16), 400, IN_FLIGHT)
            unknown = replace(single, state_size=-1)
            offsets = struct.pack(">iiiqiq", 1, 2, 0, 300, 1, 4)
            merged = MergedChannelStateHandle(1, 300, IN_FLIGHT, offsets)
            subtasks[0] = replace(subtasks[0], input_channel_state=(single, unknown))
            subtasks[1] = replace(subtasks[1], result_subpartition_state=(merged,))
        operators.append(replace(operator, subtasks=subtasks))
    data = write_metadata(replace(savepoint.metadata, operators=tuple(operators)))
    (tmp_path / "snapshot" / "_metadata").write_bytes(data)
    return tmp_path / "snapshot"


def test_the_metadata_table_counts_what_is_in_flight(unaligned: Path) -> None:
    found = {row["operator_uid"]: row for row in rows(unaligned, table="metadata")}

    accounts, other = found["accounts"], found["currency-converter"]
    assert accounts["operator_channel_state_count"] == 3
    assert accounts["operator_input_channel_state_size_in_bytes"] == 400
    assert accounts["operator_output_channel_state_size_in_bytes"] == 300
    assert other["operator_channel_state_count"] == 0
    assert other["operator_input_channel_state_size_in_bytes"] == 0


def test_the_list_of_states_says_how_to_read_it(unaligned: Path) -> None:
    found = [row for row in rows(unaligned) if row["kind"] == "CHANNEL"]

    assert [(row["operator_uid"], row["table"], row["state"], row["note"]) for row in found] == [
        ("accounts", "in_flight", "input 0", "2 channels of an unaligned checkpoint: records in flight, if any"),
        ("accounts", "in_flight", "output 2", "1 channel of an unaligned checkpoint: records in flight, if any"),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"uid": "accounts"},
        {"uid": "accounts", "table": "timers"},
        {"table": "raw_operator_state"},
        {"table": "raw_keyed_state"},
        {"uid": "warehouse-export", "state": "pending_orders"},
    ],
    ids=str,
)
def test_it_is_in_no_table_of_state(unaligned: Path, options: dict[str, Any]) -> None:
    assert rows(unaligned, **options) == rows(SHOP, **options)
