"""Where a field of NEW comes from: what OLD has of the same meaning, an expression over it, a cast, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import (
    Backfilled,
    Cast,
    Constant,
    Emitted,
    Expression,
    FieldSource,
    Merge,
    Nested,
    OldField,
    OldKey,
    Rex,
    Verdict,
)
from pyspark_savepoint.statebackends.evolution.lineage import PROCESSING_TIME, Term, same_type
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.shapes import Column

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
TEXTS, BYTES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
GIVE = "give its values in argument 'backfill', or fill='initial' to begin with {what}"


@dataclass(frozen=True)
class Options:
    """What the user says."""

    fill: str = "refuse"
    backfill: frozenset[str] = frozenset()
    keeps_filters: bool = False
    casts: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    #: The names that decisions have looked up: what the user gives must be one of them.
    asked: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    #: Names of ``columns`` that decisions have followed: what the user gives must be one of them, too.
    followed: set[str] = field(default_factory=set, init=False, compare=False, repr=False)

    def backfill_of(self, node: int, name: str) -> str | None:
        """Return the name under which values are given; None if they are not."""
        return next((one for one in self._names(node, name) if one in self.backfill), None)

    def column_of(self, node: int, *names: str) -> str | None:
        """Return OLD's name of a column that has these names, as the user gives it; None if it is not given."""
        given = self._given(self.columns, node, names)
        return self.columns[given].rpartition(".")[2] if given is not None else None

    def follow(self, node: int, *names: str) -> None:
        """Keep that a column with these names gets the values of the one that the user names."""
        self.followed.update(one for name in names for one in self._names(node, name))

    def asks_cast(self, node: int, kind: LogicalType, *names: str) -> bool:
        """Return whether the user asks for a cast of a column of NEW that has these names.

        Raises:
            OptionError: If the user names another type than the column has.

        """
        given = self._given(self.casts, node, names)
        if given is not None:
            _expect_type(given, kind, self.casts[given])
        return given is not None

    def _given(self, of: Mapping[str, str], node: int, names: Iterable[str]) -> str | None:
        """Return the name by which the user gives something for a column."""
        known = [one for name in names for one in self._names(node, name)]
        return next((one for one in known if one in of), None)

    def refuse_unknown(self, fields: Iterable[tuple[int, str]]) -> None:
        """Raise OptionError for a name of ``casts``, ``columns`` or ``fields`` that is not a field of NEW."""
        for node, name in fields:
            self._names(node, name)
        for argument, given in (("casts", self.casts), ("columns", self.columns)):
            for name in given:
                if name not in self.asked:
                    raise OptionError(
                        f"argument '{argument}' names what the new query does not have",
                        expected="a field of a state of the new query, also with its node: '6.total'",
                        found=repr(name),
                        remedy=did_you_mean(name, sorted(self.asked)),
                    )
        for name, old in self.columns.items():
            if name not in self.followed:
                raise OptionError(
                    f"argument 'columns' names what the old query does not have for {name!r}, or what is not needed",
                    expected="a field of the same state of the old query, of a field that is not found without it",
                    found=repr(old),
                    remedy="check_evolution(old_plan, new_plan) without it shows from where each field comes",
                )

    def _names(self, node: int, name: str) -> tuple[str, str]:
        names = f"{node}.{name}", name
        self.asked.update(names)
        return names


def _expect_type(name: str, kind: LogicalType, text: str) -> None:
    try:
        found = logical_type_of(text)
    except ValueError:
        found = None
    if found is None or not same_type(replace(found, nullable=True), replace(kind, nullable=True)):
        raise OptionError(
            f"argument 'casts' names another type for {name!r} than the new query has",
            expected=str(replace(kind, nullable=True)),
            found=repr(text),
            remedy="name that type, or change the new query with CAST(...)",
        )


@dataclass(frozen=True)
class Available:
    """What there is for a row: expressions by the digest of their meaning, with their types."""

    values: Mapping[str, tuple[Expression, LogicalType]]

    def of(self, term: Term) -> tuple[Expression, LogicalType | None] | None:
        """Return the expression of a term, or one over others; None if something of it is not there."""
        found = self.values.get(term.digest)
        if found is not None:
            return found
        if term.rex is None:
            return None
        if term.rex.get("kind") == "CALL" and str(term.rex.get("internalName", "")).startswith(PROCESSING_TIME):
            return Constant(None), None  # it is NULL in state, whatever the time
        operands = [self.of(one) for one in term.operands]
        if any(one is None for one in operands) or not (operands or term.rex.get("kind") == "LITERAL"):
            return None
        return Rex(term.rex, tuple(one[0] for one in operands if one is not None)), logical_type_of(term.rex["type"])

    def with_more(self, more: Mapping[str, tuple[Expression, LogicalType]]) -> Available:
        return Available({**more, **self.values})


def of_rows(state: str, terms: Sequence[Term], columns: Sequence[Column]) -> Available:
    """Return what the rows of an OLD state have."""
    return Available(
        {
            term.digest: (OldField(state, place, column.name), column.kind)
            for place, (term, column) in reversed(list(enumerate(zip(terms, columns, strict=False))))
        }
    )


def of_key(terms: Sequence[Term], columns: Sequence[Column]) -> Available:
    """Return what OLD's key has."""
    return Available(
        {
            term.digest: (OldKey(place, column.name), column.kind)
            for place, (term, column) in reversed(list(enumerate(zip(terms, columns, strict=False))))
        }
    )


