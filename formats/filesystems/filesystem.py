"""File systems of a snapshot: the local one, object stores, and HDFS.

============================================  =============================================================
path                                          file system
============================================  =============================================================
``/a/b``, ``file:/a/b``, ``file:///a/b``      local; also ``dbfs:/Volumes/a`` and ``dbfs:/a``, which are mounted
``s3://`` ``s3a://`` ``s3n://`` ``s3p://``    S3, by obstore: ``object_store``
``gs://`` ``abfs(s)://``                      Google's and Azure's stores, by obstore
``hdfs://`` ``viewfs://``                     HDFS, by pyarrow: ``arrow_store``, ``remote``
============================================  =============================================================

Paths are interpreted as Flink's ``Path`` does: nothing is percent-decoded. A file system is a frozen description that
pickles; the files it opens do not. Local files are read directly into the caller's buffer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import posixpath
import re
import stat
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import (
    AccessDeniedError,
    OptionError,
    OutputError,
    SavepointWarning,
    UnsafePathError,
    did_you_mean,
    nearest,
)
from pyspark_savepoint.formats.filesystems.remote_files import RemoteInputFile
from pyspark_savepoint.formats.filesystems.storage_options import (
    NO_OPTIONS,
    OPTION,
    REQUIRE,
    StorageOptions,
    StoragePath,
)
from pyspark_savepoint.formats.io.local_files import NOT_THERE, LocalInputFile, leads_out, local_error, real_path
from pyspark_savepoint.formats.io.outputs import LocalOutputs, already_there
from pyspark_savepoint.formats.io.snapshot_files import (
    BEGINNING,
    MAX_PUBLISHED,
    Anchor,
    FileInfo,
    Opening,
    OutputFile,
    Published,
    SnapshotFileSystem,
)
from pyspark_savepoint.formats.redaction import shown

if TYPE_CHECKING:
    from pyspark_savepoint.formats.filesystems.arrow_store import ArrowStore
    from pyspark_savepoint.formats.filesystems.object_store import ObjectStore
    from pyspark_savepoint.formats.filesystems.remote import StoreTarget

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/?#]*))?(.*)", re.DOTALL)
#: Nanoseconds within which a file may be replaced without a change of its times, as file systems store them.
RECENT = 2_000_000_000
# Schemes of other systems, and the scheme of each here.
REMOTE_SCHEMES: Mapping[str, str] = MappingProxyType(
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
    if scheme not in REMOTE_SCHEMES:
        raise OptionError(
            "no file system is known for this path",
            path=text,
            expected="a local path, or a scheme among file, dbfs, " + ", ".join(REMOTE_SCHEMES),
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
    filesystem = RemoteFileSystem(REMOTE_SCHEMES[scheme], authority, StoragePath.options_of(text))
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

    def is_file(self, path: str) -> bool:
        """Return whether there is a file at the path, and no folder."""
        found = self.info(path)
        return found is not None and not found.is_directory

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name; links to folders are not followed."""
        try:
            with os.scandir(path) as scan:
                entries = [
                    (
                        entry.path,
                        entry.is_dir(follow_symlinks=False),
                        entry.stat(follow_symlinks=False),
                        entry.is_symlink(),
                    )
                    for entry in scan
                ]
        except OSError as error:
            raise local_error(error, path) from None
        infos = [FileInfo(name, folder, at.st_size, at.st_mtime, link) for name, folder, at, link in entries]
        return sorted(infos, key=lambda info: info.path)

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names in a folder; those of folders have a slash."""
        try:
            with os.scandir(path) as scan:
                names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in islice(scan, limit)]
        except OSError as error:
            raise local_error(error, path) from None
        return tuple(sorted(names))

    @property
    def is_remote(self) -> bool:
        """Return whether each request takes long, so that many are made at a time."""
        return False

    def open_input(self, path: str, anchor: Anchor | None = None, opening: Opening = BEGINNING) -> LocalInputFile:
        """Open a regular file for reading; with an anchor, only if its resolved path lies there."""
        folder, _, name = path.rpartition("/")
        parent = _real_folder(folder or "/", path)
        real = f"{parent.rstrip('/')}/{name}"
        if os.path.islink(real):
            real = real_path(path)
        if anchor is not None:
            base = parent if anchor.base == folder else _real_folder(anchor.base, path)
            if not _is_in(real, os.path.join(base, anchor.folder), anchor):
                raise leads_out(path, real, anchor)
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


# -- remote -------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def store_of(target: StoreTarget) -> ObjectStore | ArrowStore:
    """Return the live store of a place, cached per process: obstore's, or pyarrow's for what only that reaches."""
    # Imported here, as below: the clients take longer to import than a local savepoint takes to open.
    from pyspark_savepoint.formats.filesystems.arrow_store import ArrowStore
    from pyspark_savepoint.formats.filesystems.object_store import object_store
    from pyspark_savepoint.formats.filesystems.remote import connect

    try:
        return object_store(target)
    except LookupError as why:
        filesystem, prefix = connect(target.scheme, target.authority, target.options, target.recorded)
        return ArrowStore(filesystem, prefix, f"{target.scheme}://{target.authority}", str(why))
    except AccessDeniedError as error:
        raise error.with_facts(path=f"{target.scheme}://{target.authority}") from None


# A forked child process does not have the threads of its parent's clients.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=store_of.cache_clear)


@dataclass(frozen=True, slots=True, repr=False)
class RemoteFileSystem:
    """A place in an object store or in HDFS: scheme, authority and storage options.

    ``recorded`` means that a path in the snapshot named it, not the user.
    """

    scheme: str
    authority: str
    options: StorageOptions = field(default=NO_OPTIONS, compare=False)
    recorded: bool = field(default=False, compare=False)

    def __repr__(self) -> str:
        """Return the URI without a secret in it: the authority alone does not show what is one."""
        return shown(f"RemoteFileSystem({self.uri('')!r}, {self.options!r}, recorded={self.recorded})")

    @property
    def store(self) -> ObjectStore | ArrowStore:
        """Return the live store."""
        from pyspark_savepoint.formats.filesystems.remote import StoreTarget

        options = self.options
        if self.scheme in STORES:
            options = options.with_environment(STORES[self.scheme])
        return store_of(StoreTarget(self.scheme, self.authority, options, self.recorded))

    def uri(self, path: str) -> str:
        """Return the URI: scheme, authority and path."""
        return f"{self.scheme}://{self.authority}{path}"

    @property
    def is_remote(self) -> bool:
        """Return whether each request takes long, so that many are made at a time."""
        return True

    def info(self, path: str) -> FileInfo | None:
        """Return the entry at the path; None if it does not exist."""
        return self.store.info(path)

    def is_file(self, path: str) -> bool:
        """Return whether there is a file at the path, and no folder."""
        return self.store.is_file(path)

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name."""
        return self.store.list(path)

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names in a folder, or below it; those of folders have a slash."""
        return self.store.first_names(path, limit)

    def open_input(self, path: str, anchor: Anchor | None = None, opening: Opening = BEGINNING) -> RemoteInputFile:
        """Open a file for reading; object stores have no links, so the anchor needs no check."""
        return self.store.open_input(path, opening)

    def identity(self, path: str) -> str | None:
        """Return the store's version of the file, and its size; None if it has none, or is not there."""
        return self.store.identity(path)

    def absence(self, path: str) -> str | None:
        """Return a hint if the bucket does not exist; else None."""
        return self.store.missing()

    @property
    def renames(self) -> bool:
        """Return whether :meth:`move` is a cheap rename: object stores copy."""
        return self.store.renames

    def open_output(self, path: str, *, durable: bool = True) -> OutputFile:
        """Create a file, which the store shows when it is closed."""
        return self.store.create(path)

    def create_directory(self, path: str) -> None:
        """Create the folder in HDFS; object stores need none."""
        self.store.create_directory(path)

    def delete_file(self, path: str) -> None:
        """Delete the file if it exists."""
        self.store.delete_files([path])

    def delete_directory(self, path: str) -> None:
        """Delete the folder and its content if it exists."""
        self.store.delete_directory(path)

    def deletion(self, path: str) -> Callable[[], None]:
        """Return what deletes the folder: the files that an object store has in it now."""
        return self.store.deletion(path)

    def delete_empty_directory(self, path: str) -> None:
        """Delete the folder if it exists and is empty."""
        self.store.delete_empty_directory(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file."""
        self.store.move(source, target)

    def holds(self, source: SnapshotFileSystem) -> bool:
        """Return whether the store may copy objects of the other one: of itself, or of another bucket."""
        return isinstance(source, RemoteFileSystem) and self.scheme == source.scheme and self.scheme in STORES

    def hold(self, source: SnapshotFileSystem, path: str, anchor: Anchor | None, target: str, size: int) -> bool:
        """Have the store copy an object; return whether it did."""
        from pyspark_savepoint.formats.filesystems.object_store import ObjectStore

        assert isinstance(source, RemoteFileSystem)
        mine, other = self.store, source.store
        if isinstance(mine, ObjectStore) and mine is other:
            return mine.copy(path, target, size)
        return self._in_arrow().copy_from(source._in_arrow(), path, target, size)

    def _in_arrow(self) -> ArrowStore:
        """Return pyarrow's store of this place, which copies from one bucket into another."""
        from pyspark_savepoint.formats.filesystems.arrow_store import ArrowStore
        from pyspark_savepoint.formats.filesystems.remote import connect

        store = self.store
        if isinstance(store, ArrowStore):
            return store
        target = store.target
        filesystem, prefix = connect(target.scheme, target.authority, target.options, target.recorded)
        return ArrowStore(filesystem, prefix, store.uri, "")

    # -- publication ----------------------------------------------------------------------------------------

    def read_published(
        self, path: str, limit: int = MAX_PUBLISHED, unless: Published | None = None
    ) -> Published | None:
        """Return the whole current content of a published file; None if it does not exist."""
        return self.store.read_published(path, limit, unless)

    def publish(self, path: str, data: bytes, over: Published | None = None) -> None:
        """Write a file that appears as a whole, if the current version is still ``over``.

        Raises ConcurrentWriteError if the current version is another, and UncertainOutcomeError if the file may have
        been written despite an error. Without conditional writes, the current version is read and compared just before.
        """
        try:
            self.store.put(path, data, over)
        except NotImplementedError as why:
            self._warn_of_last(path, str(why))
            current = self.read_published(path)
            if (current and current.data) != (over and over.data):
                raise already_there(self.uri(path)) from None
            self._in_arrow().put_unseen(path, data)

    def lacks_conditions(self, path: str, probe: str, replacing: bool) -> bool:
        """Return, after a warning, whether :meth:`publish` cannot see other writers; OutputError if that is required.

        A store may accept conditions and ignore them, such as a gateway that drops headers which it does not know: it
        is tried once per process and store.
        """
        try:
            if self.store.honours(probe, replacing):
                return False
        except NotImplementedError as why:
            self._refuse_if_required(path, str(why))
        else:
            self._warn_of_last(path, "the store ignores the conditions of requests, If-Match and If-None-Match")
        return True

    def try_conditions(self, probe: str, replacing: bool) -> None:
        """Try once whether the store compares versions, with a new file of this write."""
        self.store.try_conditions(probe, replacing)

    @property
    def retry_seconds(self) -> float:
        """Return for how long a request that fails is made again."""
        return self.store.retry_seconds

    @property
    def verifies_uploads(self) -> bool:
        """Return whether the store itself compares the bytes of an upload with a checksum that is sent along."""
        return self.store.verifies_uploads

    @property
    def requires_conditions(self) -> bool:
        """Return whether the storage option ``conditionalWrites`` demands that versions are compared."""
        return self.options.conditional_writes == REQUIRE

    def _warn_of_last(self, path: str, why: str) -> None:
        self._refuse_if_required(path, why)
        others = (
            "if two write at the same time"  # marks of writers are in object stores only
            if self.renames
            else "writers of this package wait for each other, but if another tool writes at the same time"
        )
        warnings.warn(
            f"{self.uri(path)} is published without a conditional write ({why}): {others}, the last one wins and the "
            "data of the other is lost; "
            f"the storage option 'conditionalWrites' = '{REQUIRE}' refuses such writes",
            SavepointWarning,
            stacklevel=2,
        )

    def _refuse_if_required(self, path: str, why: str) -> None:
        if self.requires_conditions:
            raise OutputError(
                "this would be published without a conditional write, which option 'conditionalWrites' requires",
                path=self.uri(path),
                found=why,
                remedy="nothing was published: write to a store with conditional writes, with credentials of this "
                "process, or let only one process write at a time and set the option to 'warn'",
            )

    @contextlib.contextmanager
    def lock(self, directory: str) -> Iterator[None]:
        """Do nothing: object stores have no locks."""
        yield
