"""Keys that no row has, and how a text names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.statebackends.rows.json_values import from_json

#: How many keys a text names, and the length of each.
MAX_LISTED, MAX_KEY = 5, 60


def absent(keys: Sequence[Any], kind: pa.DataType, found: Iterable[Any]) -> list[Any]:
    """Return the keys that are not among those of some rows.

    Args:
        keys: The keys, as option ``keys`` takes them.
        kind: Their type.
        found: The keys of the rows, of this type.

    Returns:
        Those that no row has, in their order.

    """
    known = {repr(key) for key in found}
    values = pa.array([from_json(key, kind, "a key") for key in keys], kind).to_pylist()
    return [key for key, value in zip(keys, values, strict=True) if repr(value) not in known]


def named(keys: Sequence[Any]) -> str:
    """Return some keys as text.

    >>> named([1, 2, 3, 4, 5, 6, 7])
    '1, 2, 3, 4, 5, ...'
    """
    return ", ".join([*(elide(str(key), MAX_KEY) for key in keys[:MAX_LISTED]), *(["..."] * (len(keys) > MAX_LISTED))])
