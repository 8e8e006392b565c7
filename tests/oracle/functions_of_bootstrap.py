"""Functions of the bootstrapped operators of ``test_bootstrapped``."""

from __future__ import annotations

from typing import Any

from pyspark_savepoint import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedStateBootstrapFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

#: The records of the job's windows, and its accumulator of sum and count.
RECORD = "TUPLE<LONG, LONG>"
#: When the timers of `Numbers` begin: none is meant to fire.
FAR = 6_000_000_000_000


class Accounts(KeyedStateBootstrapFunction):
    """A total, the times of all records, and a timer half a second behind each."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "DOUBLE"))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update((self.total.value() or 0.0) + value.amount)
        self.seen.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 500)


class Numbers(KeyedStateBootstrapFunction):
    """The number of each key, and a timer at it."""

    def open(self, ctx: Any) -> None:
        self.number = ctx.get_state(ValueStateDescriptor("n", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.number.update(value.n)
        ctx.timer_service().register_event_time_timer(FAR + value.n)


class Merged(KeyedCoProcessFunction):
    """The amounts of both inputs in the order in which they came, and a timer half a second behind each."""

    def open(self, ctx: Any) -> None:
        self.came = ctx.get_list_state(ListStateDescriptor("came", "LONG"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.came.add(value.amount)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 500)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.came.add(-value.amount)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 700)


RULES = MapStateDescriptor("rules", "STRING", "LONG")


class Ruled(KeyedBroadcastProcessFunction):
    """Amounts times a rule, and a timer behind each record."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "LONG", default=0))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update(self.total.value() + value.amount * ctx.get_broadcast_state(RULES).get("factor"))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 500)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value.name, value.number)


def add_amounts(a: Any, b: Any) -> tuple[int, int]:
    """Two records to one."""
    return a[0], a[1] + b[1]


class SumAndCount(AggregateFunction[Any, tuple[int, int], tuple[int, int]]):
    """Sum of amounts, and how many."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]
