"""What to do about an operator whose types changed: the verb that makes its state fit the job.

=============================================== ===================================================================
a class with another name, and else the same     ``rename_class``, where the serializers fit afterwards
a key of another type                            ``rekey``
a state of another type                          ``with_state``, with the rows as they should be, and the new type; or
                                                 ``remove_state``, where it begins empty
a state that the job does not register, where     ``rename_state``, if the two have one type, and no others have it
it has a new one of the same type
=============================================== ===================================================================

A suggestion begins with "if": whether the two are the same, only the job knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.jobs.compatibility import Compatibility, Resolution
from pyspark_savepoint.statebackends.jobs.restore.job_description import ALWAYS_THERE, StateDescription, StateMetas
from pyspark_savepoint.statebackends.rows.state_column import unwrap
from pyspark_savepoint.statebackends.types.class_names import ClassRename, names_in

#: Compares a serializer of the snapshot with one of the job.
Resolve = Callable[[TypeSerializer, TypeSerializer], Resolution]
#: How a type is given that has no text: by a savepoint that the new job wrote.
OF_NEW_JOB = "types_from='SAVEPOINT#UID'"
#: Names of the fields of a row without names.
PLACE = re.compile(r"f\d+")


@dataclass(frozen=True)
class Changed:
    """A part of an operator that does not fit: its state (None: the key), and its serializers before and after.

    ``column`` is that of the rows which replace it, and ``kind`` the kind of state that it becomes, if that is another.
    """

    state: str | None
    old: TypeSerializer
    new: TypeSerializer
    resolve: Resolve
    column: str = "key"
    kind: str | None = None


@dataclass(frozen=True)
class Suggestion:
    """What to do, and the states that it is about."""

    text: str
    states: tuple[str, ...] = ()


def suggestions(operator: str, changed: Sequence[Changed]) -> list[Suggestion]:
    """Return what to do about the changed parts of an operator, which is named as verbs take it."""
    states: dict[ClassRename, list[str]] = {}
    for one in changed:
        for rename in _renames(one):
            states.setdefault(rename, []).extend([] if one.state is None else [one.state])
    result = [
        Suggestion(f"if {one.old} is {one.new} now: rename_class({one.old!r}, {one.new!r})", tuple(names))
        for one, names in states.items()
    ]
    for one in changed:
        if _renames(one):
            continue
        if one.state is None:
            kinds = [one.old.arrow_type(DecodeOptions()), one.new.arrow_type(DecodeOptions())]
            if any(map(pa.types.is_nested, kinds)):
                rekeyed = f"rekey({operator}, rows, {_given_type(one)}) takes rows with columns key and new_key"
            else:
                rekeyed = (
                    f"if the keys are the same in another type: rekey({operator}, {_given_type(one)}), which also "
                    "takes rows with what each key becomes"
                )
            result.append(Suggestion(f"{rekeyed}; else keep the type of the key in the job"))
        else:
            what = _fields(one) or f"state {one.state} has another type"
            written = f"with_state({operator}, {one.state!r}, rows, {_given_type(one)})"
            result.append(
                Suggestion(
                    f"{what}: {written} writes it with rows of the new type, or "
                    f"remove_state({operator}, {one.state!r}) lets it begin empty",
                    (one.state,),
                )
            )
    return result


def _given_type(changed: Changed) -> str:
    """Return the arguments of a verb that give the new type, and the kind of state if it changes."""
    text = changed.new.flink_type
    try:
        is_text = parse_type(text).flink_type == text
    except SavepointError:
        is_text = False
    kind = "" if changed.kind is None else f", states={{{changed.column!r}: {changed.kind.lower()!r}}}"
    return (f"types={{{changed.column!r}: {text!r}}}" if is_text else OF_NEW_JOB) + kind


def _renames(changed: Changed) -> tuple[ClassRename, ...]:
    """Return the names of classes that changed, if the serializers fit with the new ones; else none."""
    old, new = (
        [name for name in names_in(one) if "." in name and not name.startswith((*ALWAYS_THERE, "["))]
        for one in (changed.old, changed.new)
    )
    missing, come = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    pairs = []
    for name in list(missing):
        alike = [other for other in come if _simple(other) == _simple(name)]
        if len(alike) == 1:
            pairs.append((name, alike[0]))
            missing.remove(name)
            come.remove(alike[0])
    if len(missing) == len(come) == 1:
        pairs.append((missing[0], come[0]))
    elif missing or come:
        return ()
    renames = tuple(dict.fromkeys(ClassRename(*_outer(one, other)) for one, other in pairs))
    renamed = changed.old
    try:
        for rename in renames:
            renamed = rename.serializer(renamed)
        fits = changed.resolve(renamed, changed.new).verdict is not Compatibility.INCOMPATIBLE
    except SavepointError:
        return ()
    return renames if fits else ()


def _simple(name: str) -> str:
    return name.rpartition(".")[2].rpartition("$")[2]


def _outer(old: str, new: str) -> tuple[str, str]:
    """Return the names without the classes inside that both have: the class around them moved."""
    one, other = old.split("$"), new.split("$")
    while len(one) > 1 and len(other) > 1 and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return "$".join(one), "$".join(other)


def _fields(changed: Changed) -> str | None:
    """Return which fields were added and removed; None if the values are no rows, or have the same fields."""
    kinds = [_row(unwrap(one).arrow_type(DecodeOptions())) for one in (changed.old, changed.new)]
    if not all(map(pa.types.is_struct, kinds)):
        return None
    before, after = ([field.name for field in kind] for kind in kinds)
    if all(map(PLACE.fullmatch, before)) or all(map(PLACE.fullmatch, after)):
        added, removed = after[len(before) :], before[len(after) :]  # a row without names, which goes by places
    else:
        added, removed = (
            [name for name in one if name not in other] for one, other in ((after, before), (before, after))
        )
    field_texts = [
        f"{'field' if len(names) == 1 else 'fields'} {', '.join(map(repr, names))} of state {changed.state} "
        f"{'was' if len(names) == 1 else 'were'} {what}"
        for names, what in ((added, "added"), (removed, "removed"))
        if names
    ]
    return ", and ".join(field_texts) or None


def renamed_states(operator: str, old: StateMetas, new: Mapping[str, StateDescription] | None) -> list[str]:
    """Return pairs of states where one begins empty and the other is not used, of one type that no others have."""
    if not new:
        return []
    missing = [
        (name, (metas[0].state_type, metas[0].value_serializer)) for name, metas in old.items() if name not in new
    ]
    come = [
        (name, (state.kind, state.serializer)) for name, state in new.items() if name not in old and state.is_readable
    ]
    return [
        f"if {other!r} is {name!r} of the snapshot: rename_state({operator}, {name!r}, {other!r})"
        for name, kind in missing
        for other, same in come
        if kind == same and _count(missing, kind) == _count(come, kind) == 1
    ]


def _row(kind: pa.DataType) -> pa.DataType:
    """Return the type of the elements of a list, and of the values of a map; else the type itself."""
    if pa.types.is_map(kind):
        return kind.item_type
    return kind.value_type if pa.types.is_list(kind) else kind


def _count(states: Iterable[tuple[str, object]], kind: object) -> int:
    return sum(other == kind for _, other in states)
