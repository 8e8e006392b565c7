"""A connector: its kinds of state, how its splits are changed, and what pages say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.formats.connectors.payloads.edits import SplitEdits
from pyspark_savepoint.formats.connectors.payloads.kind import ConnectorKind


@dataclass(frozen=True)
class Effect:
    """What a change of a source does: to its readers, to its enumerator, and what Flink does afterwards."""

    change: str
    readers: str
    enumerator: str
    flink: str


@dataclass(frozen=True)
class Refusal:
    """A change that is refused, and the reason unless it is obvious."""

    change: str
    reason: str = ""


@dataclass(frozen=True)
class Connector:
    """What is known of a connector, or of one of its sinks. ``name`` is that of its kinds.

    ``versions``, ``changes`` and ``proof`` are its row in the README of ``formats``, ``about`` is said behind the name.
    ``effects`` and ``refusals`` are its rows in the README of ``statebackends``. One without ``proof`` has no row.
    """

    name: str
    kinds: tuple[ConnectorKind[Any], ...]
    versions: str
    proof: str
    changes: str = "none"
    about: str = ""
    #: How splits are changed; None if they cannot be.
    edits: SplitEdits | None = None
    #: The enumerator of a new source, which knows no split yet; None if no source can be made.
    new_enumerator: Any = None
    #: Columns of other kinds that edits accept, or refuse with their own reason.
    extra_columns: tuple[str, ...] = ()
    #: What must still be there to read records again: the connector does not fail where it is not.
    retention: str | None = None
    effects: tuple[Effect, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    #: The order in which connectors are tried and listed: common ones first, those that read any state last.
    rank: int = 10
