"""Snapshots of Flink's migration tests, 1.8 to 1.20: hashmap and RocksDB, canonical, native, checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.corpus.everything import KEYED, misplaced_keys, read_state, states_of
from tests.corpus.expected import read

DRAGONS = [
    {"value": f"Here be {what}"} for what in ("dragons!", "more dragons!", "the mostest dragons!", "yet more dragons!")
]
PLACE = ("key_group", "subtask")
EVENT_TIME = -(2**63) + 10
JAVA_STRING = b"\xac\xed\x00\x05t\x00"

UDF, BROADCAST = "new-stateful-udf-migration-itcase", "new-stateful-broadcast-udf-migration-itcase"
COMPLEX, NON_KEYED = "operatorstate__complexKeyed", "operatorstate__nonKeyed"
CUSTOM, SINK = "type-serializer-snapshot-migration-itcase", "unified-sink-migration-test"

Rows = list[dict[str, Any]]


def strings(text: str) -> Rows:
    """Four Java strings of one class of the job, as Java serializes them."""
    return [{"value": JAVA_STRING + bytes([len(text) + 1]) + f"{text}{i}".encode()} for i in range(4)]


def of_keys(*names: str) -> Rows:
    """Four keys, tuples of one long; the other columns hold the same number."""
    return [{"key": {"f0": i}} | dict.fromkeys(names, i) for i in range(4)]


#: What the jobs put into each state, by the start of the operator's hash; no times of processing time timers.
CONTENTS: dict[str, dict[tuple[str, str], Rows]] = {
    UDF: {
        ("1f2b5d", "source-state"): DRAGONS,
        ("69f32d", "source-state"): DRAGONS,
        ("d5c8b1", "state-name"): of_keys("state-name"),
        ("dab258", "state-name"): of_keys("state-name"),
        ("41e91a", "state-name"): of_keys("window", "state-name"),
        ("4b818c", "state-name"): of_keys("window", "state-name"),
    },
    BROADCAST: {
        ("1f2b5d", "source-state"): DRAGONS,
        ("63dd9c", "source-state"): DRAGONS,
        ("69f32d", "source-state"): DRAGONS,
        ("81afaf", "source-state"): DRAGONS,
        ("12d7d9", "broadcast-state-1"): [{"key": i, "value": i} for i in range(4)],
        ("12d7d9", "broadcast-state-2"): [{"key": str(i), "value": i} for i in range(4)],
        ("56a26c", "broadcast-state-3"): [{"key": i, "value": str(i)} for i in range(4)],
    },
    COMPLEX: {
        ("6730ef", "_default_"): strings("second"),
        ("adf090", "_default_"): strings("first"),
        ("01203a", "values"): [{"key": {"f0": i}, "values": [i]} for i in range(10)],
        ("01203a", "count"): [],
        ("01203a", "window-contents"): [],
    },
    NON_KEYED: {
        ("013ef8", "_default_"): strings("third"),
        ("6730ef", "_default_"): strings("second"),
        ("adf090", "_default_"): strings("first"),
    },
    CUSTOM: {
        ("bc764c", "source-state"): DRAGONS,
        ("20ba6b", "testState"): [{"key": {"f0": i}, "testState": i.to_bytes(8, "big")} for i in range(4)],
    },
    SINK: {
        ("4823ae", "streaming_committer_raw_states"): [
            {"value": bytes.fromhex("0000000100000013b91f252c000000000000000100000003000133")}
        ],
        ("709a96", "streaming_committer_raw_states"): [
            {"value": bytes.fromhex("0000000100000014b91f252c00000000000000010000000400000002")}
        ],
        ("709a96", "writer_raw_states"): [{"value": bytes.fromhex("000000000000000400000001")}],
        ("cbc357", "SourceReaderState"): [
            {"value": bytes.fromhex("000000010000001300013100000000000000137fffffffffffffff")}
        ],
    },
}
#: A checkpoint that consists of a changelog only, in memory.
CHANGES_ONLY = f"{UDF}-flink1.17-hashmap-checkpoint"
NUMBER = {UDF: 24, BROADCAST: 24, COMPLEX: 6, NON_KEYED: 6, CUSTOM: 3, SINK: 1}


def snapshots(flink_resources: Path, job: str) -> list[Path]:
    """Return the snapshots of a job, after a check of their number."""
    found = sorted(path for path in (flink_resources / "datastream").iterdir() if path.name.startswith(job))
    assert len(found) == NUMBER[job]
    return found


def with_tuples(rows: Rows) -> Rows:
    """Keys of a type that nobody recorded: a tuple of a long has the bytes and the hash of the long."""
    return [
        {name: {"f0": row[name]} if name == "key" and type(row[name]) is int else row[name] for name in row}
        for row in rows
    ]


def states(path: Path) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for listed in states_of(path):
        if listed["state"] is not None:
            yield (listed["operator_uid_hash"][:6], listed["state"]), listed


def rows_of(path: Path, listed: dict[str, Any]) -> Rows | None:
    table = read_state(path, listed)
    if table is None:
        return None
    rows = [{name: row[name] for name in row if name not in PLACE} for row in table.to_pylist()]
    return sorted(rows, key=str)


@pytest.mark.parametrize("job", CONTENTS)
def test_every_state_holds_what_the_job_put_in(flink_resources: Path, job: str) -> None:
    for path in snapshots(flink_resources, job):
        found = {place: rows_of(path, listed) for place, listed in states(path) if listed["table"] != "timers"}
        # The channels of unaligned checkpoints are empty here.
        found = {place: rows for place, rows in found.items() if rows or not place[1].startswith("output ")}
        if path.name == CHANGES_ONLY:
            found = {place: with_tuples(rows or []) for place, rows in found.items()}
        assert found == CONTENTS[job], path.name


@pytest.mark.parametrize("job", [UDF, BROADCAST, COMPLEX])
def test_timers(flink_resources: Path, job: str) -> None:
    for path in snapshots(flink_resources, job):
        timers = {
            (place[0], listed["state"]): rows_of(path, listed)
            for place, listed in states(path)
            if listed["table"] == "timers"
        }
        # The changelog of a job without timers is empty: no handle mentions a timer service.
        assert timers or path.name == f"{BROADCAST}-flink1.17-hashmap-checkpoint"
        for rows in timers.values():
            if job != UDF:
                assert rows == []
                continue
            assert rows is not None
            for domain in ("event", "processing"):
                of_domain = sorted((row for row in rows if row["domain"] == domain), key=lambda row: row["namespace"])
                assert [(row["key"], row["namespace"]) for row in of_domain] == [({"f0": i}, i) for i in range(4)]
                assert {row["service"] for row in of_domain} == {"timer"}
                times = {row["timestamp"] for row in of_domain}
                assert times == {EVENT_TIME} if domain == "event" else min(times) > 1_500_000_000_000


@pytest.mark.parametrize("job", CONTENTS)
def test_every_key_is_in_its_key_group(flink_resources: Path, job: str) -> None:
    kinds: Counter[str] = Counter()
    for path in snapshots(flink_resources, job):
        for _, listed in states(path):
            if listed["table"] in KEYED:
                kinds[listed["key_type"]] += 1
                assert list(misplaced_keys(path, listed)) == []
    assert set(kinds) <= {"TUPLE<LONG>", "TUPLE<INT>", "LONG"}


def test_every_snapshot_is_of_a_known_job(flink_resources: Path) -> None:
    assert len(list((flink_resources / "datastream").iterdir())) == sum(NUMBER.values())


def test_raw_keyed_state_is_there_as_bytes(flink_resources: Path) -> None:
    path = str(flink_resources / "datastream" / f"{UDF}-flink1.8-rocksdb-savepoint")

    rows = read(TableRequest(path, table="raw_keyed_state")).to_pylist()

    assert {row["operator_uid_hash"][:6] for row in rows} == {"41e91a", "4b818c", "d5c8b1", "dab258"}
    assert all(row["value"].startswith(bytes.fromhex("f1cd859f00000002")) for row in rows)
