"""How a snapshot comes to be visible: its files first, ``_metadata`` last, at once, and against nobody else's.

::

    <savepoint>/.pending-<token>/             what one write has made so far; gone when it is over, however it ends
    <savepoint>/.pending-<token>/*.checksums   of a file of state, until they are in ``_metadata``
    <savepoint>/.pending-<token>/publishing   in object stores: ``_metadata`` is on its way, or may be
    <savepoint>/<token>-<name>                a file of state, moved here when all of them are whole
    <savepoint>/_metadata                     published if it is still what was there when the write began
    <savepoint>/.replaced-<until>-<token>     names of files that queries may still read until then (seconds since 1970)

Object stores copy where others rename: there files of state are written where they stay, and what is not referred to
in the end is found by the token in its name. Flink: ``FsCheckpointStorageLocation``,
``FsCheckpointMetadataOutputStream``.

What happened to ``_metadata`` is known by reading it: an answer may be lost, or late. Nothing that it names is ever
deleted, and where a request may still be on its way, nothing that it would name. Whatever cannot be deleted stays, with
a warning; ``vacuum`` finds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import re
import secrets
import time
import warnings
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.errors import (
    ConcurrentWriteError,
    OutputError,
    SavepointError,
    SavepointWarning,
    StateFileNotFoundError,
    StoreBusyError,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.io.checksums import ChecksummedOutput
from pyspark_savepoint.formats.io.filesystem import locate
from pyspark_savepoint.formats.io.snapshot_files import FileInfo, OutputFile, Published, SnapshotFileSystem
from pyspark_savepoint.formats.metadata import CheckpointMetadata, read_metadata
from pyspark_savepoint.formats.metadata.manifest import FileChecksums, Manifest
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.formats.snapshot.handle_streams import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME

PENDING, REPLACED, PUBLISHING = ".pending-", ".replaced-", "publishing"
#: Names that only this package gives: a token, perhaps a part, what it is, and what no other attempt has.
OWN_NAME = re.compile(r"([0-9a-f]{12})-(?:copy-[0-9]+|(?:[a-z0-9]+-)?[a-z0-9]+-[0-9a-f]{8})")
#: Names that Flink gives to files of state in a snapshot's own folder.
FLINK_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RECORD_NAME = re.compile(r"\.replaced-([0-9]{1,12})-([0-9a-f]{12})")
#: Seconds between attempts to publish where it is not known whether one did.
PAUSES = (0.1, 0.3, 1.0, 2.0)
#: Files that are deleted at a time.
DELETERS = 8
#: A record of replaced files is not larger.
MAX_RECORD = 1 << 26
#: Files of checksums that are read at a time.
CHECKSUM_READERS = 8


@dataclass(frozen=True, slots=True)
class Staging:
    """Where one write keeps its files until it is published: by description, so tasks have it too.

    ``part`` is the name of one write of several that are published together: its files stay in the pending folder of
    the token until whoever publishes takes them. Where it has ``begun``, its folder is not made again: whoever finds it
    gone is too late.
    """

    filesystem: SnapshotFileSystem
    directory: str
    token: str
    part: str = ""
    begun: bool = False

    @classmethod
    def at(cls, path: str, token: str | None = None, part: str = "") -> Staging:
        """For a savepoint at a path, new or existing."""
        filesystem, directory = locate(path)
        return cls(filesystem, directory, token or secrets.token_hex(6), part)

    @property
    def pending(self) -> str:
        """The folder of the token."""
        return posixpath.join(self.directory, PENDING + self.token)

    @property
    def folder(self) -> str:
        """The folder of this write."""
        return posixpath.join(self.pending, f"{self.part}.d") if self.part else self.pending

    def unique(self, name: str) -> str:
        """A name for a file of state that no other attempt, task or write has."""
        return "-".join(part for part in (self.token, self.part, name, secrets.token_hex(4)) if part)

    def state_path(self, name: str) -> str:
        """Where a file of state is written, and is until it is adopted."""
        return posixpath.join(self.folder if self.filesystem.renames else self.directory, name)

    def begin(self) -> Staging:
        """Make the folder, once for a task, and for the commit."""
        self.filesystem.create_directory(self.folder)
        return replace(self, begun=True)

    def create_state(self, name: str) -> OutputFile:
        """A new file of state; its checksums are kept for whoever publishes it."""
        if not self.begun:
            self.filesystem.create_directory(self.folder)

        def keep(checksums: FileChecksums) -> None:
            file = self.filesystem.open_output(self._checksums_path(name), durable=False)
            try:
                file.write(checksums.to_bytes())
                file.close()
            finally:
                file.abort()

        return ChecksummedOutput(self.filesystem.open_output(self.state_path(name)), keep)

    def _checksums_path(self, name: str) -> str:
        return posixpath.join(self.pending, f"{name}.checksums")

    def checksums(self, names: Collection[str], kept: Manifest | None = None) -> Manifest:
        """The checksums of some files of the savepoint: those that were there, and those that this write has made."""
        mine = [name for name in names if name.startswith(f"{self.token}-")]
        found = {name: one for name, one in (kept or {}).items() if name in names}
        with ThreadPoolExecutor(CHECKSUM_READERS) as pool:
            found.update(zip(mine, pool.map(self._kept_checksums, mine), strict=True))
        return found

    def _kept_checksums(self, name: str) -> FileChecksums:
        file = self.filesystem.open_input(self._checksums_path(name))
        try:
            data = bytearray(file.size)
            file.read_into(0, data)
        finally:
            file.close()
        return FileChecksums.from_bytes(bytes(data))

    def work_path(self, name: str) -> str:
        """Where a file is that only this write needs."""
        return posixpath.join(self.folder, name)

    def create_work(self, name: str) -> OutputFile:
        """A new file that only this write needs."""
        if not self.begun:
            self.filesystem.create_directory(self.folder)
        return self.filesystem.open_output(self.work_path(name), durable=False)

    def adopt(self, names: Collection[str]) -> None:
        """Move finished files of state to where they stay: into the savepoint, or to the other parts'."""
        if self.filesystem.renames:
            target = self.pending if self.part else self.directory
            for name in names:
                self.filesystem.move(self.state_path(name), posixpath.join(target, name))

    def discard(self, keep: Collection[str] = ()) -> None:
        """Delete everything of this write but the files of state to keep; what cannot be is a warning."""
        with leftovers(self.filesystem, self.directory):
            self.discard_listed(entries_of(self.filesystem, self.directory), keep)

    def discard_listed(self, entries: Iterable[FileInfo], keep: Collection[str]) -> None:
        """The same, where the savepoint's folder was listed."""
        mine = f"{self.token}-{self.part}-" if self.part else f"{self.token}-"
        # First the files: the mark that one is being published goes last.
        names = [entry.name for entry in entries if entry.name.startswith(mine)]
        delete_files(self.filesystem, self.directory, [name for name in names if name not in keep])
        self.filesystem.delete_directory(self.folder)


