"""Iceberg sinks: manifests that wait to be committed to the table, per checkpoint (layout from source code).

    committable       := utf jobId  utf operatorId  i64 checkpoint  blob Manifests        IcebergSink, version 1
    Manifests         := i32 version  blob DeltaManifests
    DeltaManifests    := manifest (version 1)  |  blob data  blob deletes  i32 n utf referencedDataFile[n] (version 2)
    manifest          := C2 01  i32 n schema[n]  Avro of a ManifestFile, whose first field is the path
    committer (older) := i32 n {i64 checkpoint  bool isNull  [blob Manifests]}[n]          FlinkSink
    job id (older)    := StringValue

On restore Iceberg skips checkpoints up to the table's ``flink.max-committed-checkpoint-id`` of that job and operator.
Connector: ``IcebergCommittableSerializer``, ``DeltaManifestsSerializer``, ``IcebergFilesCommitter``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, ConnectorKind, Row, columns
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    BLOB,
    STRING_VALUE,
    UNVERSIONED,
    UTF,
    Layouts,
    Record,
    reader,
    versioned,
    writer,
)
from pyspark_savepoint.formats.connectors.sinks.committer import committer_kind
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import I64, REST, Encoding, many, optional, sized
from pyspark_savepoint.formats.errors import CorruptStateError

COMMITTER_STATE, JOB_STATE = "iceberg-files-committer-state", "iceberg-flink-job-id"
JOB_ID = re.compile("[0-9a-f]{32}")
MANIFEST_MAGIC = b"\xc2\x01"

MANIFESTS = versioned(
    {
        1: Record(data=REST),
        2: Record(data=BLOB, deletes=BLOB, referenced=many(UTF)),
    }
)
COMMITTABLE: Layouts = MappingProxyType(
    {1: Record(job_id=UTF, operator_id=UTF, checkpoint=I64, manifests=sized(MANIFESTS))}
)


#: A flag whether the value of a map is null, and the manifests if not.
MANIFESTS_OR_NULL = optional(
    sized(MANIFESTS),
    Encoding(lambda view, what: not view.read_bool(what), lambda out, there: out.write_bool(not there), 1),
    "whether manifests are null",
)
COMMITTER = Record(checkpoints=many(Record(checkpoint=I64, manifests=MANIFESTS_OR_NULL)))
JOB = Record(job_id=STRING_VALUE)


def manifest_path(data: bytes) -> str | None:
    """Return the path of an encoded manifest file, or None if the bytes are of another form."""
    view = DataInputView(data)
    try:
        if view.read(2) != MANIFEST_MAGIC:
            return None
        view.read_blob("a schema")
        length = shift = 0
        while shift < 35:
            byte = view.read_u8()
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return view.read(length >> 1).decode("utf-8")
    except (CorruptStateError, UnicodeDecodeError):
        return None


def _manifest_row(value: Row | None) -> Row:
    if value is None:
        return {}
    return {
        "data_manifest": manifest_path(value["data"]),
        "delete_manifest": manifest_path(value.get("deletes", b"")),
        "referenced_files": len(value.get("referenced", ())),
    }


def _committable_rows(value: Row) -> Iterator[Row]:
    job = {"job_id": value["job_id"], "operator_id": value["operator_id"], "sink_checkpoint_id": value["checkpoint"]}
    yield {**job, **_manifest_row(value["manifests"])}


def _committer_rows(value: Row) -> Iterator[Row]:
    for checkpoint in value["checkpoints"]:
        yield {"sink_checkpoint_id": checkpoint["checkpoint"], **_manifest_row(checkpoint["manifests"])}


def _check_job(values: Sequence[Row]) -> None:
    if not all(JOB_ID.fullmatch(value["job_id"] or "") for value in values):
        raise ValueError("job_id is not the id of a Flink job")


MANIFEST_COLUMNS = columns(
    sink_checkpoint_id=pa.int64(),
    data_manifest=pa.string(),
    delete_manifest=pa.string(),
    referenced_files=pa.int32(),
)
ICEBERG_COMMITTABLES = committer_kind(
    "iceberg",
    COMMITTABLE,
    pa.schema([*columns(job_id=pa.string(), operator_id=pa.string()), *MANIFEST_COLUMNS]),
    _committable_rows,
)
ICEBERG_COMMITTER = ConnectorKind[Row](
    "iceberg",
    COMMITTABLES,
    MANIFEST_COLUMNS,
    reader({UNVERSIONED: COMMITTER}, "manifests per checkpoint"),
    writer({UNVERSIONED: COMMITTER}),
    _committer_rows,
    (COMMITTER_STATE,),
    framed=False,
)
ICEBERG_JOB = ConnectorKind[Row](
    "iceberg",
    COMMITTABLES,
    columns(job_id=pa.string()),
    reader({UNVERSIONED: JOB}, "the id of a job"),
    writer({UNVERSIONED: JOB}),
    lambda value: [value],
    (JOB_STATE,),
    framed=False,
    check=_check_job,
)


CONNECTORS = (
    Connector(
        "iceberg",
        (ICEBERG_COMMITTABLES, ICEBERG_COMMITTER, ICEBERG_JOB),
        about="IcebergSink, FlinkSink",
        rank=3,
        versions="job id, manifests per checkpoint",
        changes="commits of IcebergSink",
        proof="source",
    ),
)
