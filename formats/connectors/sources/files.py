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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct as Form

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    S,
    SplitEdits,
    moved_from,
    named_in_source,
    whole,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import TEXT, UTF, payloads
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import (
    I32,
    I64,
    LE_I32,
    Encoding,
    at_least,
    many,
    optional,
    pair,
    sized,
    valid,
    well_formed,
)
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.structs import Struct, of, part, struct

#: Column ``status`` of a path that a continuous source has found, and does not read again.
PROCESSED = "processed"
MAGIC = 0xDEADBEEF
NO_OFFSET, NO_PORT = -1, -1
#: In a position as text: what precedes the byte from which records are counted.
BYTE = "from byte "
ID_DIGITS = 10
SPLIT_VERSION = 1
URI = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?://(?:([^@/]*)@)?([^:/@]+)(?::([0-9]{1,5}))?)?)?(/.*)", re.DOTALL)
HEADER = Form("<Iiii")


def _read_text(view: DataInputView, what: str) -> str:
    text = view.read_string_value(what)
    if text is None:
        view.fail(what)
    return text


TEXT_OR_NONE = optional(
    well_formed(Encoding(_read_text, DataOutputView.write_string_value, 1)), asked="whether a part of a path is there"
)


@redacted
@struct
class FilePath(Struct):
    """A URI in the parts in which Flink writes it."""

    scheme: str | None = part(TEXT_OR_NONE, "a part of a path")
    user: str | None = part(TEXT_OR_NONE, "a part of a path")
    host: str | None = part(TEXT_OR_NONE, "a part of a path")
    port: int = part(I32, "a port")
    path: str | None = part(TEXT_OR_NONE, "a part of a path")
    query: str | None = part(TEXT_OR_NONE, "a part of a path")
    fragment: str | None = part(TEXT_OR_NONE, "a part of a path")

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


def _is_id(text: str) -> bool:
    return len(text) == ID_DIGITS and text.isascii() and text.isdigit()


def _check_place(view: DataInputView, _id: str, _path: FilePath | None, start: int, length: int) -> None:
    if start < 0 or length < 0:
        view.fail("a part of a file", f"{length} bytes at {start}")


POSITION = pair(
    at_least(I64, NO_OFFSET, "{} from -1 on"), "an offset", at_least(I64, 0, "{} from 0 on"), "a number of records"
)


@struct
class FileSplit(Struct):
    """A part of a file; ``position`` is a byte (or NO_OFFSET) and the number of records read after it."""

    split_id: str = part(valid(UTF, _is_id, "the id of a split, of ten digits"), "the id of a split")
    path: FilePath | None = part(optional(of(FilePath), asked="whether there is a path"))
    start: int = part(I64, "a start")
    length: int = part(I64, "a length", check=_check_place)
    modified: int = part(I64, "a time")
    size: int = part(I64, "a size")
    hosts: tuple[str, ...] = part(many(UTF), "hosts", default=())
    position: tuple[int, int] | None = part(optional(POSITION), "a position", default=None)

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

    def rows(self) -> list[Row]:
        """Return a row for each split that is not assigned, and for each path that was processed."""
        pending = [{**split.row(), "status": "unassigned"} for split in self.splits]
        return [*pending, *({"path": path, "status": PROCESSED} for path in self.processed)]


SIZED_SPLIT, SIZED_PATH = sized(of(FileSplit), "a split", LE_I32), sized(TEXT, "a path", LE_I32)


def _read_pending(view: DataInputView, _: str) -> PendingSplits:
    """Read the little-endian header, then splits and paths with their lengths."""
    magic, split_version, splits, paths = HEADER.unpack(view.read(HEADER.size, "a header"))
    if magic != MAGIC or split_version != SPLIT_VERSION:
        view.fail("DEADBEEF and splits of version 1", f"{magic:X} and {split_version}")
    if splits < 0 or paths < 0 or splits + paths > view.remaining // LE_I32.least:
        view.fail("numbers of splits and paths that fit into the remaining bytes", f"{splits} and {paths}")
    file_splits = tuple(SIZED_SPLIT.read(view, "a split") for _ in range(splits))
    return PendingSplits(file_splits, tuple(SIZED_PATH.read(view, "a path") for _ in range(paths)))


def _write_pending(out: DataOutputView, pending: PendingSplits) -> None:
    out.write(HEADER.pack(MAGIC, SPLIT_VERSION, len(pending.splits), len(pending.processed)))
    for split in pending.splits:
        SIZED_SPLIT.write(out, split)
    for path in pending.processed:
        SIZED_PATH.write(out, path)


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
    *payloads(of(FileSplit), (SPLIT_VERSION,)),
    lambda split: [split.row()],
    positions=lambda split: [split.go_on()],
)
FILE_ENUMERATOR = ConnectorKind[PendingSplits](
    "file",
    SOURCE_COORDINATOR,
    pa.schema([*COLUMNS, *columns(status=pa.string())]),
    *payloads(Encoding(_read_pending, _write_pending, HEADER.size), (SPLIT_VERSION,)),
    PendingSplits.rows,
    states=(),
    positions=lambda pending: [split.go_on() for split in pending.splits],
)


