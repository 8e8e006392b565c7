"""Savepoints with other positions of a source, without Spark: everything else is copied."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.execution.copying import publish, to_free_path
from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE
from pyspark_savepoint.formats.connectors.sources.kafka_consumer import STATE as CONSUMER_STATE
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.changes import assemble, target_version
from pyspark_savepoint.formats.snapshot.relocation import Relocation
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.statebackends.connectors.connector_states import list_states
from pyspark_savepoint.statebackends.connectors.edits.sources import split_keys, with_offsets
from pyspark_savepoint.statebackends.connectors.edits.splits import Key, shown
from pyspark_savepoint.statebackends.connectors.source_state import SourceState
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator


@dataclass(frozen=True)
class OffsetChange:
    """New positions of a source: given by split, set with ``to`` for all splits, or moved ``by`` a number.

    Splits are named as in :meth:`Savepoint.with_offsets`, or by the text ``topic-partition``.
    """

    offsets: Mapping[Any, Any] | None = None
    to: str | None = None
    by: int | None = None
    connector: str | None = None

    def write(self, source: Snapshot, uid: Any, target: str) -> tuple[str, ...]:
        """Write a savepoint with the positions to a free path; return warnings for the user.

        ``uid`` may be None where the snapshot has one source.
        """
        if not isinstance(self.offsets, Mapping | None):
            raise OptionError(
                "offsets are given by split",
                expected='such as {("orders", 3): 1200}, or {"orders": "earliest"}',
                found=type(self.offsets).__name__,
            )
        found = self._source(source, uid)
        texts = _splits_of_texts(found) if any(isinstance(key, str) for key in self.offsets or {}) else {}
        offsets = None if self.offsets is None else {_named(key, texts, found): at for key, at in self.offsets.items()}
        edited = with_offsets(found, offsets, self.to, self.by)
        changed = edited.source.written()
        staging = to_free_path(target)
        relocation = Relocation(f"{staging.token}-copy")

        def operators() -> Iterator[OperatorState]:
            for operator in source.operators:
                one = changed if operator.operator_id == changed.operator_id else operator
                yield relocation.copied(source, one)

        version = target_version([source.metadata], None)
        publish(staging, lambda: assemble(list(operators()), [source.metadata], version), relocation)
        return tuple(f"{found.label}: {note}" for note in edited.notes)

    def _source(self, source: Snapshot, uid: Any) -> SourceState:
        if uid is not None:
            identifier = identifier_of(uid)
            operator = source.operator(uid_hash=identifier.operator_id.hex)
            return SourceState.read(OpenOperator(source, operator), self.connector)
        found = list(self._sources(source))
        if len(found) != 1:
            raise OptionError(
                "the snapshot has no source whose offsets could be changed"
                if not found
                else f"the snapshot has {len(found)} sources: name one of them",
                path=source.path,
                expected=", ".join(one.label for one in found) or "a source of a known kind",
            )
        return found[0]

    def _sources(self, source: Snapshot) -> Iterator[SourceState]:
        for operator in source.operators:
            names = list_states(operator)
            if READER_STATE in names or CONSUMER_STATE in names:
                try:
                    yield SourceState.read(OpenOperator(source, operator), self.connector)
                except (StateNotFoundError, UnsupportedStateError):
                    continue


def _splits_of_texts(source: SourceState) -> dict[str, Key]:
    """Return the splits, and the topics or files that have several, by their texts."""
    _, keys = split_keys(source)
    found: dict[str, Key] = {str(key[0]): (key[0],) for key in keys}
    return found | {shown(key): key for key in keys}


def _named(given: Any, texts: Mapping[str, Key], source: SourceState) -> Any:
    if not isinstance(given, str):
        return given
    if given not in texts:
        raise OptionError(
            f"the source has no split {given!r}", operator=source.label, remedy=did_you_mean(given, sorted(texts))
        )
    return texts[given]


def position_of(text: str) -> int | str:
    """Return a position from text: a number, or a word such as ``earliest``.

    >>> position_of("1200"), position_of("earliest")
    (1200, 'earliest')
    """
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else text
