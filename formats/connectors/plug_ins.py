"""Kinds of other packages, through the entry point group ``pyspark_savepoint.connectors``.

The value of an entry is a :class:`ConnectorKind`, or several in a list; its name is only shown in errors::

    [project.entry-points."pyspark_savepoint.connectors"]
    shop = "shop_savepoint.connectors:KINDS"

They are tried before the kinds of this package. Entry points are used because executors are separate processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import ConnectorKind, Position, Row
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.plug_in_packages import CONNECTORS, plugged_in
from pyspark_savepoint.formats.serializers.plug_ins import PlugIn

Kind = ConnectorKind[Any]


@cache
def plugged_kinds() -> tuple[Kind, ...]:
    """Return the kinds of installed packages."""
    return tuple(kind for entry in plugged_in(CONNECTORS) for kind in _kinds_of(entry))


def _kinds_of(entry: EntryPoint) -> list[Kind]:
    """Import the kinds of an entry point; a failure is a UserFunctionError that names it and its package."""
    package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    name = f"entry point {entry.name!r} = {entry.value!r}{package}"
    with PlugIn(name, "its import"):
        found = entry.load()
        kinds = list(found) if isinstance(found, Sequence) else [found]
        for kind in kinds:
            if not isinstance(kind, ConnectorKind):
                raise TypeError(f"{kind!r:.200} is not a ConnectorKind")
    return [guarded(kind, name) for kind in kinds]


def guarded(kind: Kind, name: str) -> Kind:
    """Return a kind whose functions name the plug-in in errors; ValueError stays: it rejects bytes of other kinds."""

    def decode(version: int, view: DataInputView) -> Any:
        return _called(lambda: kind.decode(version, view), name, "decode")

    def encode(version: int, value: Any, out: DataOutputView) -> None:
        _called(lambda: kind.encode(version, value, out), name, "encode")

    def check(values: Sequence[Any]) -> None:
        _called(lambda: kind.check(values), name, "check")

    def rows(value: Any) -> Iterable[Row]:
        with PlugIn(name, "rows"):
            return list(_rows(kind, value))

    def positions(value: Any) -> Iterable[Position]:
        with PlugIn(name, "positions"):
            return list(kind.positions(value)) if kind.positions is not None else []

    return replace(
        kind,
        decode=decode,
        encode=encode,
        check=check,
        rows=rows,
        positions=None if kind.positions is None else positions,
    )


def _rows(kind: Kind, value: Any) -> Iterator[Row]:
    for row in kind.rows(value):
        for field in kind.columns:
            pa.array([row.get(field.name)], field.type)
        yield row


def _called(call: Callable[[], Any], name: str, doing: str) -> Any:
    with PlugIn(name, doing):
        try:
            return call()
        except ValueError as error:
            refusal = error
    raise refusal
