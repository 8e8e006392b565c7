"""From Flink to Spark Structured Streaming: initial state of ``transformWithState``, and where its sources start.

Spark takes state of another job only as ``initialState`` of ``transformWithState``, whose ``handleInitialState`` gets
the rows of each key once, and registers timers itself.
"""

from __future__ import annotations

import json
import warnings
from functools import reduce
from typing import TYPE_CHECKING, Any, Unpack

from pyspark.sql import functions as F  # noqa: N812

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.api.spark.savepoint import Savepoint
from pyspark_savepoint.engines.face import operator_option, path_of
from pyspark_savepoint.engines.spark.distribution import quoted
from pyspark_savepoint.formats.connectors.sources.files import FILE_SPLITS, PROCESSED
from pyspark_savepoint.formats.connectors.sources.kafka import EARLIEST, LATEST
from pyspark_savepoint.formats.errors import OptionError, SavepointWarning, StateNotFoundError, UnsupportedStateError
from pyspark_savepoint.formats.name_lists import join_names, split_names
from pyspark_savepoint.options.option_fields import named
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.requests.applicability import KEYED_STATE, KEYED_TABLES, TIMERS, WINDOW_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pyspark_savepoint.options.keywords import StateOptions
    from pyspark_savepoint.options.operators import OperatorRef

FILE = FILE_SPLITS.name
KEY, WINDOW, WINDOWS, NAMESPACE = "key", "window", "windows", "namespace"
#: What tables have beside the key and their states.
KEY_COLUMNS = {WINDOW_STATE: (WINDOW,), TIMERS: (NAMESPACE,)}
#: What Spark's Kafka source takes in place of an offset.
MARKERS = {"earliest": EARLIEST, "latest": LATEST}


def initial_state(
    sp: Savepoint, uid: OperatorRef, *, key: str | Sequence[str] | None = None, **options: Unpack[StateOptions]
) -> DataFrame:
    """Return the keyed state and timers of an operator as ``initialState`` of Spark's ``transformWithState`` takes it.

    Grouped by its key columns it is the argument ``initialState`` of ``transformWithState`` and
    ``transformWithStateInPandas``. ``handleInitialState`` is called once for each key, with one row. Timers of event
    time mean the same in both engines. A time to live begins anew with each value that the function sets:
    ``include_ttl=True`` adds when it was last set.

    Args:
        sp: A savepoint or checkpoint that was written.
        uid: The operator.
        key: The names of the key's columns, ``key`` by default. Several for a composite key, whose fields they get in
            order. Their types must be those of the columns by which the query groups.
        **options: Options of a read, such as ``state``, ``include_ttl``. Each applies to those of keyed state, windows
            and timers that have it.

    Returns:
        One row per key: the key, a column per state (value T, list ARRAY<T>, map MAP<K, V>); if the operator has window
        state, ``windows`` (ARRAY of STRUCT: ``start`` and ``end`` in milliseconds, a field per windowed state); if it
        has timers, ``timers`` (ARRAY of STRUCT: ``timestamp`` in milliseconds, ``domain`` ``event`` or ``processing``,
        ``service``), ordered by time. NULL where a key has none.

    Raises:
        OperatorNotFoundError: If the snapshot has no such operator.
        StateNotFoundError: If it has no keyed state and no timers.
        UnsupportedStateError: If its windows or timers have a namespace that is not a window of time.
        OptionError: If ``key`` does not fit the key, the savepoint is not written, or an option is invalid.

    Example::

        initial = pyspark_savepoint.initial_state(sp, "words", key="word").groupBy("word")
        words.groupBy("word").transformWithStateInPandas(
            Words(), "word string, n long", "append", "eventTime", initialState=initial)

    """
    if not isinstance(sp, Savepoint):
        raise OptionError(
            "initial state is made of a savepoint", found=type(sp).__name__, remedy="Savepoint.load(spark, path)"
        )
    of: Any = _options_by_table(options, _tables(sp, uid), str(uid))
    frames = []
    if KEYED_STATE in of:
        frames.append(sp.keyed_state(uid, **of[KEYED_STATE]))
    if WINDOW_STATE in of:
        rows = sp.window_state(uid, **of[WINDOW_STATE])
        _expect_windows(rows, WINDOW, sp, uid)
        states = [F.col(quoted(name)) for name in rows.columns if name not in (KEY, WINDOW)]
        window = F.struct(_millis(rows, "start"), _millis(rows, "end"), *states)
        frames.append(rows.groupBy(KEY).agg(F.sort_array(F.collect_list(window)).alias(WINDOWS)))
    if TIMERS in of:
        rows = sp.timers(uid, **of[TIMERS])
        if NAMESPACE in rows.columns:
            _expect_windows(rows, NAMESPACE, sp, uid)
        timer = F.struct("timestamp", "domain", "service")
        frames.append(rows.groupBy(KEY).agg(F.sort_array(F.collect_list(timer)).alias(TIMERS)))
    if not frames:
        raise StateNotFoundError(
            "the operator has no keyed state that could be initial state",
            operator=str(uid),
            remedy="sp.states() lists the states of all operators",
        )
    return _with_key_columns(reduce(lambda left, right: left.join(right, KEY, "full"), frames), key, str(uid))


