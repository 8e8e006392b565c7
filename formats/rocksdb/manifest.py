r"""The manifest of a database, a log of version edits named by CURRENT: column families and their files.

    CURRENT     := "MANIFEST-NNNNNN\n"
    MANIFEST    := record*, in pages of 32768 bytes, which may end with up to 6 bytes of padding
    record      := u32 maskedCrc(type, data)  u16 length  u8 type (1 whole, 2 first, 3 middle, 4 last part)  data
    VersionEdit := (varint32 tag  ...)*
                    1 comparator str      2, 3, 4, 9, 10, 203 numbers     5 level, key     200 column family id
                  201 name of a new one   202 drops it                    300 number of following edits in the group
                    6 deleted file        level  number
                    7 new file            level  number  size  smallest  largest
                  100 new file            as 7, smallestSequence  largestSequence
                  102 new file            as 100, path id after the number
                  103 new file            as 100, then (varint32 tag  str)* up to tag 1
                  from 8192 on            str, can be skipped
    smallest, largest := internal keys: user key  u64 (sequence << 8 | type)

RocksDB: ``VersionEdit``, ``VersionSet``, ``log::Reader``. Everything is little-endian.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pyspark_savepoint.formats.errors import (
    DAMAGED,
    UNREADABLE,
    CorruptStateError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.rocksdb.block import Coding, masked_crc32c

PAGE = 32768
HEADER = 7
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
COMPARATOR = b"leveldb.BytewiseComparator"
NUMBERS = (2, 3, 4, 9, 10, 203)
END_OF_FIELDS, PATH_ID, NOT_IGNORABLE = 1, 65, 64
IGNORABLE = 8192
BLOB_FILES = (400, 401)
TAG = 8
SEQUENCE_BITS = 56
#: Tag of the largest key of a file if only a range deletion extends up to that key, which is not included.
RANGE_DELETION_SENTINEL = (2**56 - 1) << 8 | 15


@dataclass(frozen=True, slots=True)
class InternalKey:
    """A user key, and its sequence number and type in one number."""

    user_key: bytes
    tag: int

    @property
    def order(self) -> tuple[bytes, int]:
        """Return the sort key of RocksDB: by user key, the newest first."""
        return self.user_key, -self.tag


@dataclass(frozen=True, slots=True)
class FileMetaData:
    """The manifest's entry of a table file."""

    level: int
    number: int
    size: int
    smallest: InternalKey
    largest: InternalKey
    largest_sequence: int | None = None

    @property
    def name(self) -> str:
        """Return the file's name in the database."""
        return f"{self.number:06d}.sst"


@dataclass(slots=True)
class ColumnFamily:
    """A column family and its files by number."""

    name: str
    files: dict[int, FileMetaData] = field(default_factory=dict)

    def runs(self) -> list[list[FileMetaData]]:
        """Return the sorted runs: each file of level 0, and all files of every other level."""
        files = sorted(self.files.values(), key=lambda file: (file.smallest.order, file.number))
        levels: dict[int, list[FileMetaData]] = {}
        for file in files:
            levels.setdefault(file.level, []).append(file)
        first = sorted(levels.pop(0, []), key=lambda file: file.number)
        return [[file] for file in first] + [levels[level] for level in sorted(levels)]


@dataclass(slots=True)
class _Edit:
    """One record. The next ``remaining`` edits belong to the same group."""

    family: int = 0
    added: str | None = None
    dropped: bool = False
    deleted: list[tuple[int, int]] = field(default_factory=list)
    files: list[FileMetaData] = field(default_factory=list)
    remaining: int = 0


def read_current(data: bytes, path: str) -> str:
    """Return the name of the manifest."""
    name = data.removesuffix(b"\n")
    if not data.endswith(b"\n") or not name.startswith(b"MANIFEST-") or not name[9:].isdigit():
        Coding(data, path).fail("the name of a manifest and the end of the line", ascii(data[:40]))
    return name.decode()


def read_manifest(data: bytes, path: str) -> dict[str, ColumnFamily]:
    """Return the column families by name, with the files that are live after the last edit."""
    families = {0: ColumnFamily("default")}
    group: list[_Edit] = []
    for record, offset in read_records(data, path):
        edit = _read_edit(Coding(record, path, offset))
        group.append(edit)
        if edit.remaining == 0:
            for part in group:
                _apply(part, families, path)
            group = []
    if group:
        raise _unreadable(path, len(data), "all edits of a group", f"{len(group)} of more")
    return {family.name: family for family in families.values()}


def _unreadable(path: str, offset: int, expected: str, found: object) -> CorruptStateError:
    return CorruptStateError(
        "the manifest of a RocksDB database does not match the format",
        path=path,
        offset=offset,
        expected=expected,
        found=found,
        remedy=UNREADABLE,
    )


def read_records(data: bytes, path: str) -> Iterator[tuple[bytes, int]]:
    """Yield the records, assembled from their parts, with their offsets."""
    parts: list[bytes] = []
    begin = 0
    for kind, part, offset in _parts(data, path):
        if (kind in (WHOLE, FIRST)) == bool(parts):
            raise _unreadable(path, offset, "the parts of a record in their order", f"type {kind}")
        begin = begin if parts else offset
        parts.append(part)
        if kind in (WHOLE, LAST):
            yield b"".join(parts), begin
            parts = []
    if parts:
        raise _unreadable(path, len(data), "the last part of a record", "the end of the file")


