"""Operators that are open: kept from one query to the next, as long as their files are the same.

Spark asks one process for the schema of a table and another one for its partitions, again for every query. An operator
that was opened for the schema is sent to the process that plans partitions (:meth:`OpenedOperators.shared`), and both
keep the operators that they opened last. Before one is used again, the identity of ``_metadata`` and, on a local file
system, of every file whose header was read is compared, without reading them. In object stores files of state have
unique names.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.io.snapshot_files import SnapshotFileSystem
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses

#: Operators that a process keeps, and what a kept one may have: files with headers, bytes in ``_metadata``.
KEPT, MAX_FILES, MAX_INLINE = 8, 1024, 1 << 20


@redacted
@dataclass(frozen=True, slots=True)
class _Key:
    """What names an operator in a request, and how its snapshot is opened."""

    path: str
    storage: StorageOptions
    allow_outside: bool
    checksums: str
    classes: JobClasses | None
    uid: str | None
    uid_hash: str | None
    name: str | None

    @classmethod
    def of(cls, request: TableRequest) -> _Key:
        opening = request.allow_outside, request.checksums, request.classes
        naming = request.uid, request.uid_hash, request.operator_name
        return cls(str(request.path), StoragePath.options_of(request.path), *opening, *naming)


@dataclass(frozen=True)
class Shared:
    """An open operator with the identities of its files when it was opened; pickles."""

    key: _Key
    opened: OpenOperator
    metadata: tuple[SnapshotFileSystem, str, str]

    def is_current(self) -> bool:
        """Return whether the files still are those that were read."""
        filesystem, path, identity = self.metadata
        return filesystem.identity(path) == identity and all(
            known is not None and LocalFileSystem().identity(name) == known
            for name, known in self.opened.identities.items()
        )


class OpenedOperators:
    """The operators that this process opened last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, Shared] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, request: TableRequest) -> OpenOperator:
        """Return the operator that a request names: a kept one, if its files are the same, or a new one."""
        key = _Key.of(request)
        with self._lock:
            known = self._kept.get(key)
        if known is not None and known.is_current():
            return known.opened
        filesystem, path = found = Snapshot.find(request.path)
        # Taken before the file is read: if it is replaced meanwhile, it is read again the next time.
        identity = filesystem.identity(path)
        savepoint = Snapshot.open(
            request.path,
            allow_outside=request.allow_outside,
            checksums=request.checksums,
            found=found,
            classes=request.classes,
        )
        operator = savepoint.operator(uid=request.uid, uid_hash=request.uid_hash, name=request.operator_name)
        alone = replace(savepoint, metadata=replace(savepoint.metadata, operators=(operator,), master_states=()))
        opened = OpenOperator(alone, operator)
        if identity is not None:
            self.keep(Shared(key, opened, (filesystem, path, identity)))
        return opened

    def keep(self, shared: Shared) -> None:
        """Keep an operator for later queries of this process, in place of the one that was used least recently."""
        with self._lock:
            self._kept[shared.key] = shared
            self._kept.move_to_end(shared.key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def shared(self, request: TableRequest) -> Shared | None:
        """Return what another process may keep of the operator of a request; None if that would be large."""
        with self._lock:
            known = self._kept.get(_Key.of(request))
        return known if known is not None and is_small(known.opened) else None


def is_small(opened: OpenOperator) -> bool:
    """Return whether an operator has few files, and little state in ``_metadata``."""
    inline = sum(
        len(handle.data) for handle in streams_of(opened.operator) if isinstance(handle, ByteStreamStateHandle)
    )
    return len(opened.operator.subtasks) <= MAX_FILES and inline <= MAX_INLINE


#: The open operators of this process.
OPENED = OpenedOperators()