class FileEdits(SplitEdits):
    """Edits of file splits: the enumerator has unassigned splits and, if the source is continuous, all paths found."""

    key_columns = ("split_id",)

    def key(self, value: FileSplit) -> Key:
        """Return the id."""
        return (value.split_id,)

    def target(self, target: int | str) -> Row:
        """Return the number of records that were read, or the start of the split."""
        if isinstance(target, str):
            if target.strip().casefold() != "earliest":
                raise ValueError(f"a position in a file is a number of records, or earliest, not {target!r}")
            return {"position_offset": None, "position_records": None}
        return {"position_offset": None, "position_records": target}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        _, _, byte = str(row.get("position")).partition(BYTE)
        position = {"position_offset": int(byte) if byte else None, "position_records": row.get("offset")}
        return {"split_id": row["partition"], **position}

    def moved(self, value: FileSplit, by: int, clamp: bool) -> FileSplit:
        """Return the split with another number of records, if it counts them from its start."""
        offset, records = value.position or (NO_OFFSET, 0)
        if offset != NO_OFFSET:
            raise ValueError(f"split {value.split_id} counts from byte {offset}, so it cannot be moved by {by}")
        moved = moved_from(records, by, clamp, f"split {value.split_id}")
        return replace(value, position=(NO_OFFSET, moved))

    def changed(self, value: FileSplit, row: Row) -> FileSplit:
        """Return the split with another position; both columns NULL: its start."""
        if not {"position_offset", "position_records"} & set(row):
            return value
        offset, records = row.get("position_offset"), row.get("position_records")
        if offset is None and records is None:
            return replace(value, position=None)
        byte = NO_OFFSET if offset is None else whole(offset, "position_offset")
        return replace(value, position=(byte, whole(records or 0, "position_records")))

    def goes_back(self, before: FileSplit, after: FileSplit) -> bool:
        """Return whether the position is lower, or may be."""
        start = (NO_OFFSET, 0)
        return before.position is not None and (after.position or start) < before.position

    def pending(self, enumerator: PendingSplits) -> Mapping[Key, FileSplit]:
        """Return the enumerator's splits."""
        return {self.key(split): split for split in enumerator.splits}

    def with_pending(self, source: S, changed: Mapping[Key, FileSplit]) -> S:
        """Return the source with other splits of its enumerator."""
        splits = tuple(changed.get(self.key(split), split) for split in source.enumerator.splits)
        return replace(source, enumerator=replace(source.enumerator, splits=splits))

    def added(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source with splits that its enumerator will assign; their ids follow the greatest."""
        pending: PendingSplits = source.enumerator
        existing_keys = {self.key(split.value) for split in source.splits} | self.pending(pending).keys()
        number = max((int(key[0]) for key in existing_keys), default=0)
        for row in rows:
            number += 1
            split_id = str(row.get("split_id") or f"{number:0{ID_DIGITS}}")
            if (split_id,) in existing_keys:
                raise ValueError(f"split {split_id} exists already: with_offsets changes its position")
            existing_keys.add((split_id,))
            start, length = whole(row.get("start") or 0, "start"), whole(row["length"], "length")
            size = row.get("file_size")
            split = FileSplit(
                split_id,
                FilePath.parse(str(row["path"])),
                start,
                length,
                int(row.get("modification_time") or 0),
                start + length if size is None else int(size),
                tuple(row.get("hosts") or ()),
            )
            pending = replace(pending, splits=(*pending.splits, self.changed(split, row)))
        return replace(source, enumerator=pending)

    def without_rows(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source without paths that it has processed: those that are still there are read as new files."""
        paths = {row["path"] for row in rows if row.get("status") == PROCESSED}
        if len(paths) < len({str(row) for row in rows}):
            return super().without_rows(source, rows)
        pending: PendingSplits = source.enumerator
        kept = tuple(path for path in pending.processed if path not in paths)
        return replace(source, enumerator=replace(pending, processed=kept))

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without splits; ``forget``: a continuous source finds their files again."""
        pending: PendingSplits = source.enumerator
        removed_keys = named_in_source(self, source, keys, self.pending(pending))
        values = [*(split.value for split in source.splits), *pending.splits]
        paths = {str(value.path) for value in values if self.key(value) in removed_keys}
        seen = sorted(paths & set(pending.processed))
        if seen and forget is None:
            raise ValueError(
                f"give forget for {seen[0]}: with forget=False it is not read again; with forget=True it "
                "is found as a new file and read from its start"
            )
        if forget and not seen:
            raise ValueError(
                "the source does not look for new files, so a removed split is never found again: leave forget out"
            )
        rest = tuple(split for split in pending.splits if self.key(split) not in removed_keys)
        processed = tuple(path for path in pending.processed if not (forget and path in paths))
        changed = replace(self.without(source, removed_keys), enumerator=PendingSplits(rest, processed))
        return Edited(
            changed, tuple(f"{path} is read again from its start, if it is still there" for path in seen if forget)
        )


CONNECTORS = (
    Connector(
        "file",
        (FILE_SPLITS, FILE_ENUMERATOR),
        rank=1,
        versions="1",
        changes="splits",
        proof="edited",
        edits=FileEdits(),
        effects=(
            Effect("files: `with_offsets`", "position", "of splits not assigned", "continues there"),
            Effect("files: `add_splits`", "", "a split with a new id", "reads the file (again)"),
            Effect(
                "files: `remove_splits(forget=True)`",
                "removed",
                "the path too",
                "finds the file again if it monitors its path continuously",
            ),
        ),
    ),
)
