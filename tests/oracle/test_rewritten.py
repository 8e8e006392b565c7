"""All savepoints of real Flink, read into columns and written from them: Flink restores them with equal values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write
from tests.corpus.everything import NAMES, states_of
from tests.corpus.expected import read
from tests.oracle.compare import differences
from tests.oracle.flink import SavepointOf, restore

pytestmark = pytest.mark.flink

#: As Flink stores them: the values that no column of Spark holds otherwise are in these savepoints.
EXACT = DecodeOptions(timestamps="raw", decimals="string", row_kind=True)
KEYED = ("keyed_state", "window_state", "timers")
OPERATOR_KINDS = ("LIST", "UNION", "BROADCAST")
#: Columns that are BINARY, for only the user's code can read them.
OF_USER = ("animals", "subclasses", "subclasses__last_access")
#: What a DataFrame cannot have: half a character; a Kryo class; namespaces of several types on one operator.
LEFT_OUT = {
    "types": (
        "broken-strings/",
        "inferred/",
        "namespaces/",
        "operator-states/animals",
        "operator-states/rules",
        "pojos/animals",
        "pojos/subclasses",
    ),
    "keys": ("char/",),
}
#: A restore is slow: these releases share the cases, and the newest restores all.
JOBS = {"1.16": ("types",), "1.18": ("types",), "1.20": ("keys",)}


def parts_of(path: Path) -> Iterator[dict[str, Any]]:
    """What one write each is for: a keyed table of an operator, an operator state."""
    seen = set()
    for row in states_of(path):
        options = {NAMES[name]: value for name, value in row["options"]}
        table = row["table"]
        if table in KEYED:
            options.pop("state", None)
        writable = table in KEYED or row["kind"] in OPERATOR_KINDS
        if not writable or (part := (table, tuple(options.items()))) in seen:
            continue
        seen.add(part)
        # Only the user's code computes the hash of these keys: their key groups are read, and written.
        own_hash = "POJO" in (row["key_type"] or "") and table in KEYED
        yield {**options, "table": table, "key_group": "key_group" if own_hash else None, "key_type": row["key_type"]}


def rewrite(old: Path, new: Path, part: dict[str, Any], by_text: bool, version: tuple[int, int]) -> None:
    """One part, through columns; types come from the old savepoint, or from what its listing prints."""
    key_type, key_group = part.pop("key_type"), part.pop("key_group")
    keyed = part["table"] in KEYED
    request = TableRequest(str(old), **part, decode=EXACT, include_ttl=True, include_key_group=key_group is not None)
    rows = read(request, 1)
    rows = rows.drop_columns([name for name in rows.schema.names if name in (*OF_USER, "subtask")])
    operator = Snapshot.open(str(old)).operator(uid=part.get("uid"), uid_hash=part.get("uid_hash"))
    types: dict[str, Any] = {"types_from": str(old)}
    if by_text and part["table"] == "keyed_state":
        comments = {field.name: (field.metadata or {}).get(b"comment", b"").decode() for field in rows.schema}
        states = {
            name: comment.partition(" ")[2] for name, comment in comments.items() if name not in ("key", key_group)
        }
        types = {"types": {"key": key_type, **states}, "flink_version": version if "SET" in key_type else None}
    written = WriteRequest(
        str(new),
        **part,
        **types,
        key_group=key_group,
        max_parallelism=operator.max_parallelism if keyed else None,
    )
    plan = plan_write(written, rows.schema)
    commit(plan, [write_rows(plan, 0, rows.to_batches())])


def test_flink_restores_what_was_written_from_columns(
    flink_version: str, savepoint_of: SavepointOf, tmp_path: Path
) -> None:
    for job in JOBS.get(flink_version.rpartition(".")[0], tuple(LEFT_OUT)):
        check_job(job, flink_version, savepoint_of, tmp_path / job)


def check_job(job: str, flink_version: str, savepoint_of: SavepointOf, folder: Path) -> None:
    case = {"compressed": True, "max_parallelism": 1000, "parallelism": 3} if job == "keys" else {}
    generated = savepoint_of(flink_version, job, **case)
    new = folder / "savepoint"
    major, minor = map(int, flink_version.split(".")[:2])
    refused = []
    for part in parts_of(generated.path):
        try:
            rewrite(generated.path, new, dict(part), job == "keys", (major, minor))
        except SavepointError as error:
            refused.append(f"{part}: {error}")

    # Checksums follow the metadata; Flink ignores them.
    assert Snapshot.open(str(new), checksums="require").metadata.checksums
    backend = "rocksdb" if job == "keys" else "hashmap"
    found = restore(flink_version, job, new, folder / "restored", backend=backend)

    lines = differences(generated.expected, found)
    assert [line for line in lines if not line.startswith(LEFT_OUT[job])] == []
    assert not [line for line in lines if "unexpected 0" not in line]
    assert len(refused) <= 6, "\n".join(refused)
