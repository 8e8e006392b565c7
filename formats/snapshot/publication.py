"""Publication of a snapshot: its files first, then ``_metadata``, atomically and never over another writer's version.

::

    <savepoint>/.pending-<token>/             intermediate files of one write; deleted at its end, even if it fails
    <savepoint>/.pending-<token>/*.checksums  checksums of a file of state whose task has no message for the commit
    <savepoint>/.pending-<token>/conditions   in object stores: empty, to try whether they compare versions
    <savepoint>/.pending-<token>/publishing   in object stores: a request to write ``_metadata`` may be in progress
    <savepoint>/<token>-<name>                a file of state, moved here when all of them are complete
    <savepoint>/_metadata                     published if it still has the version at the beginning of the write
    <savepoint>/.replaced-<until>-<token>     names of files that queries may still read until then (seconds since 1970)

Object stores have no rename but copy: there, files of state are written to their final path, and unreferenced ones
are found by the token in their name. Flink: ``FsCheckpointStorageLocation``,
``FsCheckpointMetadataOutputStream``.

The outcome of writing ``_metadata`` is determined by reading it back, because an answer may be lost, late or wrong.
Where a store has no conditional writes, or ignores their conditions, writers look for the marks of others, and
publish one at a time: of two, at least one sees the mark of the other, because both mark before they look. A file
that the published ``_metadata`` references is never deleted, and while a request may be in progress, neither is a
file that it would reference. Files that cannot be deleted cause a warning; ``vacuum`` finds them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import xxhash

from pyspark_savepoint.formats.errors import (
    ConcurrentWriteError,
    CorruptStateError,
    OutputError,
    SavepointError,
    StoreBusyError,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.io.byte_source import ChecksummedOutput
from pyspark_savepoint.formats.io.one_verb import in_context, look_again
from pyspark_savepoint.formats.io.snapshot_files import (
    WHOLE,
    FileInfo,
    InputFile,
    OutputFile,
    Published,
    SnapshotFileSystem,
)
from pyspark_savepoint.formats.metadata import CheckpointMetadata, read_metadata
from pyspark_savepoint.formats.metadata.manifest import FileChecksums, Manifest
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.leftovers import (
    PENDING,
    REPLACED,
    delete_files,
    delete_replaced,
    entries_of,
    is_due,
    is_state_name,
    leftovers,
    one_line,
    put_small,
    some_of,
    warn_of_leftovers,
)
from pyspark_savepoint.formats.snapshot.metadata_reading import keep_published
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.near_files import NearFolder

PUBLISHING = "publishing"
#: An empty file with which the conditions of a store are tried.
PROBE = "conditions"
#: Seconds between attempts to publish while the outcome of an attempt is unknown.
PAUSES = (0.1, 0.3, 1.0, 2.0)
LONGEST_PAUSE = 10.0
#: Seconds after which a mark no longer keeps other writers from publishing: its writer has died long ago.
STALE_MARK = 600.0
#: Number of checksum files to read in parallel.
CHECKSUM_READERS = 32
#: Bytes in memory of a file that is read back.
READ_BACK = 8 << 20


@redacted
@dataclass(frozen=True, slots=True)
class Staging:
    """The location of the unpublished files of one write; it pickles, so tasks use it too.

    ``part`` is the name of one of several writes that are published together: its files stay in the pending folder of
    the token until the commit. After ``begun``, the folder is not created again: if it is missing, the write was rolled
    back in the meantime.
    """

    filesystem: SnapshotFileSystem
    directory: str
    token: str
    part: str = ""
    begun: bool = False
    #: Checksums of the files of state that were written; None if each has a file of its own.
    kept: dict[str, FileChecksums] | None = field(default=None, compare=False, repr=False)
    #: The place of intermediate files for tasks on the machine that commits.
    near: NearFolder | None = field(default=None, compare=False)
    #: The version of ``_metadata`` in the store that the write was planned with.
    version: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    #: The number that the new savepoint is to have; None for that of its metadata.
    checkpoint_id: int | None = field(default=None, compare=False)

    @classmethod
    def at(cls, path: str, token: str | None = None, part: str = "") -> Staging:
        """Return the staging location for a savepoint at a path, new or existing."""
        filesystem, directory = locate(path)
        return cls(filesystem, directory, token or secrets.token_hex(6), part)

    @property
    def pending(self) -> str:
        """Return the folder of the token."""
        return posixpath.join(self.directory, PENDING + self.token)

    @property
    def folder(self) -> str:
        """Return the folder of this write."""
        return posixpath.join(self.pending, f"{self.part}.d") if self.part else self.pending

    def unique(self, name: str) -> str:
        """Return a file name for state that is unique across attempts, tasks and writes."""
        return "-".join(part for part in (self.token, self.part, name, secrets.token_hex(4)) if part)

    def state_path(self, name: str) -> str:
        """Return the path of a file of state until it is adopted."""
        return posixpath.join(self.folder if self.filesystem.renames else self.directory, name)

    def begin(self) -> Staging:
        """Create the folder, once per task, and for the commit."""
        self.filesystem.create_directory(self.folder)
        return replace(self, begun=True)

    def in_task(self) -> Staging:
        """Return the same location, which keeps checksums for the message of a task to the commit."""
        return replace(self, kept={})

    def here(self) -> Staging:
        """Return the same location, with the checksums of all files of this write that this process knows."""
        return replace(self, kept=_CHECKSUMS.setdefault(self.token, {}))

    def elsewhere(self) -> Staging:
        """Return the same location for another process, which stores checksums in files."""
        return replace(self, kept=None)

    def create_state(self, name: str) -> OutputFile:
        """Create a file of state; its checksums are stored for the commit.

        When it is closed, an object store has compared its bytes with a checksum, or they are read back for that.
        """
        if not self.begun:
            self.filesystem.create_directory(self.folder)
        path = self.state_path(name)

        def keep(checksums: FileChecksums) -> None:
            if not (self.filesystem.renames or self.filesystem.verifies_uploads):
                _expect_stored(self.filesystem, path, checksums)
            self.keep_checksums(name, checksums)

        return ChecksummedOutput(self.filesystem.open_output(path), keep)

    def keep_checksums(self, name: str, checksums: FileChecksums) -> None:
        """Store the checksums of a file of state for the commit."""
        if self.kept is not None:
            self.kept[name] = checksums
            return
        put_small(self.filesystem, self._checksums_path(name), checksums.to_bytes())

    def _checksums_path(self, name: str) -> str:
        return posixpath.join(self.pending, f"{name}.checksums")

    def checksums(self, names: Collection[str], kept: Manifest | None = None) -> Manifest:
        """Return the checksums of some files of the savepoint: from ``kept``, and from the files of this write."""
        mine = [name for name in names if name.startswith(f"{self.token}-")]
        checksums = {name: one for name, one in (kept or {}).items() if name in names}
        with ThreadPoolExecutor(CHECKSUM_READERS) as pool:
            checksums.update(zip(mine, pool.map(self._kept_checksums, mine), strict=True))
        return checksums

    def _kept_checksums(self, name: str) -> FileChecksums:
        if self.kept is not None and name in self.kept:
            return self.kept[name]
        return FileChecksums.from_bytes(self._content(self._checksums_path(name)))

    def _content(self, path: str) -> bytes:
        file = self.filesystem.open_input(path)
        try:
            data = bytearray(file.size)
            file.read_into(0, data)
        finally:
            file.close()
        return bytes(data)

    def work_path(self, name: str) -> str:
        """Return the path of an intermediate file of this write."""
        return posixpath.join(self.folder, name)

    def create_work(self, name: str) -> OutputFile:
        """Create an intermediate file of this write."""
        if not self.begun:
            self.filesystem.create_directory(self.folder)

        def there() -> OutputFile:
            return self.filesystem.open_output(self.work_path(name), durable=False)

        return there() if self.near is None else self.near.create(name, there)

    def open_work(self, name: str) -> InputFile:
        """Open an intermediate file of this write, wherever its task has created it."""
        here = None if self.near is None else self.near.open(name)
        return self.filesystem.open_input(self.work_path(name)) if here is None else here

    def delete_work(self, name: str) -> None:
        """Delete an intermediate file of this write."""
        if self.near is None or not self.near.delete(name):
            self.filesystem.delete_file(self.work_path(name))

    @property
    def is_here(self) -> bool:
        """Return whether this process, and no other, commits the write and its parts."""
        return self.kept is not None and self.kept is _CHECKSUMS.get(self.token)

    def hold_part(self, data: bytes) -> None:
        """Keep the metadata of this part for :meth:`part_data`."""
        _PARTS.setdefault(self.token, {})[self.part] = data

    def part_data(self, part: str) -> bytes:
        """Return the metadata of a finished part, which this process holds, or another has written."""
        data = _PARTS.get(self.token, {}).pop(part, None)
        return self._content(posixpath.join(self.pending, part)) if data is None else data

    def rename_state(self, written: str, name: str) -> None:
        """Give a finished file of state, and its checksums, another name."""
        if written != name:
            self.filesystem.move(self.state_path(written), self.state_path(name))
            self.filesystem.move(self._checksums_path(written), self._checksums_path(name))

    def adopt(self, names: Collection[str]) -> None:
        """Move finished files of state to their final folder: the savepoint, or the pending folder of a part.

        Object stores have them there already.
        """
        if self.filesystem.renames:
            target = self.pending if self.part else self.directory
            for name in names:
                self.filesystem.move(self.state_path(name), posixpath.join(target, name))

    def expect(self, names: Collection[str], sizes: Mapping[str, int]) -> list[FileInfo]:
        """Return the entries of the savepoint's folder in an object store, with all files of state of this write.

        They are listed, because an answer to an upload alone is not believed. ``sizes`` are those of files whose
        checksums are not known. Raise OutputError if a finished file is not there, completely.
        """
        expected_sizes = {**{name: one.size for name, one in (self.kept or {}).items()}, **sizes}
        entries = entries_of(self.filesystem, self.directory)
        listed = {entry.name: entry.size for entry in entries}
        for name in names:
            size = listed.get(name)
            if size is None or size != expected_sizes.get(name, size):
                raise OutputError(
                    "the object store said that it has a file of the savepoint, and does not list it"
                    + ("" if size is None else " completely"),
                    path=self.filesystem.uri(self.state_path(name)),
                    expected=f"{expected_sizes[name]} bytes" if name in expected_sizes else None,
                    found=None if size is None else f"{size} bytes",
                    remedy="nothing was published: write again; if it happens again, the store does not keep what it "
                    "says",
                )
        return entries

    def discard(self, keep: Collection[str] = ()) -> None:
        """Delete all files of this write except the state files in ``keep``; failures cause a warning."""
        with leftovers(self.filesystem, self.directory):
            # Delete the files first: the mark of a publication in progress must be deleted last.
            self.discard_unnamed(entries_of(self.filesystem, self.directory), keep)
            self.filesystem.delete_directory(self.folder)

    def discard_unnamed(self, entries: Iterable[FileInfo], keep: Collection[str]) -> None:
        """Delete state files of this write among the entries of the savepoint's folder, except those in ``keep``."""
        mine = f"{self.token}-{self.part}-" if self.part else f"{self.token}-"
        names = [entry.name for entry in entries if entry.name.startswith(mine)]
        delete_files(self.filesystem, self.directory, [name for name in names if name not in keep])


