"""Types of the keyword arguments ``**options``, for type checkers: names in snake case, and the values they take.

Those of tables are written from their declarations; a test compares all with the fields from which options are parsed.
Use them in functions of your own::

    def accounts(savepoint: Savepoint, **options: Unpack[StateOptions]) -> DataFrame:
        return savepoint.keyed_state("accounts", **options)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Literal, TypeAlias, TypedDict

from pyspark_savepoint.formats.serializers.registry import SerializerInput

Names: TypeAlias = str | Sequence[str]
#: Names or kinds by column, as a mapping or as JSON.
ByColumn: TypeAlias = Mapping[str, str] | str
#: Bytes as a number, or with a unit: ``64m``.
Size: TypeAlias = int | str
Path: TypeAlias = str | PathLike[str]

# tables: written by python -m tests.pages
Table: TypeAlias = Literal[
    "keyed_state",
    "window_state",
    "timers",
    "operator_state",
    "states",
    "metadata",
    "files",
    "snapshots",
    "statements",
    "coordinator_state",
    "master_state",
    "raw_operator_state",
    "raw_keyed_state",
    "splits",
    "source_coordinator",
    "committables",
    "in_flight",
    "offsets",
    "sizes",
    "heaviest_keys",
    "ttl_ages",
    "verification",
]
# end of tables


# -- reading --------------------------------------------------------------------------------------------------


class StoreOptions(TypedDict, total=False):
    """How an object store is reached."""

    storage_options: Mapping[str, object] | str


class TableOptions(StoreOptions, total=False):
    """Options of a read that do not name a table, a state or an operator."""

    # table options: written by python -m tests.pages
    flatten: bool
    undecodable: Literal["binary", "error"]
    include_key_group: bool
    include_ttl: bool
    include_state_window: bool
    include_internal: bool
    field_names: str
    variants: Literal["variant", "json"]
    keys: Sequence[object] | str
    key_groups: int | str | Sequence[int | str]
    raw: Names
    kryo: Literal["auto", 2, 5]
    connector: str
    py_types: str
    record_types: ByColumn
    allow_outside: bool
    uids: Names
    top: int
    checksums: Literal["ignore", "verify", "require"]
    memory: Size
    parallelism: int
    include_row_kind: bool
    timestamps: Literal["micros", "truncate", "raw"]
    decimals: str
    text: Literal["escape", "replace", "error"]
    classes: Path | Sequence[Path]
    kryo_types: str
    serializers: SerializerInput | str
    pickle: bool
    batch_size: int
    # end of table options


class OpenOptions(TableOptions, total=False):
    """Options of opening a snapshot, or one of those below a folder."""

    version_as_of: int | str
    timestamp_as_of: datetime | str
    as_of: int | str | datetime


class StateOptions(TableOptions, total=False):
    """Options of a read of one operator's table."""

    state: Names


class SnapshotOptions(StateOptions, total=False):
    """Options of a read that choose the table too."""

    table: Table


class FeedOptions(TypedDict, total=False):
    """Options that choose the changes between the snapshots of a folder."""

    read_change_feed: bool
    starting_version: int
    ending_version: int | str
    starting_timestamp: datetime | str
    ending_timestamp: datetime | str
    deduplication_mode: Literal["dropCarryovers", "none", "netChanges"]


class NamedOptions(SnapshotOptions, OpenOptions, total=False):
    """Options of a read of any table but its path and the operator's uid."""

    uid_hash: str
    operator_name: str
    node: str | int
    execution_plan: str
    stream_graph_hasher: Literal["v2", "v3"]


class ReadOptions(NamedOptions, FeedOptions, total=False):
    """All options of a read but its path."""

    uid: str


# -- writing --------------------------------------------------------------------------------------------------


class TypeOptions(TypedDict, total=False):
    """Options of a write from which Flink's types follow."""

    types: ByColumn
    serializers: SerializerInput | str
    types_from: Path | Sequence[Path]
    allow_outside: bool
    inferred_by: str
    classes: Path | Sequence[Path]
    kryo_types: str


class KeyOptions(TypeOptions, total=False):
    """Options of a write from which the key groups of rows follow."""

    key_group: str


class OperatorStateOptions(TypeOptions, StoreOptions, total=False):
    """Options of a write of list, union or broadcast state."""

    max_parallelism: int
    parallelism: int
    flink_version: str


class KeyedRowsOptions(OperatorStateOptions, KeyOptions, total=False):
    """Options of a write of rows by key, whatever says which states they are."""

    states: ByColumn
    ttl: bool | Names
    compression: Literal["none", "snappy"]
    sort_memory: Size


class KeyedStateOptions(KeyedRowsOptions, total=False):
    """Options of a write of keyed state, windows or timers."""

    state: Names


class ReplacedStateOptions(KeyedRowsOptions, total=False):
    """Options of a write that replaces the states that it names."""

    key: Names
    kind: Literal["list", "union", "broadcast"]


class UpdatedStateOptions(StoreOptions, total=False):
    """Options of a write that updates one state, which keeps its type."""

    key: Names
    key_group: str
    sort_memory: Size
    serializers: SerializerInput | str
    classes: Path | Sequence[Path]
    kryo_types: str


class NewKeyOptions(TypeOptions, StoreOptions, total=False):
    """Options of a change of keys: their type, and the memory in which keys are sorted."""

    flink_version: str
    sort_memory: Size


class WriteOptions(KeyedStateOptions, ReplacedStateOptions, total=False):
    """All options of a write but its path, table and operator."""


# -- functions over records -----------------------------------------------------------------------------------


class BootstrapOptions(TypedDict, total=False):
    """Options of functions over records: sorting, state backend, object reuse."""

    sorted: bool
    presorted: bool
    state_backend: Literal["single_key", "heap", "rocksdb"]
    object_reuse: Literal["DEFAULT", "COPY_PER_OPERATOR", "FULL_REUSE"]
    sort_memory: Size
    parallelism: int
    max_parallelism: int


#: The names of all options in snake case.
KEYWORDS = frozenset(name for kinds in (ReadOptions, WriteOptions, BootstrapOptions) for name in kinds.__annotations__)
