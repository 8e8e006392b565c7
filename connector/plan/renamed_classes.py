"""Another name for a class of the job in all operators whose serializer snapshots have it; values stay as bytes.

Before an operator is written, its values are searched for the old name, which Kryo and POJOs of subclasses write into
values where a class is not registered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.errors import OptionError, SavepointError, UnsupportedStateError, did_you_mean, type_name
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.keyed_edits import base_read, with_states
from pyspark_savepoint.plan.operator_plan import (
    KEYED,
    OPERATOR,
    TIMERS,
    OperatorPlan,
    PlannedState,
    States,
    headers_of_bases,
)
from pyspark_savepoint.plan.savepoint_plan import Operators, SavepointPlan
from pyspark_savepoint.statebackends.rows.entry_bytes import KEY, STATE, VALUE
from pyspark_savepoint.statebackends.rows.key_codec import key_text
from pyspark_savepoint.statebackends.types.class_names import ClassRename, may_name_classes, names_in, traces_of

#: The name of a Java class; inner classes have a dollar sign.
CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
MATCHES = pa.schema([pa.field("state", pa.int32()), pa.field("key", pa.binary()), pa.field("number", pa.int32())])
#: Bytes of operator state that are searched at a time.
WINDOW = 16 << 20


@dataclass(frozen=True)
class EntriesWith:
    """Function from entries to the first one whose key or value has one of some bytes."""

    traces: tuple[tuple[int, bytes], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each batch that has one."""
        for batch in batches:
            for number, trace in self.traces:
                hit = pc.or_(*(pc.match_substring(batch.column(name), trace) for name in (KEY, VALUE)))
                row = hit.index(True).as_py()
                if row >= 0:
                    columns = [batch.column(STATE)[row : row + 1], batch.column(KEY)[row : row + 1]]
                    yield pa.RecordBatch.from_arrays([*columns, pa.array([number], pa.int32())], schema=MATCHES)
                    break


@dataclass(frozen=True)
class NoValueNames:
    """Check that no value of an operator has the old name of a class; ``plan`` is that of the values."""

    engine: Engine
    plan: OperatorPlan
    keyed: tuple[PlannedState, ...]
    of_operator: tuple[PlannedState, ...]
    is_implied: bool = False

    @classmethod
    def of(cls, engine: Engine, plan: OperatorPlan, *, new_keys: bool) -> NoValueNames:
        """Search the states that have new names (``new_keys``: all), and those whose values may name any class."""
        names = {rename.new for rename in plan.class_renames}

        def searched(*kinds: str) -> tuple[PlannedState, ...]:
            states = plan.of_kind(*kinds) if plan.edited & set(kinds) else ()
            return tuple(one for one in states if _may_name(one) or not names.isdisjoint(_names(one)))

        keyed = tuple(plan.of_kind(KEYED, TIMERS)) if new_keys else searched(KEYED, TIMERS)
        return cls(engine, plan, keyed, searched(OPERATOR))

    def run(self, _: OperatorPlan) -> None:
        """Raise UnsupportedStateError for the first value that has one."""
        traces = tuple(
            (number, one) for number, rename in enumerate(self.plan.class_renames) for one in traces_of(rename.old)
        )
        if self.keyed:
            entries = self.engine.read(base_read(self.plan, list(self.keyed), with_keys=False))
            found = entries.mapped(EntriesWith(traces), MATCHES).first()
            if found is not None:
                state = self.keyed[found["state"]].name
                key = key_text(self.plan.key_serializer, bytes(found["key"]), state)
                raise self._named(self.plan.class_renames[found["number"]], state, key)
        for state, number in self._in_operator_state(traces):
            raise self._named(self.plan.class_renames[number], state, None)

    def _in_operator_state(self, traces: Sequence[tuple[int, bytes]]) -> Iterator[tuple[str, int]]:
        """Yield states of the operator with elements that have the bytes."""
        base = self.plan.base
        if base is None or not self.of_operator:
            return
        for source, header in zip(base.opened.streams, base.opened.stream_headers, strict=True):
            with source.location.open() as opened:
                stream = source.stream(opened, header)
                for state in self.of_operator:
                    for buffer, pieces, _ in stream.windows(np.sort(source.offsets(state.origin)), WINDOW):
                        data = bytes(buffer[int(pieces.start.min(initial=0)) : int(pieces.end.max(initial=0))])
                        yield from ((state.name, number) for number, trace in traces if trace in data)

    def _named(self, rename: ClassRename, state: str, key: str | None) -> UnsupportedStateError:
        return UnsupportedStateError(
            f"a value names the class {rename.old!r} itself, so the name cannot change without the value",
            operator=self.plan.label,
            state=state,
            key=None if key is None else key.removeprefix("key "),
            found="a class that Kryo or a POJO does not have registered, or an object stream of Java",
            remedy="read the state with the old classes, and write it with the new ones: with_state(uid, name, rows, "
            "types={...}); or remove_state leaves it out",
        )


