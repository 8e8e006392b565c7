"""Functions of Flink's documentation and of FLIP-43, translated line by line, and some that misbehave."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark_savepoint import (
    AggregateFunction,
    BroadcastStateBootstrapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedMultipleInputFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    StateBootstrapFunction,
    ValueStateDescriptor,
    WindowReaderFunction,
)

# -- FLIP-43 -------------------------------------------------------------------------------------------------

STATE = ValueStateDescriptor("state", "INT")


class StatefulFunctionWithTime(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(STATE)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(value.value + 1)
        ctx.timer_service().register_event_time_timer(value.value)


@dataclass
class MyPojo:
    key: int
    value: int
    timers: set[int]


class ReaderFunction(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(STATE)

    def read_key(self, key: int, ctx: Any) -> Iterator[MyPojo]:
        yield MyPojo(key, self.state.value(), set(ctx.event_time_timers()))


class AccountBootstrapper(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        descriptor = ValueStateDescriptor("total", "DOUBLE")
        self.state = ctx.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(value.amount)


# -- Flink's documentation -----------------------------------------------------------------------------------


class StatefulFunctionWithUpdates(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("state", "INT"))
        self.update_times = ctx.get_list_state(ListStateDescriptor("times", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(value.value + 1)
        self.update_times.add(ctx.timestamp())


class KeyedStateReader(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state("state")
        self.update_times = ctx.get_list_state("times")

    def read_key(self, key: int, ctx: Any) -> Iterator[dict[str, Any]]:
        yield {"key": key, "value": self.state.value(), "times": self.update_times.get()}


class ClickCounter(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return 1 + accumulator

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class ClickReader(WindowReaderFunction):
    def read_window(self, key: str, ctx: Any, elements: list[Any]) -> Iterator[tuple[Any, ...]]:
        yield key, elements[0], ctx.window().start, ctx.window().end, ctx.event_time_timers()


class SimpleBootstrapFunction(StateBootstrapFunction):
    def initialize_state(self, ctx: Any) -> None:
        self.state = ctx.get_operator_state().get_list_state(ListStateDescriptor("state", "INT"))
        self.union = ctx.get_operator_state().get_union_list_state(ListStateDescriptor("union", "LONG"))
        self.seen = 0

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.add(value.value)
        self.seen += 1

    def snapshot_state(self) -> None:
        self.union.add(self.seen)


class SnapshotTimes(StateBootstrapFunction):
    """As Flink's: elements are kept in a field, and go into the state when the snapshot is taken."""

    def open(self, ctx: Any) -> None:
        self.opened = True

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("kept", "TUPLE<LONG, LONG>"))
        self.kept: list[int] = []

    def process_element(self, value: Any, ctx: Any) -> None:
        assert self.opened
        self.kept.append(value.value)

    def snapshot_state(self, context: Any) -> None:  # type: ignore[override]
        assert context.get_checkpoint_timestamp() > 0
        self.state.update([(value, context.get_checkpoint_id()) for value in self.kept])


class LateRegistration(KeyedStateReaderFunction):
    """A state that is got again for a key, as in no job of Flink."""

    def open(self, ctx: Any) -> None:
        self.ctx, self.state = ctx, ctx.get_state(ValueStateDescriptor("state", "INT"))

    def read_key(self, key: int, ctx: Any) -> Iterator[tuple[int, int]]:
        yield key, self.ctx.get_state(ValueStateDescriptor("state", "INT")).value()


class OpensAFile(KeyedStateBootstrapFunction):
    """Notes in a folder the processes in which it is opened and closed, and the subtask there."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("state", "INT"))
        self.name = f"{os.getpid()}-{uuid.uuid4().hex}"
        Path(self.folder, self.name).write_text("open")

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(value.value)
        Path(self.folder, self.name).write_text("used")

    def close(self) -> None:
        path = Path(self.folder, self.name)
        path.write_text(f"{path.read_text()}, closed")


class Runs(StateBootstrapFunction):
    """Two states that fit together only if one run made both."""

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.run = uuid.uuid4().hex
        self.listed = store.get_list_state(ListStateDescriptor("listed", "STRING"))
        self.united = store.get_union_list_state(ListStateDescriptor("united", "TUPLE<STRING, LONG>"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.listed.add(self.run)
        self.united.add((self.run, value.value))


class CurrencyBootstrapFunction(BroadcastStateBootstrapFunction):
    descriptor = MapStateDescriptor("currency-rates", "STRING", "DOUBLE")

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(self.descriptor).put(value.currency, value.rate)


# -- bounded execution (FLIP-140) ------------------------------------------------------------------------------


class CountAndFire(KeyedProcessFunction):
    """Function that counts; its timers yield the count, the time, the domain and the watermark."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        self.count.update((self.count.value() or 0) + 1)
        service = ctx.timer_service()
        for time in (value.ts + 100, value.ts):
            service.register_event_time_timer(time)
        service.register_processing_time_timer(value.ts - 1)
        yield ctx.get_current_key(), "element", ctx.timestamp(), self.count.value(), service.current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        ctx.timer_service().register_event_time_timer(timestamp + 1)  # has no effect while timers fire
        watermark = ctx.timer_service().current_watermark()
        yield ctx.get_current_key(), ctx.time_domain(), timestamp, self.count.value(), watermark


