"""A write that has been decided: what tasks and the commit need to know, and nothing that takes long to import.

``write_plan`` decides it, on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor, OperatorStateDescriptor
from pyspark_savepoint.statebackends.writing.planning.write_request import KEYED_STATE, WriteRequest


@dataclass(frozen=True, slots=True)
class Distribution:
    """How ``key_by`` has laid out a DataFrame: partition i has the key groups of subtask i."""

    max_parallelism: int
    parallelism: int


@dataclass(frozen=True)
class WritePlan:
    """One write. ``parallelism`` is None where the size of the state will decide it, in the commit.

    ``kept`` are the keyed states that the operator has beside what is written, as (name, is a timer), and
    ``kept_metas`` their registrations. ``replaces_raw_timers``: timers in raw keyed state are replaced with the others.
    ``clustered`` says that ``key_by`` laid the rows out for this very plan. ``rewritten`` are operators whose operator
    state stays, in the form of an older release.
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

    @property
    def keyed(self) -> KeyedDescriptor | None:
        """What is written of keyed state; None for raw entries."""
        assert not isinstance(self.descriptor, OperatorStateDescriptor)
        return self.descriptor

    @property
    def replaces_operator(self) -> bool:
        """Whether nothing stays of the operator that is there."""
        return self.request.overwrite and self.request.table == KEYED_STATE

    @property
    def label(self) -> str:
        """How messages call the operator."""
        return f"{self.request.operator} ({self.operator_id})"

    def operator(self, parallelism: int, subtasks: Mapping[int, OperatorSubtaskState]) -> OperatorState:
        """The operator, with nothing but this state of its subtasks."""
        uid, name = self.request.uid, self.request.operator_name
        return OperatorState(self.operator_id, parallelism, self.max_parallelism, uid=uid, name=name, subtasks=subtasks)

    def header(self) -> KeyedBackendHeader:
        """The head of every state file: what is written, then what is kept."""
        compressed = self.request.compression == "snappy"
        if self.request.header is not None:
            from pyspark_savepoint.statebackends.writing.planning.entry_header import header_of

            return replace(header_of(self.request.header), compressed=compressed)
        assert self.keyed is not None
        header = self.keyed.header(compressed)
        return replace(header, states=header.states + self.kept_metas)
