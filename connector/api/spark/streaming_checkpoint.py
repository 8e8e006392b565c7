"""From Spark Structured Streaming to Flink: state, timers, watermark and offsets of a streaming query's checkpoint.

Only Spark's own sources ``state-metadata`` and ``statestore`` read state, because its layout changes between releases.
Spark fires timers before its watermark, Flink fires timers up to and including its own. So Flink's watermark is Spark's
less 1 (``BoundedOutOfOrdernessWatermarks``), and timers and ends of windows mean the same.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from pyspark_savepoint.api.spark.savepoint import Savepoint
from pyspark_savepoint.api.spark.streaming_columns import (
    EXPIRES,
    KEY,
    LAST_SEEN,
    NAMESPACE,
    OF_TIMERS,
    STATE,
    VALUE_COLUMNS,
    WINDOW,
    AggregateName,
    accumulator_columns,
    fields_of,
    free_name,
    key_columns,
    opaque_columns,
    value_column,
    variable_columns,
    window_of,
)
from pyspark_savepoint.api.spark.streaming_log import (
    AGGREGATION,
    GROUP_STATE,
    JOIN,
    OFFSETS,
    UNSUPPORTED_OPERATORS,
    WITHIN_WATERMARK,
    StreamingOperator,
    logged_batches,
    partitions_of,
    query_log,
    spark_errors,
    stateful_operators,
)
from pyspark_savepoint.engines.spark.distribution import quoted
from pyspark_savepoint.engines.spark.spark_engine import first_line
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointWarning,
    StateNotFoundError,
    UnsupportedStateError,
    did_you_mean,
    type_name,
)
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.options.paths import located, snapshot_path
from pyspark_savepoint.options.worker_python import expect_session
from pyspark_savepoint.statebackends.rows.descriptors import USER_TIMERS, WINDOW_CONTENTS, WINDOW_TIMERS
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pyspark_savepoint.options.keywords import KeyedStateOptions

SIDES = ("left", "right")
#: The watermark, in milliseconds, at which Spark forgets a key that was seen: rounded up.
EXPIRES_MILLIS = "(value.expiresAtMicros + pmod(-value.expiresAtMicros, 1000)) div 1000"


@redacted
@dataclass(frozen=True)
class StreamingCheckpoint:
    """The checkpoint of a streaming query of Spark after a committed batch. :func:`open_streaming` opens it.

    Tables are DataFrames in the form that ``with_operator``, ``with_window_state`` and ``with_timers`` of
    :class:`Savepoint` take. An operator is named by its number, which ``operators`` has. A query with one stateful
    operator needs no name.

    ``watermark`` is the watermark of the next batch, in milliseconds since 1970, or None if the query has none.
    ``sources`` has the offsets of each source after the batch, as Spark logs them: JSON by name, or by number where
    sources have no names. It has None for a source without offsets. ``newest`` is the newest batch that had begun,
    ``first`` the oldest that is retained.

    Example::

        query = pyspark_savepoint.open_streaming(spark, "/checkpoints/orders")
        query.operators, query.watermark, query.offsets()
        query.keyed_state().show()
    """

    spark: SparkSession
    path: str
    batch_id: int
    watermark: int | None
    sources: Mapping[str, str | None]
    operators: tuple[StreamingOperator, ...]
    newest: int
    first: int

    # -- state ------------------------------------------------------------------------------------------------

    def keyed_state(
        self,
        operator: int | None = None,
        *,
        aggregates: Mapping[str, AggregateName] | None = None,
        durations: Mapping[str, timedelta] | None = None,
        evolved: bool = False,
    ) -> DataFrame:
        """Return one row per key: the columns of the key, and a column per state.

        =======================  =======================================================================
        aggregation              a column per part of its buffers, or with ``aggregates`` one per aggregate
        ``dropDuplicates``       ``seen``, TRUE; within the watermark ``expires_at``, milliseconds
        applyInPandasWithState   ``state``
        transformWithState       a column per variable: T, ARRAY<T> or MAP<K, V>
        join of two streams      ``left`` and ``right``, ARRAYs of the rows that wait; the key is ``field0``, ...
        =======================  =======================================================================

        A struct of one field becomes that field. A state with the name ``key``, or with the name of a key column,
        becomes ``state_<name>``. A key column with the name of a column of timers (``timestamp``, ``domain``,
        ``service``, ``namespace``) becomes ``key_<name>``.

        Args:
            operator: The number of the operator, if the query has several.
            aggregates: For an aggregation, the query's aggregates in its order, by the names of their columns.
                ``sum``, ``min``, ``max``, ``first``, ``last`` become a column of their type, ``count`` a LONG, ``avg``
                a STRUCT ``f0`` (sum), ``f1`` (count). Spark sums decimals of at most 8 digits without their scale, and
                averages decimals of at most 11 digits so. Divide these by the power of 10 of the scale.
            durations: The time to live of variables, which a checkpoint does not have. It adds the times of last
                access, ``<state>__last_access``, as a write with option ``ttl`` takes them.
            evolved: Whether variables are taken whose type changed while the query ran. Spark reads older values in the
                newest type: fields that were added are NULL, fields that were removed are gone.

        Returns:
            The rows. For an aggregation by event-time windows, the window is one of the key columns.

        Raises:
            OptionError: If several operators could be meant, or an argument does not fit the operator.
            UnsupportedStateError: If the state cannot be carried over, or Spark cannot read it. Also if the type of a
                variable changed since the first batch that is retained, unless ``evolved``.

        Example::

            query.keyed_state(aggregates={"total": "sum", "orders": "count"})

        """
        stateful = self._carried(operator)
        _expect_own(stateful, aggregates, durations)
        if stateful.has_variables:
            if not evolved:
                self._expect_one_type(stateful)
            return self._variables(stateful, durations or {})
        if stateful.name == JOIN:
            return self._waiting(stateful)
        frame = self._read(stateful)
        keys = key_columns(frame)
        if stateful.name == AGGREGATION:
            columns = accumulator_columns(frame, stateful, aggregates, keys)
        elif stateful.name in GROUP_STATE:
            value: Any = frame.schema["value"].dataType
            columns = [
                value_column(F.col("value.groupState"), value["groupState"].dataType).alias(free_name(STATE, keys))
            ]
        elif stateful.name == WITHIN_WATERMARK:
            columns = [F.expr(EXPIRES_MILLIS).alias(free_name(EXPIRES, keys))]
        else:
            columns = [F.lit(True).alias(free_name(LAST_SEEN, keys))]
        return frame.select(*keys.values(), *columns)

    def window_state(
        self, operator: int | None = None, *, aggregates: Mapping[str, AggregateName] | None = None
    ) -> DataFrame:
        """Return one row per key and open window of an aggregation by event-time windows.

        Args:
            operator: The number of the operator, if the query has several.
            aggregates: The aggregates of the query, as in :meth:`keyed_state`.

        Returns:
            The columns of the key, ``window`` (STRUCT of two TIMESTAMP, ``start`` and ``end``), and the columns of
            :meth:`keyed_state`. Without key columns, ``key`` is a BYTE 0, which is the key of Flink's ``windowAll``.

        Raises:
            OptionError: If several operators could be meant, or ``aggregates`` does not fit the buffers.
            UnsupportedStateError: If the operator has no windows.

        Example::

            query.window_state(aggregates={"window-contents": "sum"})

        """
        stateful = self._carried(operator)
        _expect_own(stateful, aggregates, None)
        frame = self._read(stateful)
        window = window_of(frame)
        if stateful.name != AGGREGATION or window is None:
            raise UnsupportedStateError(
                "the stateful operator does not aggregate by event-time windows",
                path=self.path,
                found=str(stateful),
                remedy="keyed_state() has its state",
            )
        keys = key_columns(frame, window)
        columns = accumulator_columns(frame, stateful, aggregates, [*keys, WINDOW])
        return frame.select(*keys.values(), F.col(f"key.{quoted(window)}").alias(WINDOW), *columns)

    def timers(self, operator: int | None = None, *, domain: Literal["event", "processing"] | None = None) -> DataFrame:
        """Return one row per timer that a Flink job needs to go on: Spark's timers, timeouts, ends of windows.

        Args:
            operator: The number of the operator, if the query has several.
            domain: For ``applyInPandasWithState``, the kind of its timeouts, which a checkpoint does not have.

        Returns:
            The columns of the key, ``timestamp`` (a LONG of milliseconds), ``domain``, and ``service``
            (``window-timers`` or ``user-timers``). Windows have ``namespace``, too. An operator without timers has no
            rows.

        Raises:
            OptionError: If several operators could be meant, or ``domain`` is missing.
            UnsupportedStateError: If the state cannot be carried over, or Spark cannot read it.

        Example::

            query.timers().groupBy("domain").count().show()

        """
        stateful = self._carried(operator)
        if domain is not None and stateful.name not in GROUP_STATE:
            raise OptionError(
                "the checkpoint has the kind of these timers",
                path=self.path,
                operator=str(stateful),
                remedy="leave out domain= (timeout= of savepoint_from_streaming), which is for applyInPandasWithState",
            )
        if stateful.has_variables:
            return self._registered(stateful)
        frame = self._read(stateful, **({"joinSide": SIDES[0]} if stateful.name == JOIN else {}))
        window = window_of(frame) if stateful.name == AGGREGATION else None
        keys = key_columns(frame, window)
        service, at = USER_TIMERS, F.lit(None).cast("bigint")
        others: list[Column] = []
        if window is not None:
            others = [F.col(f"key.{quoted(window)}").alias(NAMESPACE)]
            at = F.unix_millis(F.col(f"key.{quoted(window)}.end")) - 1
            service = WINDOW_TIMERS
        elif stateful.name == WITHIN_WATERMARK:
            at = F.expr(EXPIRES_MILLIS) - 1
        elif stateful.name in GROUP_STATE and "timeoutTimestamp" in fields_of(frame, "value"):
            if domain is None:
                raise OptionError(
                    "a checkpoint does not have the kind of timeouts",
                    path=self.path,
                    expected="domain='event' for EventTimeTimeout, 'processing' for ProcessingTimeTimeout",
                    remedy="name it: timers(domain=...), timeout=... of savepoint_from_streaming",
                )
            at = F.expr("IF(value.timeoutTimestamp >= 0, value.timeoutTimestamp, NULL)")
        return frame.select(
            *keys.values(),
            *others,
            at.alias("timestamp"),
            F.lit(domain or "event").alias("domain"),
            F.lit(service).alias("service"),
        ).where("`timestamp` IS NOT NULL")

    def not_carried_over(self) -> list[str]:
        """Return what of the query cannot become state of a Flink job: one sentence each, and none if all can.

        Example::

            for sentence in query.not_carried_over(): print(sentence)

        """
        sentences = []
        for operator in self.operators:
            where = f"operator {operator}"
            if not operator.is_carried:
                sentences.append(
                    f"{where}: {UNSUPPORTED_OPERATORS.get(operator.name, 'Spark does not document its state')}"
                )
                continue
            if operator.name == AGGREGATION:
                sentences += [f"{where}: {opaque}" for opaque in opaque_columns(self._read(operator))]
            if operator.name == JOIN:
                sentences.append(f"{where}: which rows found a match, which outer and semi joins need")
            for state in operator.states:
                if state.ttl:
                    sentences.append(
                        f"{where}: the duration after which values of {state.name!r} expire: give it in durations="
                    )
        for name, logged in self.sources.items():
            if logged is not None and partitions_of(logged) is None:
                sentences.append(f"source {name}: its position {logged:.200} has no counterpart in a source of Flink")
        if self.watermark is not None:
            sentences.append(
                f"the watermark, {self.watermark}: a Flink job starts without one, so that records that are older, "
                "which Spark would drop, are accepted until it has one"
            )
        return sentences

    # -- offsets ----------------------------------------------------------------------------------------------

    def offsets(self, source: int | str | None = None) -> dict[tuple[str, int], int]:
        """Return the next offset of each partition of a Kafka source, as ``with_source`` and ``with_offsets`` take it.

        Args:
            source: The number of the source in the query, or its name. None if it has one source of partitions.

        Returns:
            Offsets by topic and partition.

        Raises:
            OptionError: If there is no such source, or several could be meant.
            UnsupportedStateError: If the source has no offsets by topic and partition.

        Example::

            Savepoint.create(spark).sources.with_source("orders-source", query.offsets())

        """
        partitions_by_source = {
            name: partitions_of(logged) for name, logged in self.sources.items() if logged is not None
        }
        if source is None:
            fitting = [name for name, partitions in partitions_by_source.items() if partitions is not None]
            if len(fitting) != 1:
                raise OptionError(
                    "the query has no source with offsets by topic and partition"
                    if not fitting
                    else f"the query has {len(fitting)} sources: name one of them",
                    path=self.path,
                    expected=", ".join(fitting) or None,
                    found="; ".join(f"{name}: {logged or '-'!s:.100}" for name, logged in self.sources.items()),
                    remedy=f"offsets({fitting[0]!r})" if fitting else None,
                )
            source = fitting[0]
        if str(source) not in self.sources:
            raise OptionError(
                f"the query has no source {source!r}", path=self.path, remedy=did_you_mean(str(source), self.sources)
            )
        offsets = partitions_by_source.get(str(source))
        if offsets is None:
            raise UnsupportedStateError(
                "the source has no offsets by topic and partition",
                path=self.path,
                found=f"{self.sources[str(source)] or 'none'!s:.200}",
                remedy="start the Flink job's source at the right position by its own settings",
            )
        return offsets

    # -- internal ---------------------------------------------------------------------------------------------

    def _carried(self, number: int | None) -> StreamingOperator:
        """Return an operator, or raise an error if it is not known, not the only one, or cannot be carried over."""
        numbers = {operator.number: operator for operator in self.operators}
        if number is None and len(numbers) > 1:
            raise OptionError(
                f"the query has {len(numbers)} stateful operators: name one of them",
                path=self.path,
                expected="; ".join(map(str, self.operators)),
                remedy=f"operator={self.operators[0].number}",
            )
        stateful = next(iter(self.operators), None) if number is None else numbers.get(number)
        if stateful is None:
            raise StateNotFoundError(
                "the query has no stateful operator"
                if number is None
                else f"the query has no stateful operator {number}",
                path=self.path,
                expected="; ".join(map(str, self.operators)) or None,
            )
        if not stateful.is_carried:
            raise UnsupportedStateError(
                "the state of this operator cannot be carried over",
                path=self.path,
                operator=str(stateful),
                found=UNSUPPORTED_OPERATORS.get(stateful.name, "an operator whose state Spark does not document"),
                remedy="let the Flink job build it anew: start its source early enough",
            )
        return stateful

    def _read(self, operator: StreamingOperator, **options: Any) -> DataFrame:
        """Return state as Spark's own source reads it."""
        read_options = {"batchId": self.batch_id, "operatorId": operator.number, **options}
        reader = self.spark.read.format("statestore").options(**read_options)
        with spark_errors(self.path, f"the state of operator {operator} cannot be read by this Spark"):
            frame = reader.load(self.path)
            assert frame.schema.names[0] == KEY  # Connect asks the server only now
            return frame

    def _waiting(self, operator: StreamingOperator) -> DataFrame:
        """Return the rows of both sides of a join, as lists by key."""

        def rows_of(side: str) -> DataFrame:
            frame = self._read(operator, joinSide=side)
            kind: Any = frame.schema["value"].dataType
            rows = F.transform(F.collect_list("value"), lambda row: value_column(row, kind))
            return frame.groupBy(KEY).agg(rows.alias(side))

        left, right = map(rows_of, SIDES)
        joined = left.join(right, KEY, "full")
        return joined.select(*key_columns(joined).values(), *SIDES)

    def _expect_one_type(self, operator: StreamingOperator) -> None:
        """Raise UnsupportedStateError if the type of a variable changed since the first batch that is retained."""
        for state in operator.states if self.first < self.batch_id else ():
            options = {"stateVarName": state.name, "flattenCollectionTypes": False}
            now = self._read(operator, **options)
            try:
                before = self._read(operator, **options, batchId=self.first)
            except UnsupportedStateError:  # a variable that was added later
                continue
            column = VALUE_COLUMNS[state.kind]
            if (was := before.schema[column].dataType) != (kind := now.schema[column].dataType):
                raise UnsupportedStateError(
                    f"the type of variable {state.name!r} evolved: Spark reads older values in the newest type, in "
                    "which added fields are NULL and removed ones are gone",
                    path=self.path,
                    operator=str(operator),
                    state=state.name,
                    expected=f"one type since batch {self.first}: {was.simpleString()}",
                    found=kind.simpleString(),
                    remedy="take the values as Spark reads them: evolved=True",
                )

    def _variables(self, operator: StreamingOperator, durations: Mapping[str, timedelta]) -> DataFrame:
        """Return the variables of transformWithState, joined by key."""
        if not operator.states:
            raise StateNotFoundError("the operator has no state variables", path=self.path, operator=str(operator))
        frames = []
        for state in operator.states:
            frame = self._read(operator, stateVarName=state.name, flattenCollectionTypes=False)
            keys = key_columns(frame)
            columns = variable_columns(frame, state, free_name(state.name, keys), durations.get(state.name))
            frames.append(frame.select(KEY, *columns))
        joined = reduce(lambda left, right: left.join(right, KEY, "full"), frames)
        others = [F.col(quoted(name)) for name in joined.columns if name != KEY]
        return joined.select(*key_columns(joined).values(), *others)

    def _registered(self, operator: StreamingOperator) -> DataFrame:
        """Return the timers of transformWithState."""
        domain = "processing" if operator.time_mode.startswith("processing") else "event"
        columns = [F.lit(domain).alias("domain"), F.lit(USER_TIMERS).alias("service")]
        if not operator.time_mode.startswith(("event", "processing")):
            state = operator.states[0]
            frame = self._read(operator, stateVarName=state.name, flattenCollectionTypes=False).limit(0)
            return frame.select(*key_columns(frame).values(), F.lit(None).cast("bigint").alias("timestamp"), *columns)
        frame = self._read(operator, readRegisteredTimers=True)
        at = F.col("expiration_timestamp_ms").alias("timestamp")
        return frame.select(*key_columns(frame).values(), at, *columns)


