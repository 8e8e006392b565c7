"""Changes of the state of ``keyed_models``: applied to the model, and as bytes of a log as Flink writes it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import cramjam
import pyarrow as pa
from hypothesis import strategies as st

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.formats.keyed.changelog import ChangeSource, FileChanges, InlineChanges
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot, write_state_meta
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, key_group_for_hash
from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogSource
from tests.statebackends.keyed_models import (
    LIST,
    LONG,
    MAP,
    STATES,
    STRING,
    VALUES,
    Model,
    Written,
    longs,
    names,
    one,
    write,
)

CLEAR, SET, SET_INTERNAL, ADD, MERGE, ADD_ELEMENT, UPDATE, REMOVE, METADATA = range(9)
#: A Java object stream that contains only null, in place of a TTL.
JAVA_NULL = bytes.fromhex("aced000570")
#: Few keys, so that changes meet.
keys = st.integers(-3, 3)
few = st.sampled_from(["", "a", "b", "ü"])
windows = st.sampled_from([(0, 10), (10, 20), (5, 30)])


@dataclass(frozen=True)
class Change:
    """What happens to a key's state."""

    key: int
    state: str
    operation: int
    data: Any = None


def _of(state: str, operation: int, data: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Change]:
    return st.builds(Change, keys, st.just(state), st.just(operation), st.none() if data is None else data)


items = st.lists(st.integers(-5, 5), max_size=3)
changes: st.SearchStrategy[list[Change]] = st.lists(
    st.one_of(
        _of("total", SET, longs),
        _of("total", CLEAR),
        _of("name", SET_INTERNAL, st.none() | names),
        _of("items", SET, items),
        _of("items", SET_INTERNAL, items),
        _of("items", ADD, items),
        _of("items", ADD_ELEMENT, st.integers(-5, 5)),
        _of("items", CLEAR),
        _of("by_name", ADD, st.dictionaries(few, st.none() | longs, max_size=3)),
        _of("by_name", ADD_ELEMENT, st.tuples(few, longs)),
        _of("by_name", UPDATE, st.tuples(few, longs)),
        _of("by_name", REMOVE, few),
        _of("by_name", CLEAR),
        _of("sums", SET_INTERNAL, st.tuples(windows, longs)),
        _of("sums", CLEAR, windows.map(lambda window: (window,))),
        _of("sums", MERGE, st.permutations([(0, 10), (10, 20), (5, 30)])),
    ),
    max_size=25,
)
#: Where changes begin: keys that changes meet, with some of the states each.
bases: st.SearchStrategy[Model] = st.dictionaries(
    st.integers(-4, 4), st.fixed_dictionaries({}, optional=dict(VALUES)).filter(bool), max_size=5
)


def possible(model: Model, log: Sequence[Change]) -> list[Change]:
    """The changes without mergers of values that only the job's function can merge."""
    kept: list[Change] = []
    for change in log:
        if change.operation == MERGE:
            sums = applied(model, kept).get(change.key, {}).get("sums", {})
            if sum(window in sums for window in change.data) > 1:
                continue
        kept.append(change)
    return kept


def applied(model: Model, log: Sequence[Change]) -> Model:
    """The model after some changes, without what is empty."""
    model = deepcopy(model)
    for change in log:
        _apply(model.setdefault(change.key, {}), change)
    return {key: states for key, states in model.items() if states}


def _apply(states: dict[str, Any], change: Change) -> None:
    state, operation, data = change.state, change.operation, change.data
    if state == "sums":
        sums = states.setdefault("sums", {})
        if operation == MERGE:
            target, *sources = data
            found = [sums.pop(window) for window in sources if window in sums]
            sums |= {target: found[0]} if found else {}
        elif operation == CLEAR:
            sums.pop(data[0], None)
        else:
            sums[data[0]] = data[1]
    elif operation == CLEAR:
        states.pop(state, None)
    elif state in ("total", "name"):
        states[state] = data
    elif state == "items":
        before = [] if operation in (SET, SET_INTERNAL) else states.get(state, [])
        states[state] = before + ([data] if operation == ADD_ELEMENT else list(data))
    elif operation == REMOVE:
        states.get(state, {}).pop(data, None)
    else:
        states.setdefault(state, {}).update(data if operation == ADD else [data])
    if state in ("items", "by_name", "sums") and not states.get(state, True):
        del states[state]


# -- bytes -----------------------------------------------------------------------------------------------------------


