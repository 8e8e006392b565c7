"""What becomes of each operator, state and field of a savepoint under another plan, and where each value comes from.

This is the agreement between who decides (the plans alone) and who writes. A value of NEW is an expression over what
OLD has for the same key::

    OldField("accState", 1)                      a field of OLD's row, or of its accumulator
    OldKey(0)                                    a field of OLD's key
    Constant(None)                               filled: the initial value
    Backfilled("total")                          given by the user, by key (of a row: by the row's columns)
    Cast(source, type)                           without loss, or an error with the key
    Nested(source, fields)                       a ROW whose own fields moved, were added or removed
    Call("sum_if_counted", (sum, count))         see :data:`FUNCTIONS`
    Emitted(operator, 1)                         a field of the rows that another operator of NEW has emitted

The verdict of a state is the worst of its fields, the verdict of an operator that of its states: see
:data:`ORDER_OF_VERDICTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape, StateShape


class Verdict(StrEnum):
    """What becomes of an operator, a state or a field."""

    AS_IS = "as is"  # the bytes stay; the operator's id may be another
    TRANSFORMED = "transformed"  # moved, cast, merged, under other keys: only of what the state itself has
    DERIVED = "derived"  # computed from other state of the savepoint
    FILLED = "filled"  # the initial value: counts from now on
    BACKFILLED = "backfilled"  # the user gives it
    BEGINS_EMPTY = "begins empty"  # nothing of OLD belongs to it
    LOST = "lost"  # OLD has it, NEW has no place for it
    UNKNOWN = "unknown"  # the node is not known, or what it means cannot be compared
    AMBIGUOUS = "ambiguous"  # several partners fit equally
    REFUSED = "refused"  # it could be done, and would be wrong later: the reason says why and what allows it


#: From the best to the worst.
ORDER_OF_VERDICTS = (
    Verdict.AS_IS,
    Verdict.TRANSFORMED,
    Verdict.DERIVED,
    Verdict.BACKFILLED,
    Verdict.FILLED,
    Verdict.BEGINS_EMPTY,
    Verdict.LOST,
    Verdict.UNKNOWN,
    Verdict.AMBIGUOUS,
    Verdict.REFUSED,
)
#: Of an aggregate that is filled, a key that is lost, and so on: exit code 1.
LOSING = (Verdict.FILLED, Verdict.BEGINS_EMPTY, Verdict.LOST)
#: Nothing is written: exit code 2.
REFUSING = (Verdict.UNKNOWN, Verdict.AMBIGUOUS, Verdict.REFUSED)


OUTCOMES = (
    "Nothing is lost.",
    "Something begins anew, or is lost.",
    "Nothing can be written yet: something has to be said or given.",
)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of some verdicts; AS_IS of none."""
    return max(verdicts, key=ORDER_OF_VERDICTS.index, default=Verdict.AS_IS)


#: Functions of :class:`Call`, and what they return.
FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "sum_if_counted": "(sum, count): sum, NULL where count is 0 (AVG's sum as that of SUM)",
        "zero_if_null": "(sum): sum, 0 where it is NULL (SUM's sum as that of AVG)",
        "count_of_values": "(state): the number of different values of DISTINCT_VALUES or VALUE_COUNTS, without NULL",
        "sum_of_values": "(state): the sum of the different values; NULL of none",
        "min_of_values": "(state): the smallest of the values; NULL of none",
        "min_structure_of_rows": "(state, field): the accumulator of MIN with retraction over those rows",
        "max_structure_of_rows": "(state, field): the accumulator of MAX with retraction over those rows",
        "max_of_values": "(state): the largest of the values; NULL of none",
        "set_bits": "(bits): the number of a value of DISTINCT_VALUES with these bits set, whatever it was",
        "moved_bits": "(pairs of old and new bit): the number of a value with its bits moved; without a bit it goes",
        "counts_of_calls": "(numbers of calls): how often each of these calls of OLD has counted a value of DISTINCT",
        "count_of_call": "(number of a call): how often this call of OLD has counted a value of DISTINCT",
        "count_of_rows": "(state): the number of rows that a state has for the key",
        "sum_of_rows": "(state, field): the sum of a field of those rows; NULL of none",
        "count_of_field": "(state, field): how many of those rows have a value in the field",
        "min_of_rows": "(state, field): the smallest",
        "max_of_rows": "(state, field): the largest",
        "view_of_rows": "(state, field): the map from values of the field to how often they are in those rows",
        "nulls_of_rows": "(state, field): how many of those rows have no value in the field, of keys that have such",
        "associations": "(state of the other side, keys where NULL matches nothing): its number of rows that match",
        "new_associations": "(): as 'associations', for rows whose other side has changed as well",
        "matching": "(state of the other side, condition, keys where NULL matches nothing): as 'associations', of rows "
        "for which a condition is true",
        "true": "(): TRUE",
        "time_of_write": "(): when the savepoint is written, for a time to live that begins",
    }
)