def open_streaming(
    spark: SparkSession, checkpoint: str | PathLike[str], *, batch_id: int | None = None
) -> StreamingCheckpoint:
    """Open the checkpoint of a Structured Streaming query of Spark, to carry its state over to a Flink job.

    Stop the query first. A query that waits for its next batch in another session looks like a stopped one. Spark's
    sources ``state-metadata`` and ``statestore`` read the state, from both of Spark's state stores. They need a
    checkpoint of Spark 4.0 or later.

    Args:
        spark: The session, of the release that wrote the checkpoint or a later one.
        checkpoint: The folder that the query has as ``checkpointLocation``.
        batch_id: A batch that was committed and is still retained. The last one by default.

    Returns:
        The checkpoint: operators, state, timers, watermark, offsets.

    Raises:
        SnapshotNotFoundError: If the folder has no checkpoint, or no batch was committed.
        CorruptStateError, StorageError: If a log of the query is damaged, incomplete, or cannot be read.
        OptionError: If the query runs in this session, or ``batch_id`` is not committed. Without ``batch_id`` also if a
            batch began that was not committed.
        UnsupportedVersionError: If another release of Spark wrote the checkpoint in a form that this one cannot read.

    Example::

        query = pyspark_savepoint.open_streaming(spark, "/checkpoints/orders")
        query.keyed_state().show()

    """
    expect_session(spark, "pyspark_savepoint.open_streaming(spark, checkpoint)")
    path = located(spark, snapshot_path(checkpoint))
    log = query_log(spark, path, batch_id)
    operators, first = stateful_operators(spark, path, log.batch)
    return StreamingCheckpoint(spark, path, log.batch, log.watermark or None, log.sources, operators, log.newest, first)