# -- what is published --------------------------------------------------------------------------------------


def read_published(filesystem: SnapshotFileSystem, directory: str) -> bytes | None:
    """The bytes of ``_metadata``; None where there is none."""
    found = filesystem.read_published(posixpath.join(directory, METADATA_FILE_NAME))
    return None if found is None else found.data


def fingerprint(published: bytes | None) -> str | None:
    """What tells one ``_metadata`` from another; None for none."""
    return None if published is None else hashlib.sha256(published).hexdigest()


def relative_files(metadata: CheckpointMetadata) -> set[str]:
    """The names of all files in a snapshot's own folder that its handles name."""
    streams = (stream for operator in metadata.operators for stream in streams_of(operator))
    return {stream.relative_path for stream in streams if isinstance(stream, RelativeFileStateHandle)}


def published_names(staging: Staging, published: bytes | None) -> set[str]:
    """The files of a write that a ``_metadata`` names: if there are any, it is the write's, or was made from it."""
    if published is None:
        return set()
    metadata = read_metadata(published, staging.filesystem.uri(staging.directory))
    return {name for name in relative_files(metadata) if name.startswith(f"{staging.token}-")}


def publish_metadata(staging: Staging, data: bytes, seen: str | None) -> None:
    """Make a snapshot visible, or replace it, if what is there is still what the fingerprint was taken of.

    Raises ConcurrentWriteError or OutputError where nothing changed, and UncertainOutcomeError where that cannot be
    known: then nothing may be deleted. An attempt whose outcome is not known is followed by another on the same
    condition, which the store takes only if the first was not.
    """
    filesystem, directory = staging.filesystem, staging.directory
    if filesystem.renames:
        filesystem.create_directory(directory)
    _mark(staging)
    try:
        with filesystem.lock(directory):
            _publish(staging, data, seen)
    except UncertainOutcomeError:
        raise
    except SavepointError:
        _unmark(staging)
        raise


