"""Changes of sources: positions, splits that are added and removed, a fresh start; readers and enumerator together.

A split is named by columns of its table: a Kafka partition by topic and partition, others by their ids. A change after
which Flink would read records twice, or skip records that the change does not name, is rejected or completed.
``README.md`` lists the changes that real Flink has restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from typing import Any

from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    SplitEdits,
    Target,
    key_of,
    matching_splits,
    split_text,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    READER_STATE,
    SOURCE_COORDINATOR,
    SPLIT_ID,
    SPLITS,
    CoordinatorFrame,
    Row,
)
from pyspark_savepoint.formats.connectors.registry import kinds_of, known_connectors
from pyspark_savepoint.formats.connectors.sources.hybrid import NAME as HYBRID
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.finished import running_subtasks
from pyspark_savepoint.statebackends.connectors.connector_states import (
    SourceState,
    list_states,
    subtasks_of,
    union_states,
)
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: How many splits a note names.
MAX_LISTED = 5
#: Columns of table splits besides those of a kind, and of several snapshots: rows of it may be given as they are.
TABLE_COLUMNS = frozenset(
    {
        "operator_uid",
        "operator_uid_hash",
        "operator_name",
        "subtask",
        "connector",
        SPLIT_ID,
        "version",
        "fields",
        "status",
        "checkpoint_id",
        "snapshot",
    }
)
AT_LEAST_ONCE_WARNING = (
    "records are read again: their changes of keyed state, and what sinks have committed, are not undone"
)

#: Largest position.
MAX_LONG = (1 << 63) - 1


def with_offsets(
    source: SourceState,
    offsets: Mapping[Any, Target] | None,
    to: str | None = None,
    by: int | None = None,
    clamp: bool = False,
) -> Edited[SourceState]:
    """Return the source with other positions: of some splits, or ``to`` a word or moved ``by`` a number of all.

    ``clamp``: what would be moved below 0 begins at 0. A number that is given for several splits is told.
    """
    edits = _edits(source)
    if sum(argument is not None for argument in (offsets, to, by)) != 1:
        raise OptionError("give one of offsets, to and by", operator=source.label)
    if clamp and by is None:
        raise OptionError("'clamp' is for positions that are moved: by", operator=source.label)
    positions = {edits.key(split.value): split.value for split in source.splits}
    pending = edits.pending(source.enumerator)
    with _Refusals(source):
        _refuse_twice(source, edits, pending)
        everything = {**pending, **positions}
        new_positions: dict[Key, Callable[[Any], Any]]
        if by is not None:
            amount = by
            new_positions = dict.fromkeys(everything, lambda value: edits.moved(value, amount, clamp))
        else:
            rows = (
                dict.fromkeys(everything, edits.position_columns(to))
                if to is not None
                else _rows(edits, offsets or {}, everything)
            )
            _refuse_unknown(source, rows.values())
            new_positions = {key: _changing(edits, row) for key, row in rows.items()}
        changed = {key: change(everything[key]) for key, change in new_positions.items()}
        _refuse_beyond(changed.values())
    back = [key for key in changed if key in positions and edits.goes_back(positions[key], changed[key])]
    splits = tuple(replace(split, value=changed.get(edits.key(split.value), split.value)) for split in source.splits)
    moved = {key: value for key, value in changed.items() if key in pending}
    with _Refusals(source):
        result = edits.with_pending(replace(source, splits=splits), moved)
    also = _connector(source).retention
    rewound = (AT_LEAST_ONCE_WARNING,) if also is None else (AT_LEAST_ONCE_WARNING, also)
    return Edited(result, (*_of_several(edits, offsets or {}, everything), *(rewound if back else ())))


def _of_several(edits: SplitEdits, offsets: Mapping[Any, Target], splits: Mapping[Key, Any]) -> Iterator[str]:
    """Yield a note for each number that is the position of several splits."""
    for split_name, target in offsets.items():
        matching = matching_splits(edits, split_name, splits)
        if isinstance(target, int) and len(matching) > 1:
            name = split_text(key_of(edits, split_name))
            yield f"{name} names {len(matching)} splits, each of which continues at {target}: {_some(matching)}"


def _some(keys: Sequence[Key]) -> str:
    names = [
        split_text(key) for key in sorted(keys, key=lambda key: (len(split_text(key)), split_text(key)))[:MAX_LISTED]
    ]
    return ", ".join([*names, *(["..."] if len(keys) > MAX_LISTED else [])])


def add_splits(source: SourceState, rows: Sequence[Row]) -> Edited[SourceState]:
    """Return the source with more splits, each given by the columns of its table."""
    edits = _edits(source)
    with _Refusals(source):
        _refuse_twice(source, edits, edits.pending(source.enumerator))
        _refuse_unknown(source, rows)
        return Edited(edits.added(source, rows))


def new_source(stateless: OpenOperator, connector: str, version: int, rows: Sequence[Row]) -> OperatorState:
    """Return an operator without state as a source that continues at these splits; ``version`` is its enumerator's."""
    makers = {
        known_connector.name: known_connector
        for known_connector in known_connectors()
        if known_connector.new_enumerator is not None
    }
    if connector not in makers:
        raise OptionError(
            "the state of a new source can be made of some connectors only",
            operator=stateless.operator.label,
            expected=", ".join(makers),
            found=connector,
            remedy="have the job take a savepoint right after its first start, and change that: with_offsets",
        )
    (kind,), (enumerator,) = kinds_of(SPLITS, connector), kinds_of(SOURCE_COORDINATOR, connector)
    nothing = makers[connector].new_enumerator
    frame = CoordinatorFrame(enumerator.write(version, nothing))
    return add_splits(
        SourceState(subtasks_of(stateless), kind, (), enumerator, frame, nothing, stateless), rows
    ).source.written()


