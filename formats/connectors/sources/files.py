"""File source: parts of files with their positions, and the enumerator's pending splits and processed paths.

    split      := utf id  path  i64 start  i64 length  i64 modified  i64 size  i32 n utf[n] hosts
                  bool [i64 offset  i64 records]                                                     version 1
    path       := bool not null [ N scheme  N user  N host  i32 port  N path  N query  N fragment ]
    N          := bool not null [ StringValue ]
    enumerator := le32 DEADBEEF  le32 split version  le32 splits  le32 paths                         version 1
                  { le32 n split }[splits]  { le32 n utf8 }[paths]

Ids have ten digits. A position is a byte of the file (-1: the split's start) and the number of records read after it;
without a position, the split has not been started. ``paths`` are those that a continuous source has already found.
Flink: ``FileSourceSplitSerializer``, ``PendingSplitsCheckpointSerializer``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
    read_text,
    unknown_version,
    without_surrogates,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.redaction import redacted

MAGIC = 0xDEADBEEF
NO_OFFSET, NO_PORT = -1, -1
#: In a position as text: what precedes the byte from which records are counted.
BYTE = "from byte "
ID_DIGITS = 10
SPLIT_VERSION = 1
URI = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?://(?:([^@/]*)@)?([^:/@]+)(?::([0-9]{1,5}))?)?)?(/.*)", re.DOTALL)
LITTLE = struct.Struct("<i")
HEADER = struct.Struct("<Iiii")


@redacted
@dataclass(frozen=True, slots=True)
class FilePath:
    """A URI in the parts in which Flink writes it."""

    scheme: str | None
    user: str | None
    host: str | None
    port: int
    path: str | None
    query: str | None
    fragment: str | None

    @classmethod
    def read(cls, view: DataInputView) -> FilePath | None:
        """Read a path, or none."""
        if not view.read_bool("whether there is a path"):
            return None
        scheme, user, host = (_read_part(view) for _ in range(3))
        port = view.read_i32("a port")
        path, query, fragment = (_read_part(view) for _ in range(3))
        return cls(scheme, user, host, port, path, query, fragment)

    @classmethod
    def parse(cls, text: str) -> FilePath:
        """Return the parts of a URI; a path without scheme is a local one, as in Flink.

        >>> str(FilePath.parse("hdfs://node:9000/in/a.txt")), str(FilePath.parse("/in/a.txt"))
        ('hdfs://node:9000/in/a.txt', 'file:/in/a.txt')
        """
        match = URI.fullmatch(text)
        if match is None:
            raise ValueError(f"a path is a URI such as s3://bucket/file, or absolute, not {text!r}")
        scheme, user, host, port, path = match.groups()
        return cls(scheme or "file", user, host, int(port) if port else NO_PORT, path, None, None)

    def write(self, out: DataOutputView) -> None:
        """Write a byte for not null, then the path."""
        out.write_bool(True)
        for part in (self.scheme, self.user, self.host):
            _write_part(part, out)
        out.write_i32(self.port)
        for part in (self.path, self.query, self.fragment):
            _write_part(part, out)

    def __str__(self) -> str:
        """Return the URI as Flink shows it."""
        text = f"{self.scheme}:" if self.scheme is not None else ""
        if self.host is not None:
            user = f"{self.user}@" if self.user is not None else ""
            port = f":{self.port}" if self.port != NO_PORT else ""
            text += f"//{user}{self.host}{port}"
        text += self.path or ""
        text += f"?{self.query}" if self.query is not None else ""
        return text + (f"#{self.fragment}" if self.fragment is not None else "")


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A part of a file; ``position`` is a byte (or NO_OFFSET) and the number of records read after it."""

    split_id: str
    path: FilePath | None
    start: int
    length: int
    modified: int
    size: int
    hosts: tuple[str, ...] = ()
    position: tuple[int, int] | None = None

    @classmethod
    def read(cls, view: DataInputView) -> FileSplit:
        """Read a split."""
        split_id = read_text(view, "the id of a split")
        if len(split_id) != ID_DIGITS or not (split_id.isascii() and split_id.isdigit()):
            view.fail("the id of a split, of ten digits", split_id)
        path = FilePath.read(view)
        start, length = view.read_i64("a start"), view.read_i64("a length")
        modified, size = view.read_i64("a time"), view.read_i64("a size")
        if start < 0 or length < 0:
            view.fail("a part of a file", f"{length} bytes at {start}")
        hosts = tuple(read_text(view, "a host") for _ in range(view.read_count("hosts", each=2)))
        position = None
        if view.read_bool("whether there is a position"):
            position = view.read_i64("an offset"), view.read_i64("a number of records")
            if position[0] < NO_OFFSET or position[1] < 0:
                view.fail("a position", position)
        return cls(split_id, path, start, length, modified, size, hosts, position)

    def write(self, out: DataOutputView) -> None:
        """Write the split."""
        out.write_utf(self.split_id)
        if self.path is None:
            out.write_bool(False)
        else:
            self.path.write(out)
        for number in (self.start, self.length, self.modified, self.size):
            out.write_i64(number)
        out.write_i32(len(self.hosts))
        for host in self.hosts:
            out.write_utf(host)
        out.write_bool(self.position is not None)
        if self.position is not None:
            out.write_i64(self.position[0])
            out.write_i64(self.position[1])

    def row(self) -> Row:
        """Return the columns of a split; NULL records: it has not been started."""
        offset, records = self.position or (NO_OFFSET, None)
        return {
            "split_id": self.split_id,
            "path": None if self.path is None else str(self.path),
            "start": self.start,
            "length": self.length,
            "position_offset": None if offset == NO_OFFSET else offset,
            "position_records": records,
            "modification_time": self.modified,
            "file_size": self.size,
            "hosts": list(self.hosts),
        }

    def go_on(self) -> Position:
        """Return the position at which reading continues: records, and the byte from which they are counted."""
        offset, records = self.position or (NO_OFFSET, 0)
        return Position(str(self.path), self.split_id, records, None if offset == NO_OFFSET else f"{BYTE}{offset}")