class Balance(KeyedCoProcessFunction):
    """Orders less payments, with the values in the order in which they came, and a timer at each."""

    def open(self, ctx: Any) -> None:
        self.balance = ctx.get_state(ValueStateDescriptor("balance", "LONG", default=0))
        self.came = ctx.get_list_state(ListStateDescriptor("came", "LONG"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._add(-value.cents, ctx)
        yield from ()

    def process_element2(self, value: Any, ctx: Any) -> None:
        self._add(value.paid, ctx)

    def _add(self, amount: int, ctx: Any) -> None:
        self.balance.update(self.balance.value() + amount)
        self.came.add(amount)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, self.balance.value()


class Inputs(KeyedMultipleInputFunction):
    """How many records each input has."""

    def open(self, ctx: Any) -> None:
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", "INT", "LONG"))

    def process_element(self, input_id: int, value: Any, ctx: Any) -> None:
        self.counts.put(input_id, (self.counts.get(input_id) or 0) + 1)


class Pairs(KeyedCoProcessFunction):
    """How many records both inputs have."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "LONG", default=0))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.count.update(self.count.value() + 1)

    process_element2 = process_element1


RATES = MapStateDescriptor("rates", "STRING", "LONG")


class Converted(KeyedBroadcastProcessFunction):
    """Sums in another currency, by the last rate."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "LONG", default=0))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update(self.total.value() + value.cents * ctx.get_broadcast_state(RATES).get("EUR"))
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RATES).put(value.currency, value.rate)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, self.total.value()


# -- numbers of any size ---------------------------------------------------------------------------------------


class Prices(KeyedStateBootstrapFunction):
    """BigDecimals in state of every kind."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_reducing_state(ReducingStateDescriptor("sum", "BIG_DECIMAL", reduce=lambda a, b: a + b))
        self.each = ctx.get_list_state(ListStateDescriptor("each", "POJO<com.shop.Price>(price BIG_DECIMAL)"))
        self.by_price = ctx.get_map_state(MapStateDescriptor("by_price", "BIG_DECIMAL", "BIG_DECIMAL"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.sum.add(value.price)
        self.each.add({"price": value.price * 3})
        self.by_price.put(value.price, Decimal("1E+3"))
        assert self.by_price.get(value.price) == 1000


class PriceReader(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_reducing_state("sum")
        self.each = ctx.get_list_state("each")
        self.by_price = ctx.get_map_state("by_price")

    def read_key(self, key: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        by_price = sorted(self.by_price.items())
        yield key, self.sum.get(), str([row.price for row in self.each.get()]), str(by_price)


class PriceList(StateBootstrapFunction):
    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("prices", "TUPLE<BIG_DECIMAL, LIST<BIG_DECIMAL>>"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.add((value.price, [value.price * 2]))


# -- misbehaviour ----------------------------------------------------------------------------------------------


class Failing(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(STATE)

    def process_element(self, value: Any, ctx: Any) -> None:
        if value.id == 13:
            raise ValueError("thirteen is refused")
        self.state.update(1)


class WrongType(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(STATE)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update("not a number")


class HoldsALock(KeyedStateBootstrapFunction):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def process_element(self, value: Any, ctx: Any) -> None:
        pass


class LockedWindows(ProcessWindowFunction):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def process(self, key: Any, ctx: Any, elements: list[Any]) -> None:
        pass


class Collecting(KeyedStateReaderFunction):
    """As in Java."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state("total")

    def read_key(self, key: Any, ctx: Any, out: Any) -> None:  # type: ignore[override]
        out.collect(key)


class ReturnsARow(KeyedStateReaderFunction):
    """One row instead of rows."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state("total")

    def read_key(self, key: Any, ctx: Any) -> Any:
        return key, "name"


class KeyedContents(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.contents = ctx.get_aggregating_state("window-contents")

    def read_key(self, key: Any, ctx: Any) -> Any:
        yield key


class Keeper(KeyedStateBootstrapFunction):
    """Keeps the rows that it is given, in state and by itself, and changes them afterwards."""

    def open(self, ctx: Any) -> None:
        self.rows = ctx.get_list_state(ListStateDescriptor("rows", "ROW<id LONG, amount DOUBLE>"))
        self.own: list[Any] = []
        self.distinct = ctx.get_state(ValueStateDescriptor("distinct", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.rows.add(value)
        self.own.append(value)
        self.distinct.update(len({id(row) for row in self.own}))
