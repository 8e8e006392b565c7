"""Write requests: what is written, from the type of a key to a whole write, independent of Spark.

    KeySpec       the key of rows: enough to compute their key groups
    WriteSpec     and their states: enough to encode them, wherever they go
    WriteRequest  and the savepoint that they go to

One write is one part of one operator: its keyed state (``keyed_state``), windows (``window_state``), timers
(``timers``), or one of its operator states (``operator_state``). Two tables are for the fluent API alone: ``entries``
carries edits of existing keyed state, raw entries which are never decoded; ``elements`` all operator states that a
function created, as serialized elements, of which each task writes those of one subtask.

What a write has the rows of, and so what an overwrite replaces and what an append must not find, is defined here alone,
by :meth:`WriteSpec.writes` and :meth:`WriteRequest.replaces`. Every other part of the operator stays as it is:

==================  ============  =================================================================================
table               ``state``     parts that are written
==================  ============  =================================================================================
``keyed_state``     not given     all keyed states; an overwrite replaces the whole operator, and fails if that has
                                  other parts which option ``drop`` does not name
``keyed_state``     ``a,b``       the keyed states ``a`` and ``b``
``window_state``    not given     all states of windows
``window_state``    ``a,b``       the states of windows ``a`` and ``b``
``timers``          not given     the timers of all services, also those in raw keyed state
``timers``          ``a,b``       the timers of the services ``a`` and ``b``
``operator_state``  ``a``         the list, union or broadcast state ``a``
==================  ============  =================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, OperatorBackendHeader
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.registry import GivenSerializers
from pyspark_savepoint.statebackends.model.request import TableRequest

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses

KEYED_STATE, WINDOW_STATE, TIMERS, OPERATOR_STATE = "keyed_state", "window_state", "timers", "operator_state"
#: Parts of an operator that no DataFrame has the rows of, by the names of their tables.
RAW_KEYED_STATE, RAW_OPERATOR_STATE = "raw_keyed_state", "raw_operator_state"
COORDINATOR_STATE, IN_FLIGHT = "coordinator_state", "in_flight"
ENTRIES, ELEMENTS = "entries", "elements"
#: Kinds of operator state, as table ``states`` has them.
LIST, UNION, BROADCAST = "list", "union", "broadcast"

DEFAULT_SORT_MEMORY = 256 << 20
#: Seconds for which replaced files are kept for queries that still read them.
DEFAULT_RETENTION = 3600
#: The oldest Flink that can restore the written state, unless the user sets another.
DEFAULT_FLINK_VERSION = (1, 16)
#: Flink's own default, and that of its State Processor API.
DEFAULT_MAX_PARALLELISM = 128


#: The state number of rows of table ``entries`` that are keys to delete from the bases.
DELETED = -1


@dataclass(frozen=True, slots=True)
class StatePart:
    """A part of an operator's state, which a write replaces as a whole or leaves as it is.

    ``table`` is the table that has its rows. ``name`` is that of the state, for timers that of their service, and for
    parts without a name that of the table: so option ``drop`` names it. ``raw``: timers that are raw keyed state.
    """

    table: str
    name: str
    raw: bool = False


@redacted
@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """Key of rows, and where its type comes from.

    ``types`` has types in the notation of ``formats.serializers.notation`` by column, and the type of a composite key
    by ``key``. ``types_from`` is ``savepoint`` or ``savepoint#operator``. ``inferred_by`` is the Flink release whose
    type inference converts the classes in ``types``; with None, ``types`` are as declared. ``class_path`` are jars and
    folders of class files. ``key_group`` is the column with key groups. ``serializers`` are the user's, which
    ``types`` may name. ``flink_version`` is the oldest Flink that must restore; None for that of the existing snapshot,
    or the default.
    """

    key: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    types_from: str | None = None
    inferred_by: str | None = None
    class_path: tuple[str, ...] = ()
    key_group: str | None = None
    serializers: GivenSerializers | None = None
    flink_version: tuple[int, int] | None = None
    classes: tuple[str, ...] = ()
    kryo_types: str = ""

    @property
    def operator(self) -> str | None:
        """Return the operator's name for error messages; None for a key that belongs to none yet."""
        return None

    @property
    def job_classes(self) -> JobClasses:
        """Return the descriptions of the user's classes, in the version of Kryo that the release has."""
        from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses

        kryo = 5 if self.restoring_flink >= (2, 0) else 2
        return JobClasses(self.classes, self.kryo_types, kryo, self.serializers)

    @property
    def restoring_flink(self) -> tuple[int, int]:
        """Return the oldest Flink that must restore."""
        return self.flink_version or DEFAULT_FLINK_VERSION


