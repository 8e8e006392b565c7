"""File systems of a snapshot: the local one, and those of pyarrow.

============================================  =============================================================
path                                          file system
============================================  =============================================================
``/a/b``, ``file:/a/b``, ``file:///a/b``      local; also ``dbfs:/Volumes/a`` and ``dbfs:/a``, which are mounted
``s3://`` ``s3a://`` ``s3n://`` ``s3p://``    pyarrow's S3: ``remote`` describes the connections
``gs://`` ``abfs(s)://`` ``hdfs://``          pyarrow's GCS, Azure, HDFS
============================================  =============================================================

Paths are interpreted as Flink's ``Path`` does: nothing is percent-decoded. A file system is a frozen description that
pickles; the files it opens do not. Local files are read directly into the caller's buffer.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType

from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import OptionError, UnsafePathError, did_you_mean, nearest
from pyspark_savepoint.formats.filesystems.conditional_store import ConditionalStore, conditional_store
from pyspark_savepoint.formats.filesystems.remote import CLIENT_ERRORS, StoreTarget, connect, storage_error
from pyspark_savepoint.formats.filesystems.remote_files import ArrowOutputs, RemoteInputFile, version_of
from pyspark_savepoint.formats.filesystems.storage_options import NO_OPTIONS, OPTION, StorageOptions, StoragePath
from pyspark_savepoint.formats.io.local_files import NOT_THERE, LocalInputFile, local_error, real_path
from pyspark_savepoint.formats.io.outputs import LocalOutputs
from pyspark_savepoint.formats.io.snapshot_files import Anchor, FileInfo, SnapshotFileSystem
from pyspark_savepoint.formats.redaction import shown

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/?#]*))?(.*)", re.DOTALL)
#: Nanoseconds within which a file may be replaced without a change of its times, as file systems store them.
RECENT = 2_000_000_000
# Schemes of other systems, and the pyarrow scheme of each.
ARROW_SCHEMES: Mapping[str, str] = MappingProxyType(
    {
        "s3": "s3",
        "s3a": "s3",
        "s3n": "s3",
        "s3p": "s3",
        "gs": "gs",
        "gcs": "gs",
        "abfs": "abfs",
        "abfss": "abfss",
        "hdfs": "hdfs",
        "viewfs": "viewfs",
    }
)
#: The store whose options apply to a scheme.
STORES: Mapping[str, str] = MappingProxyType({"s3": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfs"})


def locate(text: str) -> tuple[SnapshotFileSystem, str]:
    """Return the file system of a path or URI, and the normalized absolute path there.

    >>> locate("file:///a//b/")
    (LocalFileSystem(), '/a/b')
    """
    if not is_encodable(text):
        raise UnsafePathError("the path is not valid", path=ascii(text))
    match = URI.fullmatch(text)
    if match is None:
        return LocalFileSystem(), os.path.abspath(os.path.expanduser(text))
    scheme, authority, path = match[1].lower(), match[2] or "", match[3]
    if scheme in ("file", "dbfs"):
        return LocalFileSystem(), _local_path(scheme, authority, path, text)
    if scheme not in ARROW_SCHEMES:
        raise OptionError(
            "no file system is known for this path",
            path=text,
            expected="a local path, or a scheme among file, dbfs, " + ", ".join(ARROW_SCHEMES),
            found=f"{scheme}:",
        )
    if "?" in path:
        raise OptionError(
            "a path cannot contain options",
            path=text,
            expected=f"{scheme}://... without '?'",
            remedy="set endpoints in the environment (AWS_ENDPOINT_URL, ...) or in option "
            f"'{OPTION}'; set credentials in the environment only",
        )
    filesystem = ArrowFileSystem(ARROW_SCHEMES[scheme], authority, StoragePath.options_of(text))
    return filesystem, posixpath.normpath("/" + path.lstrip("/"))


#: A drive letter, which Python takes for a file name or a URI scheme on other systems.
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")


def absolute(text: str, base: str | None = None) -> str:
    """Return a path or URI that is valid in every process; a relative path starts at ``base`` or the working directory.

    >>> absolute("out/sp", "/home/me"), absolute("s3://bucket/sp"), absolute("../sp", "/home/me")
    ('/home/me/out/sp', 's3://bucket/sp', '/home/sp')
    """
    if WINDOWS_PATH.match(text) and os.sep == "/":
        raise OptionError(
            "this is a Windows path, but this machine does not run Windows",
            found=text,
            remedy="give the path under which it is mounted here, or a URI",
        )
    if URI.fullmatch(text) or not is_encodable(text):
        return text
    path = os.path.expanduser(text)
    try:
        return os.path.normpath(path if os.path.isabs(path) else os.path.join(base or os.getcwd(), path))
    except FileNotFoundError:
        raise OptionError(
            "a relative path has no meaning here: the working directory was deleted",
            path=text,
            remedy="give an absolute path, or change to a folder that exists",
        ) from None


def _local_path(scheme: str, authority: str, path: str, text: str) -> str:
    if authority not in ("", "localhost"):
        raise OptionError(
            "the path names a file of another machine", path=text, found=authority, expected="file:///..."
        )
    if scheme == "dbfs" and not path.startswith("/Volumes/"):
        path = "/dbfs/" + path
    return posixpath.normpath("/" + path.lstrip("/"))


def is_encodable(path: str) -> bool:
    """Return whether a file can have this name: without NUL and lone surrogates, which no operating system accepts."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


