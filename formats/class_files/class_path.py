"""Lookup of classes by name in jars and folders of ``.class`` files; the first entry that has a class is used.

A jar is untrusted input as well: only requested classes are inflated, up to a maximum size.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pyspark_savepoint.formats.class_files.class_file import MAX_CLASS_BYTES, JavaClass, parse_class, superclass_of
from pyspark_savepoint.formats.class_files.java_types import OBJECT
from pyspark_savepoint.formats.errors import CorruptStateError, SnapshotNotFoundError
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.io.snapshot_files import FileInfo, InputFile, SnapshotFileSystem
from pyspark_savepoint.formats.redaction import redacted

#: A class name whose parts are valid file names, so that it cannot refer to a file outside of a folder.
CLASS_NAME = re.compile(r"[^\x00-\x1f./\\:;\[]+(?:\.[^\x00-\x1f./\\:;\[]+)*")
#: Bytes of the header before the content of an entry in a zip file, without its name.
SMALLEST_HEADER = 30
#: Exceptions of zipfile for archives that are damaged, encrypted, or compressed by an unknown method.
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def expect_paths(paths: Iterable[str]) -> None:
    """Raise SnapshotNotFoundError for a jar or folder that does not exist, also if no class of it is needed."""
    for path in paths:
        _existing(path)


def is_class_file(name: str) -> bool:
    """Return whether a file is that of a class: not the description of a package or module."""
    return name.endswith(".class") and not name.endswith(("package-info.class", "module-info.class"))


class ClassPath:
    """Jars and folders, and the classes found in them so far."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(paths)
        self._entries = [_open(path) for path in self.paths]
        self._found: dict[str, JavaClass | None] = {}

    def find(self, name: str) -> JavaClass | None:
        """Return the class with a name in the form of ``Class.getName``; None if no jar or folder has it."""
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def subclasses(self, name: str) -> list[str]:
        """Return the names of all classes below a class, also of those below others, in the order of their names."""
        subclasses: set[str] = set()
        waiting = [name]
        while waiting:
            new = set(self._below.get(waiting.pop(), ())) - subclasses
            subclasses |= new
            waiting += new
        return sorted(subclasses)

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        """The classes directly below each class: one pass over all class files."""
        below: dict[str, list[str]] = {}
        for entry in self._entries:
            for file in entry.files():
                data = entry.read(file)
                if data is not None:
                    name, above = superclass_of(data, f"{entry.path}: {file}")
                    if above is not None and above != OBJECT.name:
                        below.setdefault(above, []).append(name)
        return below

    def _read(self, name: str) -> JavaClass | None:
        if not CLASS_NAME.fullmatch(name):
            return None
        file = name.replace(".", "/") + ".class"
        for entry in self._entries:
            data = entry.read(file)
            if data is not None:
                where = f"{entry.path}: {file}"
                parsed = parse_class(data, where)
                if parsed.name == name:
                    return parsed
                raise CorruptStateError("a class file contains a class of another name", path=where, found=parsed.name)
        return None


@redacted
@dataclass
class _Folder:
    """A root folder of packages."""

    path: str
    filesystem: SnapshotFileSystem
    root: str

    def files(self) -> Iterator[str]:
        """Yield the paths of all class files below the folder, in the form that :meth:`read` takes."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            for info in self.filesystem.list(f"{self.root.rstrip('/')}/{folder}".rstrip("/")):
                if info.is_directory:
                    waiting.append(f"{folder}{info.name}/")
                elif is_class_file(info.name):
                    yield folder + info.name

    def read(self, file: str) -> bytes | None:
        path = f"{self.root.rstrip('/')}/{file}"
        info = self.filesystem.info(path)
        if info is None or info.is_directory:
            return None
        source = self.filesystem.open_input(path)
        try:
            return _bounded(source)
        finally:
            source.close()


@redacted
@dataclass
class _Jar:
    """A jar and its directory; the file is open only while it is read."""

    path: str
    filesystem: SnapshotFileSystem
    info: FileInfo
    archive: zipfile.ZipFile = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.archive = zipfile.ZipFile(_Seekable(self.filesystem, self.info))
        except ZIP_ERRORS as error:
            raise _no_jar(self.path, error) from None
        self._refuse_shared_bytes()

    def _refuse_shared_bytes(self) -> None:
        """Raise CorruptStateError if two entries have the same bytes: a small file then holds any number of classes."""
        end = 0
        for entry in sorted(self.archive.infolist(), key=lambda entry: entry.header_offset):
            if entry.header_offset < end:
                raise CorruptStateError(
                    "entries of the jar overlap, which no tool writes",
                    path=self.path,
                    found=f"{entry.filename[:200]!r} begins in the entry before it",
                    remedy="build the jar again",
                )
            end = entry.header_offset + SMALLEST_HEADER + entry.compress_size

    def files(self) -> Iterator[str]:
        """Yield the names of all class files, without those for newer releases of Java."""
        return (name for name in self.archive.namelist() if is_class_file(name) and not name.startswith("META-INF/"))

    def read(self, file: str) -> bytes | None:
        try:
            with self.archive.open(file) as content:
                data = content.read(MAX_CLASS_BYTES + 1)
        except KeyError:
            return None
        except ZIP_ERRORS as error:
            raise _no_jar(f"{self.path}: {file}", error) from None
        return _expect_bounded(data, f"{self.path}: {file}")


class _Seekable(io.RawIOBase):
    """A seekable file for zipfile, opened for every read."""

    def __init__(self, filesystem: SnapshotFileSystem, info: FileInfo) -> None:
        self._filesystem = filesystem
        self._info = info
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._info.size}[whence]
        if start + offset < 0:
            raise ValueError("the position is before the beginning of the file")
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._info.size - self._position)
        count = left if size is None or size < 0 else min(size, left)
        buffer = bytearray(count)
        if count:
            file = self._filesystem.open_input(self._info.path)
            try:
                file.read_into(self._position, buffer)
            finally:
                file.close()
        self._position += count
        return bytes(buffer)


def _open(path: str) -> _Folder | _Jar:
    filesystem, root, info = _existing(path)
    if info.is_directory:
        return _Folder(path, filesystem, root)
    return _Jar(path, filesystem, info)


def _existing(path: str) -> tuple[SnapshotFileSystem, str, FileInfo]:
    filesystem, root = locate(path)
    info = filesystem.info(root)
    if info is None:
        raise SnapshotNotFoundError(
            "there is no jar or folder of class files at this path",
            path=path,
            remedy="give a .jar, or the root folder of the packages",
        )
    return filesystem, root, info


def _bounded(source: InputFile) -> bytes:
    buffer = bytearray(min(source.size, MAX_CLASS_BYTES + 1))
    if buffer:
        source.read_into(0, buffer)
    return _expect_bounded(bytes(buffer), source.path)


def _expect_bounded(data: bytes, path: str) -> bytes:
    if len(data) > MAX_CLASS_BYTES:
        raise CorruptStateError(
            "the class file is larger than any compiler writes", path=path, expected=f"at most {MAX_CLASS_BYTES} bytes"
        )
    return data


def _no_jar(path: str, error: Exception) -> CorruptStateError:
    return CorruptStateError(
        "the file is not a jar, or is damaged",
        path=path,
        found=str(error),
        remedy="give a .jar, or a folder of .class files",
    )