@dataclass(frozen=True)
class OldField:
    """A field of OLD's row or accumulator, by its place in ``columns`` of the OLD state."""

    state: str
    index: int
    #: Its name in SQL's words, to show.
    name: str = ""


@dataclass(frozen=True)
class OldKey:
    """A field of OLD's key."""

    index: int
    name: str = ""


@dataclass(frozen=True)
class OldPart:
    """What a layout's row has besides its fields: ``count``, ``associations``, ``emitted``, ``rank``, ``time``."""

    state: str
    part: str


@dataclass(frozen=True)
class OldState:
    """A whole state of OLD for the key, as an argument of a function."""

    state: str


@dataclass(frozen=True)
class Constant:
    """A value that is the same for all keys: the initial value of an accumulator, or NULL."""

    value: Any


@dataclass(frozen=True)
class Backfilled:
    """A value that the user gives, under this name."""

    name: str


@dataclass(frozen=True)
class Cast:
    """A value of another type; an error with the key where it would lose something."""

    source: Expression
    kind: LogicalType


@dataclass(frozen=True)
class Nested:
    """A ROW with other fields: ``fields`` take their ``OldField.index`` within the OLD ROW. NULL stays NULL."""

    source: Expression
    fields: tuple[FieldSource, ...]


@dataclass(frozen=True)
class Call:
    """A function of :data:`FUNCTIONS`."""

    function: str
    arguments: tuple[Expression | Condition | int, ...] = ()


@dataclass(frozen=True)
class Emitted:
    """A field of the rows that another operator of NEW (by its uid) would have emitted by now, from its evolved state.

    ``index`` is the place among the fields of that node's output; ``through`` are the uids of nodes without state
    between it and this one, whose expressions are applied (nearest to the emitting one first).
    """

    uid: str
    index: int


@dataclass(frozen=True)
class Rex:
    """An expression of the plan (a RexNode as JSON) over other expressions: ``operands`` by ``inputIndex``."""

    node: Mapping[str, Any] = field(hash=False)
    operands: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Condition:
    """The condition of a join beyond its keys (a RexNode as JSON): over the fields of both sides, as NEW has them."""

    node: Mapping[str, Any] = field(hash=False)
    left: tuple[FieldSource, ...]
    right: tuple[FieldSource, ...]
    #: Whether the rows whose matches are counted are those of the left side.
    of_left: bool = True


Expression = OldField | OldKey | OldPart | OldState | Constant | Backfilled | Cast | Nested | Call | Emitted | Rex


def parts_of(source: object) -> Iterator[object]:
    """Yield an expression and those within it, but not fields of a nested ROW: their places are those in that ROW.

    >>> [part.index for part in parts_of(Call("sum", (OldField("acc", 2), Constant(0)))) if isinstance(part, OldField)]
    [2]
    """
    yield source
    if isinstance(source, Cast | Nested):
        yield from parts_of(source.source)
    elif isinstance(source, Call):
        for argument in source.arguments:
            yield from parts_of(argument)


