"""Plan of a write for tasks and the commit; imports nothing that is slow to load.

The driver makes it (``connector/write/in_place.py``, ``operator_writer.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.formats.keyed.meta_info import (
    KeyedBackendHeader,
    OperatorBackendHeader,
    StateMetaInfoSnapshot,
)
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.near_files import NearFolder
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, OperatorStateDescriptor, StateKind
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    ELEMENTS,
    WriteRequest,
    WriteSpec,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata.identifiers import OperatorID
    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.statebackends.python.python_rows import PythonRows
    from pyspark_savepoint.statebackends.requests.request import TableRequest


@dataclass(frozen=True, slots=True)
class Distribution:
    """Layout of a DataFrame by ``key_by``: partition i has the key groups of subtask i."""

    max_parallelism: int
    parallelism: int


@dataclass(frozen=True)
class WritePlan:
    """Plan of one write.

    ``parallelism`` is None if the commit derives it from the size of the state. ``kept`` are the keyed states that the
    operator keeps besides the written ones, as (name, is a timer), and ``kept_metas`` their registrations.
    ``replaces_raw_timers``: timers in raw keyed state are replaced too. ``clustered``: ``key_by`` laid the rows out for
    exactly this plan. ``rewritten`` are operators whose operator state stays, but in the form of an older release.
    ``python`` converts the rows of a PyFlink operator before they are written. ``notes`` are warnings. ``updates``:
    states that exist get the rows, and keep what other keys have. ``unchanged`` are subtasks that need no file if they
    have no rows: that of the base stays.
    """

    request: WriteRequest
    operator_id: OperatorID
    staging: Staging
    seen: str | None
    existed: bool
    metadata_version: int
    max_parallelism: int
    parallelism: int | None
    schema: pa.Schema
    descriptor: KeyedDescriptor | OperatorStateDescriptor | None
    kept: tuple[tuple[str, bool], ...] = ()
    kept_metas: tuple[StateMetaInfoSnapshot, ...] = ()
    replaces_raw_timers: bool = False
    clustered: bool = False
    rewritten: frozenset[OperatorID] = frozenset()
    python: PythonRows | None = None
    notes: tuple[str, ...] = ()
    updates: bool = False
    unchanged: frozenset[int] = frozenset()

    @property
    def keyed(self) -> KeyedDescriptor | None:
        """Return the descriptor of keyed state; None for raw entries."""
        assert not isinstance(self.descriptor, OperatorStateDescriptor)
        return self.descriptor

    @property
    def label(self) -> str:
        """Return the operator's name for messages."""
        operator_name = self.request.uid or self.request.label
        return (
            self.request.operator
            if operator_name in (None, str(self.operator_id))
            else f"{operator_name} ({self.operator_id})"
        )

    @property
    def marked(self) -> tuple[int, ...]:
        """Return the numbers of the states whose rows leave marks: those that are updated, and maps.

        Two rows of a key are found by their marks: the entries of a map have different keys.
        """
        states = self.keyed.states if self.keyed is not None else ()
        numbered = zip(self.request.entry_columns, states, strict=True)
        maps = [number for (number, *_), state in numbered if state.kind is StateKind.MAP]
        return tuple({*self.request.updated, *maps})

    def with_near_files(self) -> WritePlan:
        """Return the plan with a local folder for sorted runs, if there will be some, for a savepoint in a store."""
        merges = bool(self.request.bases) and not self.updates
        if self.clustered or merges or self.request.table == ELEMENTS or not self.staging.filesystem.is_remote:
            return self
        return replace(self, staging=replace(self.staging, near=NearFolder.make()))

    def operator(self, parallelism: int, subtasks: Mapping[int, OperatorSubtaskState]) -> OperatorState:
        """Return the operator with only this state of its subtasks."""
        uid, name = self.request.uid, self.request.operator_name
        return OperatorState(self.operator_id, parallelism, self.max_parallelism, uid=uid, name=name, subtasks=subtasks)

    def header(self) -> KeyedBackendHeader:
        """Return the header of every state file: first the written states, then the kept ones."""
        compressed = self.request.compression == "snappy"
        if isinstance(self.request.header, KeyedBackendHeader):
            return replace(self.request.header, compressed=compressed)
        assert self.keyed is not None
        header = self.keyed.header(compressed)
        return replace(header, states=header.states + self.kept_metas)


@redacted
@dataclass(frozen=True)
class PartOfWrite:
    """Rows of one operator that are written as a part of a new savepoint, and what they are merged with.

    ``header`` is that of the stream that entries or elements go to, ``bases`` read the entries that rows are merged
    with. The part is published as ``_metadata`` of this operator alone, in the pending folder of ``staging``.
    ``unchanged`` are subtasks that need no file if they have no rows. An engine that knows them before it writes tells
    ``stay`` of them.
    """

    staging: Staging
    path: str
    spec: WriteSpec
    descriptor: KeyedDescriptor | OperatorStateDescriptor | None
    metadata_version: int
    header: KeyedBackendHeader | OperatorBackendHeader | None = None
    bases: tuple[TableRequest, ...] = ()
    unchanged: frozenset[int] = frozenset()
    stay: Callable[[Collection[int]], None] | None = None

    def plan(self, schema: pa.Schema, layout: Distribution | None) -> WritePlan:
        """Return the plan of the rows, which have these columns and this layout."""
        spec = self.spec
        values = {field.name: getattr(spec, field.name) for field in fields(WriteSpec)}
        request = WriteRequest(self.path, **values, header=self.header, bases=self.bases)
        max_parallelism, parallelism = spec.max_parallelism, spec.parallelism
        if layout is not None and spec.is_keyed:
            max_parallelism = max_parallelism or layout.max_parallelism
            parallelism = parallelism or (layout.parallelism if max_parallelism == layout.max_parallelism else None)
        if not spec.is_keyed and spec.table != ELEMENTS:
            parallelism = parallelism or 1
        max_parallelism = max_parallelism or DEFAULT_MAX_PARALLELISM
        check_parallelism(max_parallelism, parallelism or 1)
        return WritePlan(
            request=request,
            operator_id=request.operator_id,
            staging=self.staging,
            seen=None,
            existed=True,
            metadata_version=self.metadata_version,
            max_parallelism=max_parallelism,
            parallelism=parallelism,
            schema=schema,
            descriptor=self.descriptor,
            clustered=layout == Distribution(max_parallelism, parallelism or 0),
            unchanged=self.unchanged,
        )