def registration(meta: StateMetaInfoSnapshot, state_id: int, *, ttl: bool = False, default: bytes = b"") -> bytes:
    """The change that registers a state."""
    out = DataOutputView()
    out.write_u8(METADATA)
    out.write_i32(7)
    write_state_meta(meta, out)
    if meta.kind == 0:
        out.write_bool(ttl)
        out.write(JAVA_NULL if ttl else b"")
        out.write_bool(bool(default))
        out.write(default)
    out.write_i16(state_id)
    out.write_u8(int(meta.kind))
    return bytes(out.getvalue())


def change_bytes(change: Change, state_id: int) -> bytes:
    """One change."""
    head = bytes([change.operation]) + state_id.to_bytes(2, "big") + one(LONG, change.key)
    if change.state != "sums":
        return head + b"\0" + _data(change)
    window = _window(change.data[0])
    if change.operation == CLEAR:
        return head + window
    if change.operation == SET_INTERNAL:
        return head + window + one(LONG, change.data[1])
    target, *sources = map(_window, change.data)
    return head + window + target + len(sources).to_bytes(4, "big") + b"".join(sources)


def _window(window: tuple[int, int]) -> bytes:
    return b"".join(edge.to_bytes(8, "big", signed=True) for edge in window)


def _data(change: Change) -> bytes:
    if change.operation == CLEAR:
        return b""
    if change.state in ("total", "name"):
        return one(LONG if change.state == "total" else STRING, change.data)
    if change.state == "items":
        single = change.operation == ADD_ELEMENT
        return change.data.to_bytes(4, "big", signed=True) if single else one(LIST, change.data)
    if change.operation == ADD:
        return one(MAP, list(change.data.items()))
    if change.operation == REMOVE:
        return one(STRING, change.data)
    return one(STRING, change.data[0]) + one(LONG, change.data[1])


def group_of(key: int, max_parallelism: int) -> int:
    """The key group of a key."""
    return key_group_for_hash(int(LONG.java_hash(pa.array([key], pa.int64()))[0]), max_parallelism)


def logged(log: Sequence[Change], max_parallelism: int, first_id: int = 0) -> list[tuple[int, bytes]]:
    """(key group, change) of changes, with the registrations that they need in front of each state's first."""
    ids: dict[str, int] = {}
    found = []
    for change in log:
        if change.state not in ids:
            ids[change.state] = first_id + len(ids)
            meta = next(meta for meta in STATES if meta.name == change.state)
            default = one(LONG, 7) if change.state == "total" else b""
            ttl = change.state == "name"
            found.append((-1, registration(meta, ids[change.state], ttl=ttl, default=default)))
        found.append((group_of(change.key, max_parallelism), change_bytes(change, ids[change.state])))
    return found


def change_set(log: Sequence[tuple[int, bytes]]) -> bytes:
    """A change set of a file: by key group, registrations first."""
    groups: dict[int, list[bytes]] = {}
    for group, change in log:
        groups.setdefault(group, []).append(change)
    out = DataOutputView()
    out.write_i32(len(groups))
    for group in sorted(groups):
        out.write_i32(len(groups[group]))
        out.write_i32(group)
        for change in groups[group]:
            out.write_blob(change)
    return bytes(out.getvalue())


def changelog_file(sets: Sequence[bytes], compressed: bool) -> tuple[FileChanges, ...]:
    """A file of change sets, and a source for each."""
    content = b"".join(sets)
    data = b"\1" + bytes(cramjam.snappy.compress(content)) if compressed else b"\0" + content
    location = InlineLocation("the changelog", data)
    starts = [sum(map(len, sets[:i])) for i in range(len(sets))]
    return tuple(FileChanges(location, start) for start in starts)


def changed(
    model: Model | None,
    parts: Sequence[Sequence[Change]],
    *,
    heap: bool = False,
    how: str = "plain",
    max_parallelism: int = 4,
) -> Written:
    """A model (None: nothing was written as a whole) and the changes since, in as many change sets as parts."""
    whole = [] if model is None else [write(model, heap=heap, max_parallelism=max_parallelism).source]
    logs = [logged(part, max_parallelism, first_id=10 * i) for i, part in enumerate(parts)]
    sources: tuple[ChangeSource, ...]
    if how == "inline":
        sources = tuple(InlineChanges("the metadata", tuple(log)) for log in logs)
    else:
        sources = changelog_file([change_set(log) for log in logs], how == "compressed")
    size = sum(len(change) for log in logs for _, change in log)
    groups = KeyGroupRange(0, max_parallelism - 1)
    source = ChangelogSource(
        "the snapshot", tuple(whole), sources, size, groups, max_parallelism, "the operator", None if whole else LONG
    )
    return Written(source, max_parallelism)