def _expect_stored(filesystem: SnapshotFileSystem, path: str, checksums: FileChecksums) -> None:
    """Read a finished file once; raise CorruptStateError if the store has other bytes than were sent."""
    file = filesystem.open_input(path, None, replace(WHOLE, size=checksums.size))
    try:
        stored = xxhash.xxh3_128()
        if file.size == checksums.size:
            buffer = memoryview(bytearray(min(READ_BACK, file.size)))
            for start in range(0, file.size, READ_BACK):
                part = buffer[: min(READ_BACK, file.size - start)]
                file.read_into(start, part)
                stored.update(part)
    finally:
        file.close()
    if file.size != checksums.size or stored.digest() != checksums.digest:
        raise CorruptStateError(
            "a file does not contain what was written to it",
            path=filesystem.uri(path),
            expected=f"{checksums.size} bytes with checksum {checksums.digest.hex()}",
            found=f"{file.size} bytes with checksum {stored.hexdigest()}",
            remedy="nothing was published; the store or the way to it is faulty: write again, or to another one",
        )


#: Checksums of files of state by the tokens of the writes that this process commits.
_CHECKSUMS: dict[str, dict[str, FileChecksums]] = {}
#: Metadata of their parts, by token and part, until they are opened.
_PARTS: dict[str, dict[str, bytes]] = {}
#: The published versions that they have read, by the same.
_READ: dict[str, Published] = {}


