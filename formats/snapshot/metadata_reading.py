"""Reading of ``_metadata``: one version of it, parsed once.

A process keeps what it parsed last: of a file on this machine by its identity, so that it is not even read again. In a
store, opening the same snapshot again is one request, which the store answers without the bytes if they are the same;
within one verb (:mod:`~pyspark_savepoint.formats.io.one_verb`) it is none.
"""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

import xxhash

from pyspark_savepoint.formats.errors import FileReplacedError, StateFileNotFoundError, UnsafePathError
from pyspark_savepoint.formats.io.one_verb import cached_by_verb, cached_for_verb
from pyspark_savepoint.formats.io.snapshot_files import MAX_PUBLISHED, Anchor, Published, SnapshotFileSystem
from pyspark_savepoint.formats.metadata import CheckpointMetadata, read_metadata

# The job manager holds a metadata file in one Java array, so none can be larger.
MAX_METADATA_BYTES = MAX_PUBLISHED
METADATA = "_metadata"
PUBLISHED = "published"
#: Size in bytes up to which parsed metadata is kept for the next opening; its objects take about four times as much.
MAX_CACHED_METADATA = 1 << 24
#: Files of this machine that are kept: the snapshots that a verb compares are opened again for each operator.
MAX_CACHED_FILES = 8
#: Number of attempts to read a metadata file that other writers replace at the same time.
READINGS = 3


@dataclass(frozen=True, slots=True)
class ReadMetadata:
    """The content of a metadata file, the checksum of its bytes, and when it was written if that is known."""

    metadata: CheckpointMetadata
    digest: bytes
    modified: float | None
    #: As the store's ``identity`` of the file; None if it has no versions.
    identity: str | None = None