def _publish(staging: Staging, data: bytes, seen: str | None) -> None:
    """Attempt to publish until it is known what became of it."""
    path = posixpath.join(staging.directory, METADATA_FILE_NAME)
    failed: SavepointError | None = None
    # Whether a request may still be on its way, and whether the store will take none.
    sent = refused = False
    for pause in (*PAUSES, None):
        try:
            found = staging.filesystem.read_published(path)
        except SavepointError as error:
            if failed is None:
                raise
            known, failed = refused, failed if refused else error
        else:
            known = True
            if fingerprint(found.data if found else None) != seen:
                if _is_ours(staging, found, data if failed is not None else None):
                    return
                raise _too_late(staging, found)
            if pause is None or refused:
                break
            try:
                staging.filesystem.publish(path, data, found)
                return
            except (ConcurrentWriteError, StoreBusyError) as error:
                failed = error
            except OutputError as error:
                failed = error
                sent = sent or isinstance(error, UncertainOutcomeError)
                refused = not sent
        if pause is not None and not refused:
            time.sleep(pause)
    assert failed is not None
    if known and not sent:
        raise failed
    raise UncertainOutcomeError(
        "it is not known whether the savepoint was published: the store did not answer",
        path=staging.filesystem.uri(path),
        found=f"{failed.message}: {failed.facts.get('found', '')}",
        remedy="nothing was deleted: see whether what was written is there, and write again if it is not; "
        "Savepoint.vacuum deletes what nothing names",
    )


def _is_ours(staging: Staging, found: Published | None, sent: bytes | None) -> bool:
    """Whether what is there is what was sent, or was made from it."""
    if found is None:
        return False
    try:
        return found.data == sent or bool(published_names(staging, found.data))
    except SavepointError:
        return False


def _too_late(staging: Staging, found: Published | None) -> ConcurrentWriteError:
    return ConcurrentWriteError(
        "another writer published a savepoint at this path while this write was working"
        if found is not None
        else "the savepoint that this write was to change is gone",
        path=staging.filesystem.uri(posixpath.join(staging.directory, METADATA_FILE_NAME)),
        remedy="nothing of this write is in what is there now: look at it, and write again",
    )


def _mark(staging: Staging) -> None:
    """Say that a request may be on its way, for whoever cleans up: local files have none."""
    if not staging.filesystem.renames:
        _put(staging.filesystem, posixpath.join(staging.pending, PUBLISHING), b"")


def _unmark(staging: Staging) -> None:
    if not staging.filesystem.renames:
        with leftovers(staging.filesystem, staging.directory):
            staging.filesystem.delete_file(posixpath.join(staging.pending, PUBLISHING))


def _is_marked(staging: Staging) -> bool:
    filesystem = staging.filesystem
    return not filesystem.renames and filesystem.info(posixpath.join(staging.pending, PUBLISHING)) is not None


# -- afterwards ---------------------------------------------------------------------------------------------


def roll_back(staging: Staging, existed: bool = True) -> bool:
    """Delete what a write has made, unless it is published, or may be: whether it is published.

    What cannot be deleted is a warning. ``existed``: the folder was there before, and stays.
    """
    filesystem, directory = staging.filesystem, staging.directory
    keep: set[str] = set()
    with leftovers(filesystem, directory):
        keep = set() if staging.part else published_names(staging, read_published(filesystem, directory))
        if not keep and not staging.part and _is_marked(staging):
            warn_of_leftovers(filesystem, directory, "the store did not say whether it published what was written")
            return False
        staging.discard(keep)
        if not existed and not keep:
            filesystem.delete_empty_directory(directory)
    return bool(keep)


def finish(staging: Staging, before: CheckpointMetadata | None, after: CheckpointMetadata, retention: int) -> None:
    """Clear up after a publication: nothing that it names is deleted, and nothing is raised.

    Files that it named before stay for ``retention`` seconds for queries that read them; the first write after that
    deletes them.
    """
    filesystem, directory = staging.filesystem, staging.directory
    names = relative_files(after)
    with leftovers(filesystem, directory):
        if before is not None:
            _let_go(staging, relative_files(before) - names, retention)
        entries = entries_of(filesystem, directory)
        for record in entries:
            if is_due(record, time.time()):
                delete_replaced(filesystem, directory, record, names)
        staging.discard_listed(entries, names)


