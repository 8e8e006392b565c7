"""FileSink and StreamingFileSink: files in progress, files to be committed, files to be cleaned up.

    bucket      := u32 1E764B79  i32 version  blob bucketId  utf bucketPath  i64 created
                   bool [i32 version  blob InProgress]                           version 3: FileSink since 1.15
                   i32 version  i32 n {i64 checkpoint  i32 k  blob Pending[k]}[n]    pending files, last in version 2
    committable := u32 1E765C80  [version 2: utf bucketId]  bool [i32 version  blob Pending]
                   bool [i32 version  blob InProgress]  [version 2: bool [utf compacted file]]
    InProgress  := u32 B3A4073D  [version 2: bool [utf path]]  i32 version  blob Recoverable
    Pending     := u32 2C853C89  [version 2: bool [utf path]  i64 size]  i32 version  blob Recoverable
    Recoverable := le32 1E744B57 (local) | D7436C5E (Hadoop)  le64 length  le32 n  le32 m  target[n]  temp[m]
                 | le32 98761432 (S3)  le32 n key  le32 n uploadId  le32 k {le32 part  le32 n etag}[k]
                   le64 bytesInParts  le32 n incompleteObject  le64 incompleteLength

    compactor   := u32 2FC61E19  utf bucketId  list of committables to compact  list of those that are passed on
    part counter:= i64, of StreamingFileSink

Version 1 of a bucket has recoverables in place of ``InProgress`` and ``Pending``. Recoverables of other file systems
are kept as bytes. Flink: ``FileWriterBucketStateSerializer``, ``BucketStateSerializer``,
``FileSinkCommittableSerializer``, ``OutputStreamBasedPartFileWriter``. Local files were written by Flink 1.20 and 2.3;
the layouts of Hadoop and S3 follow the source code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.kind import (
    BUCKET_STATE,
    COMMITTABLES,
    WRITER_STATE,
    ConnectorKind,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    TEXT,
    UNVERSIONED,
    UTF,
    VERSIONED_BLOB,
    Layouts,
    Record,
    reader,
    variants,
    versioned,
    versioned_list,
    writer,
)
from pyspark_savepoint.formats.connectors.sinks.committer import committer_kind
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import (
    I64,
    LE_I32,
    LE_I64,
    LE_U32,
    REST,
    U32,
    Encoding,
    constant,
    many,
    optional,
    sized,
)
from pyspark_savepoint.formats.errors import CorruptStateError

BUCKET_MAGIC, COMMITTABLE_MAGIC, IN_PROGRESS_MAGIC, PENDING_MAGIC = 0x1E764B79, 0x1E765C80, 0xB3A4073D, 0x2C853C89
MAX_LONG = (1 << 63) - 1
REMAINING_MAGIC = 0x2FC61E19
LOCAL, HADOOP, S3 = 0x1E744B57, 0xD7436C5E, 0x98761432


def _read_paths(view: DataInputView, what: str) -> Row:
    """Read the length of a file's valid part, the lengths of its two paths, the paths."""
    length, first, second = LE_I64.read(view, what), LE_I32.read(view, what), LE_I32.read(view, what)
    texts = [TEXT.read(view.sub_view(count, what), f"a path of {what}") for count in (first, second)]
    return {"length": length, "target": texts[0], "temp": texts[1]}


def _write_paths(out: DataOutputView, value: Row) -> None:
    target, temp = value["target"].encode(), value["temp"].encode()
    LE_I64.write(out, value["length"])
    LE_I32.write(out, len(target))
    LE_I32.write(out, len(temp))
    out.write(target + temp)


TWO_PATHS = Encoding(_read_paths, _write_paths, 16)
LE_TEXT = sized(TEXT, length=LE_I32)
FILE_SYSTEMS: Layouts = {
    LOCAL: TWO_PATHS,
    HADOOP: TWO_PATHS,
    S3: Record(
        target=LE_TEXT,
        temp=LE_TEXT,
        parts=many(Record(number=LE_I32, etag=LE_TEXT), LE_I32),
        bytes_in_parts=LE_I64,
        incomplete_object=LE_TEXT,
        incomplete_length=LE_I64,
    ),
}
RECOVERABLES = variants(FILE_SYSTEMS, "magic", LE_U32)


