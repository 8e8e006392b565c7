"""Compares what is expected in a snapshot with what was found in it, both in the form of `expected.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

JsonValue = Any
Found = Mapping[str, Mapping[str, Sequence[JsonValue]]]
"""Entries by uid and by state name; timers by `service/eventTime` and `service/processingTime`."""


def comparable(value: JsonValue) -> object:
    """A form that can be hashed: maps and sets without order, doubles by their bits, true unlike 1."""
    match value:
        case {"map": list(entries), **fields} if not fields:
            return "map", frozenset(Counter(map(comparable, entries)).items())
        case {"set": list(elements), **fields} if not fields:
            return "set", frozenset(Counter(map(comparable, elements)).items())
        case dict():
            return "object", frozenset((name, comparable(inner)) for name, inner in value.items())
        case list():
            return "list", tuple(map(comparable, value))
        case float():
            return "double", value.hex()
        case _:
            return type(value).__name__, value


def expected_entries(expected: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[JsonValue]]]:
    """Return uid, state and entries of everything in an `expected.json`, also timers."""
    for operator in expected["operators"]:
        for state in operator["states"]:
            yield operator["uid"], state["name"], state["entries"]
        for service in operator.get("timers", ()):
            for domain in ("eventTime", "processingTime"):
                yield operator["uid"], f"{service['service']}/{domain}", service[domain]


def differences(expected: Mapping[str, Any], found: Found) -> list[str]:
    """One line per state whose entries are not, in any order, the expected ones."""
    lines = []
    for uid, state, entries in expected_entries(expected):
        got = found.get(uid, {}).get(state, ())
        wanted, seen = Counter(map(comparable, entries)), Counter(map(comparable, got))
        missing, extra = list((wanted - seen).elements()), list((seen - wanted).elements())
        if missing or extra:
            lines.append(f"{uid}/{state}: missing {len(missing)} {missing[:1]}, unexpected {len(extra)} {extra[:1]}")
    return lines