# -- local --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalFileSystem(LocalOutputs):
    """The file system of this machine, including mounted volumes."""

    def info(self, path: str) -> FileInfo | None:
        """Return the entry at the path; None if it does not exist."""
        try:
            status = os.stat(path)
        except OSError as error:
            if error.errno in NOT_THERE:
                return None
            raise local_error(error, path) from None
        return FileInfo(path, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime)

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name; links to folders are not followed."""
        try:
            with os.scandir(path) as scan:
                entries = [
                    (entry.path, entry.is_dir(follow_symlinks=False), entry.stat(follow_symlinks=False))
                    for entry in scan
                ]
        except OSError as error:
            raise local_error(error, path) from None
        infos = [FileInfo(name, is_directory, at.st_size, at.st_mtime) for name, is_directory, at in entries]
        return sorted(infos, key=lambda info: info.path)

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names in a folder; those of folders have a slash."""
        try:
            with os.scandir(path) as scan:
                names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in islice(scan, limit)]
        except OSError as error:
            raise local_error(error, path) from None
        return tuple(sorted(names))

    def open_input(self, path: str, anchor: Anchor | None = None) -> LocalInputFile:
        """Open a regular file for reading; with an anchor, only if its resolved path lies there."""
        folder, _, name = path.rpartition("/")
        parent = _real_folder(folder or "/", path)
        real = f"{parent.rstrip('/')}/{name}"
        if os.path.islink(real):
            real = real_path(path)
        if anchor is not None:
            base = parent if anchor.base == folder else _real_folder(anchor.base, path)
            if not _is_in(real, os.path.join(base, anchor.folder), anchor):
                raise UnsafePathError(
                    "a symbolic link leads out of the snapshot",
                    path=path,
                    found=real,
                    expected=f"a file below {anchor}",
                )
        return LocalInputFile(real, path)

    def identity(self, path: str) -> str | None:
        """Return inode, size and times; None if there is no file, or one so new that a change may keep its times."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        if abs(time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns)) < RECENT:
            return None
        return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def uri(self, path: str) -> str:
        return path

    def absence(self, path: str) -> str | None:
        """Return a hint: similar names in the last folder of the path that exists, of snapshots or of such files.

        None if it cannot be listed.
        """
        if path.startswith("/dbfs/") and not os.path.isdir("/dbfs"):
            return "dbfs: is read through its mount at /dbfs, which is not on this machine: use a path /Volumes/..."
        folder, parts = "/", iter(os.path.normpath(path).lstrip("/").split("/"))
        name = next(parts)
        for below in parts:  # from the root on: a path of very many parts has few that exist
            inner = os.path.join(folder, name)
            if not os.path.isdir(inner):
                break
            folder, name = inner, below
        try:
            with os.scandir(folder) as scan:
                names = [entry.name for entry in islice(scan, MAX_LISTED_NAMES)]
        except OSError:
            return None
        suffix, parent = os.path.splitext(name)[1], folder.rstrip("/")
        visible = sorted(one for one in names if not one.startswith("."))
        near = [one for one in nearest(name, visible) if _is_likely(f"{parent}/{one}", suffix, NEAR_DEPTH)]
        if near:
            return f"in {folder}: {did_you_mean(name, near)}"
        others = [one for one in visible[:FEW_NAMES] if _is_likely(f"{parent}/{one}", suffix, 0)]
        return f"in {folder}: {did_you_mean(name, others)}" if others else f"{folder} has no such name: check the path"


def _is_likely(path: str, suffix: str, depth: int) -> bool:
    """Return whether a path may have been meant: a file of the same kind, or a folder with a snapshot not far below."""
    if not os.path.isdir(path):
        return bool(suffix) and path.endswith(suffix)
    level = [path]
    for _ in range(depth):
        if any(os.path.isfile(f"{folder}/_metadata") for folder in level):
            return True
        below: list[str] = []
        for folder in level[:FEW_NAMES]:
            try:
                with os.scandir(folder) as scan:
                    below += [one.path for one in islice(scan, FEW_NAMES) if one.is_dir(follow_symlinks=False)]
            except OSError:
                continue
        level = below
    return any(os.path.isfile(f"{folder}/_metadata") for folder in level)


#: Folders and their real paths, as last resolved; a snapshot has only a few.
_REAL_FOLDERS: dict[str, str] = {}
MAX_REAL_FOLDERS = 256
#: Number of a folder's names that are searched for one similar to a missing name.
MAX_LISTED_NAMES = 1000
#: How deep a folder of a similar name is searched for a snapshot (a job's checkpoints), and how many of its folders.
NEAR_DEPTH, FEW_NAMES = 3, 100


def _real_folder(folder: str, path: str) -> str:
    """Return :func:`real_path` of a file's folder, without following its links again while it is the same folder."""
    real = _REAL_FOLDERS.get(folder)
    if real is not None:
        try:
            if os.path.samestat(os.stat(folder), os.lstat(real)):
                return real
        except OSError:
            pass
    real = real_path(folder, path)
    if len(_REAL_FOLDERS) >= MAX_REAL_FOLDERS:
        _REAL_FOLDERS.clear()
    _REAL_FOLDERS[folder] = real
    return real