# -- publication ---------------------------------------------------------------------------------------------


def read_published(filesystem: SnapshotFileSystem, directory: str) -> bytes | None:
    """Return the bytes of ``_metadata``; None if it does not exist."""
    published = filesystem.read_published(posixpath.join(directory, METADATA_FILE_NAME))
    return None if published is None else published.data


def fingerprint(published: bytes | None) -> str | None:
    """Return a fingerprint of the content of ``_metadata``; None if it does not exist."""
    return None if published is None else hashlib.sha256(published).hexdigest()


def read_unchanged(staging: Staging, seen: str | None) -> bytes:
    """Return the bytes of the ``_metadata`` that a write was planned with.

    Raises:
        ConcurrentWriteError: If its fingerprint is not ``seen`` any more.

    """
    published = staging.filesystem.read_published(posixpath.join(staging.directory, METADATA_FILE_NAME))
    if published is None or fingerprint(published.data) != seen:
        raise ConcurrentWriteError(
            "another writer changed the savepoint at this path while this write was working",
            path=staging.filesystem.uri(staging.directory),
            remedy="nothing of this write was published: check the savepoint that is there now, then write again",
        )
    _READ[staging.token] = published
    return published.data


def is_unchanged(staging: Staging, seen: str | None) -> bool:
    """Return whether ``_metadata`` still has the fingerprint; a store that knows its version sends no bytes."""
    known = Published(b"", staging.version) if staging.version else None
    path = posixpath.join(staging.directory, METADATA_FILE_NAME)
    published = staging.filesystem.read_published(path, unless=known)
    return published is known is not None or fingerprint(published.data if published else None) == seen