def with_renamed_class(
    engine: Engine, plan: SavepointPlan, old: object, new: object, named: Collection[OperatorRef] | None
) -> SavepointPlan:
    """Return the plan with another name for a class, in the named operators, by default in all that have it."""
    rename = _rename(old, new)
    chosen = plan.operators if named is None else tuple(plan.operator(one) for one in named)
    changed: dict[int, OperatorPlan] = {}
    known: set[str] = set()
    problem: SavepointError | None = None
    with headers_of_bases([operator.base for operator in chosen]):
        for operator in chosen:
            try:
                stated = with_states(operator)
            except SavepointError as error:
                if named is not None:
                    raise
                problem = problem or error.with_facts(operator=operator.label)
                continue
            known |= {name for one in _serializers(stated) for name in names_in(one)}
            renamed = _renamed(engine, stated, rename)
            if renamed is not None:
                changed[id(operator)] = renamed
    if not changed:
        if problem is not None:
            raise problem
        own = [name for name in known if not name.startswith(("java.", "scala.", "org.apache."))]
        raise OptionError(
            f"no serializer snapshot names the class {rename.old!r}",
            expected=", ".join(sorted(own)[:10]) or "a savepoint with classes of the job",
            remedy=did_you_mean(rename.old, own) if own else "its values have built-in types, which need no new name",
        )
    return replace(plan, operators=Operators(changed.get(id(one), one) for one in plan.operators))


def _rename(old: object, new: object) -> ClassRename:
    for name in (old, new):
        if not isinstance(name, str) or not CLASS_NAME.fullmatch(name):
            raise OptionError(
                "a class is given by its name in Java",
                expected="such as com.shop.Order, or com.shop.Order$Line for a class inside of another",
                found=repr(name) if isinstance(name, str) else type_name(name),
            )
    if old == new:
        raise OptionError("the new name of a class is the old one", found=repr(old))
    return ClassRename(str(old), str(new))


def _serializers(plan: OperatorPlan) -> Iterator[TypeSerializer]:
    if plan.key_serializer is not None:
        yield plan.key_serializer
    for state in plan.states or ():
        yield from state.meta.serializers.values()


def _renamed(engine: Engine, plan: OperatorPlan, rename: ClassRename) -> OperatorPlan | None:
    """Return the operator with the new name; None if it does not have the old one."""
    try:
        key = None if plan.key_serializer is None else rename.serializer(plan.key_serializer)
        states = [_state(state, rename) for state in plan.states or ()]
    except UnsupportedStateError as error:
        raise error.with_facts(operator=plan.label) from None
    before = plan.states or ()
    differ = [one for one, new in zip(before, states, strict=True) if one is not new]
    new_keys = key != plan.key_serializer
    if not differ and not new_keys:
        return None
    kinds = frozenset(one.kind for one in differ) | (frozenset({KEYED, TIMERS}) if new_keys else frozenset())
    kinds |= {KEYED, TIMERS} if kinds & {KEYED, TIMERS} else set()
    if any(one.inputs for one in before if one.kind in kinds):
        raise OptionError(
            "a class is renamed in state that is not written yet",
            operator=plan.label,
            remedy="rename_class first; or write the savepoint, and rename the class in the one that it returns",
        )
    edited = replace(
        plan,
        states=States(states),
        key_serializer=key,
        edited=plan.edited | kinds,
        class_renames=(*plan.class_renames, rename),
    )
    others = tuple(one for one in plan.checks if not isinstance(one, NoValueNames))
    return replace(edited, checks=(*others, NoValueNames.of(engine, edited, new_keys=new_keys)))


def _names(state: PlannedState) -> frozenset[str]:
    """Return the names of the classes of a state, and of those around them."""
    names = {name for one in state.meta.serializers.values() for name in names_in(one)}
    return frozenset(names | {name[:place] for name in names for place, sign in enumerate(name) if sign == "$"})


def _may_name(state: PlannedState) -> bool:
    return any(map(may_name_classes, state.meta.serializers.values()))


def _state(state: PlannedState, rename: ClassRename) -> PlannedState:
    serializers = {role: rename.serializer(one) for role, one in state.meta.serializers.items()}
    if all(new is state.meta.serializers[role] for role, new in serializers.items()):
        return state
    meta: StateMetaInfoSnapshot = replace(state.meta, serializers=serializers)
    return replace(state, meta=meta)