class Merge(StrEnum):
    """How the values of keys that become one are made one."""

    SUM = "sum"  # NULL only if all are NULL
    MIN = "min"
    MAX = "max"
    UNION = "union"  # of maps: entries of all, bits of equal keys by OR
    ADD = "add"  # of maps: entries of all, numbers of equal keys added
    SAME = "same"  # equal in all, else an error with the key
    NEVER = "never"  # an error where two keys become one


@dataclass(frozen=True)
class FieldSource:
    """A field of NEW's row, accumulator or key: where its value comes from."""

    name: str
    kind: LogicalType
    verdict: Verdict
    #: None: nothing of OLD gives it, and neither a fill nor a backfill was asked for.
    source: Expression | None = None
    merge: Merge | None = None
    #: The name by which ``backfill=`` may give it, where it may.
    backfill: str | None = None
    reason: str = ""

    def that_is(self, text: str) -> FieldSource:
        """Return the field with a text that says what its name stands for."""
        return replace(self, reason=f"{self.reason}; {text}" if self.reason else text) if text else self


@dataclass(frozen=True)
class Waiting:
    """Rows of OLD that wait for the watermark, or those that do not: by their time.

    A savepoint has no watermark. It is the latest time of all rows of the state, less the delay of OLD's plan.
    """

    #: The place of the time in OLD's rows.
    time: int
    #: Milliseconds that the watermark is behind.
    delay: int
    #: False: the rows that the watermark has reached.
    waits: bool = True


@dataclass(frozen=True)
class StateChange:
    """A state of NEW's operator.

    Taken apart and put together: each row of ``old`` (its layout says where rows are) gives a row of ``new`` with
    ``fields``. ``key`` gives the key under which a row is then, if it is not the operator's.
    """

    verdict: Verdict
    #: None: the state is new.
    old: StateShape | None
    #: None: OLD's state is dropped.
    new: StateShape | None
    fields: tuple[FieldSource, ...] = ()
    #: Values of the key, over the rows of ``old``, where they move to other keys; else empty.
    key: tuple[FieldSource, ...] = ()
    #: What a layout's row has besides its fields, where it is not taken from ``old``: ``count``, ``associations``, ...
    parts: Mapping[str, Expression] = field(default_factory=dict, hash=False)
    #: How two entries of a map that become one are made one.
    merge: Merge | None = None
    #: Only the best rows stay, in the order of the sort key.
    limit: int | None = None
    #: The state is made of the rows that another operator of NEW has emitted: its uid.
    emitted_by: str | None = None
    #: The state is made of the rows of another state of OLD: its name.
    rows_of: str | None = None
    #: Only the rows that wait for the watermark, or only the others.
    waiting: Waiting | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_emptied(self) -> bool:
        """Whether nothing of ``old`` can be used, so that the state begins empty."""
        return self.verdict is Verdict.LOST and not self.fields

    @property
    def old_name(self) -> str | None:
        return self.old.name if self.old else None

    @property
    def new_name(self) -> str | None:
        return self.new.name if self.new else None


@dataclass(frozen=True)
class TimersChange:
    """Timers of a service: ``as is``, ``made`` (of the open windows: at their end - 1), ``dropped``."""

    service: str
    action: str
    reason: str = ""


@dataclass(frozen=True)
class OperatorChange:
    """An operator of NEW, with its partner of OLD; or one of OLD that is dropped (``new`` is None)."""

    verdict: Verdict
    old: OperatorShape | None
    new: OperatorShape | None
    states: tuple[StateChange, ...] = ()
    #: Where the fields of the key come from; empty: the key is the same.
    key: tuple[FieldSource, ...] = ()
    #: Two keys of OLD may become one.
    merges: bool = False
    timers: tuple[TimersChange, ...] = ()
    #: The same operator without a change of its state, which only gets another id.
    reasons: tuple[str, ...] = ()
    #: Descriptions of both sides of an ambiguous match, with the argument that settles it.
    candidates: tuple[str, ...] = ()
    #: It has no key, and one key group in NEW alone: its rows move there.
    narrows: bool = False
    #: It had one key group, and has those of the job now.
    widens: bool = False

    @property
    def old_uid(self) -> str | None:
        return self.old.uid if self.old else None

    @property
    def new_uid(self) -> str | None:
        return self.new.uid if self.new else None

    @property
    def moves(self) -> bool:
        """Whether its id is another one."""
        return self.old is not None and self.new is not None and self.old.uid != self.new.uid