def relative_files(metadata: CheckpointMetadata) -> set[str]:
    """Return the names of all files in a snapshot's own folder that its handles reference."""
    streams = (stream for operator in metadata.operators for stream in streams_of(operator))
    return {stream.relative_path for stream in streams if isinstance(stream, RelativeFileStateHandle)}


def published_names(staging: Staging, published: bytes | None) -> set[str]:
    """Return the files of a write that ``_metadata`` references; if there are any, it was derived from the write."""
    if published is None:
        return set()
    metadata = read_metadata(published, staging.filesystem.uri(staging.directory))
    return {name for name in relative_files(metadata) if name.startswith(f"{staging.token}-")}


@contextlib.contextmanager
def conditions_tried(staging: Staging, replacing: bool) -> Iterator[Callable[[], None]]:
    """Try within the block, in the background, what the publication asks of a store; yield what waits for that."""
    with ThreadPoolExecutor(1) as pool:
        probe = posixpath.join(staging.pending, PROBE)
        yield pool.submit(in_context(staging.filesystem.try_conditions), probe, replacing).result


def publish_metadata(
    staging: Staging, data: bytes, seen: str | None, ready: Callable[[], object] = lambda: None
) -> Future[Callable[[], None]]:
    """Publish or replace ``_metadata`` if the published version still has the fingerprint ``seen``.

    ``ready`` returns when all files of the savepoint are known to be there. Return what deletes the intermediate files.
    Raises ConcurrentWriteError or OutputError if nothing was changed, and UncertainOutcomeError if the outcome is
    unknown: then no file may be deleted. After an attempt with unknown outcome, the next one has the same condition, so
    the store accepts it only if it did not accept the first one.
    """
    filesystem, directory = staging.filesystem, staging.directory
    if filesystem.renames:
        filesystem.create_directory(directory)
    path = posixpath.join(directory, METADATA_FILE_NAME)
    with ThreadPoolExecutor(2) as pool:
        # A store that compares versions may be asked for the current one meanwhile.
        known = _READ.pop(staging.token, None)
        current = None if filesystem.renames else pool.submit(filesystem.read_published, path, unless=known)
        complete = pool.submit(in_context(ready))
        mark(staging)
    pool = ThreadPoolExecutor(1)
    try:
        complete.result()
        unseen = filesystem.lacks_conditions(path, mark_path(staging), replacing=seen is not None)
        if unseen:
            current = None
            _wait_for_others(staging)
        leftover = pool.submit(in_context(filesystem.deletion), staging.folder)
        with filesystem.lock(directory):
            published = _publish(staging, data, seen, unseen, current)
    except UncertainOutcomeError:
        raise
    except SavepointError:
        _unmark(staging)
        raise
    finally:
        pool.shutdown()
        look_again()
    if published is not None:
        keep_published(filesystem.uri(path), published)
    return leftover


