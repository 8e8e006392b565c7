"""Base of the transformations that create state from records: the options of their processing."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import BootstrapOptions


MAX_REPR = 400


class StateTransformation(ABC):
    """Base of the steps of a transformation: the options of its processing.

    Example::

        accounts = (OperatorTransformation.bootstrap_with(rows).key_by("id").set_max_parallelism(512)
                    .transform(AccountBootstrapper()))

    """

    def __repr__(self) -> str:
        """Return one line: the step, and what it is about."""
        return shown(f"<{type(self).__name__} of {self._about()}>", MAX_REPR, line=True)

    @abstractmethod
    def _about(self) -> str:
        """Return the rows, and what was said about them."""

    @abstractmethod
    def _with_texts(self, more: Mapping[str, str]) -> Self:
        """Return the transformation with more options, given as texts."""

    def options(self, **options: Unpack[BootstrapOptions]) -> Self:
        """Set options of the processing.

        Args:
            **options: ``sorted``, ``presorted``, ``state_backend``, ``object_reuse``, ``sort_memory``, ``parallelism``,
                ``max_parallelism``.

        Returns:
            The transformation with these options.

        Raises:
            OptionError: If an option is unknown or invalid.

        Example::

            transformation.options(state_backend="rocksdb", sort_memory="512m")

        """
        return self._with_texts(to_options(options))

    def option(self, name: str, value: Any) -> Self:
        """Set one option of the processing.

        Args:
            name: The name of the option.
            value: Its value.

        Returns:
            The transformation with the option.

        Raises:
            OptionError: If the option is unknown or invalid.

        """
        return self._with_texts(to_options({name: value}))

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator, in place of the savepoint's.

        Operator state has at most as many subtasks. Flink: ``OneInputStateTransformation#setMaxParallelism``.

        Args:
            max_parallelism: 1 to 32768.

        Returns:
            The transformation with this max parallelism.

        Raises:
            OptionError: If the number is out of range.

        """
        return self.option("max_parallelism", max_parallelism)

    def set_object_reuse_mode(self, mode: ObjectReuseMode) -> Self:
        """Set whether functions and state share objects (FLIP-21).

        Flink: ``ExecutionConfig#setObjectReuseMode`` of FLIP-21.

        Args:
            mode: DEFAULT, COPY_PER_OPERATOR or FULL_REUSE.

        Returns:
            The transformation with this mode.

        """
        return self.option("object_reuse", str(mode))

    def enable_object_reuse(self) -> Self:
        """Share objects instead of copying them: mode DEFAULT, as it is without this call.

        Deprecated by FLIP-21, with a DeprecationWarning: use :meth:`set_object_reuse_mode`. Flink:
        ``ExecutionConfig#enableObjectReuse`` of the DataStream API.

        Returns:
            The transformation with mode DEFAULT.

        """
        _deprecated("enable_object_reuse", ObjectReuseMode.DEFAULT)
        return self.set_object_reuse_mode(ObjectReuseMode.DEFAULT)

    def disable_object_reuse(self) -> Self:
        """Copy values when they are stored in state and when they are read: mode COPY_PER_OPERATOR.

        Deprecated by FLIP-21, with a DeprecationWarning: use :meth:`set_object_reuse_mode`. Flink:
        ``ExecutionConfig#disableObjectReuse`` of the DataStream API.

        Returns:
            The transformation with mode COPY_PER_OPERATOR.

        """
        _deprecated("disable_object_reuse", ObjectReuseMode.COPY_PER_OPERATOR)
        return self.set_object_reuse_mode(ObjectReuseMode.COPY_PER_OPERATOR)


def _deprecated(method: str, mode: ObjectReuseMode) -> None:
    warnings.warn(
        f"{method}() is deprecated by FLIP-21: use set_object_reuse_mode(ObjectReuseMode.{mode.name})",
        DeprecationWarning,
        stacklevel=3,
    )