def starting_offsets(sp: Savepoint, uid: OperatorRef | None = None) -> str:
    """Return where a source of Spark continues, as JSON: ``startingOffsets`` of ``readStream.format("kafka")``.

    Args:
        sp: A savepoint or checkpoint.
        uid: The source. None if the savepoint has one only.

    Returns:
        For Kafka, the next offset of each partition, in Spark's form: ``{"orders":{"0":23,"1":-2}}``. -2 is the
        earliest offset, -1 the latest. Spark needs all partitions of the topics. For a file source, the number of
        records read of each split that is not finished: ``{"file:/in/a.txt":{"0000000004":21},"file:/in/b.txt":{}}``.
        ``{}`` is a file that a continuous source has finished. A bounded source does not record its finished files.
        For other connectors, the next position of each part of each stream, with a warning: Spark's own sources have
        no option for it. Use it in a streaming source of your own, or in a condition.

    Raises:
        OperatorNotFoundError: If the snapshot has no such operator.
        OptionError: If it has several sources and none is named, or none with positions.
        UnsupportedStateError: If a partition has no offset that Spark could start from.

    Example::

        spark.readStream.format("kafka").option("startingOffsets", pyspark_savepoint.starting_offsets(sp))

    """
    rows = sp.sources.offsets(uid).collect()
    files = [] if {row["connector"] for row in rows} - {FILE} else _processed_files(sp, uid)
    positions: list[Any] = [*rows, *files]
    sources = sorted({row["operator_uid"] or row["operator_uid_hash"] for row in positions})
    if len(sources) != 1:
        raise OptionError(
            f"the savepoint has {len(sources)} sources: name one of them"
            if sources
            else "the savepoint has no source with positions",
            expected=", ".join(sources) or None,
            remedy=f"starting_offsets(sp, {sources[0]!r})" if sources else "table 'offsets' lists them",
        )
    connector = positions[0]["connector"]
    if not connector.startswith("kafka"):
        warnings.warn(
            f"{sources[0]}: no option of Spark's own sources takes positions of connector {connector!r}"
            + ": leave out by a condition the files and the records that were read" * (connector == FILE),
            SavepointWarning,
            stacklevel=2,
        )
    streams: dict[str, dict[str, object]] = {row["path"]: {} for row in files}
    for row in sorted(rows, key=lambda row: (row["stream"] or "", len(row["partition"] or ""), row["partition"] or "")):
        position = row["offset"]
        if connector.startswith("kafka"):
            position = position if position is not None else MARKERS.get(row["position"])
            if position is None:
                raise UnsupportedStateError(
                    "a partition has no offset that Spark could start from",
                    operator=sources[0],
                    expected=f"an offset, {' or '.join(MARKERS)}",
                    found=f"{row['stream']}-{row['partition']}: {row['position']}",
                    remedy="give it one first: sp.sources.with_offsets(...)",
                )
        streams.setdefault(row["stream"], {})[row["partition"]] = row["position"] if position is None else position
    return json.dumps(streams, separators=(",", ":"))


def _processed_files(sp: Savepoint, uid: OperatorRef | None) -> list[dict[str, Any]]:
    """Return the files that a continuous source has found, those that it reads among them."""
    rows = LocalSavepoint(path_of(sp), sp.options).table("source_coordinator", uid).to_arrow().to_pylist()
    return [row for row in rows if row["connector"] == FILE and row["status"] == PROCESSED]


