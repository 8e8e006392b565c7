"""What two plans cannot tell about kept values: the session's time zone, and what a function of the user computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark_savepoint.statebackends.evolution.lineage import PROCESSING_TIME
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.plans import Plan

INSTANT = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
#: Functions of texts, numbers and dates that ask for the session's time zone.
ZONED = ("$FROM_UNIXTIME$", "$UNIX_TIMESTAMP$", "$CURRENT_DATE$", "$CURRENT_TIME$", "$LOCALTIME$", "$LOCALTIMESTAMP$")
#: Functions of instants whose result is one, and depends on where a day begins.
ROUNDING = ("$FLOOR$", "$CEIL$", "$CEILING$")
#: Types that are the same instant or number everywhere.
PLACELESS = ("BOOLEAN", INSTANT)
ZONE = (
    "{node} computes in the time zone of the session, which no plan says: the new job needs the same "
    "table.local-time-zone as the old one"
)
FUNCTION = (
    "{name} is a function of yours, of which the plans say the name alone: values of before are right only if it "
    "computes what it did"
)


def unsaid(old: Plan, new: Plan, stateful: frozenset[int]) -> Iterator[str]:
    """Yield sentences about what stays the same only if the job sees to it; ``stateful`` are NEW's nodes with state."""
    reaching = _reaching(new, stateful)
    before = {name for node in old.nodes.values() for name in _functions(node.attributes)}
    said = set()
    for node in new.nodes.values():
        if node.id not in reaching:
            continue
        if any(_is_zoned(call) for call in _calls(node.attributes)):
            yield ZONE.format(node=node)
        for name in _functions(node.attributes):
            if name in before and name not in said:
                said.add(name)
                yield FUNCTION.format(name=name.replace("`", "").rpartition(".")[2])


def _reaching(plan: Plan, stateful: frozenset[int]) -> set[int]:
    """Return the nodes whose rows come to a node with state, and these themselves."""
    found: set[int] = set()
    waiting = list(stateful)
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += plan.nodes[number].inputs
    return found


def _calls(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the calls of functions in a part of a plan, also those in others."""
    if isinstance(part, Mapping):
        if part.get("kind") == "CALL":
            yield part
        for value in part.values():
            yield from _calls(value)
    elif isinstance(part, list):
        for value in part:
            yield from _calls(value)


def _functions(attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of a node's functions that are none of Flink's, and whose class is not said."""
    calls = [*_calls(attributes), *(attributes.get("aggCalls") or ())]
    for call in calls:
        name = call.get("catalogName") or call.get("systemName")
        if name and not call.get("internalName") and not call.get("class"):
            yield str(name)


def _is_zoned(call: Mapping[str, Any]) -> bool:
    """Return whether a call turns an instant into a local time or a text, or back."""
    name = str(call.get("internalName") or "")
    if name.startswith(PROCESSING_TIME) or "type" not in call:
        return False
    if name.startswith(ZONED):
        return True
    result = logical_type_of(call["type"]).root
    operands = {
        logical_type_of(one["type"]).root
        for one in call.get("operands") or ()
        if isinstance(one, Mapping) and "type" in one and one.get("kind") != "LITERAL"
    }
    if result == INSTANT:
        local = any(one in ("CHAR", "VARCHAR", "DATE") or one.startswith("TIMESTAMP_WITHOUT") for one in operands)
        return local or (name.startswith(ROUNDING) and INSTANT in operands)
    return INSTANT in operands and result not in PLACELESS