def _read_recoverable(view: DataInputView, what: str) -> Row:
    """Read the recoverable of a known file system; that of another one is kept as bytes."""
    magic = int.from_bytes(view.data[view.position : view.position + 4], "little")
    if magic in FILE_SYSTEMS:
        return RECOVERABLES.read(view, what)
    return {"magic": None, "data": REST.read(view, what)}


def _write_recoverable(out: DataOutputView, value: Row) -> None:
    if value["magic"] is None:
        out.write(value["data"])
    else:
        RECOVERABLES.write(out, value)


RECOVERABLE = Encoding(_read_recoverable, _write_recoverable, 0)
SIZED_RECOVERABLE = sized(RECOVERABLE)


def _read_file(view: DataInputView, what: str) -> Row:
    """Read version and length of a recoverable, which is laid out the same in all versions."""
    version = view.read_i32(f"the version of {what}")
    return {"recoverable_version": version, **SIZED_RECOVERABLE.read(view, what)}


def _write_file(out: DataOutputView, value: Row) -> None:
    out.write_i32(value["recoverable_version"])
    SIZED_RECOVERABLE.write(out, value)


FILE = Encoding(_read_file, _write_file, 8)
IN_PROGRESS = {
    1: Record(_magic=constant(U32, IN_PROGRESS_MAGIC, "the magic number of a file in progress"), file=FILE),
    2: Record(
        _magic=constant(U32, IN_PROGRESS_MAGIC, "the magic number of a file in progress"), path=optional(UTF), file=FILE
    ),
}
PENDING = {
    1: Record(_magic=constant(U32, PENDING_MAGIC, "the magic number of a pending file"), file=FILE),
    2: Record(
        _magic=constant(U32, PENDING_MAGIC, "the magic number of a pending file"),
        path=optional(UTF),
        size=I64,
        file=FILE,
    ),
}


def _pending_by_checkpoint(part: Encoding[Any]) -> Encoding[Any]:
    return many(Record(checkpoint=I64, files=many(sized(part))))


_BARE = versioned({1: Record(file=RECOVERABLE)})
_HEAD = Record(
    _magic=constant(U32, BUCKET_MAGIC, "the magic number of a bucket"),
    bucket_id=VERSIONED_BLOB,
    path=UTF,
    created=I64,
)
BUCKET: Layouts = MappingProxyType(
    {
        1: _HEAD.with_parts(
            in_progress=optional(_BARE),
            pending=variants({1: Record(checkpoints=_pending_by_checkpoint(Record(file=RECOVERABLE)))}),
        ),
        2: _HEAD.with_parts(
            in_progress=optional(versioned(IN_PROGRESS)),
            pending=variants(
                {version: Record(checkpoints=_pending_by_checkpoint(part)) for version, part in PENDING.items()}
            ),
        ),
        3: _HEAD.with_parts(in_progress=optional(versioned(IN_PROGRESS))),
    }
)
_FILES = {"pending": optional(versioned(PENDING)), "in_progress": optional(versioned(IN_PROGRESS))}
COMMITTABLE: Layouts = MappingProxyType(
    {
        1: Record(_magic=constant(U32, COMMITTABLE_MAGIC, "the magic number of a committable"), **_FILES),
        2: Record(
            _magic=constant(U32, COMMITTABLE_MAGIC, "the magic number of a committable"),
            bucket=UTF,
            **_FILES,
            compacted=optional(UTF),
        ),
    }
)


def committable_rows(value: Row) -> Iterator[Row]:
    """Yield the files of a committable: to be published, or to be cleaned up."""
    bucket = value.get("bucket")
    if value["pending"] is not None:
        yield {"bucket": bucket, "role": "PENDING", **_file(value["pending"])}
    if value["in_progress"] is not None:
        yield {"bucket": bucket, "role": "CLEANUP", **_file(value["in_progress"])}
    if value.get("compacted") is not None:
        yield {"bucket": bucket, "role": "CLEANUP", "target": value["compacted"]}