def _row(state: str | None, field: str | None, verdict: Verdict, reason: str) -> dict[str, str | None]:
    return {"state": state, "field": field, "verdict": verdict.value, "reason": reason}


@dataclass(frozen=True)
class Evolution:
    """What becomes of a whole job. ``operators`` are in topological order of NEW; then those that are dropped."""

    operators: tuple[OperatorChange, ...]
    #: Sentences about the job as a whole: rows that the sink keeps, filters, offsets of sources.
    warnings: tuple[str, ...] = ()
    #: What is computed from rows of the user (``histories.OperatorHistory``), by the uid of the operator of NEW.
    histories: Mapping[str, Any] = field(default_factory=dict, hash=False)
    #: The names under which rows may be given: of tables, and of operators.
    given_rows: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return worst(one.verdict for one in self.operators)

    @property
    def dropped(self) -> tuple[OperatorChange, ...]:
        return tuple(one for one in self.operators if one.new is None)

    @property
    def exit_code(self) -> int:
        """0: nothing is lost; 1: something is, or begins anew; 2: refused, as something has to be said or given."""
        if any(one.verdict in REFUSING for one in self.operators) or any(
            field.verdict is Verdict.BACKFILLED for field in self.needed
        ):
            return 2
        connectors = [one for one in self.operators if one.old is None and one.new is not None and one.new.of_connector]
        return int(any(one.verdict in LOSING for one in self.operators if one not in connectors))

    @property
    def outcome(self) -> str:
        """What :attr:`exit_code` means, as a sentence."""
        return OUTCOMES[self.exit_code]

    @property
    def needed(self) -> tuple[FieldSource, ...]:
        """The fields whose values the user has to give, or to let begin anew, before a savepoint can be written."""
        states = [state for one in self.operators for state in one.states if state.new is not None]
        return tuple(
            field
            for state in states
            for field in state.fields
            if field.source is None and field.verdict in (Verdict.FILLED, Verdict.BACKFILLED)
        )

    def to_rows(self) -> list[dict[str, str | None]]:
        """Return a row per warning, operator, state and field; ``level`` says which, ``verdict`` what becomes of it."""
        rows: list[dict[str, str | None]] = []
        nothing = {"operator": None, "old_uid": None, "new_uid": None, "state": None, "field": None, "verdict": None}
        rows += [{"level": "job", **nothing, "reason": warning} for warning in self.warnings]
        for one in self.operators:
            shape = one.new or one.old
            head: dict[str, str | None] = {
                "operator": shape.description if shape is not None else "",
                "old_uid": one.old_uid,
                "new_uid": one.new_uid,
            }
            reason = "; ".join((*one.reasons, *one.candidates))
            rows.append({"level": "operator", **head, **_row(None, None, one.verdict, reason)})
            rows += [
                {"level": "key", **head, **_row(None, key.name, key.verdict, key.reason)}
                for key in one.key
                if key.verdict is not Verdict.AS_IS
            ]
            for state in one.states:
                name = state.new_name or state.old_name
                rows.append({"level": "state", **head, **_row(name, None, state.verdict, "; ".join(state.reasons))})
                rows += [
                    {"level": "field", **head, **_row(name, field.name, field.verdict, field.reason)}
                    for field in state.fields
                ]
        return rows

    def of(self, uid: str) -> OperatorChange | None:
        """Return the change of an operator of NEW."""
        return next((one for one in self.operators if one.new_uid == uid), None)
