"""Python values as Spark's options: ``max_parallelism=128`` is option ``maxParallelism`` with the text ``128``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sized
from datetime import datetime
from functools import partial
from numbers import Number
from os import PathLike
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.flink_releases import parse_release
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.snapshot.as_of import LATEST
from pyspark_savepoint.options.keywords import KEYWORDS

#: Options whose values may contain commas.
JSON_LISTS = ("keys", "typesFrom", "classes", "uids")
SERIALIZERS = "serializers"
BYTES = (bytes, bytearray, memoryview)
#: Options that are a release of Flink.
RELEASES = ("flinkVersion", "inferredBy")


def to_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Return keyword arguments as options of the data source. None is left out.

    Names may be in snake case or camel case. Booleans become ``true`` and ``false``, mappings JSON, sequences are
    joined by commas, except ``keys`` and paths of ``typesFrom`` and ``classes``, and names that contain commas: these
    become JSON lists.

    >>> to_options({"include_ttl": True, "states": {"a": "list"}, "raw": ("a", "b"), "keys": [1], "ttl": None})
    {'includeTtl': 'true', 'states': '{"a": "list"}', 'raw': 'a,b', 'keys': '[1]'}

    Raises:
        OptionError: If two names are of one option.

    """
    texts: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in values.items():
        if value is not None:
            option = option_name(name)
            if given.setdefault(option.casefold(), name) != name:
                raise OptionError(
                    "one option is given by two names",
                    found=f"{given[option.casefold()]!r} and {name!r}",
                    remedy="give it once",
                )
            texts[option] = option_text(option, value)
    return texts


def inheriting(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the options of one table, with those that a Savepoint has for all of its tables.

    >>> inheriting({"raw": "profile", "timestamps": "raw"}, {"timestamps": "micros"})
    {'raw': 'profile', 'timestamps': 'micros', 'inherited': 'raw'}
    """
    names = {name.casefold() for name in own}
    taken = {name: text for name, text in inherited.items() if name.casefold() not in names}
    return {**taken, **own, **({"inherited": ",".join(taken)} if taken else {})}


def feed_options(start: int | datetime | str, end: int | datetime | str, mode: str) -> dict[str, Any]:
    """Return the options of the changes in a range of versions, whose ends are ids, ``latest`` or times.

    >>> feed_options(3, "latest", "none")["ending_version"]
    'latest'
    >>> feed_options("2026-11-25T12:00:00Z", 4, "none")["starting_timestamp"]
    '2026-11-25T12:00:00Z'
    """
    ends = {
        f"{which}_{'version' if is_version(at) else 'timestamp'}": at
        for which, at in (("starting", start), ("ending", end))
    }
    return {"read_change_feed": True, **ends, "deduplication_mode": mode}


def is_version(at: int | datetime | str) -> bool:
    """Return whether a version is given by its number, or as ``latest``, and not by a time.

    >>> is_version("42"), is_version("Latest"), is_version("2026-11-25T12:00:00Z")
    (True, True, False)

    Raises:
        OptionError: If it is neither.

    """
    if isinstance(at, datetime):
        return False
    text = str(at).strip()
    if (text.isascii() and text.isdecimal()) or text.casefold() == LATEST:
        return True
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"a version is a checkpoint id, {LATEST}, or a time with its zone",
            expected=f"for instance 42, {LATEST} or 2026-11-24T12:00:00Z",
            found=repr(at),
        ) from None
    return False


def option_name(name: str) -> str:
    """Return the name of an option in Spark.

    A name in snake case that no option has stays as it is, and the error about it suggests names in snake case.

    >>> option_name("max_parallelism"), option_name("maxParallelism"), option_name("max_paralelism")
    ('maxParallelism', 'maxParallelism', 'max_paralelism')
    """
    if "_" in name and name not in KEYWORDS:
        return name
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def option_text(name: str, value: Any) -> str:
    """Return the value of an option as text.

    Raises:
        OptionError: If it is, or contains, bytes or an object that has no text of its own.

    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if name == SERIALIZERS:
        from pyspark_savepoint.options.pickled_serializers import serializers_text

        return serializers_text(value)
    if isinstance(value, PathLike):
        return str(value)
    if name in RELEASES and not isinstance(value, str):
        parse_release(value, name)  # refuses it: 1.20 is the number 1.2
    if isinstance(value, datetime):
        return value.astimezone().isoformat()  # without a zone it is of this machine's, as in Python and Spark
    if name in JSON_LISTS and isinstance(value, set | frozenset | range):
        value = list(value)
    if isinstance(value, Mapping) or (name in JSON_LISTS and not isinstance(value, str)):
        return json.dumps(value, default=partial(_json_value, name))
    if isinstance(value, Iterable) and not isinstance(value, (str, *BYTES)):
        return join_names(_text(name, part) for part in value)
    return _text(name, value)


def _json_value(name: str, value: Any) -> Any:
    """Return what JSON has no word for: a scalar of Arrow or NumPy as Python has it, anything else as text."""
    if not isinstance(value, Sized):
        if hasattr(value, "as_py"):
            return value.as_py()
        if hasattr(value, "item"):
            return value.item()
    return _text(name, value)


def _text(name: str, value: object) -> str:
    """Return the text of a time, a number, a type or the like."""
    has_text = type(value).__str__ is not object.__str__ and not isinstance(value, Sized)
    if has_text or isinstance(value, str | Number):
        return str(value)
    raise OptionError(
        f"option {name!r} has a value that is no text",
        expected="a text, a number, a truth value, or a list or mapping of them",
        found=" ".join(repr(value).split()),
        remedy="decode() the bytes" if isinstance(value, BYTES) else None,
    )
