"""Write of table ``splits``: rows become the splits of an existing source, readers and enumerator together.

Rows of existing splits change them, other rows add splits. An overwrite has rows of all splits: those without
a row are refused, as removing them has two meanings, unless ``drop`` is ``*``: then they are never read again. Rows are
few: tasks send them to the commit, which publishes ``_metadata`` with new streams inline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.edits import Edited, Key
from pyspark_savepoint.formats.connectors.payloads.kind import Row
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.changes import assemble
from pyspark_savepoint.formats.snapshot.publication import (
    Staging,
    fingerprint,
    read_published,
    read_unchanged,
    roll_back,
)
from pyspark_savepoint.formats.snapshot.publisher import NewVersion, publish
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState
from pyspark_savepoint.statebackends.connectors.edits.sources import (
    add_splits,
    key_columns,
    remove_splits,
    split_keys,
    with_offsets,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.writing.planning.kept_states import refuse_checkpoint
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest

DROP_ALL = "*"
#: Column of the table that names the operator of a row.
OPERATOR = "operator_uid_hash"


@dataclass(frozen=True)
class SplitsWrite:
    """A planned write; pickles. ``seen`` is the fingerprint of the ``_metadata`` that is changed."""

    request: WriteRequest
    staging: Staging
    seen: str | None

    @classmethod
    def plan(cls, request: WriteRequest, schema: pa.Schema) -> SplitsWrite:
        """Plan a write; raise an error if there is no such source, or the columns do not name its splits."""
        if request.drop and not request.overwrite:
            raise OptionError("option 'drop' needs mode 'overwrite': append removes nothing")
        staging = Staging.at(request.path)
        plan = cls(request, staging, None)
        published = read_published(staging.filesystem, staging.directory)
        if published is None:
            raise OptionError(
                "splits are written to an existing source, and there is no savepoint at the path",
                path=staging.filesystem.uri(staging.directory),
                remedy="write to a copy: Savepoint.load(spark, path).sources.with_offsets(uid, rows).write(new_path)",
            )
        savepoint = plan._opened(published)
        refuse_checkpoint(savepoint)
        source = plan._source(savepoint)
        missing = [name for name in key_columns(source) if name not in schema.names]
        if missing:
            raise OptionError(
                f"column {missing[0]!r}, which names a split, is missing",
                operator=source.label,
                expected=", ".join(key_columns(source)),
                found=", ".join(schema.names),
            )
        return replace(plan, seen=fingerprint(published))

    def collect(self, batches: Iterable[pa.RecordBatch]) -> tuple[Row, ...]:
        """Return the rows of a task."""
        return tuple(row for batch in batches for row in batch.to_pylist())

    def commit(self, rows: Iterable[Row]) -> tuple[str, ...]:
        """Publish the changed source, and return warnings for the user."""
        notes: tuple[str, ...] = ()

        def changed() -> NewVersion:
            nonlocal notes
            savepoint = self._opened(read_unchanged(self.staging, self.seen))
            before = savepoint.metadata
            source = self._source(savepoint)
            edited = self._edited(source, self._own(source, rows))
            notes = edited.notes
            operators = list(_replaced(savepoint, edited.source.written()))
            return NewVersion(assemble(operators, [before], before.version), before, before.checksums)

        publish(self.staging, changed, existed=True, seen=self.seen, retention=self.request.retention)
        return notes

    def abort(self) -> None:
        """Remove what a failed write has left."""
        roll_back(self.staging)

    def _opened(self, published: bytes) -> Snapshot:
        options = StoragePath.options_of(self.request.path)
        return Snapshot.of_bytes(self.staging.filesystem, self.staging.directory, published, options)

    def _source(self, savepoint: Snapshot) -> SourceState:
        request = self.request
        operator = savepoint.operator(uid=request.uid, uid_hash=request.uid_hash, name=request.operator_name)
        try:
            return SourceState.read(OpenOperator(savepoint, operator))
        except SavepointError as error:
            raise error.with_facts(path=savepoint.path) from None

    def _own(self, source: SourceState, rows: Iterable[Row]) -> dict[Key, Row]:
        """Return the rows of the operator by their splits."""
        own = source.opened.operator.operator_id.hex
        columns = key_columns(source)
        by_split: dict[Key, Row] = {}
        for row in rows:
            if row.get(OPERATOR, own) not in (own, None):
                raise OptionError(
                    "a row is of another operator", operator=source.label, expected=own, found=row[OPERATOR]
                )
            key = tuple(row[name] for name in columns)
            if key in by_split:
                raise OptionError("two rows have the same split", operator=source.label, found="-".join(map(str, key)))
            by_split[key] = row
        return by_split

    def _edited(self, source: SourceState, rows: Mapping[Key, Row]) -> Edited[SourceState]:
        readers, existing_keys = split_keys(source)
        missing = [key for key in readers if key not in rows] if self.request.overwrite else []
        if missing and DROP_ALL not in self.request.drop:
            raise OptionError(
                f"an overwrite needs a row for every split, and there is none for {'-'.join(map(str, missing[0]))}",
                operator=source.label,
                remedy="mode append changes only splits with rows; with option drop = '*' splits without a row are "
                "never read again; sources.remove_splits(uid, splits, forget=True) forgets them",
            )
        edited = with_offsets(source, {key: row for key, row in rows.items() if key in existing_keys})
        new = [row for key, row in rows.items() if key not in existing_keys]
        more = add_splits(edited.source, new) if new else edited
        less = remove_splits(more.source, missing, forget=False) if missing else more
        return Edited(less.source, edited.notes)


def _replaced(savepoint: Snapshot, changed: OperatorState) -> Iterator[OperatorState]:
    for operator in savepoint.operators:
        yield changed if operator.operator_id == changed.operator_id else operator