def bucket_rows(value: Row) -> Iterator[Row]:
    """Yield the files of a bucket: the one in progress, and those that wait for their checkpoint."""
    bucket = _bucket_id(value["bucket_id"])
    if value["in_progress"] is not None:
        yield {"bucket": bucket, "role": "IN_PROGRESS", **_file(value["in_progress"])}
    for checkpoint in value.get("pending", {}).get("checkpoints", ()):
        for file in checkpoint["files"]:
            yield {"bucket": bucket, "role": "PENDING", "checkpoint_id": checkpoint["checkpoint"], **_file(file)}
    if value["in_progress"] is None and not value.get("pending", {}).get("checkpoints"):
        yield {"bucket": bucket, "role": "EMPTY", "target": value["path"]}


def _bucket_id(value: Row) -> str:
    """Return the id as text: as it is if Flink's own serializer wrote it, else its bytes as hex digits."""
    view = DataInputView(value["data"])
    try:
        if value["version"] == 1 and LE_I32.read(view, "the length of a bucket id") == view.remaining:
            return TEXT.read(view, "a bucket id")
    except CorruptStateError:
        return value["data"].hex()  # type: ignore[no-any-return]
    return value["data"].hex()  # type: ignore[no-any-return]


def _file(value: Row) -> Row:
    file = value["file"]
    row = {"target": file.get("target"), "temp": file.get("temp"), "size": value.get("size")}
    length = file.get("length")
    if file["magic"] == S3:
        # The sum of damaged lengths may be too large for a long.
        length = max(-MAX_LONG, min(file["bytes_in_parts"] + file["incomplete_length"], MAX_LONG))
    return {**row, "length": length}


FILE_COLUMNS = columns(
    bucket=pa.string(),
    role=pa.string(),
    target=pa.string(),
    temp=pa.string(),
    length=pa.int64(),
    size=pa.int64(),
)
#: State of a compactor: committables whose files will be compacted, and those that are passed on unchanged.
REMAINING_STATE, COUNTER_STATE = "remaining_requests_raw_state", "max-part-counter"
REMAINING: Layouts = MappingProxyType(
    {
        1: Record(
            _magic=constant(U32, REMAINING_MAGIC, "the magic number of a compactor's request"),
            bucket=UTF,
            compact=versioned_list(COMMITTABLE),
            passed=versioned_list(COMMITTABLE),
        )
    }
)
COUNTER = Record(part_counter=I64)


def _check_counters(values: Sequence[Row]) -> None:
    if any(value["part_counter"] < 0 for value in values):
        raise ValueError("a counter of files is negative")


def remaining_rows(value: Row) -> Iterator[Row]:
    """Yield the files of a compactor's request."""
    for committables in (value["compact"], value["passed"]):
        for committable in committables["items"]:
            for row in committable_rows(committable):
                yield {**row, "bucket": value["bucket"], "compacted": committables is value["compact"]}


FILE_COMMITTABLES = committer_kind("file", COMMITTABLE, FILE_COLUMNS, committable_rows)
FILE_WRITERS = ConnectorKind[Row](
    "file",
    COMMITTABLES,
    pa.schema([*columns(checkpoint_id=pa.int64()), *FILE_COLUMNS]),
    reader(BUCKET, "the state of a bucket"),
    writer(BUCKET),
    bucket_rows,
    (WRITER_STATE, BUCKET_STATE),
)
FILE_COMPACTORS = ConnectorKind[Row](
    "file",
    COMMITTABLES,
    pa.schema([*FILE_COLUMNS, *columns(compacted=pa.bool_())]),
    reader(REMAINING, "the requests of a compactor"),
    writer(REMAINING),
    remaining_rows,
    (REMAINING_STATE,),
)
FILE_COUNTERS = ConnectorKind[Row](
    "file",
    COMMITTABLES,
    columns(part_counter=pa.int64()),
    reader({UNVERSIONED: COUNTER}, "a part counter"),
    writer({UNVERSIONED: COUNTER}),
    lambda value: [value],
    (COUNTER_STATE,),
    framed=False,
    check=_check_counters,
    needs_state=BUCKET_STATE,
)


CONNECTORS = (
    Connector(
        "file",
        (FILE_COMMITTABLES, FILE_WRITERS, FILE_COMPACTORS, FILE_COUNTERS),
        about="FileSink, StreamingFileSink",
        rank=1,
        versions="committable 1 and 2, bucket 1 to 3, part counter, compactor 1",
        changes="commits of FileSink",
        proof="measured: local files, committable 2, bucket 2 and 3. Source: HDFS, S3, compactor, the rest",
    ),
)