def _let_go(staging: Staging, names: set[str], retention: int) -> None:
    """Delete files that were replaced, now or later; only those that have names which nothing but state has."""
    filesystem, directory = staging.filesystem, staging.directory
    others = sorted(name for name in names if not is_state_name(name))
    if others:
        why = f"the savepoint that was replaced named them, but no file of state is called that: {_some(others)}"
        warn_of_leftovers(filesystem, directory, why)
    own = sorted(names.difference(others))
    if own and retention <= 0:
        delete_files(filesystem, directory, own)
    elif own:
        name = f"{REPLACED}{int(time.time()) + retention}-{staging.token}"
        _put(filesystem, posixpath.join(directory, name), json.dumps(own).encode())


def _put(filesystem: SnapshotFileSystem, path: str, data: bytes) -> None:
    """A small file: in one request where the store has conditions, and with the patience of pyarrow else."""
    try:
        filesystem.publish(path, data)
    except OutputError:
        file = filesystem.open_output(path, durable=False)
        try:
            file.write(data)
            file.close()
        finally:
            file.abort()


def entries_of(filesystem: SnapshotFileSystem, directory: str) -> list[FileInfo]:
    """What a folder holds; nothing where it is not there."""
    try:
        return filesystem.list(directory)
    except StateFileNotFoundError:
        return []


def is_state_name(name: str) -> bool:
    """Whether only a file of state is called that."""
    return OWN_NAME.fullmatch(name) is not None or FLINK_NAME.fullmatch(name) is not None


def is_due(entry: FileInfo, now: float) -> bool:
    """Whether a file is a record of replaced files whose time is over."""
    match = RECORD_NAME.fullmatch(entry.name)
    return match is not None and not entry.is_directory and int(match[1]) <= now


def replaced_names(filesystem: SnapshotFileSystem, record: FileInfo, named: Collection[str]) -> list[str]:
    """The files that a record lets go, as far as nothing names them now."""
    found = filesystem.read_published(record.path) if record.size <= MAX_RECORD else None
    try:
        names = json.loads(found.data) if found is not None else []
    except (ValueError, RecursionError):
        names = []
    texts = (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
    return sorted({name for name in texts if is_state_name(name) and name not in named})


def delete_replaced(
    filesystem: SnapshotFileSystem, directory: str, record: FileInfo, named: Collection[str]
) -> list[str]:
    """Delete the files that a record lets go, and then the record: their names."""
    names = replaced_names(filesystem, record, named)
    if not delete_files(filesystem, directory, names):
        delete_files(filesystem, directory, [record.name])
    return names


def delete_files(filesystem: SnapshotFileSystem, directory: str, names: Iterable[str]) -> list[str]:
    """Delete files of a folder: those that could not be, of which there is a warning."""

    def refused(name: str) -> SavepointError | None:
        try:
            filesystem.delete_file(posixpath.join(directory, name))
        except SavepointError as error:
            return error
        return None

    listed = list(names)
    if not listed:
        return []
    with ThreadPoolExecutor(min(DELETERS, len(listed))) as pool:
        errors = dict(zip(listed, pool.map(refused, listed), strict=True))
    failed = {name: error for name, error in errors.items() if error is not None}
    if failed:
        error = next(iter(failed.values()))
        why = f"{_some(sorted(failed))}: {error.message}: {error.facts.get('found', '')}"
        warn_of_leftovers(filesystem, directory, why)
    return list(failed)


@contextlib.contextmanager
def leftovers(filesystem: SnapshotFileSystem, directory: str) -> Iterator[None]:
    """Clearing up raises nothing: what stays is a warning."""
    try:
        yield
    except (SavepointError, OSError) as error:
        warn_of_leftovers(filesystem, directory, str(error))


def warn_of_leftovers(filesystem: SnapshotFileSystem, directory: str, why: str) -> None:
    """Tell the user of files that stay."""
    warnings.warn(
        f"files stay in {filesystem.uri(directory)} that no savepoint needs ({why}); Savepoint.vacuum finds those that "
        "this package made",
        SavepointWarning,
        stacklevel=2,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