def _publish(
    staging: Staging, data: bytes, seen: str | None, unseen: bool, current: Future[Published | None] | None
) -> Published | None:
    """Try to publish until the outcome is known or the attempts are used up; the store's answer alone is not believed.

    Return what was read back; None if another writer has replaced it meanwhile, or if it is not certain that it is ours
    alone.

    ``unseen``: the store does not compare versions, so that another content proves that another writer was faster.
    ``current`` is the published version, if it was asked for already.
    """
    path = posixpath.join(staging.directory, METADATA_FILE_NAME)
    failed: SavepointError | None = None
    # Whether the store said that it has the file, a request may still be in progress, it refused the request for good.
    acknowledged = sent = refused = False
    for pause in _pauses(staging.filesystem.retry_seconds):
        try:
            published = staging.filesystem.read_published(path) if current is None else current.result()
            current = None
        except SavepointError as error:
            if failed is None:
                raise
            known, failed = refused, failed if refused else error
        else:
            known = True
            if acknowledged and published is not None and published.data == data:
                return published
            if fingerprint(published.data if published else None) != seen:
                # After an accepted condition, other content is that of a writer that began with ours.
                if _is_ours(staging, published, data if failed is not None else None) or (acknowledged and not unseen):
                    return None
                raise _too_late(staging, published)
            if pause is None or refused:
                break
            try:
                staging.filesystem.publish(path, data, published)
            except (ConcurrentWriteError, StoreBusyError) as error:
                failed = error
            except OutputError as error:
                failed = error
                sent = sent or isinstance(error, UncertainOutcomeError)
                refused = not sent
            else:
                failed = OutputError("the object store says that it has the file, and returns the one before")
                if not acknowledged:
                    acknowledged = sent = True
                    continue
        if pause is not None and not refused:
            time.sleep(pause)
    assert failed is not None
    if known and not sent:
        raise failed
    raise UncertainOutcomeError(
        "it is unknown whether the savepoint was published"
        + ("" if acknowledged and known else ": the object store did not answer"),
        path=staging.filesystem.uri(path),
        found=one_line(failed),
        remedy="nothing was deleted: check whether the new savepoint is there, and write again if not; "
        "Savepoint.vacuum(path) deletes files that are not referenced",
    )


def _pauses(seconds: float) -> Iterator[float | None]:
    """Yield pauses after attempts: a few, and if a store is asked for longer, random ones; None after the last."""
    end = time.monotonic() + seconds
    yield from PAUSES
    pause = PAUSES[-1]
    while time.monotonic() < end:
        pause = min(2 * pause, LONGEST_PAUSE)
        yield pause * (0.5 + secrets.randbelow(51) / 100)
    yield None


def _is_ours(staging: Staging, published: Published | None, sent: bytes | None) -> bool:
    """Return whether the published content is ``sent``, or was derived from this write."""
    if published is None:
        return False
    try:
        return published.data == sent or bool(published_names(staging, published.data))
    except SavepointError:
        return False


def _too_late(staging: Staging, published: Published | None) -> ConcurrentWriteError:
    return ConcurrentWriteError(
        "another writer published a savepoint at this path while this write was working"
        if published is not None
        else "the savepoint that this write changes does not exist any more",
        path=staging.filesystem.uri(posixpath.join(staging.directory, METADATA_FILE_NAME)),
        remedy="nothing of this write was published: check the savepoint that is there now, then write again",
    )


def mark(staging: Staging) -> None:
    """Mark that a request may be in progress, for the cleanup; local files need no mark."""
    if not staging.filesystem.renames:
        put_small(staging.filesystem, mark_path(staging), b"")


def mark_path(staging: Staging) -> str:
    return posixpath.join(staging.pending, PUBLISHING)


def _wait_for_others(staging: Staging) -> None:
    """Return when no other writer of this package can be publishing; ConcurrentWriteError if one stays.

    Each marks first and looks then, so of two at least one sees the other, and withdraws.
    """
    for pause in (*PAUSES, None):
        other = _other_mark(staging)
        if other is None:
            return
        if pause is not None:
            _unmark(staging)
            time.sleep(pause * (0.5 + secrets.randbelow(100) / 100))
            mark(staging)
    raise ConcurrentWriteError(
        "another writer is publishing at this path, or it is unknown whether it has published",
        path=staging.filesystem.uri(other or staging.directory),
        remedy="nothing of this write was published: write again later; Savepoint.vacuum(path) deletes what dead ones "
        "left",
    )