def remove_splits(source: SourceState, keys: Iterable[Any], forget: bool | None) -> Edited[SourceState]:
    """Return the source without splits: never read again, or forgotten so that they may be found as new ones."""
    edits = _edits(source)
    with _Refusals(source):
        return edits.removed(source, [key_of(edits, key) for key in keys], forget)


def without_rows(source: SourceState, rows: Sequence[Row]) -> Edited[SourceState]:
    """Return the source without what rows of tables ``splits`` and ``source_coordinator`` show: nothing of it is kept.

    Where splits can be forgotten, they are: a source that still finds them reads them again.
    """
    columns = key_columns(source)
    keys = list(dict.fromkeys(tuple(row[name] for name in columns) for row in rows if row.get(columns[-1]) is not None))
    unnamed = [row for row in rows if row.get(columns[-1]) is None]
    if unnamed:
        try:
            source = _edits(source).without_rows(source, unnamed)
        except ValueError as error:
            raise UnsupportedStateError(
                str(error),
                operator=source.label,
                expected=f"rows with {', '.join(columns)}",
                remedy="sources.start_over(uid) removes all its state, and it begins where the job's settings say",
            ) from None
    if not keys:
        return Edited(source)
    try:
        return remove_splits(source, keys, forget=True)
    except OptionError:
        return remove_splits(source, keys, forget=None)


def start_over(opened: OpenOperator, connector: str | None = None) -> OperatorState:
    """Return the operator with a source that starts where the job's settings say, as on a first start."""
    operator = opened.operator
    running_subtasks(operator)
    if union_states().keys() & list_states(operator):
        raise UnsupportedStateError(
            "a consumer with union state starts by its settings only if its operator is not restored",
            operator=operator.label,
            remedy="remove_operator(uid), which leaves the source without state; or "
            "sources.with_offsets(uid, reset='earliest')",
        )
    if operator.coordinator_state is not None:
        try:
            source = SourceState.read(opened, connector)
        except UnsupportedStateError:
            source = None
        fresh = None if source is None else _fresh(source)
        if source is not None and fresh is not None:
            return replace(source, splits=(), enumerator=fresh).written()
    return replace(with_elements(opened, READER_STATE, {}), coordinator_state=None)


def positioned(source: SourceState, row: Row) -> Row:
    """Return a row of table offsets with the columns of the source's own table; other rows as they are."""
    if "stream" not in row or "position" not in row:
        return row
    return _edits(source).positioned(row)