def savepoint_from_streaming(
    spark: SparkSession,
    checkpoint: str | PathLike[str] | StreamingCheckpoint,
    uid: str,
    *,
    operator: int | None = None,
    batch_id: int | None = None,
    aggregates: Mapping[str, AggregateName] | None = None,
    source_uid: str | Mapping[str, int | str] | None = None,
    connector_version: str = "3.1",
    timeout: Literal["event", "processing"] | None = None,
    durations: Mapping[str, timedelta] | None = None,
    evolved: bool = False,
    where: str | Column | None = None,
    into: Savepoint | None = None,
    **options: Unpack[KeyedStateOptions],
) -> Savepoint:
    """Make a savepoint of a Flink job from the checkpoint of a Structured Streaming query that did the same.

    The job then goes on where the query stopped: after the last record of the last committed batch, with the state and
    timers of that time. Keys, and values of variables, become states of the same names. An aggregation by event-time
    windows becomes state ``window-contents`` of a window operator, with its timers. The accumulator is that of the only
    aggregate, or a tuple of those of all aggregates in their order. A warning names each thing that cannot be carried
    over.

    Args:
        spark: The session.
        checkpoint: The folder that the query has as ``checkpointLocation``, or what :func:`open_streaming` returned.
        uid: The uid of the operator in the Flink job.
        operator: The number of the stateful operator in the query, if it has several (``open_streaming().operators``).
        batch_id: The committed batch to take. The last one by default.
        aggregates: For an aggregation, the query's aggregates in its order, by the names of the states, as in
            :meth:`StreamingCheckpoint.keyed_state`. Required for windows.
        source_uid: The uid of the job's KafkaSource, which gets the offsets of the query's only Kafka source. Or
            several uids, each with the number or name of a source of the query. With None the savepoint has no source.
            Without ``into`` that is a warning if the query has offsets.
        connector_version: The release of the Kafka connector in the job.
        timeout: For ``applyInPandasWithState``, the kind of its timeouts.
        durations: The time to live of variables that have one. The job's states must have a time to live, too.
        evolved: Whether variables are taken whose type changed, as in :meth:`StreamingCheckpoint.keyed_state`.
        where: A condition on the columns of the key. Other keys, and their timers, are left out. Flink has no NULL key,
            so exclude NULLs: ``"word IS NOT NULL"``.
        into: A savepoint that gets the operator. A new one by default.
        **options: Options of a write, such as ``types``, ``states``, ``max_parallelism``.

    Returns:
        The savepoint. Nothing is written yet.

    Raises:
        SavepointError: As :func:`open_streaming` and the methods of :class:`StreamingCheckpoint` raise. Also if a batch
            began meanwhile.

    Example::

        (pyspark_savepoint.savepoint_from_streaming(
            spark, "/checkpoints/orders", "orders-per-minute", aggregates={"total": "sum", "orders": "count"},
            source_uid="orders-source")
            .write("/savepoints/orders"))

    """
    if isinstance(checkpoint, StreamingCheckpoint):
        if batch_id is not None:
            raise OptionError(
                "the checkpoint was opened at a batch already", remedy="open_streaming(..., batch_id=...)"
            )
        query = checkpoint
    else:
        query = open_streaming(spark, checkpoint, batch_id=batch_id)
    stateful = query._carried(operator)
    sp = Savepoint.create(spark, max_parallelism=options.get("max_parallelism", 128)) if into is None else into
    timers = query.timers(stateful.number, domain=timeout)
    keys = timers.columns[: -len(OF_TIMERS)]
    windows = keys[-1] == NAMESPACE
    keys = keys[:-1] if windows else keys
    if where is not None:
        timers = _chosen(timers, where, keys, query.path)
    if windows:
        if not aggregates:
            raise OptionError(
                "the aggregates of the query are needed to make the accumulators of a window operator",
                path=query.path,
                expected='such as aggregates={"total": "sum", "orders": "count"}, in the order of the query',
                found=", ".join(fields_of(query._read(stateful), "value")),
            )
        rows = query.window_state(stateful.number, aggregates=aggregates)
        names = [quoted(name) for name in rows.columns[len(keys) + 1 :]]
        contents = (
            F.col(names[0])
            if len(names) == 1
            else F.struct(*(F.col(name).alias(f"f{i}") for i, name in enumerate(names)))
        )
        rows = rows if where is None else rows.where(where)
        rows = rows.select(*map(quoted, [*keys, WINDOW]), contents.alias(WINDOW_CONTENTS[0]))
        row_options: Any = {"states": {WINDOW_CONTENTS[0]: "aggregating"}, **options}
        sp = sp.with_operator(uid).with_window_state(uid, rows, key=keys, **row_options)
        service = WINDOW_TIMERS
    else:
        rows = query.keyed_state(stateful.number, aggregates=aggregates, durations=durations, evolved=evolved)
        rows = rows if where is None else rows.where(where)
        row_options = {"ttl": [free_name(name, keys) for name in durations], **options} if durations else {**options}
        kinds = {free_name(state.name, keys): state.kind for state in stateful.states}
        kinds |= dict.fromkeys(SIDES if stateful.name == JOIN else (), "list")
        values = {name: "value" for name in rows.columns if name not in keys and not name.endswith(LAST_ACCESS)}
        states = row_options.pop("states", {})
        states = json.loads(states) if isinstance(states, str) else states
        row_options = {**row_options, "states": {**values, **kinds, **states}}
        sp = sp.with_operator(uid, rows, key=keys, **row_options)
        service = USER_TIMERS
    with spark_errors(query.path, f"the state of operator {stateful} cannot be read by this Spark"):
        timed = not timers.isEmpty()
    if timed or windows:
        sp = sp.with_timers(uid, timers, key=keys, state=service)
    sources = {source_uid: None} if isinstance(source_uid, str) else source_uid or {}
    _expect_mapping("source_uid", sources, 'source_uid="orders-source", or {"orders-source": 0}')
    for source, of in sources.items():
        sp = sp.sources.with_source(source, query.offsets(of), connector_version=connector_version)
    given_ttl = set(durations or {})
    # Of several operators the savepoint that gets this one may have the sources already.
    source_operators = {str(of) for of in sources.values()}
    unnamed = [one for one in query.sources.items() if into is None and not {one[0], "None"} & source_operators]
    left = [
        f"source {name}: its offsets: name the job's KafkaSource in source_uid=, or let its source start at "
        f"{logged:.200}"
        for name, logged in unnamed
        if logged is not None and partitions_of(logged) is not None
    ]
    if windows and aggregates and len(aggregates) == 1 and not {"count", "avg"} & set(aggregates.values()):
        left.append(
            f"operator {stateful}: windows whose values are all NULL: Flink has no accumulator for them, and "
            "emits nothing"
        )
    for sentence in [*left, *query.not_carried_over()]:
        if not any(f"values of {name!r} expire" in sentence for name in given_ttl):
            warnings.warn(f"not carried over: {sentence}", SavepointWarning, stacklevel=2)
    began = max(logged_batches(spark, query.path, OFFSETS), default=query.newest)
    if query.batch_id == query.newest < began:
        raise OptionError(
            f"batch {began} began since the checkpoint was opened: the query runs",
            path=query.path,
            remedy="stop the query after a batch (query.processAllAvailable(); query.stop())",
        )
    return sp


