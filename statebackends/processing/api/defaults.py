"""Value states with a default.

Flink: ``ValueStateDescriptor(name, type, defaultValue)``.
"""

from __future__ import annotations

import copy
from typing import Any

from pyspark_savepoint.statebackends.processing.api.state import State, ValueState
from pyspark_savepoint.statebackends.processing.api.state_descriptors import Descriptor, ValueStateDescriptor


class DefaultValueState(ValueState[Any]):
    """Value state that returns a copy of a default for keys without a value."""

    __slots__ = ("_default", "_inner")

    def __init__(self, inner: ValueState[Any], default: Any) -> None:
        self._inner, self._default = inner, default

    def value(self) -> Any:
        """Return the value of the current key, or a copy of the default."""
        found = self._inner.value()
        return copy.deepcopy(self._default) if found is None else found

    def update(self, value: Any) -> None:
        """Set the value of the current key; None removes it."""
        self._inner.update(value)

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._inner.clear()


def with_default(state: State, descriptor: Descriptor | str) -> State:
    """Return a state, with the default of its descriptor if that has one."""
    default = descriptor.default if isinstance(descriptor, ValueStateDescriptor) else None
    return DefaultValueState(state, default) if default is not None and isinstance(state, ValueState) else state