class _Cache:
    """What was read of stores, by URI and with the version in the store; of a bounded number of bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Published, int, ReadMetadata]] = OrderedDict()
        self._bytes = 0

    def get(self, uri: str) -> tuple[Published, ReadMetadata] | None:
        with self._lock:
            found = self._known.get(uri)
            return None if found is None else (found[0], found[2])

    def keep(self, uri: str, published: Published, read: ReadMetadata) -> None:
        size = len(published.data)
        with self._lock:
            self._forget(uri)
            if size <= MAX_CACHED_METADATA and published.version:
                self._known[uri] = Published(b"", published.version, published.modified), size, read
                self._bytes += size
                while self._bytes > MAX_CACHED_METADATA:
                    self._bytes -= self._known.popitem(last=False)[1][1]

    def _forget(self, uri: str) -> None:
        if uri in self._known:
            self._bytes -= self._known.pop(uri)[1]


@dataclass(frozen=True, slots=True)
class _ReadHere:
    """What was read of a file of this machine: its identity before that, its bytes, and what is in them."""

    identity: str | None
    data: bytes
    read: ReadMetadata


_CACHE = _Cache()
#: What was read last of this machine, by URI and by where it may lie.
_HERE: OrderedDict[tuple[str, Anchor | None], _ReadHere] = OrderedDict()
_HERE_LOCK = threading.Lock()


def load(
    filesystem: SnapshotFileSystem, metadata_path: str, *, keep: bool = True, allow_outside: bool = False
) -> ReadMetadata:
    """Read one consistent version of a metadata file; read again if it is replaced during the read.

    ``keep``: for the verb that is running, if the file is in a store. ``allow_outside``: also if it is a link out of
    its folder, to which the rule of state files applies; a file of another name is one that the user named.
    """
    if keep and filesystem.is_remote:
        result = cached_for_verb(filesystem.uri(metadata_path), lambda: _load_or_miss(filesystem, metadata_path))
        if isinstance(result, StateFileNotFoundError):
            raise result.with_traceback(None)
        return result
    if filesystem.is_remote:
        read = _load(filesystem, metadata_path, None)
        cached_for_verb(("read", filesystem.uri(metadata_path)), lambda: True)
        return read
    folder, name = posixpath.split(metadata_path)
    return _load(filesystem, metadata_path, Anchor(folder) if name == METADATA and not allow_outside else None)


def _load_or_miss(filesystem: SnapshotFileSystem, metadata_path: str) -> ReadMetadata | StateFileNotFoundError:
    uri = filesystem.uri(metadata_path)
    published = cached_by_verb((PUBLISHED, uri))
    if published is not None:
        return _of_published(uri, published)
    kept = _CACHE.get(uri)
    if kept is not None and cached_for_verb(("read", uri), lambda: False):
        return kept[1]
    try:
        return _load(filesystem, metadata_path, None)
    except StateFileNotFoundError as error:
        return error


def _load(filesystem: SnapshotFileSystem, metadata_path: str, anchor: Anchor | None) -> ReadMetadata:
    for _ in range(READINGS):
        with contextlib.suppress(FileReplacedError):
            return _read(filesystem, metadata_path, anchor)
    return _read(filesystem, metadata_path, anchor)


def _read(filesystem: SnapshotFileSystem, metadata_path: str, anchor: Anchor | None) -> ReadMetadata:
    if filesystem.is_remote:
        return _read_remote(filesystem, metadata_path)
    return _read_here(filesystem, metadata_path, anchor)


def _read_here(filesystem: SnapshotFileSystem, metadata_path: str, anchor: Anchor | None) -> ReadMetadata:
    """Read a file of this machine, if it is not the same as the last time: by its identity, else by its bytes."""
    key = filesystem.uri(metadata_path), anchor
    identity = filesystem.identity(metadata_path)
    with _HERE_LOCK:
        known = _HERE.pop(key, None)
    if known is None or identity is None or known.identity != identity:
        data, modified = _bytes(filesystem, metadata_path, anchor)
        if known is not None and known.data == data:
            known = _ReadHere(identity, known.data, replace(known.read, modified=modified))
        else:
            known = _ReadHere(identity, data, _parsed(data, key[0], modified))
    with _HERE_LOCK:
        if len(known.data) <= MAX_CACHED_METADATA:
            _HERE[key] = known
        size = sum(len(each.data) for each in _HERE.values())
        while size > MAX_CACHED_METADATA or len(_HERE) > MAX_CACHED_FILES:
            size -= len(_HERE.popitem(last=False)[1].data)
    return known.read


def _bytes(filesystem: SnapshotFileSystem, metadata_path: str, anchor: Anchor | None) -> tuple[bytes, float | None]:
    """Return the content of a file, and when it was written."""
    file = filesystem.open_input(metadata_path, anchor)
    try:
        _expect_size(file.path, file.size)
        data = bytearray(file.size)
        file.read_into(0, data)
    finally:
        file.close()
    return bytes(data), file.modified


def _read_remote(filesystem: SnapshotFileSystem, metadata_path: str) -> ReadMetadata:
    uri = filesystem.uri(metadata_path)
    kept = _CACHE.get(uri)
    published = filesystem.read_published(metadata_path, MAX_METADATA_BYTES, None if kept is None else kept[0])
    if published is None:
        raise StateFileNotFoundError("a file of the snapshot is missing", path=uri)
    if kept is not None and published is kept[0]:
        return kept[1]
    return _of_published(uri, published)


def version_read(filesystem: SnapshotFileSystem, metadata_path: str, identity: str) -> Published | None:
    """Return the version of a metadata file in a store, without its bytes, if this process has read that one last."""
    kept = _CACHE.get(filesystem.uri(metadata_path))
    return kept[0] if kept is not None and kept[1].identity == identity else None


def is_version(filesystem: SnapshotFileSystem, metadata_path: str, known: Published) -> bool:
    """Return whether a metadata file in a store still has a version that another process has read.

    It takes one request, whose answer has the bytes only of another version. Then the running verb has them.
    """
    uri = filesystem.uri(metadata_path)
    now = cached_for_verb(("version", uri), lambda: filesystem.read_published(metadata_path, MAX_METADATA_BYTES, known))
    if now is None:
        raise StateFileNotFoundError("a file of the snapshot is missing", path=uri)
    if now.version == known.version:
        return True
    keep_published(uri, now)
    return False


def keep_published(uri: str, published: Published) -> None:
    """Keep what the running verb has published, and read back, for its next opening of the snapshot."""
    cached_for_verb((PUBLISHED, uri), lambda: published)


def _of_published(uri: str, published: Published) -> ReadMetadata:
    read = _parsed(published.data, uri, published.modified)
    e_tag = dict(published.version).get("e_tag")
    if e_tag is not None:
        read = replace(read, identity=f"{e_tag} of {len(published.data)} bytes")
    _CACHE.keep(uri, published, read)
    return read


def _expect_size(path: str, size: int) -> None:
    if size > MAX_METADATA_BYTES:
        raise UnsafePathError(
            "the _metadata file is larger than Flink writes",
            path=path,
            expected=f"at most {MAX_METADATA_BYTES} bytes",
            found=f"{size} bytes",
        )


def _parsed(data: bytes, uri: str, modified: float | None) -> ReadMetadata:
    return ReadMetadata(read_metadata(data, uri), xxhash.xxh3_128_digest(data), modified)
