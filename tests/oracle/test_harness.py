"""The harness around real Flink does what the other tests rely on."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.java import string_hash
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.oracle.compare import Found, differences
from tests.oracle.flink import FlinkError, Oracle, SavepointOf, restore, run

pytestmark = pytest.mark.flink

SNAPSHOTS: list[dict[str, Any]] = [
    {"job": "shop"},
    {"job": "types"},
    {"job": "types", "backend": "rocksdb"},
    {"job": "types", "format": "native", "compressed": True},
    {"job": "keys", "compressed": True, "max_parallelism": 1000, "parallelism": 3},
    {"job": "keys", "format": "checkpoint", "backend": "rocksdb-heap-timers"},
    {"job": "kryo"},
]


def snapshot(class_name: str, version: int, body: bytes = b"") -> bytes:
    """Return a serializer snapshot as written in a state's meta info."""
    name = class_name.encode()
    return struct.pack(">iH", 2, len(name)) + name + struct.pack(">i", version) + body


LONG = snapshot("org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot", 3)


@pytest.mark.parametrize("case", SNAPSHOTS, ids=lambda case: "-".join(map(str, case.values())))
def test_generated_snapshots_open(flink_version: str, savepoint_of: SavepointOf, case: dict[str, object]) -> None:
    generated = savepoint_of(flink_version, **case)
    savepoint = Snapshot.open(str(generated.path))

    expected = {operator["operatorId"]: operator for operator in generated.expected["operatorIds"]}
    stateful = {operator["uid"] for operator in generated.expected["operators"]}
    found = {operator.operator_id.hex: operator for operator in savepoint.operators}

    meta = generated.expected["meta"]
    assert meta["flink"] == flink_version
    for operator_id, operator in expected.items():
        if operator["uid"] in stateful:
            assert found[operator_id].parallelism == operator["parallelism"]
            assert found[operator_id].max_parallelism == meta["maxParallelism"]
            assert found[operator_id].state_size > 0


RESTORED = [case for case in SNAPSHOTS if case["job"] != "shop"]


@pytest.mark.parametrize("case", RESTORED, ids=lambda case: "-".join(map(str, case.values())))
def test_flink_finds_what_is_expected(
    flink_version: str, savepoint_of: SavepointOf, tmp_path: Path, case: dict[str, Any]
) -> None:
    generated = savepoint_of(flink_version, **case)

    def find() -> Found:
        backend = case.get("backend", "hashmap")
        return restore(flink_version, case["job"], generated.path, tmp_path, backend=backend)

    if flink_version.startswith("1.18") and case["job"] == "types" and case.get("compressed"):
        # It writes the same offset for all elements of a compressed operator state, and then cannot read them.
        with pytest.raises(FlinkError, match="Could not restore operator state backend"):
            find()
    else:
        assert differences(generated.expected, find()) == []


def test_keys_of_all_types_are_written(flink_version: str, savepoint_of: SavepointOf) -> None:
    generated = savepoint_of(flink_version, "keys", compressed=True, max_parallelism=1000, parallelism=3)

    key_types = {operator["uid"]: operator["keyType"] for operator in generated.expected["operators"]}

    assert len(key_types) >= 26
    assert ("record" in key_types) == (not flink_version.startswith(("1.16", "1.17", "1.18")))
    assert ("set" in key_types) == flink_version.startswith("2")
    strings = next(operator for operator in generated.expected["operators"] if operator["uid"] == "string")
    for text, group in strings["keyGroups"]:
        assert key_group_for_hash(string_hash(text), 1000) == group


def test_kryo_leaves_out_only_what_it_cannot_read_again(flink_version: str, savepoint_of: SavepointOf) -> None:
    (operator,) = savepoint_of(flink_version, "kryo").expected["operators"]

    written = {state["name"] for state in operator["states"]}

    assert {
        "array-list",
        "hash-map",
        "hash-set",
        "bit-set",
        "date",
        "big-decimal",
        "object-string",
    } <= written
    assert len(operator["leftOut"]) < 12


def test_the_oracle_tells_hash_codes_and_key_groups(flink_oracle: Oracle) -> None:
    for text in ("", "key", "\u00e9\u4e2d\U0001f600", "\ud800"):
        java_hash, key_group = flink_oracle.hash_of("STRING", text)
        assert java_hash == string_hash(text)
        assert key_group == key_group_for_hash(java_hash, 128)
    assert flink_oracle.hash_of("LONG", 1 << 40)[0] == 256
    assert flink_oracle.hash_of("BOOLEAN", True)[0] == 1231


def test_the_oracle_reads_and_writes_with_a_serializer_that_it_was_given(flink_oracle: Oracle) -> None:
    answer = flink_oracle.serializer(LONG, [struct.pack(">q", -7), struct.pack(">q", 1 << 62)])

    assert answer["snapshot"] == LONG
    assert [value["again"] for value in answer["values"]] == [
        struct.pack(">q", -7),
        struct.pack(">q", 1 << 62),
    ]
    assert [value["json"] for value in answer["values"]] == [-7, 1 << 62]
    assert answer["values"][0]["hash"] == 6


@pytest.mark.parametrize(
    ("serializer", "value", "reason"),
    [
        (LONG, b"\0" * 9, "leaves 1 bytes of the value unread"),
        (LONG, b"\0" * 7, "EOFException"),
        (LONG + b"\0", b"\0" * 8, "leaves 1 bytes of the serializer snapshot unread"),
        (snapshot("no.such.Snapshot", 1), b"", "no.such.Snapshot"),
    ],
)
def test_the_oracle_says_why_flink_refuses(flink_oracle: Oracle, serializer: bytes, value: bytes, reason: str) -> None:
    with pytest.raises(FlinkError, match=reason):
        flink_oracle.serializer(serializer, [value])


def test_a_run_that_fails_shows_its_cause(flink_version: str) -> None:
    with pytest.raises(FlinkError, match="no job cinema; there are shop") as failure:
        run(
            flink_version,
            "oracle.Generate",
            [
                "--job=cinema",
                "--parallelism=1",
                "--max-parallelism=1",
                "--out=unused",
                "--compressed=false",
                "--format=canonical",
            ],
        )

    assert len(str(failure.value).splitlines()) < 6
