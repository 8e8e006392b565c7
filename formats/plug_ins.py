"""Plug-ins: the entry points of installed packages that extend this one, and guards around what they provide.

Entry points are looked up once, because that takes milliseconds, as does importing what finds them. Errors name the
plug-in, and its results are checked before they are used.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import SavepointError, UserFunctionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

#: Groups: serializers by snapshot class, readers of classes in Kryo's values, kinds of connectors.
SERIALIZERS = "pyspark_savepoint.serializers"
KRYO_CLASSES = "pyspark_savepoint.kryo_classes"
CONNECTORS = "pyspark_savepoint.connectors"


@cache
def _installed() -> Any:
    from importlib.metadata import entry_points

    return entry_points()


def plugged_in(group: str) -> EntryPoints:
    """Return the entry points of a group; nothing of their packages is imported yet."""
    points: EntryPoints = _installed().select(group=group)
    return points


HOME = "pyspark_savepoint."
#: The guarded methods of serializers, with the type of their result where it is checked.
METHODS: dict[str, type | tuple[type, ...] | None] = {
    "read_snapshot": None,
    "write_payload": None,
    "flink_type": str,
    "arrow_type": pa.DataType,
    "length": int,
    "layout": None,
    "decode": pa.Array,
    "sizes": None,
    "encode": None,
    "java_hash": None,
}


class PlugIn:
    """Context manager around calls of a plug-in: exceptions become a UserFunctionError that names the plug-in."""

    def __init__(self, name: str, doing: str) -> None:
        self.name = name
        self.doing = doing

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # sys.exit() in a plug-in would end Spark's Python worker without an error that names the plug-in.
        if not isinstance(error, Exception | SystemExit):
            return
        if isinstance(error, SavepointError):
            raise error.with_facts(function=self.name) from None
        raise UserFunctionError(
            f"the plug-in failed in {self.doing}: {type(error).__name__}: {error}",
            function=self.name,
            remedy="fix the package of the plug-in, or uninstall it",
            traceback="\n" + "".join(traceback.format_exception(error)).rstrip(),
        ) from None


def guard(serializer: type) -> None:
    """Wrap the methods that a plug-in's serializer class declares in :class:`PlugIn`."""
    if serializer.__module__.startswith(HOME):
        return
    name = f"{serializer.__module__}.{serializer.__qualname__}"
    for method, returned in METHODS.items():
        member = serializer.__dict__.get(method)
        if isinstance(member, classmethod):
            setattr(serializer, method, classmethod(_guarded(member.__func__, name, method, returned)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(serializer, method, property(_guarded(member.fget, name, method, returned)))
        elif callable(member):
            setattr(serializer, method, _guarded(member, name, method, returned))


def _guarded(function: Callable[..., Any], name: str, method: str, returned: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: Any, *arguments: Any, **more: Any) -> Any:
        with PlugIn(name, method):
            result = function(self, *arguments, **more)
            if returned is not None and not isinstance(result, returned):
                raise TypeError(f"{method} returned {type(result).__name__}, expected {returned.__name__}")
            if method == "decode" and isinstance(arguments[0], Cursors) and len(result) != len(arguments[0]):
                raise ValueError(f"decode returned {len(result)} values for {len(arguments[0])} cursors")
        return result

    return call
