"""The changes of the matrix: calls of the fluent API for an operator, and what Flink must find after them.

All operators of a base hold the same state. Each change has an operator of its own, named after it, so that one
savepoint holds many changes and one restore shows them all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from pyspark_savepoint import Savepoint
from tests.oracle.evolution import Job
from tests.oracle.matrix.rows import Rows

Entries = list[Any]
KEYS = 30
ORDER = "POJO<evolve.Order>(id LONG, name STRING, total DOUBLE)"
KEYED_STATES: dict[str, Any] = {
    "count": "LONG",
    "order": ORDER,
    "recent": {"kind": "LIST", "type": "INT"},
    "spent": {"kind": "MAP", "key": "STRING", "type": "DOUBLE"},
    "sum": {"kind": "REDUCING", "type": "LONG"},
    "mean": {"kind": "AGGREGATING", "type": "TUPLE<LONG, DOUBLE>"},
    "timed": {"type": "STRING", "ttl": True},
    "pane": {"kind": "REDUCING", "type": "LONG", "windowed": True},
}
PLAIN_STATES: dict[str, Any] = {
    "list": {"kind": "LIST", "type": "STRING"},
    "union": {"kind": "UNION", "type": "LONG"},
    "rates": {"kind": "BROADCAST", "key": "STRING", "type": "DOUBLE"},
}
TIMERS = {"user-timers": "VOID", "window-timers": "TIME_WINDOW"}


@dataclass
class Operator:
    """States as they are described to the harness, and their content by state; timers by service and domain."""

    key: str | None
    states: dict[str, Any]
    timers: dict[str, str]
    entries: dict[str, Entries]

    @classmethod
    def keyed(cls, entries: Mapping[str, Entries] | None = None) -> Operator:
        """An operator with keyed state of every kind, windows and timers."""
        return cls("LONG", dict(KEYED_STATES), dict(TIMERS), copy.deepcopy(dict(entries or {})))

    @classmethod
    def plain(cls, entries: Mapping[str, Entries] | None = None) -> Operator:
        """An operator with operator state of every kind."""
        return cls(None, dict(PLAIN_STATES), {}, copy.deepcopy(dict(entries or {})))

    def described(self, uid: str) -> dict[str, Any]:
        """The operator for the harness."""
        if self.key is None:
            return {"uid": uid, "operatorStates": self.states}
        return {"uid": uid, "key": self.key, "states": self.states, "timers": self.timers}

    def without(self, name: str) -> None:
        """Forget a state or a timer service."""
        self.states.pop(name, None)
        self.timers.pop(name, None)
        self.entries = {state: found for state, found in self.entries.items() if state.partition("/")[0] != name}

    def renamed(self, old: str, new: str) -> None:
        """Give a state or a timer service another name."""
        for named in (self.states, self.timers):
            if old in named:
                named[new] = named.pop(old)
        for state in list(self.entries):
            head, slash, domain = state.partition("/")
            if head == old:
                self.entries[new + slash + domain] = self.entries.pop(state)

    def keep(self, keeps: Callable[[Any], bool]) -> None:
        """Keep the entries of some keys only."""
        self.entries = {state: [one for one in found if keeps(one[0])] for state, found in self.entries.items()}

    def mapped(self, name: str, change: Callable[[Any], Any]) -> None:
        """Change every value of a keyed state."""
        self.entries[name] = [[*place, change(value)] for *place, value in self.entries[name]]


Operators = dict[str, Operator]


@dataclass(frozen=True)
class Change:
    """One change: of the operator that has its name, or of more of them."""

    name: str
    #: The plan so far, the rows of the base, the operator.
    apply: Callable[[Savepoint, Rows, str], Savepoint]
    expect: Callable[[Operators, str], None]
    keyed: bool = True
    #: More operators that the base must have: ``{uid}`` is that of the change.
    others: tuple[str, ...] = ()

    @property
    def uids(self) -> list[str]:
        """The operators of the base that the change is about."""
        return [self.name, *(f"{self.name}, {other}" for other in self.others)]

    def base(self, entries: Mapping[str, Entries] | None = None) -> Operators:
        """The operators as the base has them."""
        return {uid: Operator.keyed(entries) if self.keyed else Operator.plain(entries) for uid in self.uids}


# -- keyed state ---------------------------------------------------------------------------------------------


def every_third(key: int) -> bool:
    """Keys that are deleted, or moved."""
    return key % 3 == 0


def deleted(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    return sp.remove_keys(uid, base.keyed_state(uid, state="count").where("key % 3 = 0").select("key"))


def values(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    """Every kind of state with other values."""
    told = {
        "count": "count + 1",
        "order": "named_struct('id', order.id - 1, 'name', upper(order.name), 'total', order.total / 2)",
        "recent": "transform(recent, x -> x + 1)",
        "spent": "transform_values(spent, (k, v) -> v * 2)",
        "sum": "sum * 2",
        "mean": "named_struct('f0', mean.f0 + 1, 'f1', mean.f1 / 4)",
        "timed": "concat(timed, '!')",
    }
    for name, sql in told.items():
        sp = sp.with_state(uid, name, base.keyed_state(uid, state=name).selectExpr("key", f"{sql} AS {name}"))
    return sp


def other_values(operators: Operators, uid: str) -> None:
    operator = operators[uid]
    operator.mapped("count", lambda value: value + 1)
    operator.mapped("order", lambda order: {**order, "fields": _order(order["fields"])})
    operator.mapped("recent", lambda elements: [element + 1 for element in elements])
    operator.mapped("spent", lambda entries: {"map": [[key, value * 2] for key, value in entries["map"]]})
    operator.mapped("sum", lambda value: value * 2)
    operator.mapped("mean", lambda pair: [pair[0] + 1, pair[1] / 4])
    operator.mapped("timed", lambda text: text + "!")


def _order(fields: dict[str, Any]) -> dict[str, Any]:
    name = fields["name"]
    return {"id": fields["id"] - 1, "name": name and name.upper(), "total": fields["total"] / 2}


def windows(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    return sp.with_state(uid, "pane", base.window_state(uid).selectExpr("key", "window", "pane * 3 AS pane"))


def types(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    for name, sql, kind in (
        ("count", "CAST(count AS STRING)", "STRING"),
        ("sum", "CAST(sum AS DOUBLE)", "DOUBLE"),
        ("timed", "key", "LONG"),
        ("recent", "transform(recent, x -> CAST(x AS STRING))", "LIST<STRING>"),
    ):
        rows = base.keyed_state(uid, state=name).selectExpr("key", f"{sql} AS {name}")
        sp = sp.with_state(uid, name, rows, types={name: kind})
    return sp


def other_types(operators: Operators, uid: str) -> None:
    operator = operators[uid]
    operator.states |= {
        "count": "STRING",
        "sum": {"kind": "REDUCING", "type": "DOUBLE"},
        "timed": {"type": "LONG", "ttl": True},
        "recent": {"kind": "LIST", "type": "STRING"},
    }
    operator.mapped("count", str)
    operator.mapped("sum", float)
    operator.mapped("recent", lambda elements: list(map(str, elements)))
    operator.entries["timed"] = [[key, place, key] for key, place, _ in operator.entries["timed"]]


def added(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    rows = base.keyed_state(uid, state="count").selectExpr("key", "key * 2 AS more")
    return sp.with_state(uid, "more", rows, types={"more": "LONG"})


def one_more(operators: Operators, uid: str) -> None:
    operators[uid].states["more"] = "LONG"
    operators[uid].entries["more"] = [[key, None, key * 2] for key, *_ in operators[uid].entries["count"]]


def new_window(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    rows = base.window_state(uid).selectExpr("key", "window", "pane - 1 AS second")
    return sp.with_window_state(uid, rows, types={"second": "LONG"}, states={"second": "reducing"})


def one_more_window(operators: Operators, uid: str) -> None:
    operator = operators[uid]
    operator.states["second"] = operator.states["pane"]
    operator.entries["second"] = [[key, window, value - 1] for key, window, value in operator.entries["pane"]]


def fewer(sp: Savepoint, _base: Rows, uid: str) -> Savepoint:
    for name in ("count", "spent", "pane", "user-timers"):
        sp = sp.remove_state(uid, name)
    return sp


def removed(operators: Operators, uid: str) -> None:
    for name in ("count", "spent", "pane", "user-timers"):
        operators[uid].without(name)


RENAMED = {"count": "counted", "recent": "latest", "pane": "window pane", "user-timers": "timers", "timed": "kept"}


def renamed(sp: Savepoint, _base: Rows, uid: str) -> Savepoint:
    for old, new in RENAMED.items():
        sp = sp.rename_state(uid, old, new)
    return sp


def under_new_names(operators: Operators, uid: str) -> None:
    for old, new in RENAMED.items():
        operators[uid].renamed(old, new)


def later(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    """Other timers in place of those that are there, and those of one more service."""
    rows = base.timers(uid).where("service = 'user-timers'")
    moved = rows.selectExpr("key", "timestamp + 5 AS timestamp", "domain", "service")
    more = rows.selectExpr("key", "timestamp + 7 AS timestamp", "domain", "'second' AS service")
    return sp.remove_state(uid, "user-timers").with_timers(uid, moved).with_timers(uid, more, state="second")


def at_later_times(operators: Operators, uid: str) -> None:
    operator = operators[uid]
    operator.timers["second"] = "VOID"
    for domain in ("eventTime", "processingTime"):
        there = operator.entries[f"user-timers/{domain}"]
        operator.entries[f"user-timers/{domain}"] = [[key, time + 5] for key, time in there]
        operator.entries[f"second/{domain}"] = [[key, time + 7] for key, time in there]


# -- keys ----------------------------------------------------------------------------------------------------


def as_text(sp: Savepoint, _base: Rows, uid: str) -> Savepoint:
    return sp.rekey(uid, types={"key": "STRING"})


def computed(sp: Savepoint, _base: Rows, uid: str) -> Savepoint:
    """With Spark an expression; without, a function."""
    if hasattr(sp, "spark"):
        return sp.rekey(uid, "key * 7919 + 1")
    return sp.rekey(uid, lambda batch: pc.add(pc.multiply(batch["key"], 7919), 1))


def in_pairs(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    rows = base.keyed_state(uid, state="count")
    pairs = rows.selectExpr("key", "named_struct('f0', key * 3, 'f1', concat('n', key)) AS new_key")
    return sp.rekey(uid, pairs, types={"key": "TUPLE<LONG, STRING>"})


def under_other_keys(key_type: str, new: Callable[[Any], Any]) -> Callable[[Operators, str], None]:
    def expected(operators: Operators, uid: str) -> None:
        operator = operators[uid]
        operator.key = key_type
        operator.entries = {
            state: [[new(key), *rest] for key, *rest in found] for state, found in operator.entries.items()
        }

    return expected


# -- operators -----------------------------------------------------------------------------------------------


def gone(operators: Operators, uid: str) -> None:
    del operators[uid]


def moved(operators: Operators, uid: str) -> None:
    operators[f"{uid}, moved"] = operators.pop(uid)


def copied(operators: Operators, uid: str) -> None:
    operators[f"{uid}, copy"] = copy.deepcopy(operators[uid])


def split_by_states(sp: Savepoint, _base: Rows, uid: str) -> Savepoint:
    return sp.copy_operator(uid, f"{uid}, copy").remove_state(uid, "count").remove_state(f"{uid}, copy", "spent")


def two_with_some_states(operators: Operators, uid: str) -> None:
    copied(operators, uid)
    operators[uid].without("count")
    operators[f"{uid}, copy"].without("spent")


def split_by_keys(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    keys = base.keyed_state(uid, state="count").select("key")
    two = sp.copy_operator(uid, f"{uid}, copy")
    kept = two.remove_keys(uid, keys.where("key % 3 = 0"))
    return kept.remove_keys(f"{uid}, copy", keys.where("key % 3 <> 0"))


def two_with_some_keys(operators: Operators, uid: str) -> None:
    copied(operators, uid)
    operators[uid].keep(lambda key: not every_third(key))
    operators[f"{uid}, copy"].keep(every_third)


def merged(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    """Merge two operators: some keys of each, and a state that only the second one has."""
    other = f"{uid}, other"
    keys = base.keyed_state(uid, state="count").select("key")
    sp = sp.remove_keys(uid, keys.where("key % 3 = 0")).remove_keys(other, keys.where("key % 3 <> 0"))
    return sp.remove_state(uid, "sum").merge_operator(other, into=uid)


def into_one(operators: Operators, uid: str) -> None:
    first, second = operators[uid], operators.pop(f"{uid}, other")
    first.keep(lambda key: not every_third(key))
    second.keep(every_third)
    first.entries["sum"] = []
    for name, entries in second.entries.items():
        first.entries[name] = first.entries[name] + entries


def bootstrapped(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    rows = base.keyed_state(uid, state="count").selectExpr(
        "key AS id", "key AS n", "array(key, 7L) AS l", "map('a', key) AS m"
    )
    return sp.with_operator(f"{uid}, new", rows, key="id")


def with_a_new_one(operators: Operators, uid: str) -> None:
    keys = [key for key, *_ in operators[uid].entries["count"]]
    states = {"n": "LONG", "l": {"kind": "LIST", "type": "LONG"}, "m": {"kind": "MAP", "key": "STRING", "type": "LONG"}}
    made = {"n": lambda key: key, "l": lambda key: [key, 7], "m": lambda key: {"map": [["a", key]]}}
    entries = {name: [[key, None, value(key)] for key in keys] for name, value in made.items()}
    operators[f"{uid}, new"] = Operator("LONG", states, {}, entries)


def taken(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    """The operator of another savepoint in place of its own, changed."""
    return sp.remove_operator(uid).with_operator(uid, deleted(base.savepoint, base, uid))


# -- operator state ------------------------------------------------------------------------------------------


def plain_values(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    texts = base.operator_state(uid, "list").selectExpr("upper(value) AS value")
    numbers = base.operator_state(uid, "union").selectExpr("value + 1 AS value")
    rates = base.operator_state(uid, "rates").selectExpr("key", "value * 2 AS value")
    return sp.with_state(uid, "list", texts).with_state(uid, "union", numbers).with_state(uid, "rates", rates)


def other_plain_values(operators: Operators, uid: str) -> None:
    entries = operators[uid].entries
    entries["list"] = [text.upper() for text in entries["list"]]
    entries["union"] = [number + 1 for number in entries["union"]]
    entries["rates"] = [[key, value * 2] for key, value in entries["rates"]]


def plain_new(sp: Savepoint, base: Rows, uid: str) -> Savepoint:
    sp = sp.with_list_state(uid, "list 2", base.operator_state(uid, "union").select("value"))
    sp = sp.with_union_state(uid, "union 2", base.operator_state(uid, "list").select("value"))
    return sp.with_broadcast_state(uid, "rates 2", base.operator_state(uid, "rates"))


def more_plain(operators: Operators, uid: str) -> None:
    operator = operators[uid]
    operator.states |= {
        "list 2": {"kind": "LIST", "type": "LONG"},
        "union 2": {"kind": "UNION", "type": "STRING"},
        "rates 2": operator.states["rates"],
    }
    entries = operator.entries
    entries |= {"list 2": entries["union"], "union 2": entries["list"], "rates 2": entries["rates"]}


def plain_renamed(sp: Savepoint, _base: Rows, uid: str) -> Savepoint:
    return sp.rename_state(uid, "list", "elements").rename_state(uid, "rates", "currencies").remove_state(uid, "union")


def plain_under_new_names(operators: Operators, uid: str) -> None:
    operators[uid].renamed("list", "elements")
    operators[uid].renamed("rates", "currencies")
    operators[uid].without("union")


def same(sp: Savepoint, _base: Rows, _uid: str) -> Savepoint:
    return sp


def as_it_was(_operators: Operators, _uid: str) -> None:
    pass


CHANGES = {
    change.name: change
    for change in (
        Change("nothing", same, as_it_was),
        Change("nothing, operator state", same, as_it_was, keyed=False),
        Change("remove_keys", deleted, lambda operators, uid: operators[uid].keep(lambda key: not every_third(key))),
        Change("with_state, values", values, other_values),
        Change(
            "with_state, windows",
            windows,
            lambda operators, uid: operators[uid].mapped("pane", lambda value: value * 3),
        ),
        Change("with_state, types", types, other_types),
        Change("with_state, new", added, one_more),
        Change("with_window_state", new_window, one_more_window),
        Change("remove_state", fewer, removed),
        Change("rename_state", renamed, under_new_names),
        Change("with_timers", later, at_later_times),
        Change("rekey, type", as_text, under_other_keys("STRING", str)),
        Change("rekey, expression", computed, under_other_keys("LONG", lambda key: key * 7919 + 1)),
        Change("rekey, rows", in_pairs, under_other_keys("TUPLE<LONG, STRING>", lambda key: [key * 3, f"n{key}"])),
        Change("with_state, operator state", plain_values, other_plain_values, keyed=False),
        Change("with_list_state, with_union_state, with_broadcast_state", plain_new, more_plain, keyed=False),
        Change("rename_state, remove_state, operator state", plain_renamed, plain_under_new_names, keyed=False),
        Change("remove_operator", lambda sp, _base, uid: sp.remove_operator(uid), gone),
        Change(
            "change_operator_identifier",
            lambda sp, _base, uid: sp.change_operator_identifier(uid, f"{uid}, moved"),
            moved,
        ),
        Change("copy_operator", lambda sp, _base, uid: sp.copy_operator(uid, f"{uid}, copy"), copied),
        Change(
            "copy_operator, operator state",
            lambda sp, _base, uid: sp.copy_operator(uid, f"{uid}, copy"),
            copied,
            keyed=False,
        ),
        Change("split by states", split_by_states, two_with_some_states),
        Change("split by keys", split_by_keys, two_with_some_keys),
        Change("merge_operator", merged, into_one, others=("other",)),
        Change("with_operator, rows", bootstrapped, with_a_new_one),
        Change(
            "with_operator, another savepoint's",
            taken,
            lambda operators, uid: operators[uid].keep(lambda key: not every_third(key)),
        ),
    )
}


def change_of(uid: str) -> str:
    """The change that an operator belongs to: its uid begins with the name."""
    return max((name for name in CHANGES if f"{uid}, ".startswith(f"{name}, ")), key=len)


def job_of(operators: Operators, **settings: Any) -> Job:
    """The job of these operators."""
    return {"parallelism": 2, "operators": [each.described(uid) for uid, each in operators.items()], **settings}
