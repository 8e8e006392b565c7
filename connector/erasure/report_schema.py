"""The form of an erasure's report: what a text must have to be one.

A kind is a type (a number is a whole one from 0), ``None`` for nothing, several of them as a tuple, a list with the
kind of its items, a mapping of :data:`ANY` name to the kind of its values, or the fields of an object. A field whose
name ends with ``?`` may be missing: earlier versions do not write it. Other fields are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

ANY = "*"
#: The type of texts that are hexadecimal digits of bytes.
HEX = bytes
TEXT_OR_NONE, NUMBER_OR_NONE = (str, None), (int, None)
PLACE: Mapping[str, Any] = MappingProxyType(
    {"operator_uid": TEXT_OR_NONE, "operator_uid_hash": TEXT_OR_NONE, "table": str, "state": TEXT_OR_NONE}
)
HIT: Mapping[str, Any] = MappingProxyType({"encoding": str, "bytes": int, "hits": int, "certain": bool})
FILE: Mapping[str, Any] = MappingProxyType(
    {"name": str, "size": NUMBER_OR_NONE, "sha256": (HEX, None), "of": [str], "hits?": [HIT], "problem?": str}
)
SNAPSHOT: Mapping[str, Any] = MappingProxyType({"path": str, "files": [FILE]})
COUNTS: Mapping[str, Any] = MappingProxyType(
    dict.fromkeys(("before", "after", "added", "removed", "changed"), NUMBER_OR_NONE)
)
REPORT: Mapping[str, Any] = MappingProxyType(
    {
        "form": str,
        "version": int,
        "package": str,
        "time": str,
        "arguments": {
            "keys": [str],
            "by": {ANY: (str, {ANY: str})},
            "where": {ANY: str},
            "record_types?": {ANY: str},
            "strict": bool,
            "accept?": [str],
            "dry_run": bool,
            "salt?": HEX,
        },
        "before": SNAPSHOT,
        "after": (SNAPSHOT, None),
        "operators": [
            {
                "operator_uid": TEXT_OR_NONE,
                "operator_uid_hash": str,
                "operator_name": TEXT_OR_NONE,
                "key_type": TEXT_OR_NONE,
                "can_hold": NUMBER_OR_NONE,
                "cannot_hold": NUMBER_OR_NONE,
                "states": [{"table": str, "state": TEXT_OR_NONE, "seen": int, "removed": int}],
            }
        ],
        "not_looked_into": [{**PLACE, "bytes": NUMBER_OR_NONE, "why": str, "hits": [HIT]}],
        "standing": [{**PLACE, "column": str, "equal": int, "inside": [HIT], "removable?": bool}],
        "not_searched": {ANY: int},
        "differences": (
            [
                {
                    **{name: kind for name, kind in PLACE.items() if name != "table"},
                    "operator_name": TEXT_OR_NONE,
                    "operator_change": TEXT_OR_NONE,
                    "table": TEXT_OR_NONE,
                    **COUNTS,
                    "note": TEXT_OR_NONE,
                }
            ],
            None,
        ),
        "below?": TEXT_OR_NONE,
        "others": [
            {
                "path": str,
                "checkpoint_id": NUMBER_OR_NONE,
                **dict.fromkeys(("keys", "elements?", "standing?", "in_files?"), NUMBER_OR_NONE),
                "note": TEXT_OR_NONE,
            }
        ],
    }
)
WORDS: Mapping[Any, str] = MappingProxyType(
    {str: "a text", int: "a whole number", bool: "true or false", HEX: "hexadecimal digits", None: "null"}
)


def misfit(value: Any, kind: Any = REPORT, path: str = "") -> str | None:
    """Return what of a value is not of a kind, with its path; None if all is.

    >>> misfit({"a": [1, "b"]}, {"a": [int]}), misfit({}, {"a": int}), misfit({}, {"a?": int})
    ("a[1] is no whole number: 'b'", 'a is missing', None)
    """
    if isinstance(kind, tuple):
        several = [misfit(value, one, path) for one in kind]
        return None if None in several else next(problem for problem in several if problem is not None)
    if isinstance(kind, list):
        if not isinstance(value, list):
            return f"{path} is not a list: {value!r:.80}"
        return next(filter(None, (misfit(one, kind[0], f"{path}[{at}]") for at, one in enumerate(value))), None)
    if isinstance(kind, Mapping):
        if not isinstance(value, dict):
            return f"{path or 'it'} is not an object: {value!r:.80}"
        return next(filter(None, _misfits(value, kind, path)), None)
    fits = value is None if kind is None else _is(value, kind)
    return None if fits else f"{path} is {WORDS[kind].replace('a ', 'no ', 1)}: {value!r:.80}"


def _misfits(value: dict[str, Any], kind: Mapping[str, Any], path: str) -> Any:
    if ANY in kind:
        yield from (misfit(one, kind[ANY], f"{path}[{name!r:.40}]") for name, one in value.items())
        return
    for name, one in kind.items():
        field = name.removesuffix("?")
        inner = f"{path}.{field}" if path else field
        if field in value:
            yield misfit(value[field], one, inner)
        elif field == name:
            yield f"{inner} is missing"


def _is(value: Any, kind: type) -> bool:
    if kind is HEX:
        try:
            return isinstance(value, str) and value.isascii() and bool(bytes.fromhex(value))
        except ValueError:
            return False
    if kind is int:
        return type(value) is int and 0 <= value < 1 << 63
    return type(value) is kind
