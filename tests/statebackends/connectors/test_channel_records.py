"""Table ``in_flight`` of unaligned checkpoints that real Flink took of a job with full buffers (`oracle.InFlight`).

Its sources number their records: those kept by operators and those in flight to them are all that were sent.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError
from pyspark_savepoint.formats.keyed.operator_streams import completes, elements, frames

ARCHIVES = Path(__file__).parents[2] / "oracle" / "savepoints" / "in-flight"
TYPES = {
    ("match", "input 0"): "TUPLE<INT, STRING>",
    ("match", "input 1"): "LONG",
    ("order-texts", "output 0"): "TUPLE<INT, STRING>",
    ("payment-numbers", "output 0"): "LONG",
    ("clicks", "output 0"): "INT",
    ("match", "output 0"): "STRING",
    ("windows", "output 0"): "STRING",
}
REST = "rest_of_element"


@pytest.fixture(scope="module", params=["1.20.5", "2.2.1"])
def snapshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("in-flight") / "chk-1"
    unpack(ARCHIVES / f"{request.param}.tar.xz", folder)
    return pyspark_savepoint.open(str(folder))


def in_flight(snapshot: Any, uid: str, state: str) -> list[dict[str, Any]]:
    """What is in a part, decoded by the snapshot's own types or those named."""
    kind = TYPES.get((uid, state))
    options = {} if kind is None else {"recordTypes": f'{{"{state}": "{kind}"}}'}
    found: list[dict[str, Any]] = snapshot.table("in_flight", uid=uid, state=state, **options).to_arrow().to_pylist()
    assert found
    assert {row["kind"] for row in found} <= {"record", REST}
    assert all((row["value"] is None) == (row["kind"] == REST) == (row["bytes"] is not None) for row in found)
    return [row for row in found if row["kind"] == "record"]


def kept(snapshot: Any, state: str) -> list[int]:
    rows = snapshot.keyed_state("match", state=state).to_arrow().to_pylist()
    return [number for row in rows for number in row[state] or ()]


def position(snapshot: Any, uid: str) -> int:
    """How many records a source has emitted: the number that comes next is its split's only field."""
    rows = snapshot.table("operator_state", uid=uid, raw="SourceReaderState").to_arrow().to_pylist()
    (row,) = rows
    return int.from_bytes(row["value"][-4:], "big")


def test_no_order_and_no_payment_is_lost_or_twice(snapshot: Any) -> None:
    orders = [row["value"] for uid, state in (("match", "input 0"), ("order-texts", "output 0"))
              for row in in_flight(snapshot, uid, state)]  # fmt: skip
    payments = [row["value"] for uid, state in (("match", "input 1"), ("payment-numbers", "output 0"))
                for row in in_flight(snapshot, uid, state)]  # fmt: skip

    assert sorted([*kept(snapshot, "orders"), *(order["f0"] for order in orders)]) == list(
        range(position(snapshot, "orders"))
    )
    assert sorted([*kept(snapshot, "payments"), *payments]) == list(range(position(snapshot, "payments")))
    for order in orders:
        number = order["f0"]
        assert order["f1"] == f"order-{number}-" * (500 if number % 20 == 7 else 1 + number % 4)


def test_records_have_timestamps_and_lie_in_buffers_of_two_subtasks(snapshot: Any) -> None:
    rows = in_flight(snapshot, "match", "input 0")
    assert [row["timestamp"] for row in rows] == [1_000_000 + 10 * row["value"]["f0"] for row in rows]
    everything = snapshot.table("in_flight").to_arrow().to_pylist()
    ends = Counter(row["note"].split(" bytes are in ")[1] for row in everything if "last" in (row["note"] or "")
                   and row["kind"] == "record")  # fmt: skip
    rests = [row for row in everything if row["kind"] == REST]
    assert sum(ends.values()) == len(rests) > 0


def test_types_that_state_of_the_operator_has_need_no_option(snapshot: Any) -> None:
    clicks = in_flight(snapshot, "windows", "input 0")
    assert {type(row["value"]) for row in clicks} == {int}
    questions = snapshot.table("in_flight", uid="ask").to_arrow().to_pylist()
    assert {row["value"].split()[0] for row in questions} <= {"order", "payment", "click"}
    assert {row["note"] for row in questions if row["state"].startswith("_")} == {None}
    listed = snapshot.table("states").to_arrow().to_pylist()
    assert ("in_flight", "input 0") in {(row["table"], row["state"]) for row in listed}


def test_without_a_type_records_are_bytes_with_a_word(snapshot: Any) -> None:
    rows = snapshot.table("in_flight", uid="match", state="input 1").to_arrow().to_pylist()
    assert {len(row["bytes"]) for row in rows} == {8}
    assert {row["length"] for row in rows} == {17}
    assert "see option 'recordTypes'" in rows[0]["note"]


@pytest.mark.parametrize(
    ("types", "error", "message"),
    [
        ('{"input 1": "INT"}', CorruptStateError, "input 1"),
        ('{"input 7": "LONG"}', OptionError, "input 0, input 1, output 0"),
        ('{"input 0": "LONG", "input 1": "INT"}', OptionError, "different types"),
        ('{"input 0": "LONK"}', OptionError, "record_types"),
        ("LONG", OptionError, "record_types"),
    ],
)
def test_wrong_types_are_refused(snapshot: Any, types: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        snapshot.table("in_flight", uid="match", recordTypes=types).to_arrow()


def test_bytes_that_are_no_elements_are_none() -> None:
    assert frames(bytes.fromhex("00000000")) is None
    assert frames(bytes.fromhex("00000001ff 000000")) == ([(4, 5)], 5)
    assert elements(bytes.fromhex("00000001ff"), [(4, 5)]) is None
    assert elements(bytes.fromhex("0000000102"), [(4, 5)]) is None
    assert completes(b"", bytes.fromhex("000000020142")) == 0
    assert completes(bytes.fromhex("0000000201"), bytes.fromhex("4200000002014300")) is None
    assert completes(bytes.fromhex("0000"), b"\0") is None
