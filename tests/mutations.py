"""Values of JSON with one thing changed: whoever reads them says so in an error of this package, or is not affected."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

#: What takes the place of a value.
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**400,
    float("inf"),
    float("nan"),
    "",
    "\u0663",
    "9" * 5000,
    [],
    {},
    [[]],
    {"a": {"b": 1}},
)


def mutations(value: Any, items: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the path of each part of a value, and the whole with that part gone, deep, or something else.

    Of lists only the first ``items`` are changed.
    """
    for path in paths(value, items):
        name = "/".join(map(str, path))
        for strange in (*STRANGE, deep(400)):
            yield f"{name} = {str(strange)[:20]}", changed(value, path, strange)
        yield f"{name} is gone", changed(value, path, None, gone=True)


def paths(value: Any, items: int = 1, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all parts of a value; of lists only the first ``items``."""
    listed = list(enumerate(value))[:items] if isinstance(value, list) else []
    for name, one in value.items() if isinstance(value, dict) else listed:
        yield (*before, name)
        yield from paths(one, items, (*before, name))


def changed(value: Any, path: tuple[Any, ...], new: Any, gone: bool = False) -> Any:
    """Return a copy of a value with another part at a path."""
    whole = inner = copy.deepcopy(value)
    for name in path[:-1]:
        inner = inner[name]
    if gone:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return whole


def deep(levels: int) -> list[Any]:
    """Return a list in a list, and so on."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value
