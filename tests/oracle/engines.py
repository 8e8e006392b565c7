"""The jobs of ``oracle.Engines`` for Spark: the same records, word count with timers, windows; and what both must emit.

A record is a number n, 1000 n milliseconds after 1970. Partition p has the records 2 i + p at its offsets i, without
every fifth: offsets have gaps, as in Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE, DELAY, WORDS, GAP, HALF = 60_000, 600_000, 11, 5, 100_000
#: Records that are joined are at most so many numbers apart.
NEAR = 20
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
WORD_TYPE = "word string, end long, count long, total long, numbers array<long>"
EPOCH = date(1970, 1, 1)
#: Keys of three columns, as Spark's expressions and types.
ACCOUNT = {
    "name": ("concat('a', n % 3)", "string"),
    "opened": ("date_add(DATE'1970-01-01', CAST(n % 2 * 40000 - 20000 AS INT))", "date"),
    "rate": ("CAST((n div 7 % 2 * 12500 - 5000) * 0.001BD AS DECIMAL(20, 3))", "decimal(20,3)"),
}
AMOUNT = "CAST((n * 37 % 10007 - 5000) * 0.01BD AS DECIMAL(10, 2))"
DAY = "date_add(DATE'1970-01-01', CAST(n * 31 % 700 - 350 AS INT))"
ACCOUNT_TYPE = (
    "name string, opened date, rate decimal(20,3), end long, balance decimal(20,2), last date, "
    "amounts array<decimal(20,2)>, by_day map<date, decimal(20,2)>"
)
WINDOW_TYPE = "word string, end long, total long, n long, mean double, low long, high long"


def word(number: int) -> str:
    return f"w{number * 7919 % WORDS}"


def records(first: int, end: int) -> list[int]:
    """The records at the offsets of both partitions from one to before another."""
    return sorted(2 * i + p for p in (0, 1) for i in range(first, end) if i % GAP != 3)


def emitted_words(numbers: list[int]) -> list[Any]:
    """What the word count emits when time has passed all records."""
    found, totals = [], dict.fromkeys(map(word, numbers), 0)
    for (end, name), inside in _by_minute(numbers):
        totals[name] += len(inside)
        found.append([name, end, len(inside), totals[name], inside])
    return sorted(found)


def emitted_windows(numbers: list[int]) -> list[Any]:
    """What the windows emit when time has passed all records."""
    return sorted(
        [name, end, sum(inside), len(inside), sum(inside) / len(inside), min(inside), max(inside)]
        for (end, name), inside in _by_minute(numbers)
    )


def emitted_pairs(numbers: list[int]) -> list[Any]:
    """What the join emits: each record beside those that are divisible by 3, of the same word and not far."""
    known = set(numbers)
    return sorted(
        [word(number), number, other]
        for number in numbers
        for other in range(number - NEAR, number + NEAR + 1)
        if other in known and other % 3 == 0 and word(other) == word(number)
    )


def amount(number: int) -> Decimal:
    return Decimal(number * 37 % 10_007 - 5_000).scaleb(-2)


def day(number: int) -> date:
    return EPOCH + timedelta(days=number * 31 % 700 - 350)


def hundred(number: int) -> date:
    """The day from which on a record is counted: of each hundred the first."""
    return EPOCH + timedelta(days=(day(number) - EPOCH).days // 100 * 100)


def _accounts(numbers: list[int]) -> list[tuple[tuple[int, list[str]], list[int]]]:
    """The records of each minute and account, in order."""
    found: dict[tuple[int, str, str, str], list[int]] = {}
    for n in numbers:
        opened = EPOCH + timedelta(days=n % 2 * 40_000 - 20_000)
        key = (f"a{n % 3}", opened.isoformat(), f"{Decimal(n // 7 % 2 * 12_500 - 5_000).scaleb(-3)}")
        found.setdefault(((n * 1_000 // MINUTE + 1) * MINUTE, *key), []).append(n)
    return [((end, list(key)), inside) for (end, *key), inside in sorted(found.items())]


def emitted_accounts(numbers: list[int]) -> list[Any]:
    """What the accounts emit when time has passed all records."""
    found, all_of = [], dict[str, list[int]]()
    for (end, key), inside in _accounts(numbers):
        booked = all_of.setdefault(str(key), [])
        booked += inside
        by_day: dict[str, Decimal] = {}
        for n in booked:
            by_day[f"{hundred(n)}"] = by_day.get(f"{hundred(n)}", Decimal(0)) + amount(n)
        row = [f"{sum(map(amount, booked))}", f"{max(map(day, booked))}", [f"{amount(n)}" for n in inside]]
        found.append([*key, end, *row, [f"{at} {total}" for at, total in sorted(by_day.items())]])
    return sorted(found)


def emitted_balances(numbers: list[int]) -> list[Any]:
    """What the windows of accounts emit when time has passed all records."""
    return sorted(
        [*key, end, f"{sum(map(amount, inside))}", f"{max(map(day, inside))}", len(inside)]
        for (end, key), inside in _accounts(numbers)
    )


def _by_minute(numbers: list[int]) -> list[tuple[tuple[int, str], list[int]]]:
    found: dict[tuple[int, str], list[int]] = {}
    for number in numbers:
        found.setdefault(((number * 1_000 // MINUTE + 1) * MINUTE, word(number)), []).append(number)
    return sorted(found.items())


# -- Spark ----------------------------------------------------------------------------------------------------------


class Range(InputPartition):
    """Offsets of a partition."""

    def __init__(self, partition: int, first: int, end: int) -> None:
        self.partition, self.first, self.end = partition, first, end


class NumbersReader(DataSourceStreamReader):
    """Logs offsets as Kafka's source does, by topic and partition."""

    def __init__(self, start: dict[str, int], end: int, step: int) -> None:
        self.start, self.at, self.end, self.step = start, dict(start), end, step

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"numbers": self.start}

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        self.at = {partition: min(offset + self.step, self.end) for partition, offset in self.at.items()}
        return {"numbers": self.at}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [Range(int(partition), start["numbers"][partition], last) for partition, last in end["numbers"].items()]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        for i in range(partition.first, partition.end):
            if i % GAP != 3:
                yield (2 * i + partition.partition,)

    def commit(self, end: dict[str, Any]) -> None:
        pass


