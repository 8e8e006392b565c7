"""Functions of ``pyarrow.compute``, which is imported when the first of them is used.

Importing it takes longer than importing most of this package, and listing a snapshot needs none of its functions.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def __getattr__(name: str) -> Any:
    return _function(name)


@cache
def _function(name: str) -> Any:
    import pyarrow.compute as pc

    return getattr(pc, name)