def _other_mark(staging: Staging) -> str | None:
    """Return the mark of another writer that may be publishing, or the own one if the store does not have it."""
    filesystem = staging.filesystem
    if filesystem.renames:
        return None
    own = filesystem.info(mark_path(staging))
    if own is None:
        return mark_path(staging)  # others could not see it either
    for entry in entries_of(filesystem, staging.directory):
        if entry.name.startswith(PENDING) and entry.name != PENDING + staging.token:
            mark = filesystem.info(posixpath.join(entry.path, PUBLISHING))
            if mark is None:
                continue
            if own.modified is None or mark.modified is None or own.modified - mark.modified < STALE_MARK:
                return mark.path
    return None


def _unmark(staging: Staging) -> None:
    if not staging.filesystem.renames:
        with leftovers(staging.filesystem, staging.directory):
            staging.filesystem.delete_file(mark_path(staging))


def _is_marked(staging: Staging) -> bool:
    filesystem = staging.filesystem
    return not filesystem.renames and filesystem.is_file(mark_path(staging))


# -- cleanup -------------------------------------------------------------------------------------------------


def roll_back(staging: Staging, existed: bool = True) -> bool:
    """Delete the files of a write unless it is published or may be; return whether it is published.

    Files that cannot be deleted cause a warning. ``existed`` means that the folder existed before, and stays.
    """
    filesystem, directory = staging.filesystem, staging.directory
    if not staging.part:
        _forget(staging)
    keep: set[str] = set()
    with leftovers(filesystem, directory):
        keep = set() if staging.part else published_names(staging, read_published(filesystem, directory))
        if not keep and not staging.part and _is_marked(staging):
            warn_of_leftovers(filesystem, directory, "the store did not answer whether the savepoint was published")
            return False
        staging.discard(keep)
        if not existed and not keep:
            filesystem.delete_empty_directory(directory)
    return bool(keep)


def finish(
    staging: Staging,
    before: CheckpointMetadata | None,
    after: CheckpointMetadata,
    retention: int,
    folder: Future[Callable[[], None]] | None = None,
    entries: Sequence[FileInfo] | None = None,
) -> None:
    """Clean up after a publication without raising errors; files that ``after`` references are kept.

    ``folder`` deletes the intermediate files, ``entries`` are those of the savepoint's folder, if both were listed when
    all files of state were there.

    Files that only ``before`` references stay for ``retention`` seconds, because running queries may read them; the
    first write after that time deletes them.
    """
    filesystem, directory = staging.filesystem, staging.directory
    _forget(staging)
    names = relative_files(after)
    with leftovers(filesystem, directory):
        if before is not None:
            _delete_or_retain(staging, relative_files(before) - names, retention)
        listed = entries_of(filesystem, directory) if entries is None else entries
        for record in listed:
            if is_due(record, time.time()):
                delete_replaced(filesystem, directory, record, names)
        staging.discard_unnamed(listed, names)
        # With the mark, which nothing needs that is published.
        (filesystem.deletion(staging.folder) if folder is None else folder.result())()


def _forget(staging: Staging) -> None:
    """Forget what this process knows of a write that has ended."""
    for cache in (_CHECKSUMS, _PARTS, _READ):
        cache.pop(staging.token, None)


def _delete_or_retain(staging: Staging, names: set[str], retention: int) -> None:
    """Delete replaced files, or record them for later deletion; only files whose names only state files have."""
    filesystem, directory = staging.filesystem, staging.directory
    others = sorted(name for name in names if not is_state_name(name))
    if others:
        why = f"the replaced savepoint refers to them, but Flink does not name state files like this: {some_of(others)}"
        warn_of_leftovers(filesystem, directory, why)
    own = sorted(names.difference(others))
    if own and retention <= 0:
        delete_files(filesystem, directory, own)
    elif own:
        name = f"{REPLACED}{int(time.time()) + retention}-{staging.token}"
        put_small(filesystem, posixpath.join(directory, name), json.dumps(own).encode())