def of_emitted(uid: str, terms: Sequence[Term], columns: Sequence[Column]) -> Available:
    """Return what the rows have that another operator has emitted."""
    return Available(
        {
            term.digest: (Emitted(uid, place), column.kind)
            for place, (term, column) in reversed(list(enumerate(zip(terms, columns, strict=False))))
        }
    )


def fits(old: LogicalType, new: LogicalType) -> bool:
    """Return whether all values of a type are values of the other, or an error tells which is not.

    >>> fits(LogicalType("INTEGER"), LogicalType("BIGINT")), fits(LogicalType("BIGINT"), LogicalType("DOUBLE"))
    (True, False)
    """
    if old.root == new.root:
        if old.root in ("ROW", "STRUCTURED_TYPE", "ARRAY", "MAP", "MULTISET", "RAW", "OTHER"):
            return replace(old, nullable=True) == replace(new, nullable=True)
        return True  # lengths, precisions, nullability: a value that does not fit is an error with its key
    if old.root in WHOLE and new.root in WHOLE:
        return True
    if old.root in WHOLE and new.root == "DECIMAL":
        return True
    small = old.root in ("TINYINT", "SMALLINT", "INTEGER") and new.root == "DOUBLE"
    return (
        small
        or (old.root, new.root) == ("FLOAT", "DOUBLE")
        or (old.root in TEXTS and new.root in TEXTS)
        or (old.root in BYTES and new.root in BYTES)
    )


def taken(
    name: str,
    kind: LogicalType,
    found: tuple[Expression, LogicalType | None],
    *,
    place: int | None = None,
    cast: bool = False,
    merge: Merge | None = None,
) -> FieldSource:
    """Return the field that takes a value of OLD; ``place``: where it is as it is. ``cast``: the user asks for it."""
    expression, old = found
    same = old is None or same_type(old, kind)
    if same:
        stays = isinstance(expression, OldField | OldKey) and expression.index == place
        computed = "" if isinstance(expression, OldField | OldKey | Constant) else "computed from what is there"
        if isinstance(expression, Rex) and not expression.operands:
            computed = "it is the same in all rows"
        verdict = Verdict.AS_IS if stays or isinstance(expression, Constant) else Verdict.TRANSFORMED
        if not stays and not computed and verdict is Verdict.TRANSFORMED:
            computed = _moved_from(expression, name)
        return FieldSource(name, kind, verdict, expression, merge, reason=computed)
    assert old is not None
    same_class = old.root == "STRUCTURED_TYPE" and (old.class_name, old.names) == (kind.class_name, kind.names)
    if same_class or (old.root == "ROW" and kind.root == "ROW"):
        return _nested(name, kind, expression, old, merge)
    if cast or fits(old, kind):
        reason = f"{old} becomes {kind}"
        return FieldSource(name, kind, Verdict.TRANSFORMED, Cast(expression, kind), merge, reason=reason)
    reason = f"{old} becomes {kind}, which may change values: casts={{{name!r}: ...}} asks for it"
    return FieldSource(name, kind, Verdict.REFUSED, None, merge, reason=reason)


def _moved_from(expression: Expression, name: str) -> str:
    """Return from where a value of OLD comes: from a field of another name, or of its own in another place."""
    old = getattr(expression, "name", "") or name
    return "it moves to another place" if old == name else f"from {old}"


def _nested(name: str, kind: LogicalType, source: Expression, old: LogicalType, merge: Merge | None) -> FieldSource:
    """Return a ROW whose own fields are found by name; those that are new are NULL."""
    fields, added = [], []
    for here, (field_name, child) in enumerate(zip(kind.names, kind.children, strict=True)):
        if field_name in old.names:
            place = old.names.index(field_name)
            old_field = OldField(name, place, field_name), old.children[place]
            inner = taken(field_name, child, old_field, place=here if here == place else None)
        else:
            added.append(field_name)
            inner = FieldSource(field_name, child, Verdict.FILLED, Constant(None), reason="NULL in rows of before")
        fields.append(inner)
    refused = next((one for one in fields if one.verdict is Verdict.REFUSED), None)
    if refused is not None:
        return replace(refused, name=f"{name}.{refused.name}", kind=kind)
    verdict = Verdict.FILLED if added else Verdict.TRANSFORMED
    reason = f"its fields {', '.join(added)} are NULL in rows of before" if added else "its fields change places"
    if not added and old.names == kind.names:
        reason = "; ".join(f"{one.name}: {one.reason}" for one in fields if one.reason)
    return FieldSource(name, kind, verdict, Nested(source, tuple(fields)), merge, reason=reason)


def missing(
    options: Options, node: int, name: str, kind: LogicalType, initial: Any, *, may_fill: bool, why_not: str = ""
) -> FieldSource:
    """Return a field that nothing of OLD gives: backfilled, filled, or neither yet."""
    given = options.backfill_of(node, name)
    key = given or name
    if given is not None:
        return FieldSource(name, kind, Verdict.BACKFILLED, Backfilled(given), backfill=given, reason="given by you")
    shown = "NULL" if initial is None else str(initial)
    if not may_fill or (initial is None and not kind.nullable):
        why = why_not or f"it is {kind}, so that it cannot be NULL"
        reason = f"only its history can give it: backfill={{{key!r}: rows}}. A fill would be wrong, as {why}"
        return FieldSource(name, kind, Verdict.BACKFILLED, None, backfill=key, reason=reason)
    source = Constant(initial) if options.fill == "initial" else None
    reason = f"begins with {shown}" if source is not None else GIVE.format(what=shown)
    return FieldSource(name, kind, Verdict.FILLED, source, backfill=key, reason=reason)
