"""Functions of ``pyarrow.compute``, which is imported with the first of them.

Its import takes longer than that of most of this package, and listings call none of its functions.
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
