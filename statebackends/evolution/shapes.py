"""What a node of a plan keeps: its keys, states, timers and operator states, as types and as layouts of rows.

A *layout* says where rows are in a state, so that a state can be taken apart into rows, and put together again, without
knowing the node: a side of a join without a unique key is ``COUNTED_ROWS``, which is ``MAP<row, INT>``.

    layout                       type                               rows have besides their fields
    ACCUMULATORS                 row                                one row: fields of aggregates
    DISTINCT_VALUES              MAP<value, LONG>                   entries: a value, a number (bits or a count)
    DISTINCT_NULLS               LONG                               the number of NULL
    DISTINCT_COUNTS              MAP<value, ARRAYDATA<BIGINT>>      entries: a value, how often each call has counted it
    DISTINCT_NULL_COUNTS         ARRAYDATA<BIGINT>                  how often each call has counted NULL
    VALUE_COUNTS                 MAP<value, LONG>                   entries: a value, how often it is there
    ROW                          row                                one row
    ROW_ASSOCIATED               TUPLE<row, INT>                    one row; associations
    COUNTED_ROWS                 MAP<row, INT>                      count
    COUNTED_ROWS_ASSOCIATED      MAP<row, TUPLE<INT, INT>>          count; associations
    UNIQUE_ROWS                  MAP<by, row>
    UNIQUE_ROWS_ASSOCIATED       MAP<by, TUPLE<row, INT>>           associations
    ROWS_BY_TIME                 MAP<LONG, LIST<row>>               time; order in the list
    FLAGGED_ROWS_BY_TIME         MAP<LONG, LIST<TUPLE<row, BOOLEAN>>>   time; order; emitted
    ROW_BY_NUMBER                MAP<LONG, row>                     number
    ROWS_BY_SORT_KEY             MAP<by, LIST<row>>                 order in the list
    RANKED_ROWS                  MAP<by, TUPLE<row, INT>>           rank within the list of its sort key
    SORT_KEY_COUNTS              SORTED_MAP<by, LONG>               entries: a sort key, its number of rows
    ROW_LIST                     LIST<row>                          order in the list
    OTHER                        any                                no rows: a counter, a flag, a time

``by`` are the fields of a row that make the key of the map.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType

#: The namespace of state that has none.
VOID_NAMESPACE = "VOID_NAMESPACE"


class Layout(StrEnum):
    """Where the rows of a state are."""

    ACCUMULATORS = "accumulators"
    DISTINCT_VALUES = "distinct values"
    DISTINCT_NULLS = "distinct nulls"
    DISTINCT_COUNTS = "counts of distinct values by call"
    DISTINCT_NULL_COUNTS = "counts of distinct nulls by call"
    VALUE_COUNTS = "counts of values"
    ROW = "row"
    ROW_ASSOCIATED = "row with associations"
    COUNTED_ROWS = "counted rows"
    COUNTED_ROWS_ASSOCIATED = "counted rows with associations"
    UNIQUE_ROWS = "rows by unique key"
    UNIQUE_ROWS_ASSOCIATED = "rows by unique key, with associations"
    ROWS_BY_TIME = "rows by time"
    FLAGGED_ROWS_BY_TIME = "rows by time, with a flag"
    ROW_BY_NUMBER = "rows by number"
    ROWS_BY_SORT_KEY = "rows by sort key"
    RANKED_ROWS = "rows by unique key, with a rank"
    SORT_KEY_COUNTS = "counts of sort keys"
    ROW_LIST = "list of rows"
    OTHER = "other"


#: Layouts of the values of DISTINCT.
DISTINCT = (Layout.DISTINCT_VALUES, Layout.DISTINCT_NULLS, Layout.DISTINCT_COUNTS, Layout.DISTINCT_NULL_COUNTS)
#: Layouts of views, whose rows are found by the key alone: a key has several.
VIEWS = (*DISTINCT, Layout.VALUE_COUNTS)


@dataclass(frozen=True)
class Column:
    """A field of a row or of an accumulator: a name to show (``SUM(v)``, ``v``), and its type."""

    name: str
    kind: LogicalType


@dataclass(frozen=True)
class StateShape:
    """A keyed state that a node registers.

    ``value_type`` is the type of the whole state in the notation of types, which option ``types`` takes
    (``MAP<ROWDATA<BIGINT, STRING>, INT>``); with a time to live ``value_type`` is the type without it.
    """

    name: str
    #: ``value``, ``map`` or ``list``, as states are registered.
    kind: str
    layout: Layout
    value_type: str
    #: The fields of its rows, or of its accumulator. Of values that are counted: one column, the value.
    columns: tuple[Column, ...] = ()
    #: The fields of a row that make the key of the map.
    by: tuple[int, ...] = ()
    #: Milliseconds that a value lives; 0: for ever.
    ttl: int = 0
    #: Number of the input whose rows it has; None: none.
    input: int | None = None

    @property
    def stored_type(self) -> str:
        """The type with its time to live: of a map's values, of a list's elements, else of the whole."""
        if not self.ttl:
            return self.value_type
        if self.kind == "map":
            key = _first_argument(self.value_type)
            return f"MAP<{key}, TTL<{self.value_type[len(key) + 6 : -1]}>>"
        return f"LIST<TTL<{self.value_type[5:-1]}>>" if self.kind == "list" else f"TTL<{self.value_type}>"


def _first_argument(text: str) -> str:
    """Return the first argument of a type.

    >>> _first_argument("MAP<ROWDATA<INT, STRING>, INT>")
    'ROWDATA<INT, STRING>'
    """
    depth = 0
    for place, character in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 1:
            return text[text.index("<") + 1 : place]
    raise ValueError(text)


@dataclass(frozen=True)
class OperatorStateShape:
    """An operator state (not keyed): its name, mode (``SPLIT_DISTRIBUTE``, ``UNION``, ``BROADCAST``) and type."""

    name: str
    mode: str
    value_type: str


#: Operators that keep the job's max parallelism in all releases, though they have no key.
KEYLESS_OF_ANY_PARALLELISM = ("interval-join", "temporal-sort", "match")


@dataclass(frozen=True)
class OperatorShape:
    """What one operator of a node keeps. A node may have several: a sink has a materializer and writers."""

    node: int
    #: ``group-aggregate``, ``upsert-materialize``: the part of the uid after the id.
    transformation: str
    uid: str
    description: str
    #: The fields of its key, in order.
    key: tuple[Column, ...] = ()
    #: The namespace of its states: ``VOID_NAMESPACE``, ``LONG`` (slices, windows by their end), ``TABLE_TIME_WINDOW``.
    namespace: str = VOID_NAMESPACE
    states: tuple[StateShape, ...] = ()
    #: Names of its timer services, with their namespace.
    timers: tuple[tuple[str, str], ...] = ()
    operator_states: tuple[OperatorStateShape, ...] = ()
    #: False if the node is of a kind or version that is not known: nothing else here is then to be believed.
    known: bool = True
    #: A source, or the writers and committers of a sink: it has states of its connector, which are not listed.
    of_connector: bool = False
    notes: tuple[str, ...] = field(default=())
    #: ``uid`` is an operator id in hexadecimal: of a job without a plan, whose ids follow from its graph.
    is_generated: bool = False

    @property
    def operator_id(self) -> OperatorID:
        """Its operator id, which snapshots have."""
        return OperatorID.from_hex(self.uid) if self.is_generated else OperatorID.from_uid(self.uid)

    @property
    def key_type(self) -> str:
        """The type of its key in the notation of types: ``ROWDATA<STRING>``."""
        return f"ROWDATA<{', '.join(str(column.kind) for column in self.key)}>"

    @property
    def is_single(self) -> bool:
        """Whether Flink gives it max parallelism 1, since 1.17: it has no key, and is of no kind that is left out."""
        return bool(self.states) and not self.key and self.transformation not in KEYLESS_OF_ANY_PARALLELISM

    @property
    def is_stateful(self) -> bool:
        """Whether it has state."""
        return bool(self.states or self.operator_states or self.timers or self.of_connector or not self.known)

    def state(self, name: str) -> StateShape | None:
        """Return the state of a name; None if the operator has none."""
        return next((state for state in self.states if state.name == name), None)
