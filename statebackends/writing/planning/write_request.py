"""Write requests: what is written, and the options that say so, independent of Spark.

    WriteSpec     rows of one part of one operator: enough to encode them, wherever they go
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
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.flink_releases import RELEASE_EXPECTED, RELEASES, parse_release
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.name_lists import split_names
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.statebackends.requests.table_options import (
    InvalidOptionValueError,
    choice,
    flag,
    kryo_words,
    names,
    option,
    python_types,
    size,
    text,
    whole_number,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, OperatorBackendHeader
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
    from pyspark_savepoint.formats.serializers.registry import GivenSerializers
    from pyspark_savepoint.statebackends.requests.request import TableRequest

KEYED_STATE, WINDOW_STATE, TIMERS, OPERATOR_STATE = "keyed_state", "window_state", "timers", "operator_state"
#: Parts of an operator that no DataFrame has the rows of, by the names of their tables.
RAW_KEYED_STATE, RAW_OPERATOR_STATE = "raw_keyed_state", "raw_operator_state"
COORDINATOR_STATE, IN_FLIGHT = "coordinator_state", "in_flight"
ENTRIES, ELEMENTS = "entries", "elements"
#: The splits of a source; written rows replace existing splits.
SPLITS = "splits"
WRITTEN_TABLES = (KEYED_STATE, WINDOW_STATE, TIMERS, OPERATOR_STATE, SPLITS)
#: Kinds of keyed state, as option ``states`` has them.
STATE_KINDS = ("value", "list", "map", "reducing", "aggregating")
#: Kinds of operator state, as table ``states`` has them.
LIST, UNION, BROADCAST = "list", "union", "broadcast"
OPERATOR_KINDS = (LIST, UNION, BROADCAST)

DEFAULT_SORT_MEMORY = 256 << 20
#: Seconds for which replaced files are kept for queries that still read them.
DEFAULT_RETENTION = 3600
#: The oldest Flink that can restore the written state, unless the user sets another.
DEFAULT_FLINK_VERSION = (1, 16)


#: The state number of rows of table ``entries`` that are keys to delete from the bases.
DELETED = -1


def mark_of(number: int) -> int:
    """Return the state number of rows of table ``entries`` that are keys which one state has rows for.

    The bases lose their entries of the state, and a key may have one such row. A key is followed by its namespace. The
    mark of a mark is the number of the state.

    >>> mark_of(0), mark_of(mark_of(3))
    (-2, 3)
    """
    return DELETED - 1 - number


@dataclass(frozen=True, slots=True)
class StatePart:
    """A part of an operator's state, which a write replaces as a whole or leaves as it is.

    ``table`` is the table that has its rows. ``name`` is that of the state, for timers that of their service, and for
    parts without a name that of the table: so option ``drop`` names it. ``raw``: timers that are raw keyed state.
    """

    table: str
    name: str
    raw: bool = False


# -- values of options ---------------------------------------------------------------------------------------


def _columns(value: str) -> tuple[str, ...]:
    """Parse names separated by commas, or a JSON list of names that contain commas."""
    return tuple(json_names(value)) if value.lstrip().startswith("[") else names(value)


def is_type_of(path: str, column: str) -> bool:
    """Return whether a name in option ``types`` is that of a column, or of a part of it.

    >>> is_type_of("mean.f1", "mean"), is_type_of("a.b", "a.b"), is_type_of("means", "mean")
    (True, True, False)
    """
    return path == column or path.startswith(f"{column}.")


def json_names(value: str) -> list[str]:
    """Parse a JSON list of names."""
    parsed = _json(value)
    if not isinstance(parsed, list) or not parsed or not all(isinstance(name, str) for name in parsed):
        raise InvalidOptionValueError("""names separated by commas, or a JSON list of names, such as ["a", "b"]""")
    return parsed


def _json(value: str) -> Any:
    try:
        return parse_json(value)
    except (ValueError, RecursionError):
        return None


def _texts(value: str) -> dict[str, str]:
    parsed = _json(value)
    if not isinstance(parsed, dict) or not all(isinstance(item, str) for item in parsed.values()):
        raise InvalidOptionValueError("""a JSON object of texts, such as {"column": "..."}""")
    return parsed


def _kinds(value: str) -> dict[str, str]:
    kinds = {column: kind.strip().casefold() for column, kind in _texts(value).items()}
    wrong = sorted(set(kinds.values()) - set(STATE_KINDS))
    if wrong:
        expected = f"a JSON object of columns to {', '.join(STATE_KINDS)}"
        raise InvalidOptionValueError(f"{expected}, not {' and '.join(map(repr, wrong))}")
    return kinds


def _ttl(value: str) -> bool | tuple[str, ...]:
    folded = value.strip().casefold()
    return folded == "true" if folded in ("true", "false") else _columns(value)


def _flink_version(value: str) -> tuple[int, int]:
    try:
        return parse_release(value)
    except OptionError:
        raise InvalidOptionValueError(RELEASE_EXPECTED) from None


def _uid_hash(value: str) -> str:
    try:
        return OperatorID.from_hex(value).hex
    except OptionError:
        raise InvalidOptionValueError("32 hex digits; if this is the operator's uid, give it as option 'uid'") from None


def _inferred_by(value: str) -> str | None:
    """Parse a release of Flink; return None for ``declared``.

    >>> _inferred_by("1.20.5"), _inferred_by("declared")
    ('1.20', None)
    """
    from pyspark_savepoint.statebackends.type_extraction.releases import DECLARED, ExtractionRelease

    if value.strip().casefold() == DECLARED:
        return None
    try:
        return str(ExtractionRelease.parse(value))
    except OptionError as error:
        raise InvalidOptionValueError(f"'declared', or {error.facts['expected']}") from None


# -- requests -----------------------------------------------------------------------------------------------


@redacted
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpec:
    """Rows of one part of one operator: which states they are, and how they are encoded.

    Fields that are declared by ``option`` are options of a write, declared here alone: name, text, default, meaning.
    ``serializers`` and ``classes`` are options too: ``SavepointWriteOptions`` declares them, because only the connector
    can parse their texts. ``max_parallelism``, ``parallelism`` and ``flink_version`` are None for the values of the
    existing snapshot, or the defaults.

    The others are no options. ``type_source`` is the savepoint whose types are used, ``savepoint`` or
    ``savepoint#operator``, and ``class_path`` are jars and folders of class files: option ``typesFrom`` names both.
    Only the fluent API sets ``entry_columns`` of table ``entries``: its rows are not entries but columns, each with the
    state's number in the header, its name, and that of the times of last access. ``updated`` are the numbers of states
    of which other keys keep what the bases have. ``composite_key``: their key is a
    struct of the key columns, even of a single one. ``label`` names the operator of ``uid_hash`` in error messages.
    """

    uid: str | None = option(text, "the operator, by the uid that the job gives it")
    uid_hash: str | None = option(_uid_hash, "the operator, by its uid hash (32 hex digits)")
    operator_name: str | None = option(
        text, "the operator's name, which metadata of Flink 2 records. Without `uid` it names an existing operator"
    )
    table: str = option(
        choice(*WRITTEN_TABLES, ENTRIES, ELEMENTS),
        ", ".join(f"`{name}`" for name in WRITTEN_TABLES),
        KEYED_STATE,
        f"`{KEYED_STATE}`",
    )
    state: str | None = option(
        text,
        "the name of an operator state. For `timers`, the timer services. For `keyed_state` and `window_state`, the "
        "states to write, such as `total,profile`, or a JSON list if a name has a comma: other states of the operator "
        "stay",
        shown="required for `operator_state`, `user-timers` for timers, else all",
    )
    kind: str | None = option(
        choice(*OPERATOR_KINDS),
        "the kind of an operator state: " + ", ".join(f"`{name}`" for name in OPERATOR_KINDS),
        shown="that of the state in the savepoint or in `typesFrom`, else `broadcast` for columns `key` and `value`, "
        "`list` for one column",
    )
    key: tuple[str, ...] = option(
        _columns, "the key column, or the columns of a composite key, such as `tenant,account`", (), "`key`"
    )
    states: Mapping[str, str] = option(
        _kinds,
        """kinds by column, such as `{"totals": "reducing"}`: `value`, `list`, `map`, `reducing`, `aggregating`""",
        {},
        "that of the existing state, else `list` for arrays, `map` for maps, else `value`",
    )
    types: Mapping[str, str] = option(
        _texts,
        """Flink types by column (a composite key is `key`), such as `{"total": "LONG"}`""",
        {},
        "that of the existing state, else from the Spark type",
    )
    inferred_by: str | None = option(
        _inferred_by,
        f"with `declared`, each type names one serializer. With a release from {RELEASES[0].name} to "
        f"{RELEASES[-1].name}, types name classes, and their serializers are those that the type extraction of this "
        "release infers",
        shown="`declared`",
    )
    serializers: GivenSerializers | None = None
    max_parallelism: int | None = option(
        whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of key groups. If the job sets a max parallelism, it must be the same",
        shown="that of `key_by` or of the existing operator, else that of most operators of the savepoint, else "
        f"{DEFAULT_MAX_PARALLELISM}",
    )
    parallelism: int | None = option(
        whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of subtasks, and so of state files. A job may restore the savepoint with another parallelism",
        shown="that of `key_by` or of the existing operator, else by the size of the state",
    )
    compression: str | None = option(
        choice("none", "snappy"),
        "Flink's snapshot compression of files with keyed state: `none` or `snappy`",
        shown="that of the existing operator, else none",
    )
    ttl: bool | tuple[str, ...] | None = option(
        _ttl,
        "`true`, or the columns whose states have a TTL in the job, such as `total,profile`. `false` removes that of "
        "existing states. Times of last access come from column `<state>__last_access`, else are the time of the write",
        shown="that of the existing state or in `typesFrom`, else false",
    )
    py_types: str | None = option(
        python_types,
        "types that a PyFlink job declared for its states, as in option `pyTypes` of a read",
        shown="what the bytes of existing states prove",
    )
    classes: tuple[str, ...] = ()
    kryo_types: str = option(kryo_words, "the same by name and fields, as in option `kryoTypes` of a read", "", "none")
    flink_version: tuple[int, int] | None = option(
        _flink_version,
        "the oldest release of Flink that must be able to restore the savepoint, such as `1.20`",
        shown=f"that of the existing savepoint, else {DEFAULT_FLINK_VERSION[0]}.{DEFAULT_FLINK_VERSION[1]}",
    )
    sort_memory: int = option(
        size,
        "bytes of rows that a task sorts in memory. More go to local disk",
        DEFAULT_SORT_MEMORY,
        f"{DEFAULT_SORT_MEMORY >> 20}m",
    )
    key_group: str | None = option(
        text, "the column that has the key group of each row, for keys whose hash only the job's code computes"
    )
    allow_outside: bool = option(
        flag,
        "open files that the savepoint of `typesFrom` names outside its own directory and checkpoint root, as the "
        "option of a read does",
        False,
    )
    type_source: str | None = None
    class_path: tuple[str, ...] = ()
    entry_columns: tuple[tuple[int, str, str | None], ...] = ()
    updated: tuple[int, ...] = ()
    composite_key: bool = False
    label: str | None = None

    @property
    def names_operator(self) -> bool:
        """Return whether rows have an operator; those of which only key groups are computed have none."""
        return self.uid is not None or self.uid_hash is not None or self.operator_name is not None

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

    @property
    def named_parts(self) -> tuple[str, ...] | None:
        """Return the only states, or timer services, of the table that are written; None for all."""
        if self.state is None:
            return None
        if self.table == OPERATOR_STATE:
            return (self.state,)
        return split_names(self.state)

    @property
    def named_states(self) -> tuple[str, ...] | None:
        """Return the only states to write of a table with state columns; None for all."""
        return self.named_parts if self.table in (KEYED_STATE, WINDOW_STATE) else None

    def writes(self, part: StatePart) -> bool:
        """Return whether the rows are those of a part, which they replace, or which must not exist."""
        named_parts = self.named_parts
        return part.table == self.table and (named_parts is None or part.name in named_parts)

    @property
    def is_keyed(self) -> bool:
        """Return whether rows belong to key groups."""
        return self.table not in (OPERATOR_STATE, ELEMENTS)

    def has_ttl(self, column: str) -> bool | None:
        """Return whether the state of a column gets a time to live; None: it has the one of its serializer, if any."""
        if isinstance(self.ttl, tuple):
            return True if column in self.ttl else None
        return self.ttl

    @property
    def operator_id(self) -> OperatorID:
        """Return the operator's id: the hash of its uid, or the given hash."""
        return OperatorID.from_uid(self.uid) if self.uid is not None else OperatorID.from_hex(self.uid_hash or "")

    @property
    def operator(self) -> str:
        """Return the operator's name for error messages; an empty text if rows have none."""
        return self.uid or self.label or (f"uid hash {self.uid_hash}" if self.uid_hash is not None else "")


@redacted
@dataclass(frozen=True, slots=True)
class WriteRequest(WriteSpec):
    """Request to write one part of one operator of a savepoint from one DataFrame.

    ``drop`` names the states that an overwritten operator loses, ``retention`` is the seconds for which replaced files
    are kept.

    Only the fluent API sets the following. ``header`` is the header of the stream that ``entries`` or ``elements`` go
    to: its states have the numbers in the rows. ``bases`` are entries of existing operators to merge with the rows, of
    which those with state :data:`DELETED` or :func:`mark_of` are keys that the bases lose; a write that updates states
    has them too.
    """

    path: str
    _: KW_ONLY
    drop: tuple[str, ...] = ()
    overwrite: bool = False
    retention: int = DEFAULT_RETENTION
    header: KeyedBackendHeader | OperatorBackendHeader | None = None
    bases: tuple[TableRequest, ...] = ()

    @property
    def replaces_operator(self) -> bool:
        """Return whether the existing operator is replaced as a whole."""
        return self.overwrite and self.table == KEYED_STATE and self.state is None

    def replaces(self, part: StatePart) -> bool:
        """Return whether the write removes what an existing operator has of a part."""
        return self.replaces_operator or (self.overwrite and self.writes(part))