class Numbers(DataSource):
    """The records from option ``startingOffsets`` to before offset ``end``, ``step`` of each partition in a batch."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "n long"

    def streamReader(self, schema: Any) -> NumbersReader:  # noqa: N802
        start = json.loads(self.options["startingoffsets"])["numbers"]
        return NumbersReader(start, int(self.options["end"]), int(self.options["step"]))


class Words(StatefulProcessor):
    """At the end of each minute: the records of the word in it, in all minutes until then, and their numbers."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.closed = handle.getValueState("closed", "total long")
        self.open = handle.getMapState("open", "end long", "count long")
        self.seen = handle.getListState("seen", "n long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        (row,) = initialState.to_dict("records")
        if row["closed"] == row["closed"] and row["closed"] is not None:
            self.closed.update((int(row["closed"]),))
        for end, count in dict(row["open"] if row["open"] is not None else {}).items():
            self.open.updateValue((end,), (count,))
        if row["seen"] is not None:
            self.seen.put([(int(n),) for n in row["seen"]])
        for timer in row["timers"] if row["timers"] is not None else ():
            assert (timer["domain"], timer["service"]) == ("event", "user-timers")
            self.handle.registerTimer(timer["timestamp"])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        for batch in rows:
            for n in batch["n"].tolist():
                end = (n * 1_000 // MINUTE + 1) * MINUTE
                before = self.open.getValue((end,))[0] if self.open.containsKey((end,)) else 0
                self.open.updateValue((end,), (before + 1,))
                self.seen.appendValue((n,))
                self.handle.registerTimer(end)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        end = expiredTimerInfo.getExpiryTimeInMs()
        count = self.open.getValue((end,))[0]
        self.open.removeKey((end,))
        total = count + (self.closed.get()[0] if self.closed.exists() else 0)
        self.closed.update((total,))
        seen = [n for (n,) in self.seen.get()]
        self.seen.put([(n,) for n in seen if n * 1_000 >= end])
        numbers = sorted(n for n in seen if n * 1_000 < end)
        yield pd.DataFrame([(key[0], end, count, total, numbers)], columns=["word", "end", "count", "total", "numbers"])

    def close(self) -> None:
        pass


class Accounts(StatefulProcessor):
    """At the end of each minute: the sum of the account, its last day, the amounts of the minute, the sums by day."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.balance = handle.getValueState("balance", "total decimal(20,2), last date")
        self.open = handle.getListState("open", "n long, amount decimal(20,2)")
        self.by_day = handle.getMapState("by_day", "day date", "total decimal(20,2)")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        (row,) = initialState.to_dict("records")
        if row["balance"] is not None:
            self.balance.update((row["balance"]["total"], row["balance"]["last"]))
        if row["open"] is not None:
            self.open.put([(one["n"], one["amount"]) for one in row["open"]])
        for at, total in dict(row["by_day"] if row["by_day"] is not None else {}).items():
            self.by_day.updateValue((at,), (total,))
        for timer in row["timers"] if row["timers"] is not None else ():
            assert (timer["domain"], timer["service"]) == ("event", "user-timers")
            self.handle.registerTimer(timer["timestamp"])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        for batch in rows:
            for n, booked in zip(batch["n"].tolist(), batch["amount"].tolist(), strict=True):
                self.open.appendValue((n, booked))
                self.handle.registerTimer((n * 1_000 // MINUTE + 1) * MINUTE)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        end = expiredTimerInfo.getExpiryTimeInMs()
        rows = [tuple(row) for row in self.open.get()]
        total, last = self.balance.get() if self.balance.exists() else (Decimal("0.00"), date.min)
        closed = sorted(row for row in rows if row[0] * 1_000 < end)
        self.open.put([row for row in rows if row[0] * 1_000 >= end])
        for n, booked in closed:
            at = (hundred(n),)
            before = self.by_day.getValue(at)[0] if self.by_day.containsKey(at) else Decimal("0.00")
            self.by_day.updateValue(at, (before + booked,))
            total, last = total + booked, max(last, day(n))
        self.balance.update((total, last))
        sums = {at: total for (at,), (total,) in self.by_day.iterator()}
        row = (*key, end, total, last, [booked for _, booked in closed], sums)
        columns = ["name", "opened", "rate", "end", "balance", "last", "amounts", "by_day"]
        yield pd.DataFrame([row], columns=columns)

    def close(self) -> None:
        pass


class Windows(StatefulProcessor):
    """The aggregation by windows, which can begin with state, as Spark's own cannot."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.windows = handle.getMapState("windows", "end long", "total long, n long, low long, high long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        (row,) = initialState.to_dict("records")
        for window in row["windows"] if row["windows"] is not None else ():
            sums = window["window-contents"]
            assert sums["f2"] == {"f0": float(sums["f0"]), "f1": sums["f1"]}
            assert window["end"] - window["start"] == MINUTE
            self.windows.updateValue((window["end"],), (sums["f0"], sums["f1"], sums["f3"], sums["f4"]))
        for timer in row["timers"] if row["timers"] is not None else ():
            assert (timer["domain"], timer["service"]) == ("event", "window-timers")
            self.handle.registerTimer(timer["timestamp"])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        for batch in rows:
            for n in batch["n"].tolist():
                end = (n * 1_000 // MINUTE + 1) * MINUTE
                total, count, low, high = (
                    self.windows.getValue((end,)) if self.windows.containsKey((end,)) else (0, 0, n, n)
                )
                self.windows.updateValue((end,), (total + n, count + 1, min(low, n), max(high, n)))
                self.handle.registerTimer(end - 1)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        end = expiredTimerInfo.getExpiryTimeInMs() + 1
        total, count, low, high = self.windows.getValue((end,))
        self.windows.removeKey((end,))
        yield pd.DataFrame(
            [(key[0], end, total, count, total / count, low, high)],
            columns=["word", "end", "total", "n", "mean", "low", "high"],
        )

    def close(self) -> None:
        pass


def input_of(spark: SparkSession, start: str, end: int, step: int = 300) -> DataFrame:
    """The records from offsets of Kafka's form on, with words and a watermark."""
    spark.dataSource.register(Numbers)
    read = spark.readStream.format("numbers").options(startingOffsets=start, end=end, step=step).load()
    return read.selectExpr(
        "n", f"concat('w', n * 7919 % {WORDS}) AS word", "timestamp_millis(n * 1000) AS at"
    ).withWatermark("at", f"{DELAY} milliseconds")


def word_count(rows: DataFrame, initial: DataFrame | None = None) -> DataFrame:
    """The word count; ``initial`` has column ``word``."""
    grouped = None if initial is None else initial.groupBy("word")
    return rows.groupBy("word").transformWithStateInPandas(
        Words(), WORD_TYPE, "append", "EventTime", initialState=grouped
    )


def windows(rows: DataFrame) -> DataFrame:
    """The aggregation by windows, Spark's own."""
    aggregates = [F.sum("n").alias("total"), F.count("n").alias("n"), F.avg("n").alias("mean")]
    aggregates += [F.min("n").alias("low"), F.max("n").alias("high")]
    found = rows.groupBy(F.window("at", "1 minute"), "word").agg(*aggregates)
    return found.selectExpr("word", "unix_millis(window.end) AS end", "total", "n", "mean", "low", "high")


def booked(rows: DataFrame) -> DataFrame:
    """The records with their accounts, amounts and days."""
    keys = [f"{expression} AS {name}" for name, (expression, _) in ACCOUNT.items()]
    return rows.selectExpr("n", "at", *keys, f"{AMOUNT} AS amount", f"{DAY} AS day")


def accounts(rows: DataFrame, initial: DataFrame | None = None) -> DataFrame:
    """The accounts; ``initial`` has their columns. Emits what Flink's job emits: decimals and days as texts."""
    grouped = None if initial is None else initial.groupBy(*ACCOUNT)
    found = booked(rows).groupBy(*ACCOUNT).transformWithStateInPandas(
        Accounts(), ACCOUNT_TYPE, "append", "EventTime", initialState=grouped
    )  # fmt: skip
    by_day = "transform(array_sort(map_entries(by_day)), one -> concat(one.key, ' ', one.value)) AS by_day"
    texts = ["CAST(balance AS STRING)", "CAST(last AS STRING)", "CAST(amounts AS ARRAY<STRING>)", by_day]
    return found.selectExpr("name", "CAST(opened AS STRING)", "CAST(rate AS STRING)", "end", *texts)


def balances(rows: DataFrame) -> DataFrame:
    """The windows of accounts, Spark's own."""
    aggregates = [F.sum("amount").alias("total"), F.max("day").alias("last"), F.count("*").alias("n")]
    found = booked(rows).groupBy(F.window("at", "1 minute"), *ACCOUNT).agg(*aggregates)
    keys = ["name", "CAST(opened AS STRING)", "CAST(rate AS STRING)", "unix_millis(window.end) AS end"]
    return found.selectExpr(*keys, "CAST(total AS STRING)", "CAST(last AS STRING)", "n")


def join(rows: DataFrame, others: DataFrame) -> DataFrame:
    """The join of two streams, Spark's own."""
    thirds = others.where("n % 3 = 0").selectExpr("n AS other", "word AS of", "at AS then")
    near = f"INTERVAL {NEAR} SECONDS"
    found = rows.join(thirds, F.expr(f"word = of AND at BETWEEN then - {near} AND then + {near}"))
    return found.select("word", "n", "other")


def windows_from(rows: DataFrame, initial: DataFrame) -> DataFrame:
    """The aggregation by windows that begins with state."""
    return rows.groupBy("word").transformWithStateInPandas(
        Windows(), WINDOW_TYPE, "append", "EventTime", initialState=initial.groupBy("word")
    )


def run(query: DataFrame, checkpoint: Path) -> list[Any]:
    """Run a streaming query until its input is used up; return what it emitted."""
    emitted: list[Any] = []

    def collect(rows: DataFrame, _: int) -> None:
        emitted.extend([*row] for row in rows.collect())

    writer = query.writeStream.outputMode("append").foreachBatch(collect)
    started = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        started.processAllAvailable()
    finally:
        started.stop()
    return sorted(emitted)