def _options_by_table(
    options: Mapping[str, Any], tables: Mapping[str, set[str]], operator: str
) -> dict[str, dict[str, Any]]:
    """Return the options of each table of keyed state: those that apply to it, with its own states.

    What applies to none of them, or is not a state of theirs, is an option of the first, whose error says so.
    """
    declared = {name.casefold(): option for name, option in named(SavepointReadOptions)}
    own = {table: tables[table] for table in KEYED_TABLES if table in tables}
    if options.get("flatten"):
        raise OptionError(
            "initial state has one row per key, and option 'flatten' has one per element",
            operator=operator,
            remedy="leave it out: a list is an ARRAY, a map a MAP",
        )
    result: dict[str, dict[str, Any]] = {table: {} for table in own}
    for name, value in options.items():
        option = declared.get(name.replace("_", "").casefold())
        fits = [table for table in result if option is None or table in option.metadata["tables"]]
        if option is not None and option.name == "state" and fits != [TIMERS]:
            fits = [table for table in fits if table != TIMERS]  # all timers of the operator are part of it
        if option is not None and option.name in ("state", "raw"):
            values = split_names(value) if isinstance(value, str) else tuple(value)
            parts = {table: [each for each in values if each in own[table]] for table in fits}
            others = [each for each in values if not any(each in part for part in parts.values())]
            if others and parts:
                parts[fits[0]] += others
            for table, part in parts.items():
                if part:
                    result[table][name] = join_names(part)
                elif option.name == "state":
                    del result[table]  # none of its states is wanted
        else:
            for table in fits or [*result][:1]:
                result[table][name] = value
    return result


def _tables(sp: Savepoint, uid: OperatorRef) -> dict[str, set[str]]:
    """Return the tables that an operator has, each with its states and columns of keys."""
    operator = operator_option(sp, uid)["uidHash"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SavepointWarning)  # about operators without uid: this one was found
        rows = LocalSavepoint(path_of(sp), sp.options).states().to_arrow().to_pylist()
    tables: dict[str, set[str]] = {}
    for row in rows:
        if row["operator_uid_hash"] == operator:
            table = str(row["table"])
            tables.setdefault(table, {KEY, *KEY_COLUMNS.get(table, ())}).add(str(row["state"]))
    return tables


def _expect_windows(rows: DataFrame, column: str, sp: Savepoint, uid: OperatorRef) -> None:
    """Raise UnsupportedStateError unless a column is a window of time."""
    kind: Any = rows.schema[column].dataType
    if getattr(kind, "names", None) != ["start", "end"]:
        raise UnsupportedStateError(
            f"column {column!r} is not a window of time",
            operator=str(uid),
            path=sp.path,
            found=kind.simpleString(),
            remedy="make the initial state from sp.window_state(uid) and sp.timers(uid)",
        )


def _millis(rows: DataFrame, end: str) -> Column:
    """Return an end of windows in milliseconds, which option ``timestamps`` = ``raw`` has already."""
    kind: Any = rows.schema[WINDOW].dataType
    column = F.col(f"{WINDOW}.{end}")
    return (column if kind[end].dataType.typeName() == "long" else F.unix_millis(column)).alias(end)


def _with_key_columns(frame: DataFrame, key: str | Sequence[str] | None, operator: str) -> DataFrame:
    """Return the rows with the key in columns of these names."""
    if key is None or key == KEY:
        return frame
    names = [key] if isinstance(key, str) else list(key)
    others = [F.col(quoted(name)) for name in frame.columns if name != KEY]
    kind: Any = frame.schema[KEY].dataType
    fields = getattr(kind, "names", [])
    if len(names) == 1:
        columns = [F.col(KEY).alias(names[0])]
    elif len(fields) == len(names):
        columns = [F.col(f"{KEY}.{quoted(field)}").alias(name) for field, name in zip(fields, names, strict=True)]
    else:
        raise OptionError(
            "the key has another number of fields",
            operator=operator,
            expected=f"{len(fields) or 1}: {', '.join(fields) or kind.simpleString()}",
            found=", ".join(names),
        )
    return frame.select(*columns, *others)
