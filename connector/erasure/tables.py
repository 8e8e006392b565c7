"""Tables of a snapshot: rows with the keys that are sought, and where else they stand in the rows that stay.

Columns are searched down to their leaves, which are named by their paths: ``profile.friend``, ``lines[].buyer``,
``spent{key}``. A whole number, a text or bytes that are equal to a key count as ``equal``; a key inside of a longer
text, or of bytes, is searched by its patterns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.erasure.patterns import Hits, Search, described
from pyspark_savepoint.formats.columns import binary_parts
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.text.conditions import Mask

KEYED_TABLES = ("keyed_state", "window_state", "timers")
#: Columns of keyed tables that are no state.
NO_STATE = frozenset({"key", "window", "state_window", "namespace", "timestamp", "domain", "service"})
#: Columns of tables of all operators that name one.
OF_OPERATOR = ("operator_uid", "operator_uid_hash", "operator_name", "connector", "note", "state", "kind")
#: How often another snapshot has what is erased: rows with keys, rows of conditions, keys in other places and files.
COUNTS = ("keys", "elements", "standing", "in_files")
#: What each known connector says takes lines.
LONGEST_REASON = 200
SPLITS_UNKNOWN = "no known connector reads it; column 'reason' of its rows says why"
IN_FLIGHT_UNKNOWN = "records in flight whose type is that of the job: option 'recordTypes' names it"
Place = dict[str, Any]


@dataclass
class Leaves:
    """What is sought in leaves of columns: values of each type, and patterns."""

    numbers: pa.Array
    texts: pa.Array
    bytes_: pa.Array
    search: Search

    @classmethod
    def of(cls, values: Sequence[Any], search: Search) -> Leaves:
        """Return what is sought for some keys."""
        numbers = {key for key in values if isinstance(key, int) and not isinstance(key, bool)}
        return cls(
            pa.array(sorted(key for key in numbers if -(1 << 63) <= key < 1 << 63), pa.int64()),
            pa.array(sorted({str(key) for key in values if isinstance(key, str)}), pa.string()),
            pa.array(sorted({key for key in values if isinstance(key, bytes)}), pa.binary()),
            search,
        )


@dataclass
class Standing:
    """Where keys still stand: in how many values of a column, equal or inside."""

    place: Place
    column: str
    equal: int = 0
    hits: Hits = field(default_factory=Counter)

    def row(self) -> Place:
        """Return the place for a report."""
        return {**self.place, "column": self.column, "equal": self.equal, "inside": described(self.hits)}


@dataclass
class Counts:
    """Rows of one state that were seen, and that are removed."""

    seen: int = 0
    removed: int = 0


@dataclass
class Looked:
    """What the tables of a snapshot have."""

    states: dict[tuple[str, str, str], Counts] = field(default_factory=dict)
    standing: dict[tuple[str, ...], Standing] = field(default_factory=dict)
    #: Tables that cannot be read: place and reason.
    unread: list[Place] = field(default_factory=list)
    #: Tables that were read, with rows whose content is of no known form: why, by operator, table and state.
    unknown: dict[tuple[str, str, str], str] = field(default_factory=dict)
    #: Places that were searched, as reports name them.
    places: set[str] = field(default_factory=set)

    def counts(self, operator: str, table: str, state: str) -> Counts:
        """Return the counts of a state."""
        return self.states.setdefault((operator, table, state), Counts())

    def removed_from(self, operator: str) -> int:
        """Return how many rows of keyed state an operator loses."""
        return sum(
            one.removed for (own, table, _), one in self.states.items() if own == operator and table in KEYED_TABLES
        )

    def search(self, batch: pa.RecordBatch, columns: Sequence[str], place: Place, leaves: Leaves) -> None:
        """Search columns of rows that stay."""
        for name in columns:
            for path, leaf in leaves_of(name, batch.column(name)):
                self.places.add(place_of({**place, "column": path}))
                equal, hits = _sought(leaf, leaves)
                if equal or hits:
                    key = (*map(str, place.values()), path)
                    one = self.standing.setdefault(key, Standing(place, path))
                    one.equal += equal
                    one.hits += hits


def operator_of(row: Mapping[str, Any]) -> str:
    """Return how reports name the operator of a row: its uid, or the hash of one."""
    return row.get("operator_uid") or row.get("operator_uid_hash") or ""


def place_of(row: Mapping[str, Any]) -> str:
    """Return the name of a column where keys stand: ``UID.STATE.COLUMN``.

    >>> place_of({"operator_uid": "orders", "state": "pending", "column": "value.buyer"})
    'orders.pending.value.buyer'
    """
    return ".".join(filter(None, (operator_of(row), row.get("state"), row["column"])))


def unknown_place(row: Mapping[str, Any]) -> str:
    """Return the name of state that cannot be looked into: ``UID.STATE``, or ``UID.TABLE`` of what has no name.

    >>> unknown_place({"operator_uid": "orders", "table": "coordinator_state", "state": None})
    'orders.coordinator_state'
    """
    return ".".join(filter(None, (operator_of(row), row.get("state") or row["table"])))


def exact(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that read times of any size, which no key is compared with.

    >>> exact({"timestamps": "micros", "kryo": "5"})
    {'timestamps': 'raw', 'kryo': '5'}
    """
    return {**options, "timestamps": "raw"}