def _is_in(path: str, folder: str, anchor: Anchor) -> bool:
    """Return whether a file is in a folder of state.

    Its path below the folder must have no hidden part. Without ``anchor.folder``, the folder is the exclusive folder of
    the snapshot, and the file must be directly in it.
    """
    parts = path.removeprefix(folder.rstrip("/") + "/").split("/")
    hidden = any(part.startswith(".") for part in parts)
    return path.startswith(folder.rstrip("/") + "/") and not hidden and (bool(anchor.folder) or len(parts) == 1)


# -- pyarrow ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class ArrowFileSystem(ArrowOutputs):
    """A file system of pyarrow: scheme, authority and storage options.

    ``recorded`` means that a path in the snapshot named it, not the user.
    """

    scheme: str
    authority: str
    options: StorageOptions = field(default=NO_OPTIONS, compare=False)
    recorded: bool = field(default=False, compare=False)

    def __repr__(self) -> str:
        """Return the URI without a secret in it: the authority alone does not show what is one."""
        return shown(f"ArrowFileSystem({self.uri('')!r}, {self.options!r}, recorded={self.recorded})")

    def info(self, path: str) -> FileInfo | None:
        """Return the entry at the path; None if it does not exist."""
        filesystem, prefix = self.connected()
        try:
            info = filesystem.get_file_info(prefix + path)
        except CLIENT_ERRORS as error:
            raise storage_error(error, self.uri(path)) from None
        return None if info.type == arrow_fs.FileType.NotFound else self._info(info, prefix)

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name."""
        filesystem, prefix = self.connected()
        try:
            entries = filesystem.get_file_info(arrow_fs.FileSelector(prefix + path))
        except CLIENT_ERRORS as error:
            raise storage_error(error, self.uri(path)) from None
        return sorted((self._info(entry, prefix) for entry in entries), key=lambda info: info.path)

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names in a folder, or below it; those of folders have a slash."""
        try:
            return self.conditional().first_names(path, limit)
        except LookupError:
            return tuple(f"{one.name}/" if one.is_directory else one.name for one in self.list(path)[:limit])

    def open_input(self, path: str, anchor: Anchor | None = None) -> RemoteInputFile:
        """Open a file for reading; object stores have no links, so the anchor needs no check."""
        filesystem, prefix = self.connected()
        try:
            return RemoteInputFile(lambda: filesystem.open_input_file(prefix + path), self.uri(path))
        except CLIENT_ERRORS as error:
            raise storage_error(error, self.uri(path)) from None

    def identity(self, path: str) -> str | None:
        """Return the store's version of the file, and its size; None if it has none, or is not there."""
        filesystem, prefix = self.connected()
        try:
            with filesystem.open_input_file(prefix + path) as file:
                return version_of(file)
        except CLIENT_ERRORS:
            return None

    def uri(self, path: str) -> str:
        """Return the URI: scheme, authority and path."""
        return f"{self.scheme}://{self.authority}{path}"

    def conditional(self) -> ConditionalStore:
        """Return the same location as a store with conditional writes; LookupError explains why there is none."""
        return conditional_store(self._place())

    @property
    def conditional_writes(self) -> str | None:
        """Return the storage option ``conditionalWrites``."""
        return self.options.conditional_writes

    def connected(self) -> tuple[arrow_fs.FileSystem, str]:
        """Return the live file system and the prefix of its paths."""
        target = self._place()
        return connect(target.scheme, target.authority, target.options, target.recorded)

    def _place(self) -> StoreTarget:
        store = STORES.get(self.scheme)
        options = self.options.with_environment(store) if store else self.options
        return StoreTarget(self.scheme, self.authority, options, self.recorded)

    def absence(self, path: str) -> str | None:
        """Return a hint if the bucket does not exist; else None."""
        filesystem, prefix = self.connected()
        if prefix:
            try:
                info = filesystem.get_file_info(prefix)
            except CLIENT_ERRORS:
                return None  # without permission to query the bucket, its files may still be readable
            if info.type == arrow_fs.FileType.NotFound:
                return f"there is no bucket or container {prefix!r}: check its name, and the endpoint"
        return None

    @staticmethod
    def _info(info: arrow_fs.FileInfo, prefix: str) -> FileInfo:
        path = "/" + info.path.removeprefix(prefix).strip("/")
        modified = None if info.mtime_ns is None else info.mtime_ns / 1e9
        return FileInfo(path, info.type == arrow_fs.FileType.Directory, info.size or 0, modified)
