"""Operator state with other elements of one list state: new streams inline in ``_metadata``, all else byte for byte.

A subtask whose elements stay the same keeps its handle and its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.operator_handles import (
    Mode,
    OperatorStateHandle,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.finished import finished_subtasks, running_subtasks
from pyspark_savepoint.statebackends.rows.descriptors import OperatorStateDescriptor
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource
from pyspark_savepoint.statebackends.writing.operator_edit import VERSION, OperatorPart, write_operator_state


@redacted
@dataclass
class MemoryFile:
    """A file in memory, for streams that become inline."""

    path: str = ""
    size: int = 0
    data: bytearray = field(default_factory=bytearray)

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        self.data += buffer
        self.size = len(self.data)

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


def with_elements(opened: OpenOperator, state: str, elements: Mapping[int, Sequence[bytes]]) -> OperatorState:
    """Return the operator with these elements of a list state of bytes, by subtask; a subtask not named has none.

    Elements for a subtask that has finished go to one that runs.
    """
    elements = _of_running(opened.operator, elements)
    sources = {source.subtask: source for source in opened.streams}
    subtasks = dict(opened.operator.subtasks)
    for index in sorted(sources.keys() | elements.keys()):
        new_elements = elements.get(index, ())
        if not new_elements and index in sources and all(known.name != state for known in sources[index].states):
            continue
        stream = _Stream.of(sources[index], state) if index in sources else _Stream.new(state)
        if stream.elements == list(new_elements):
            continue
        before = subtasks.get(index, OperatorSubtaskState())
        subtasks[index] = replace(
            before,
            managed_operator_state=stream.handle(new_elements, f"{state}-{index}", before.managed_operator_state),
        )
    parallelism = max([opened.operator.parallelism, *(index + 1 for index in elements)])
    return replace(opened.operator, subtasks=subtasks, parallelism=parallelism)


def _of_running(operator: OperatorState, elements: Mapping[int, Sequence[bytes]]) -> Mapping[int, Sequence[bytes]]:
    finished = finished_subtasks(operator)
    if not any(elements[index] for index in finished & elements.keys()):
        return {index: values for index, values in elements.items() if index not in finished}
    first = running_subtasks(operator)[0]
    placed: dict[int, list[bytes]] = {}
    for index, values in elements.items():
        placed.setdefault(first if index in finished else index, []).extend(values)
    return placed


@dataclass
class _Stream:
    """An uncompressed stream of operator state, without the elements of one state, which are kept apart."""

    state: str
    data: bytes
    states: tuple[StateMetaInfo, ...]
    elements: list[bytes]

    @classmethod
    def new(cls, state: str) -> _Stream:
        """Return a stream with a registered list state of bytes and nothing else."""
        meta = OperatorStateDescriptor(state, Mode.SPLIT_DISTRIBUTE, parse_type("PRIMITIVE_ARRAY<BYTE>")).meta_info()
        out = DataOutputView()
        OperatorBackendHeader(VERSION, False, (meta,), ()).write(out)
        return cls(state, out.getvalue(), (StateMetaInfo(state, Mode.SPLIT_DISTRIBUTE, ()),), [])

    @classmethod
    def of(cls, source: OperatorSource, state: str) -> _Stream:
        """Take the elements of a state out of a stream; raise UnsupportedStateError if it does not have the state."""
        if all(known.name != state for known in source.states):
            raise UnsupportedStateError(
                f"subtask {source.subtask} has operator state, but not the one to be changed",
                operator=source.operator,
                state=state,
            )
        header = source.header()
        states, compressed = source.states, header.compressed
        if compressed:
            # Chunks cannot be taken out one by one.
            file = MemoryFile()
            states = write_operator_state([OperatorPart(source, {m.name: m.name for m in header.states}, header)], file)
            data = bytes(file.data)
        else:
            with source.location.open() as opened:
                data = opened.read(0, opened.size)
        return cls._without(data, states, state)

    @classmethod
    def _without(cls, data: bytes, states: tuple[StateMetaInfo, ...], state: str) -> _Stream:
        own = {offset for known in states if known.name == state for offset in known.offsets}
        places = sorted({offset for known in states for offset in known.offsets})
        kept, moved, elements = bytearray(data[: places[0]] if places else data), {}, []
        for start, end in pairwise([*places, len(data)]):
            moved[start] = len(kept)
            if start in own:
                elements.append(data[start:end])
            else:
                kept += data[start:end]
        rest = (
            replace(known, offsets=() if known.name == state else tuple(moved[offset] for offset in known.offsets))
            for known in states
        )
        return cls(state, bytes(kept), tuple(rest), elements)

    def handle(
        self, elements: Sequence[bytes], name: str, old: OperatorStateHandle | None
    ) -> OperatorStreamStateHandle:
        """Return an inline handle of the stream with other elements of the state, which follow all else."""
        data, offsets = bytearray(self.data), []
        for element in elements:
            offsets.append(len(data))
            data += element
        states = tuple(
            replace(state, offsets=tuple(offsets)) if state.name == self.state else state for state in self.states
        )
        inline = old.delegate if old is not None and isinstance(old.delegate, ByteStreamStateHandle) else None
        name = name if inline is None else inline.handle_name
        return OperatorStreamStateHandle(states, ByteStreamStateHandle(name, bytes(data)))
