"""Stores of pyarrow: HDFS, and object stores with an identity that only pyarrow has.

They have no conditions: whoever publishes last wins, which is told in a warning (``filesystem``).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import FileReplacedError
from pyspark_savepoint.formats.filesystems.remote import CLIENT_ERRORS, reading, refuse, refusing, storage_error
from pyspark_savepoint.formats.filesystems.remote_files import RemoteInputFile
from pyspark_savepoint.formats.io.local_files import too_large
from pyspark_savepoint.formats.io.snapshot_files import MAX_PUBLISHED, FileInfo, Opening, Published

#: Stores of pyarrow that copy an object of theirs by themselves; HDFS does not.
COPYING = frozenset({"s3", "gcs", "abfs"})


class ArrowStore:
    """A file system of pyarrow, at the prefix of its paths; ``why`` it has no conditional writes."""

    def __init__(self, filesystem: arrow_fs.FileSystem, prefix: str, uri: str, why: str) -> None:
        self.filesystem, self.prefix, self.uri, self.why = filesystem, prefix, uri, why

    retry_seconds = 0.0
    verifies_uploads = False

    @property
    def renames(self) -> bool:
        """Return whether :meth:`move` is a cheap rename: object stores copy."""
        return isinstance(self.filesystem, arrow_fs.HadoopFileSystem)

    def open_input(self, path: str, opening: Opening) -> RemoteInputFile:
        """Open a file."""
        return RemoteInputFile(
            _ArrowFile(lambda: self.filesystem.open_input_file(self.prefix + path), self.uri + path), opening
        )

    def info(self, path: str) -> FileInfo | None:
        """Return the entry at the path; None if it does not exist."""
        with reading(self.uri + path):
            info = self.filesystem.get_file_info(self.prefix + path)
        return None if info.type == arrow_fs.FileType.NotFound else self._info(info)

    def is_file(self, path: str) -> bool:
        """Return whether there is a file at the path."""
        found = self.info(path)
        return found is not None and not found.is_directory

    def identity(self, path: str) -> str | None:
        """Return the store's version of a file, and its size; None if it has none, or is not there."""
        try:
            with self.filesystem.open_input_file(self.prefix + path) as file:
                return version_of(file)
        except CLIENT_ERRORS:
            return None

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name."""
        return [*self._listed(path, missing_is_empty=False)]

    def _listed(self, path: str, missing_is_empty: bool) -> Sequence[FileInfo]:
        selector = arrow_fs.FileSelector(self.prefix + path, allow_not_found=missing_is_empty)
        with reading(self.uri + path):
            entries = self.filesystem.get_file_info(selector)
        return sorted((self._info(entry) for entry in entries), key=lambda info: info.path)

    def _info(self, info: arrow_fs.FileInfo) -> FileInfo:
        path = "/" + info.path.removeprefix(self.prefix).strip("/")
        modified = None if info.mtime_ns is None else info.mtime_ns / 1e9
        return FileInfo(path, info.type == arrow_fs.FileType.Directory, info.size or 0, modified)

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names in a folder, none if it is not there; those of folders have a slash."""
        entries = self._listed(path, missing_is_empty=True)
        return tuple(f"{one.name}/" if one.is_directory else one.name for one in entries[:limit])

    def missing(self) -> str | None:
        """Return a hint if the bucket or container does not exist; else None."""
        if self.prefix:
            try:
                info = self.filesystem.get_file_info(self.prefix)
            except CLIENT_ERRORS:
                return None  # without permission to query the bucket, its files may still be readable
            if info.type == arrow_fs.FileType.NotFound:
                return f"there is no bucket or container {self.prefix!r}: check its name, and the endpoint"
        return None

    def create(self, path: str) -> ArrowOutputFile:
        """Create a file; object stores show it when it is closed."""
        return ArrowOutputFile(self.filesystem, self.prefix + path, self.uri + path)

    def create_directory(self, path: str) -> None:
        """Create the folder in HDFS; in object stores do nothing.

        Object stores need no folders. pyarrow would first request the properties of the bucket or container, which
        credentials limited to its objects do not allow: Azure's shared access signatures never do.
        """
        if self.renames:
            with refusing(self.uri + path):
                self.filesystem.create_dir(self.prefix + path, recursive=True)

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files if they exist."""
        for path in paths:
            with refusing(self.uri + path), contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_file(self.prefix + path)

    def delete_directory(self, path: str) -> None:
        """Delete the folder and its content if it exists."""
        with refusing(self.uri + path), contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.prefix + path)

    def deletion(self, path: str) -> Callable[[], None]:
        """Return what deletes the folder and its content if it exists."""
        return partial(self.delete_directory, path)

    def delete_empty_directory(self, path: str) -> None:
        """Delete the folder if it exists and is empty."""
        with contextlib.suppress(*CLIENT_ERRORS):
            if not self.filesystem.get_file_info(arrow_fs.FileSelector(self.prefix + path)):
                self.filesystem.delete_dir(self.prefix + path)

    def move(self, source: str, target: str) -> None:
        """Rename a file."""
        with refusing(self.uri + source):
            self.filesystem.move(self.prefix + source, self.prefix + target)

    def copy_from(self, other: ArrowStore, source: str, target: str, size: int) -> bool:
        """Have the store copy a file of its own, of this size; return whether it did, completely.

        Stores limit the sizes that they copy in one request (S3: 5 GB, Azure: 256 MB), so a refusal is not an error.
        """
        if self.filesystem.type_name not in COPYING or not self.filesystem.equals(other.filesystem):
            return False
        try:
            self.filesystem.copy_file(other.prefix + source, self.prefix + target)
            return bool(self.filesystem.get_file_info(self.prefix + target).size == size)
        except CLIENT_ERRORS:
            return False

    def read_published(
        self, path: str, limit: int = MAX_PUBLISHED, unless: Published | None = None
    ) -> Published | None:
        """Return the whole content of a published file; None if it does not exist. It has no version."""
        with reading(self.uri + path):
            info = self.filesystem.get_file_info(self.prefix + path)
        if info.type != arrow_fs.FileType.File:
            return None
        if (info.size or 0) > limit:
            raise too_large(self.uri + path, info.size, limit) from None
        with reading(self.uri + path), self.filesystem.open_input_stream(self.prefix + path) as stream:
            return Published(stream.read(), modified=self._info(info).modified)

    def put(self, path: str, data: bytes, over: Published | None) -> None:
        """Say that there are no conditions."""
        raise NotImplementedError(self.why)

    def honours(self, path: str, replacing: bool) -> bool:
        """Say that there are no conditions."""
        raise NotImplementedError(self.why)

    def try_conditions(self, path: str, replacing: bool) -> None:
        """Do nothing: there are no conditions."""

    def put_unseen(self, path: str, data: bytes) -> None:
        """Write a file whatever is there; UncertainOutcomeError after an error."""
        stream = None
        try:
            stream = self.filesystem.open_output_stream(self.prefix + path)
            with stream:
                stream.write(data)
        except CLIENT_ERRORS as error:
            if stream is not None:
                keep_silent(self.filesystem, stream)
            refuse(error, self.uri + path, uncertain=True)


class _ArrowFile:
    """A file that pyarrow opened.

    Its ranges are fetched by separate requests. To ensure that all of them are of one version, :meth:`close` requests
    the version again and raises FileReplacedError if it has changed since the file was opened.
    """

    modified: float | None = None
    is_lasting = False

    def __init__(self, open_file: Callable[[], Any], path: str) -> None:
        self.path = path
        self._open_file = open_file
        self.size = -1

    def open(self, start: int | None, count: int) -> tuple[int, Any]:
        """Open the file; the first read requests bytes."""
        with reading(self.path):
            self._file = self._open_file()
        self._version, self.size = version_of(self._file), int(self._file.size())
        return 0, b""

    def read(self, start: int, count: int) -> Any:
        """Return some bytes."""
        with reading(self.path):
            return self._file.read_at(count, start)

    def close(self) -> None:
        """Close the file; a file deleted since it was opened is not an error."""
        self._file.close()
        if self._version is None:
            return
        try:
            again = self._open_file()
        except FileNotFoundError:
            return
        except CLIENT_ERRORS as error:
            raise storage_error(error, self.path) from None
        now = version_of(again)
        again.close()
        if now != self._version:
            raise FileReplacedError(
                "the file was replaced while it was read",
                path=self.path,
                expected=f"version {self._version}",
                found=f"version {now}",
                remedy="read the snapshot again: the new version is complete",
            )


def version_of(file: Any) -> str | None:
    """Return the version of the open file as the store names it; None if the store has no versions."""
    metadata = {name.lower(): value for name, value in (file.metadata() or {}).items()}
    version = metadata.get("etag")
    return None if version is None else f"{version.decode(errors='replace')} of {file.size()} bytes"


def keep_silent(filesystem: arrow_fs.FileSystem, file: Any) -> None:
    """Keep a failed Azure stream alive, so that it is not closed again, not even at the end of the process.

    When Arrow destroys such a stream, it writes the error to standard error, with the URL and the whole token in it.
    """
    if filesystem.type_name == "abfs" and not file.closed:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))


class ArrowOutputFile:
    """A new file opened by pyarrow; object stores show it only when it is closed."""

    def __init__(self, filesystem: arrow_fs.FileSystem, located: str, path: str) -> None:
        self.path = path
        self.size = 0
        self._filesystem, self._located = filesystem, located
        try:
            self._file: Any = filesystem.open_output_stream(located)
        except CLIENT_ERRORS as error:
            refuse(error, path)

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        data = memoryview(buffer).cast("B")
        try:
            self._file.write(data)
        except CLIENT_ERRORS as error:
            refuse(error, self.path)
        self.size += len(data)

    def close(self) -> None:
        file, self._file = self._file, None
        try:
            file.close()
        except CLIENT_ERRORS as error:
            keep_silent(self._filesystem, file)
            refuse(error, self.path)

    def abort(self) -> None:
        """Close and delete the file, because an upload cannot be cancelled."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except CLIENT_ERRORS:
                keep_silent(self._filesystem, file)
            # A file that cannot be deleted can be found by its name: report the original error instead.
            with contextlib.suppress(*CLIENT_ERRORS):
                self._filesystem.delete_file(self._located)