@dataclass(frozen=True, slots=True)
class PendingSplits:
    """State of the enumerator: splits that are not assigned to a reader, and paths that it has processed."""

    splits: tuple[FileSplit, ...] = ()
    processed: tuple[str, ...] = ()

    @classmethod
    def read(cls, version: int, view: DataInputView) -> PendingSplits:
        """Read the little-endian header, then splits and paths with their lengths."""
        if version != SPLIT_VERSION:
            raise unknown_version(version, (SPLIT_VERSION,))
        magic, split_version, splits, paths = HEADER.unpack(view.read(HEADER.size, "a header"))
        if magic != MAGIC or split_version != SPLIT_VERSION:
            view.fail("DEADBEEF and splits of version 1", f"{magic:X} and {split_version}")
        if splits < 0 or paths < 0 or splits + paths > view.remaining // LITTLE.size:
            view.fail("numbers of splits and paths that fit into the remaining bytes", f"{splits} and {paths}")
        file_splits = []
        for _ in range(splits):
            inner = _read_sized(view, "a split")
            file_splits.append(FileSplit.read(inner))
            inner.expect_end("a split")
        return cls(tuple(file_splits), tuple(_read_path(view) for _ in range(paths)))

    def write(self, out: DataOutputView) -> None:
        """Write header, splits and paths."""
        out.write(HEADER.pack(MAGIC, SPLIT_VERSION, len(self.splits), len(self.processed)))
        for split in self.splits:
            inner = DataOutputView()
            split.write(inner)
            _write_sized(inner.getvalue(), out)
        for path in self.processed:
            _write_sized(path.encode(), out)

    def rows(self) -> list[Row]:
        """Return a row for each split that is not assigned, and for each path that was processed."""
        pending = [{**split.row(), "status": "unassigned"} for split in self.splits]
        return [*pending, *({"path": path, "status": "processed"} for path in self.processed)]


def _read_part(view: DataInputView) -> str | None:
    if not view.read_bool("whether a part of a path is there"):
        return None
    text = view.read_string_value("a part of a path")
    if text is None:
        view.fail("a part of a path")
    return without_surrogates(view, text, "a part of a path")


def _write_part(part: str | None, out: DataOutputView) -> None:
    out.write_bool(part is not None)
    if part is not None:
        out.write_string_value(part)


def _read_sized(view: DataInputView, what: str) -> DataInputView:
    (count,) = LITTLE.unpack(view.read(LITTLE.size, f"the length of {what}"))
    return view.sub_view(count, what)


def _read_path(view: DataInputView) -> str:
    inner = _read_sized(view, "a path")
    try:
        return inner.read(inner.remaining).decode()
    except UnicodeDecodeError:
        view.fail("a path in UTF-8")


def _write_sized(data: bytes, out: DataOutputView) -> None:
    out.write(LITTLE.pack(len(data)))
    out.write(data)


def _decode_split(version: int, view: DataInputView) -> FileSplit:
    if version != SPLIT_VERSION:
        raise unknown_version(version, (SPLIT_VERSION,))
    return FileSplit.read(view)


COLUMNS = columns(
    path=pa.string(),
    start=pa.int64(),
    length=pa.int64(),
    position_offset=pa.int64(),
    position_records=pa.int64(),
    modification_time=pa.int64(),
    file_size=pa.int64(),
    hosts=pa.list_(pa.string()),
)
FILE_SPLITS = ConnectorKind[FileSplit](
    "file",
    SPLITS,
    COLUMNS,
    _decode_split,
    lambda _, split, out: split.write(out),
    lambda split: [split.row()],
    positions=lambda split: [split.go_on()],
)
FILE_ENUMERATOR = ConnectorKind[PendingSplits](
    "file",
    SOURCE_COORDINATOR,
    pa.schema([*COLUMNS, *columns(status=pa.string())]),
    PendingSplits.read,
    lambda _, pending, out: pending.write(out),
    PendingSplits.rows,
    states=(),
    positions=lambda pending: [split.go_on() for split in pending.splits],
)
