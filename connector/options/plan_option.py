"""Option ``plan``: what the fluent API reads beyond the options of users, as JSON.

    {"version": 1, "entries": {"states": [[name, is a timer] or null, ...], "keys": ..., ...}}
    {"version": 1, "compared": {"sides": [options of a read or null, the same], "states": [name, ...] or null}}

It is data alone: nothing in it is executed, and a value of another type than its field's is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from pyspark_savepoint.statebackends.requests.request import EntriesRequest
from pyspark_savepoint.statebackends.requests.table_options import InvalidOptionValueError

VERSION = 1

Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a read reads instead of a table: entries, or the differences of two sides."""

    entries: EntriesRequest | None = None
    compared: Mapping[str, Any] | None = None


def read_plan(entries: EntriesRequest) -> str:
    """Return the option of a read of entries."""
    return json.dumps({"version": VERSION, "entries": asdict(entries)})


def comparison_plan(sides: Sequence[Texts | None], states: Sequence[str] | None) -> str:
    """Return the option of a read of differences."""
    return json.dumps({"version": VERSION, "compared": {"sides": sides, "states": states}})


def parse_read_plan(text: str) -> ReadPlan:
    """Parse the result of :func:`read_plan` or :func:`comparison_plan`."""
    try:
        if "compared" in _content(text, "entries", "compared"):
            given = _content(text, "compared")["compared"]
            sides = _converted(tuple[Texts | None, Texts | None], given["sides"])
            return ReadPlan(compared={"sides": sides, "states": _converted(tuple[str, ...] | None, given["states"])})
        given, hints = _content(text, "entries")["entries"], get_type_hints(EntriesRequest)
        return ReadPlan(EntriesRequest(**{name: _converted(hints[name], value) for name, value in given.items()}))
    except InvalidOptionValueError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _refused() from None


def _content(text: str, *kinds: str) -> dict[str, dict[str, Any]]:
    """Return the one of some kinds of plans that a text is, by kind."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise _refused() from None
    if not isinstance(content, dict) or "version" not in content:
        raise _refused()
    version = content.pop("version")
    if len(content) != 1 or not all(kind in kinds and isinstance(value, dict) for kind, value in content.items()):
        raise _refused()
    if type(version) is not int or version != VERSION:
        raise InvalidOptionValueError(
            f"version {VERSION}: driver and executors must have the same version of pyspark-savepoint"
        )
    return content


def _refused() -> InvalidOptionValueError:
    return InvalidOptionValueError("a plan from methods of Savepoint: users do not set this option")


def _converted(hint: Any, value: Any) -> Any:
    """Return a value of JSON as one of a field's type, or raise ValueError for any other."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        for part in arguments:
            try:
                return _converted(part, value)
            except ValueError:
                continue
        raise ValueError
    if origin is tuple and isinstance(value, list):
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_converted(kind, part) for kind, part in zip(kinds, value, strict=True))
    if origin is Mapping and isinstance(value, dict):
        return {name: _converted(arguments[1], part) for name, part in value.items()}
    if hint is NoneType and value is None:
        return None
    if hint in (str, int, bool) and type(value) is hint:
        return value
    raise ValueError
