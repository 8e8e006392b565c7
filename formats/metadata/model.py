"""Content of ``_metadata``, as frozen records.

Nothing is dropped or reordered: operators and subtasks keep the order of the file, and uninterpreted parts stay as
bytes. Flink: ``CheckpointMetadata``, ``MasterState``, ``OperatorState``,
``FullyFinishedOperatorState``, ``OperatorSubtaskState``, ``FinishedOperatorSubtaskState``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.keyed_handles import KeyedStateHandle
from pyspark_savepoint.formats.metadata.manifest import Manifest, Origin
from pyspark_savepoint.formats.metadata.operator_handles import AnyChannelStateHandle, OperatorStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle


@dataclass(frozen=True, slots=True)
class MasterState:
    """State of a hook in the job manager. Flink: ``MasterState``."""

    version: int
    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OperatorSubtaskState:
    """The state of one subtask; a finished subtask has none."""

    managed_operator_state: OperatorStateHandle | None = None
    raw_operator_state: OperatorStateHandle | None = None
    managed_keyed_state: KeyedStateHandle | None = None
    raw_keyed_state: KeyedStateHandle | None = None
    input_channel_state: tuple[AnyChannelStateHandle, ...] = ()
    result_subpartition_state: tuple[AnyChannelStateHandle, ...] = ()
    is_finished: bool = False

    @property
    def handles(self) -> Iterator[OperatorStateHandle | KeyedStateHandle | AnyChannelStateHandle]:
        """Yield all handles that are not None."""
        for handle in (
            self.managed_operator_state,
            self.raw_operator_state,
            self.managed_keyed_state,
            self.raw_keyed_state,
        ):
            if handle is not None:
                yield handle
        yield from self.input_channel_state
        yield from self.result_subpartition_state

    @property
    def state_size(self) -> int:
        """Return the number of bytes of all handles."""
        return sum(handle.state_size for handle in self.handles)


FINISHED_SUBTASK = OperatorSubtaskState(is_finished=True)


@dataclass(frozen=True, slots=True)
class OperatorState:
    """State of one operator: its coordinator's, and that of each subtask that reported any.

    ``name`` and ``uid`` are known from metadata version 5 on. A fully finished operator has no subtasks.
    ``chain_length`` is an unused field of version 2, kept so that writing gives the same bytes.
    """

    operator_id: OperatorID
    parallelism: int
    max_parallelism: int
    name: str | None = None
    uid: str | None = None
    coordinator_state: ByteStreamStateHandle | None = None
    subtasks: Mapping[int, OperatorSubtaskState] = field(default_factory=dict)
    is_fully_finished: bool = False
    chain_length: int = 1

    @property
    def coordinator_state_size(self) -> int:
        """Return the number of bytes of the coordinator's state."""
        return 0 if self.coordinator_state is None else self.coordinator_state.state_size

    @property
    def state_size(self) -> int:
        """Return the number of bytes of all subtasks and the coordinator, as Flink counts them."""
        return self.coordinator_state_size + sum(subtask.state_size for subtask in self.subtasks.values())

    @property
    def label(self) -> str:
        """Return the operator's name in messages: its uid or name if known, and always its hash."""
        named = self.uid or self.name
        return f"{named} ({self.operator_id})" if named else str(self.operator_id)


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """Content of the whole file. ``properties`` is a Java object stream, kept as bytes; versions 2 and 3 have none.

    ``checksums`` are those of the savepoint's files, ``origin`` is the snapshot that this one is a copy of, and
    ``copies`` are the identities of its files there, by their names here, if this package has appended them
    (``manifest``).
    """

    version: int
    checkpoint_id: int
    master_states: tuple[MasterState, ...] = ()
    operators: tuple[OperatorState, ...] = ()
    properties: bytes = field(default=b"", repr=False)
    checksums: Manifest | None = field(default=None, repr=False, compare=False)
    origin: Origin | None = field(default=None, repr=False, compare=False)
    copies: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def state_size(self) -> int:
        """Return the number of bytes of all operators' states, according to their handles."""
        return sum(operator.state_size for operator in self.operators)