def batches_of(
    options: Mapping[str, str], path: str, columns: Sequence[str] = (), **texts: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns and batches of a table of a snapshot, or of some of its columns."""
    table = open_table(SavepointReadOptions.parse({**inheriting(options, texts), "path": path}).request())
    table = table.select(columns) if columns else table
    return table.schema, (batch for part in table.partitions(1) for batch in part.batches())


def look_at_keyed(
    looked: Looked, place: Place, schema: pa.Schema, batches: Iterator[pa.RecordBatch], mask: Mask, leaves: Leaves
) -> None:
    """Count the rows of a table of keys, those that are removed, and search the others."""
    uid, table = place["operator_uid_hash"], place["table"]
    states = [name for name in schema.names if name not in NO_STATE]
    for batch in batches:
        has_key = mask(batch)
        if table == "timers":
            for tally in pc.value_counts(batch.column("service")).to_pylist():
                looked.counts(uid, table, tally["values"]).seen += tally["counts"]
            for tally in pc.value_counts(batch.filter(has_key).column("service")).to_pylist():
                looked.counts(uid, table, tally["values"]).removed += tally["counts"]
        for state in states:
            valid = batch.column(state).is_valid()
            one = looked.counts(uid, table, state)
            one.seen += valid.true_count
            one.removed += pc.and_(valid, has_key).true_count
        stays = batch.filter(pc.invert(has_key)) if has_key.true_count else batch
        looked.search(stays, [name for name in schema.names if name not in ("domain", "service")], place, leaves)


def look_at_rows(
    looked: Looked,
    place: Place,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    leaves: Leaves,
    mask: Mask | None = None,
) -> None:
    """Count the rows of another table, those that are removed, and search the others."""
    one = looked.counts(place["operator_uid_hash"] or "", place["table"], place["state"] or "")
    for batch in batches:
        one.seen += len(batch)
        for column in ("reason", "bytes"):  # of connectors, and of records in flight
            values = batch.column(column).drop_null() if column in schema.names else pa.nulls(0)
            if len(values):
                why = values[0].as_py() if column == "reason" else IN_FLIGHT_UNKNOWN
                why = why if len(why) <= LONGEST_REASON else SPLITS_UNKNOWN
                looked.unknown[place["operator_uid_hash"] or "", place["table"], place["state"] or ""] = why
        if mask is not None:
            has_key = mask(batch)
            one.removed += has_key.true_count
            batch = batch.filter(pc.invert(has_key))
        looked.search(batch, [name for name in schema.names if name not in OF_OPERATOR], place, leaves)


def reading(looked: Looked, place: Place, read: Callable[[], None], *, is_on: bool = False) -> bool:
    """Read a table and return whether it could be read; one that cannot be is noted.

    ``is_on``: conditions or types for it were given, so that errors of options are the caller's and are raised.
    """
    try:
        read()
    except SavepointError as error:
        if is_on and isinstance(error, OptionError):
            raise
        looked.unread.append({**place, "why": str(error)})
        return False
    return True


def leaves_of(path: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the leaves of a column with their paths.

    >>> rows = pa.array([[{"a": 1}]], pa.list_(pa.struct({"a": pa.int32()})))
    >>> [name for name, _ in leaves_of("lines", rows)]
    ['lines[].a']
    """
    kind = column.type
    if pa.types.is_struct(kind):
        for number, one in enumerate(column.flatten()):
            yield from leaves_of(f"{path}.{kind.field(number).name}", one)
    elif pa.types.is_map(kind):
        # Of a slice, keys and items are whole: offsets say which belong to it.
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        yield from leaves_of(f"{path}{{key}}", column.keys.slice(start, end - start))
        yield from leaves_of(f"{path}{{value}}", column.items.slice(start, end - start))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from leaves_of(f"{path}[]", column.flatten())
    elif pa.types.is_dictionary(kind):
        yield from leaves_of(path, column.dictionary_decode())
    else:
        yield path, column


def _sought(leaf: pa.Array, leaves: Leaves) -> tuple[int, Hits]:
    """Return how many values of a leaf are keys, and the hits of patterns in others."""
    kind = leaf.type
    none: Hits = Counter()
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pc.sum(pc.is_in(leaf.cast(pa.int64()), value_set=leaves.numbers)).as_py() or 0, none
    if pa.types.is_decimal(kind) and kind.scale == 0:
        numbers = leaves.numbers.cast(pa.decimal128(38, 0))
        return pc.sum(pc.is_in(leaf.cast(pa.decimal128(38, 0)), value_set=numbers)).as_py() or 0, none
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        equal = pc.is_in(leaf.cast(pa.string()), value_set=leaves.texts)
        rest = leaf.cast(pa.binary())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        rest = leaf.cast(pa.binary())
        equal = pc.is_in(rest, value_set=leaves.bytes_)
    else:
        return 0, none
    if equal.true_count:
        rest = rest.filter(pc.invert(equal))
    return equal.true_count, _inside(rest.drop_null(), leaves.search)


def _inside(values: pa.Array, search: Search) -> Hits:
    """Return the hits of patterns in values, each in one of them."""
    hits: Hits = Counter()
    if not len(values):
        return hits
    # A byte between two values, so that a word ends with its value.
    offsets, data = binary_parts(pc.binary_join_element_wise(values, b"", b"\x00"))
    data = np.ascontiguousarray(data[int(offsets[0]) : int(offsets[-1])])
    ends = offsets[1:] - offsets[0] - 1
    for kind, at in search.positions(data):
        within = at + kind[2] <= ends[np.searchsorted(offsets[1:] - offsets[0], at, side="right")]
        hits[kind] += int(np.count_nonzero(within))
    return +hits