@redacted
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpec(KeySpec):
    """Rows of one part of one operator: which states they are, and how they are encoded.

    ``states`` has kinds by column: ``value``, ``list``, ``map``, ``reducing``, ``aggregating``; ``kind`` is that of an
    operator state: ``list``, ``union``, ``broadcast``, or None for that of its source or its columns.
    ``max_parallelism`` and ``parallelism`` are None for the values of the existing snapshot, or the defaults. ``ttl``
    wraps states as Flink does with a time to live (all, or those of the given columns). ``py_types`` are types
    of PyFlink's states, as the option of reads has them. ``sort_memory`` is the bytes of rows that a task holds.

    Only the fluent API sets ``entry_columns`` of table ``entries``: its rows are not entries but columns, each with the
    state's number in the header, its name, and that of the times of last access. ``composite_key``: their key is a
    struct of the key columns, even of a single one. ``label`` names the operator of ``uid_hash`` in error messages.
    """

    uid: str | None = None
    uid_hash: str | None = None
    operator_name: str | None = None
    table: str = KEYED_STATE
    state: str | None = None
    kind: str | None = None
    states: Mapping[str, str] = field(default_factory=dict)
    max_parallelism: int | None = None
    parallelism: int | None = None
    compression: str = "none"
    ttl: bool | tuple[str, ...] = False
    py_types: str | None = None
    sort_memory: int = DEFAULT_SORT_MEMORY
    entry_columns: tuple[tuple[int, str, str | None], ...] = ()
    composite_key: bool = False
    label: str | None = None

    @property
    def named_parts(self) -> tuple[str, ...] | None:
        """Return the only states, or timer services, of the table that are written; None for all."""
        if self.state is None:
            return None
        if self.table == OPERATOR_STATE:
            return (self.state,)
        return tuple(name.strip() for name in self.state.split(",") if name.strip())

    @property
    def named_states(self) -> tuple[str, ...] | None:
        """Return the only states to write of a table with state columns; None for all."""
        return self.named_parts if self.table in (KEYED_STATE, WINDOW_STATE) else None

    def writes(self, part: StatePart) -> bool:
        """Return whether the rows are those of a part, which they replace, or which must not exist."""
        named = self.named_parts
        return part.table == self.table and (named is None or part.name in named)

    @property
    def is_keyed(self) -> bool:
        """Return whether rows belong to key groups."""
        return self.table not in (OPERATOR_STATE, ELEMENTS)

    def has_ttl(self, column: str) -> bool:
        """Return whether the state of a column has a time to live."""
        return self.ttl if isinstance(self.ttl, bool) else column in self.ttl

    @property
    def operator_id(self) -> OperatorID:
        """Return the operator's id: the hash of its uid, or the given hash."""
        return OperatorID.from_uid(self.uid) if self.uid is not None else OperatorID.from_hex(self.uid_hash or "")

    @property
    def operator(self) -> str:
        """Return the operator's name for error messages."""
        return self.uid or self.label or f"uid hash {self.uid_hash}"


@redacted
@dataclass(frozen=True, slots=True)
class WriteRequest(WriteSpec):
    """Request to write one part of one operator of a savepoint from one DataFrame.

    ``drop`` names the states that an overwritten operator loses, ``retention`` is the seconds for which replaced files
    are kept.

    Only the fluent API sets the following. ``header`` is the header of the stream that ``entries`` or ``elements`` go
    to: its states have the numbers in the rows. ``bases`` are entries of existing operators to merge with the rows, of
    which those with state :data:`DELETED` are keys that the bases lose. ``fragment`` is ``token/name``: instead of
    publishing, ``_metadata`` of only this operator is written as ``.pending-token/name`` below the path, with its files
    next to it.
    """

    path: str
    _: KW_ONLY
    drop: tuple[str, ...] = ()
    overwrite: bool = False
    retention: int = DEFAULT_RETENTION
    fragment: str | None = None
    header: KeyedBackendHeader | OperatorBackendHeader | None = None
    bases: tuple[TableRequest, ...] = ()

    @property
    def replaces_operator(self) -> bool:
        """Return whether the existing operator is replaced as a whole."""
        return self.overwrite and self.table == KEYED_STATE and self.state is None

    def replaces(self, part: StatePart) -> bool:
        """Return whether the write removes what an existing operator has of a part."""
        return self.replaces_operator or (self.overwrite and self.writes(part))
