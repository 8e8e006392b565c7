"""The connectors, which modules of ``sources`` and ``sinks`` declare, and the recognition of a kind by content.

A kind is recognised if it reads every byte of all elements of a state and writes the same bytes again. A state that no
kind reads, or several kinds (an empty coordinator), is shown as bytes with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.resources import files
from types import ModuleType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors import sinks, sources
from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.edits import SplitEdits
from pyspark_savepoint.formats.connectors.payloads.kind import (
    COMMITTABLES,
    FRAMED_STATES,
    SOURCE_COORDINATOR,
    STATES_OF_TABLES,
    ConnectorKind,
    CoordinatorFrame,
    Payload,
    Position,
    Row,
    read_element,
)
from pyspark_savepoint.formats.connectors.sinks.committer import TWO_PHASE_COMMIT
from pyspark_savepoint.formats.connectors.sources.hybrid import hybrid_connectors, over_each
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UserFunctionError, did_you_mean
from pyspark_savepoint.formats.plug_ins import CONNECTORS, PlugIn, plugged_in
from pyspark_savepoint.formats.redaction import elide


def _declared_in(package: ModuleType) -> list[Connector]:
    """Return what the modules of a package declare as ``CONNECTORS``, in the order of their names."""
    names = sorted(file.name.removesuffix(".py") for file in files(package).iterdir() if file.name.endswith(".py"))
    modules = [import_module(f"{package.__name__}.{name}") for name in names if name != "__init__"]
    return [connector for module in modules for connector in getattr(module, "CONNECTORS", ())]


def _by_rank(connectors: Iterable[Connector]) -> tuple[Connector, ...]:
    return tuple(sorted(connectors, key=lambda connector: connector.rank))


SOURCES = _by_rank(_declared_in(sources))
#: All connectors of this package, in the order in which their kinds are tried.
KNOWN_CONNECTORS = _by_rank((*SOURCES, *hybrid_connectors(SOURCES), *_declared_in(sinks)))
KINDS: tuple[ConnectorKind[Any], ...] = tuple(kind for connector in KNOWN_CONNECTORS for kind in connector.kinds)
MAX_REASON = 400


@dataclass(frozen=True)
class Recognition:
    """The payloads of one state of an operator, and their content if their kind is known, else the reason why not.

    ``doubt`` names other kinds that may have written them, if the kind was not given and its bytes do not prove it.
    """

    payloads: tuple[Payload, ...]
    kind: ConnectorKind[Any] | None = None
    values: tuple[Any, ...] = ()
    reason: str | None = None
    doubt: str | None = None


def known_connectors() -> tuple[Connector, ...]:
    """Return all connectors: those of installed packages, then those of this one."""
    return (*plugged_connectors(), *KNOWN_CONNECTORS)


def known_kinds() -> tuple[ConnectorKind[Any], ...]:
    """Return all kinds: those of installed packages, then those of this one."""
    return (*(kind for connector in plugged_connectors() for kind in connector.kinds), *KINDS)


def kinds_of(table: str, named: str | None = None) -> list[ConnectorKind[Any]]:
    """Return the kinds of a table, or those of a name; raise OptionError if there is none of this name.

    There are none for ``two_phase_commit``: the serializer of each state makes its kind.
    """
    result = [kind for kind in known_kinds() if kind.table == table]
    if named is None:
        return result
    names = [kind.name for kind in result] + [TWO_PHASE_COMMIT] * (table == COMMITTABLES)
    name = named.strip().casefold()
    if name not in names:
        raise OptionError(
            f"there is no connector {named!r} that table {table!r} shows", remedy=did_you_mean(named, names)
        )
    return [kind for kind in result if kind.name == name]


def states_of(table: str, present: Collection[str]) -> list[str]:
    """Return the operator states that a table shows for an operator with the states ``present``."""
    kinds = [kind for kind in known_kinds() if kind.table == table and kind.needs_state in (None, *present)]
    names = [name for kind in kinds for name in kind.states]
    return list(dict.fromkeys([*STATES_OF_TABLES.get(table, ()), *names]))


def recognise_elements(
    table: str, state: str, elements: Sequence[bytes], named: str | None = None, present: Collection[str] = ()
) -> Recognition:
    """Return the kind of all elements of an operator state of one operator, which has the states ``present``."""
    kinds = [kind for kind in kinds_of(table, named) if state in kind.states and kind.needs_state in (None, *present)]
    plain = tuple(Payload(None, element) for element in elements)
    payloads, reasons = plain, []
    if state in FRAMED_STATES or any(kind.framed for kind in kinds):
        try:
            payloads = tuple(read_element(element) for element in elements)
        except SavepointError as error:
            reasons.append(f"its elements do not begin with a version: {_words(error)}")
            kinds = [kind for kind in kinds if not kind.framed]
    recognition, why = _first(kinds, payloads, plain, named)
    return recognition or Recognition(payloads, reason=_reason([*reasons, *why]))


def recognise_coordinator(data: bytes, named: str | None = None, splits: str | None = None) -> Recognition:
    """Return the kind of a coordinator's state; ``splits`` is that of the operator's splits: empty if it is unknown."""
    try:
        frame = CoordinatorFrame.read(data)
    except SavepointError as error:
        return Recognition(
            (Payload(None, data),), reason=f"it is not the state of a source coordinator: {_words(error)}"
        )
    kinds = kinds_of(SOURCE_COORDINATOR, named)
    if named is None and splits is not None:
        kinds = [kind for kind in kinds if kind.name == splits]
    payloads = (frame.payload,)
    if not kinds:
        return Recognition(payloads, reason="no known connector has splits like those of its readers")
    matches, reasons = _matches(kinds, payloads, payloads, named or splits)
    if len(matches) > 1 and matches[0].kind is not None:
        names = " and ".join(match.kind.name for match in matches if match.kind is not None)
        return Recognition(payloads, reason=f"its bytes fit {names}: name one in option 'connector'")
    return matches[0] if matches else Recognition(payloads, reason=_reason(reasons))


def _first(
    kinds: Iterable[ConnectorKind[Any]], payloads: tuple[Payload, ...], plain: tuple[Payload, ...], named: str | None
) -> tuple[Recognition | None, list[str]]:
    reasons: list[str] = []
    for kind in kinds:
        matches, why = _matches([kind], payloads, plain, named)
        if matches:
            return matches[0], []
        reasons += why
    return None, reasons


def _matches(
    kinds: Iterable[ConnectorKind[Any]], payloads: tuple[Payload, ...], plain: tuple[Payload, ...], named: str | None
) -> tuple[list[Recognition], list[str]]:
    """Return the kinds that read all payloads, and why the others do not."""
    matches, reasons = [], []
    for kind in kinds:
        if not kind.by_content and kind.name != named:
            continue
        own = payloads if kind.framed else plain
        try:
            doubt = None if kind.name == named else kind.doubt
            matches.append(Recognition(own, kind, tuple(kind.read_all(own)), doubt=doubt))
        except UserFunctionError:  # a mistake of a plug-in, which must not be hidden
            raise
        except (SavepointError, ValueError) as error:
            reasons.append(f"not {kind.name}: {_words(error)}")
    return matches, reasons


def _words(error: SavepointError | ValueError) -> str:
    if not isinstance(error, SavepointError):
        return str(error)
    facts = [f"{name} {error.facts[name]}" for name in ("expected", "found") if name in error.facts]
    return ", ".join(facts) or error.message


def _reason(reasons: Sequence[str]) -> str:
    return elide("; ".join(reasons) or "no known connector keeps this state", MAX_REASON)


# -- connectors of other packages, through the entry point group ``pyspark_savepoint.connectors`` ---------------------
# The value of an entry is a :class:`Connector`, a :class:`ConnectorKind` for what is only read, or several in a list.
# Its name is only shown in errors::
#
#     [project.entry-points."pyspark_savepoint.connectors"]
#     shop = "shop_savepoint.connectors:CONNECTORS"
#
# They are tried before the kinds of this package. Entry points are used because executors are separate processes.

Kind = ConnectorKind[Any]


@cache
def plugged_connectors() -> tuple[Connector, ...]:
    """Return the connectors of installed packages, and the hybrid sources over theirs."""
    connectors = [connector for entry in plugged_in(CONNECTORS) for connector in _connectors_of(entry)]
    return (*connectors, *over_each(connectors))


def _connectors_of(entry: EntryPoint) -> list[Connector]:
    """Import the connectors of an entry point; a failure is a UserFunctionError that names it and its package."""
    package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    name = f"entry point {entry.name!r} = {entry.value!r}{package}"
    with PlugIn(name, "its import"):
        loaded = entry.load()
        return [_connector(value, name) for value in (loaded if isinstance(loaded, Sequence) else [loaded])]


def _connector(value: object, name: str) -> Connector:
    if isinstance(value, ConnectorKind):
        return Connector(value.name, (guarded(value, name),), versions="", proof="")
    if not isinstance(value, Connector):
        raise TypeError(f"{value!r:.200} is neither a Connector nor a ConnectorKind")
    if not isinstance(value.edits, SplitEdits | None):
        raise TypeError(f"{value.edits!r:.200} is not a SplitEdits")
    edits = None if value.edits is None else _guarded_edits(value.edits, name)
    return replace(value, kinds=tuple(guarded(kind, name) for kind in value.kinds), edits=edits)


def _guarded_edits(edits: SplitEdits, name: str) -> SplitEdits:
    """Return edits that name the plug-in in errors; ValueError and KeyError stay: they refuse what a user gave."""

    def method(doing: str) -> Callable[..., Any]:
        function = getattr(edits, doing)

        def call(_: SplitEdits, *arguments: Any) -> Any:
            return _called(lambda: function(*arguments), name, doing, (ValueError, KeyError))

        return call

    methods = {
        each: method(each) for each, member in SplitEdits.__dict__.items() if callable(member) and each[0] != "_"
    }
    guarded_edits: SplitEdits = type(
        type(edits).__name__, (SplitEdits,), {**methods, "key_columns": edits.key_columns}
    )()
    return guarded_edits


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


def _called(
    call: Callable[[], Any], name: str, doing: str, refusals: tuple[type[Exception], ...] = (ValueError,)
) -> Any:
    with PlugIn(name, doing):
        try:
            return call()
        except refusals as error:
            refusal = error
    raise refusal
