"""What rows keep of states that exist: the kind, the time to live, and the types. One answer for every way to write.

===============  ==========================================  ==========================================================
what             no option gives it                          an option gives it
===============  ==========================================  ==========================================================
kind             that of the state                           ``states``, ``kind``
type             the state's and the key's own serializers   ``types``, ``typesFrom``
time to live     that of the state                           ``ttl``: ``true`` or a name adds one, ``false`` removes it
compression      that of the operator's keyed state          ``compression``
max parallelism  that of the operator, of a new one that of  ``maxParallelism`` of a new operator; that of an existing
                 most operators of the savepoint             one is refused
===============  ==========================================  ==========================================================

``df.write`` and SQL ask here in ``connector/write/in_place.py``; the verbs of ``Savepoint``, and so ``open``,
``create`` and the command line, in ``connector/plan/state_inputs.py``. Both add the rows by ``plan/added_rows.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.keyed.keyed_block import constant_width
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState, SnapshotKind
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.statebackends.rows.descriptors import StateKind
from pyspark_savepoint.statebackends.rows.state_column import has_ttl, unwrap
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec, is_type_of

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

S = TypeVar("S", bound=WriteSpec)
KINDS = frozenset(kind.value for kind in StateKind if kind is not StateKind.TIMER)


def refuse_checkpoint(base: Snapshot) -> None:
    """Raise OptionError for a checkpoint, which belongs to its job."""
    if base.kind is SnapshotKind.CHECKPOINT:
        raise OptionError(
            "a checkpoint belongs to its job and cannot be written to",
            path=base.path,
            remedy="write a changed copy of it: Savepoint.load(spark, path).with_operator(...).write(new_path)",
        )


def keeping(spec: S, existing: Mapping[str, StateMetaInfoSnapshot]) -> S:
    """Return rows with the kinds and times to live of the states that they are written to, unless options change them.

    Args:
        spec: The rows.
        existing: The registrations of the states that exist, by column.

    Returns:
        The rows with ``states`` and ``ttl``, which name every such column.

    Raises:
        UnsupportedStateError: If options change a state of Flink's asynchronous API.

    """
    states, timed = dict(spec.states), list(spec.ttl) if isinstance(spec.ttl, tuple) else []
    for column, meta in existing.items():
        if meta.kind is BackendStateType.KEY_VALUE_V2:
            _refuse_change(spec, column, meta.name)
        if meta.state_type in KINDS:
            states.setdefault(column, meta.state_type.lower())
        if has_ttl(meta) and column not in timed:
            timed.append(column)
    return replace(spec, states=states, ttl=spec.ttl if isinstance(spec.ttl, bool) else tuple(timed) or None)


def _refuse_change(spec: WriteSpec, column: str, state: str) -> None:
    """Raise UnsupportedStateError if options change a state whose registration cannot be written anew."""
    own = any(is_type_of(path, column) for path in spec.types)
    if own or column in spec.states or spec.has_ttl(column) is not None:
        raise UnsupportedStateError(
            "the type of a state of Flink's asynchronous API cannot be changed",
            operator=spec.operator,
            state=state,
            remedy="leave option 'types', option 'states' and option 'ttl' out: its values can be replaced as they are",
        )


def state_of_column(column: str, states: Collection[str]) -> str:
    """Return the state's name of a column: a state read as ``state_key``, as ``key`` was taken, is ``key`` again."""
    plain = column.removeprefix("state_")
    return plain if column not in states and plain in states else column


def refuse_other_case(names: Iterable[str], states: Iterable[str], operator: str) -> None:
    """Raise OptionError for the name of a new state that differs from an existing one in upper and lower case alone."""
    existing = set(states)
    folded = {state.casefold(): state for state in existing}
    for name in names:
        other = folded.get(name.casefold())
        if other is not None and name not in existing:
            raise OptionError(
                "a state has this name in other upper and lower case, and Flink tells them apart",
                operator=operator,
                expected=repr(other),
                found=repr(name),
                remedy=f"name it {other!r}; a new state needs a name of its own",
            )


def expect_keys(meta: StateMetaInfoSnapshot, operator: str) -> None:
    """Raise UnsupportedStateError for a state whose rows cannot be told by their keys, so that none is updated."""
    if meta.state_type in ("LIST", "UNION") and meta.kind is BackendStateType.OPERATOR:
        raise UnsupportedStateError(
            "the elements of this state have no keys, so none of them can be updated",
            operator=operator,
            state=meta.name,
            found=f"operator state of kind {meta.state_type.lower()}",
            remedy="read its elements, change them, and write all of them: with_state(...) replaces the state",
        )
    if (
        meta.state_type == "MAP"
        and meta.kind is BackendStateType.KEY_VALUE
        and constant_width(meta.namespace_serializer) < 0
    ):
        raise UnsupportedStateError(
            "maps of windows whose types vary in length cannot be updated by key and window",
            operator=operator,
            state=meta.name,
            found=f"windows of type {meta.namespace_serializer.flink_type}",
            remedy="with_state(...) replaces all of it",
        )


def expect_same_state(written: StateMetaInfoSnapshot, existing: StateMetaInfoSnapshot, operator: str) -> None:
    """Raise OptionError unless rows that are laid over a state have its kind and type, which other keys keep."""
    ours, theirs = (
        {role: unwrap(meta.serializers[role]).flink_type for role in written.serializers if role in meta.serializers}
        for meta in (written, existing)
    )
    if (written.state_type, ours) != (existing.state_type, theirs):
        raise OptionError(
            "rows that update a state have its kind and type: other keys keep what they have",
            operator=operator,
            state=existing.name,
            expected=" ".join([existing.state_type.lower(), *theirs.values()]),
            found=" ".join([written.state_type.lower(), *ours.values()]),
            remedy="leave option 'types', option 'states' and option 'ttl' out; to change the type, replace the whole "
            "state",
        )


def usual_max_parallelism(operators: Iterable[OperatorState]) -> int:
    """Return the max parallelism of operators that are added to a savepoint: that of most of its operators."""
    numbers = Counter(operator.max_parallelism for operator in operators)
    return numbers.most_common(1)[0][0] if numbers else DEFAULT_MAX_PARALLELISM