def split_rows(source: SourceState) -> dict[Any, Row]:
    """Return the positions of all splits of a source, to be given to another snapshot of it."""
    edits = _edits(source)
    rows: dict[Any, Row] = {}
    for split in source.splits:
        (row,) = source.kind.rows(split.value)
        rows[edits.key(split.value)] = row
    return rows


def split_keys(source: SourceState) -> tuple[list[Key], set[Key]]:
    """Return the names of the splits of readers, and of all splits, also those that no reader has."""
    edits = _edits(source)
    readers = [edits.key(split.value) for split in source.splits]
    return readers, {*readers, *edits.pending(source.enumerator)}


def key_columns(source: SourceState) -> tuple[str, ...]:
    """Return the columns that name a split of a source."""
    return _edits(source).key_columns


class _Refusals:
    """Context that turns the ValueError or KeyError of an edit into an OptionError with the operator."""

    def __init__(self, source: SourceState) -> None:
        self.operator = source.label

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, SavepointError):
            raise error.with_facts(operator=self.operator) from None
        if isinstance(error, ValueError):
            raise OptionError(str(error), operator=self.operator) from None
        if isinstance(error, KeyError):  # of a row without a column of its split
            raise OptionError(f"column {error.args[0]!r} of a split is missing", operator=self.operator) from None


def _refuse_beyond(splits: Iterable[Any]) -> None:
    """Raise ValueError for a position that is no LONG, as all connectors write them."""
    beyond = next((number for split in splits for number in _numbers(split) if number > MAX_LONG), None)
    if beyond is not None:
        raise ValueError(f"position {beyond} is beyond the largest, {MAX_LONG}")


def _numbers(value: Any) -> Iterator[int]:
    """Yield the numbers of a split."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int):
        yield value


def _edits(source: SourceState) -> SplitEdits:
    edits = _connector(source).edits
    assert edits is not None
    return edits


def _connector(source: SourceState) -> Connector:
    """Return the connector of a source whose splits can be changed."""
    changeable = _changeable()
    if source.kind.name in changeable:
        return changeable[source.kind.name]
    names = [name for name in changeable if not name.startswith(f"{HYBRID}_")]
    raise UnsupportedStateError(
        f"splits of {source.kind.name} can be read, but not changed",
        operator=source.label,
        expected=f"a source of {', '.join(names)}, or a hybrid source of one of them",
    )


def _changeable() -> dict[str, Connector]:
    """Return the connectors whose splits can be changed, by the name of their kinds."""
    return {
        known_connector.name: known_connector
        for known_connector in reversed(known_connectors())
        if known_connector.edits is not None
    }


def _fresh(source: SourceState) -> Any:
    """Return the state of an enumerator of a first start, if the source needs one for it."""
    known = _changeable().get(source.kind.name)
    return None if known is None or known.edits is None else known.edits.fresh(source.enumerator_version)


def _changing(edits: SplitEdits, row: Row) -> Callable[[Any], Any]:
    return lambda value: edits.changed(value, row)


def _refuse_twice(source: SourceState, edits: SplitEdits, pending: Mapping[Key, Any]) -> None:
    earlier: set[Key] = set()
    for key in [*(edits.key(split.value) for split in source.splits), *pending]:
        if key in earlier:
            raise ValueError(f"{split_text(key)} exists twice, so its records are read twice: use remove_splits first")
        earlier.add(key)


def _refuse_unknown(source: SourceState, rows: Iterable[Row]) -> None:
    """Raise ValueError for a column that no split has, which would have no effect."""
    column_names = [*source.kind.columns.names, *_connector(source).extra_columns, *sorted(TABLE_COLUMNS)]
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in column_names:
            raise ValueError(
                f"splits of {source.kind.name} have no column {name!r}: {did_you_mean(name, column_names)}"
            )


def _rows(edits: SplitEdits, offsets: Mapping[Any, Target], splits: Mapping[Key, Any]) -> dict[Key, Row]:
    rows: dict[Key, Row] = {}
    for split_name, target in offsets.items():
        for key in matching_splits(edits, split_name, splits):
            if key in rows:
                raise ValueError(f"{split_text(key)} is given twice")
            rows[key] = edits.position_columns(target)
    return rows