def _chosen(timers: DataFrame, where: str | Column, keys: Sequence[str], path: str) -> DataFrame:
    """Return the timers of the keys for which a condition is true, or raise OptionError if it is none on the key."""
    try:
        timers.select(*map(quoted, keys)).where(where).schema  # noqa: B018  # Connect asks the server only now
    except PySparkException as error:
        raise OptionError(
            "where= is not a condition on the columns of the key",
            path=path,
            expected=f'columns {", ".join(keys)}, such as "{quoted(keys[0])} IS NOT NULL"',
            found=f"{where}: {first_line(error)}",
        ) from error
    return timers.where(where)


# -- columns ------------------------------------------------------------------------------------------------------


def _expect_mapping(name: str, value: object, example: str) -> None:
    if not isinstance(value, Mapping | None):
        raise OptionError(f"{name}= is a mapping", found=type_name(value), expected=f"such as {example}")


def _expect_own(
    operator: StreamingOperator, aggregates: Mapping[str, object] | None, durations: Mapping[str, object] | None
) -> None:
    """Raise OptionError for an argument that the operator has no use for."""
    _expect_mapping("aggregates", aggregates, 'aggregates={"total": "sum"}')
    _expect_mapping("durations", durations, 'durations={"total": datetime.timedelta(hours=1)}')
    if aggregates and operator.name != AGGREGATION:
        raise OptionError("aggregates= is for an aggregation", found=str(operator), remedy="leave it out")
    with_ttl = [state.name for state in operator.states if state.ttl]
    unknown = [name for name in durations or {} if name not in with_ttl]
    if unknown:
        raise OptionError(
            f"the operator has no state {unknown[0]!r} with a time to live",
            operator=str(operator),
            expected=", ".join(with_ttl) or "no durations=",
        )
    wrong = [name for name, duration in (durations or {}).items() if not isinstance(duration, timedelta)]
    if wrong:
        raise OptionError(
            "the duration of a time to live is a timedelta",
            state=wrong[0],
            found=type((durations or {})[wrong[0]]).__name__,
            remedy=f"durations={{{wrong[0]!r}: datetime.timedelta(hours=1)}}",
        )