def _parts(data: bytes, path: str) -> Iterator[tuple[int, bytes, int]]:
    array = np.frombuffer(bytearray(data), np.uint8)
    at = 0
    while at < len(data):
        left = PAGE - at % PAGE
        if left < HEADER:
            at += left
            continue
        if len(data) - at < HEADER:
            raise _unreadable(path, at, "a record", f"{len(data) - at} bytes until the end")
        checksum = int.from_bytes(data[at : at + 4], "little")
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        end = at + HEADER + length
        if kind not in (WHOLE, FIRST, MIDDLE, LAST) or length > left - HEADER or end > len(data):
            raise _unreadable(
                path, at, "a record that ends within its page and the file", f"type {kind}, {length} bytes"
            )
        computed = int(masked_crc32c(array, np.array([at + 6]), np.array([end]))[0])
        if computed != checksum:
            raise CorruptStateError(
                "the manifest of a RocksDB database is damaged",
                path=path,
                offset=at,
                expected=f"a record with checksum {checksum:#010x}",
                found=f"{computed:#010x}",
                remedy=DAMAGED,
            )
        yield kind, data[at + HEADER : end], at + HEADER
        at = end


def _apply(edit: _Edit, families: dict[int, ColumnFamily], path: str) -> None:
    if edit.added is not None:
        if edit.family in families:
            raise _unreadable(path, 0, "a column family once", edit.added)
        families[edit.family] = ColumnFamily(edit.added)
    if edit.family not in families:
        # Edits of a column family that was dropped are ignored.
        return
    if edit.dropped:
        del families[edit.family]
        return
    files = families[edit.family].files
    for level, number in edit.deleted:
        if files.get(number, None) is None or files[number].level != level:
            raise _unreadable(path, 0, f"file {number} on level {level}, to be deleted", "no such file")
        del files[number]
    for file in edit.files:
        if file.number in files:
            raise _unreadable(path, 0, "a table file once", file.name)
        files[file.number] = file


def _read_edit(view: Coding) -> _Edit:
    edit = _Edit()
    while view.remaining:
        tag = view.varint("the tag of an edit", 32)
        if tag == 1:
            _check_comparator(view, view.string("the name of a comparator"))
        elif tag in NUMBERS:
            view.varint("a number")
        elif tag == 5:
            view.varint("a level", 32)
            view.string("a key")
        elif tag == 6:
            edit.deleted.append((view.varint("a level", 32), view.varint("the number of a file")))
        elif tag in (7, 100, 102, 103):
            edit.files.append(_read_file(view, tag))
        elif tag == 200:
            edit.family = view.varint("a column family", 32)
        elif tag == 201:
            edit.added = _name(view)
        elif tag == 202:
            edit.dropped = True
        elif tag == 300:
            edit.remaining = view.varint("a number of edits", 32)
        elif tag >= IGNORABLE:
            view.string("a field that can be ignored")
        else:
            _refuse_tag(view, tag)
    return edit


def _read_file(view: Coding, form: int) -> FileMetaData:
    level = view.varint("a level", 32)
    number = view.varint("the number of a file")
    if form == 102:
        view.varint("a path id", 32)
    size = view.varint("the size of a file")
    smallest, largest = _internal_key(view), _internal_key(view)
    sequence = None
    if form != 7:
        view.varint("a sequence number", SEQUENCE_BITS)
        sequence = view.varint("a sequence number", SEQUENCE_BITS)
    while form == 103:
        tag = view.varint("the tag of a field", 32)
        if tag == END_OF_FIELDS:
            break
        view.string("a field of a file")
        if tag & NOT_IGNORABLE and tag != PATH_ID:
            _refuse_tag(view, tag)
    return FileMetaData(level, number, size, smallest, largest, sequence)


def _internal_key(view: Coding) -> InternalKey:
    key = view.string("an internal key")
    if len(key) < TAG:
        view.fail(f"an internal key of at least {TAG} bytes", len(key))
    return InternalKey(key[:-TAG], int.from_bytes(key[-TAG:], "little"))


def _name(view: Coding) -> str:
    name = view.string("the name of a column family")
    try:
        return name.decode()
    except UnicodeDecodeError:
        view.fail("the name of a column family in UTF-8", ascii(name[:40]))


def _check_comparator(view: Coding, name: bytes) -> None:
    if name != COMPARATOR:
        raise UnsupportedStateError(
            "the database has a comparator that Flink does not use",
            path=view.path,
            expected=COMPARATOR.decode(),
            found=ascii(name[:80]),
        )


def _refuse_tag(view: Coding, tag: int) -> None:
    if tag in BLOB_FILES:
        raise UnsupportedStateError(
            "the database keeps values in blob files, which are not read",
            path=view.path,
            remedy="take a canonical savepoint of the job (flink savepoint --type canonical)",
        )
    raise UnsupportedVersionError(
        "the manifest has a field of a newer release of RocksDB",
        path=view.path,
        offset=view.base + view.position,
        expected="fields that are known, or may be ignored",
        found=tag,
        remedy="take a canonical savepoint of the job (flink savepoint --type canonical)",
    )
