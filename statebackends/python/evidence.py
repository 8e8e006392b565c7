"""What the bytes of all values of a PyFlink state prove about its type.

A type is proved if every value of the state is one, to its last byte, and if its form leaves no doubt: a length and a
pickle, a length and a printable text in UTF-8, or lists and maps of these. Eight bytes prove nothing: they may be a
LONG, a DOUBLE, a TIMESTAMP or two INTs. Whether a state is a value or a list is proved only by keys that have several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import DecodeOptions, Origin
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.pickle_walker import is_pickle
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import MapSerializer
from pyspark_savepoint.formats.serializers.layout import count_until_end, decode_elements
from pyspark_savepoint.formats.serializers.notation.python_types import (
    BINARY,
    PICKLED,
    STRING,
    ListCoder,
    PickledCoder,
    StringCoder,
    list_of,
)
from pyspark_savepoint.statebackends.python.python_state import cursors, lengths

#: What bytes can prove, the strongest first.
PROVABLE: tuple[TypeSerializer, ...] = (
    PICKLED,
    list_of(PICKLED),
    list_of(STRING),
    MapSerializer.of(STRING, STRING),
    MapSerializer.of(STRING, PICKLED),
    STRING,
)
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
#: Types by the bytes that each of their values has. Messages suggest them; no column is read with them.
OF_WIDTH = {1: "BOOLEAN", 2: "SHORT", 4: "INT", 8: "LONG", 12: "INSTANT", 16: "TUPLE<LONG, LONG>"}
OPTIONS = DecodeOptions(timestamps="raw", decimals="string")


@dataclass
class Candidate:
    """A type that all byte arrays so far may have.

    ``single``: each is one value. ``some``: not all of them are empty.
    """

    coder: TypeSerializer
    single: bool = True
    some: bool = False
    alive: bool = True

    def add(self, chunks: pa.Array) -> None:
        """Test the byte arrays."""
        if not self.alive or not len(chunks):
            return
        at = cursors(chunks, OPTIONS, Origin())
        try:
            each = count_until_end(self.coder, at, 0)
            leaves = self._leaves(decode_elements(_bytes_of(self.coder), at, each))
            at.expect_end()
        except SavepointError:
            self.alive = False
            return
        self.single &= bool((each == 1).all())
        self.alive = bool(each.all()) and all(self._proves(kind, leaf) for kind, leaf in leaves)
        self.some |= any(int(pc.sum(pc.binary_length(leaf)).as_py() or 0) > 0 for _, leaf in leaves)

    def _leaves(self, column: pa.Array) -> list[tuple[TypeSerializer, pa.Array]]:
        """Return the byte arrays of texts and pickles."""
        if isinstance(self.coder, ListCoder):
            return [(self.coder.element, column.flatten().drop_null())]
        if isinstance(self.coder, MapSerializer):
            return [(self.coder.key, column.keys), (self.coder.value, column.items.drop_null())]
        return [(self.coder, column)]

    @staticmethod
    def _proves(kind: TypeSerializer, leaf: pa.Array) -> bool:
        if isinstance(kind, PickledCoder):
            return all(map(is_pickle, leaf.to_pylist()))
        try:
            texts = leaf.cast(pa.string())
        except pa.ArrowInvalid:
            return False
        return not pc.any(pc.match_substring_regex(texts, CONTROL)).as_py()


def _bytes_of(coder: TypeSerializer) -> TypeSerializer:
    """Return the coder with byte arrays in place of texts and pickles."""
    if isinstance(coder, ListCoder):
        return list_of(_bytes_of(coder.element))
    if isinstance(coder, MapSerializer):
        return MapSerializer.of(_bytes_of(coder.key), _bytes_of(coder.value))
    return BINARY if isinstance(coder, StringCoder | PickledCoder) else coder


@dataclass
class Evidence:
    """Evidence of the byte arrays of one state, or of its map keys."""

    candidates: Sequence[Candidate] = field(default_factory=lambda: [Candidate(coder) for coder in PROVABLE])
    widths: set[int] = field(default_factory=set)
    several: bool = False

    def add(self, column: pa.Array) -> None:
        """Add lists of byte arrays."""
        self.several |= bool((lengths(column) > 1).any())
        self.add_chunks(column.flatten())

    def add_chunks(self, chunks: pa.Array) -> None:
        """Add byte arrays."""
        chunks = chunks.drop_null()
        if len(self.widths) <= 1:
            self.widths.update(np.unique(np.asarray(pc.binary_length(chunks))).tolist())
        for candidate in self.candidates:
            candidate.add(chunks)

    @property
    def proved(self) -> Candidate | None:
        """Return the type that is proved."""
        return next((found for found in self.candidates if found.alive and found.some), None)

    @property
    def suggestion(self) -> str:
        """Return a type for the user to confirm, by the width of the values; ``...`` if there is none."""
        return OF_WIDTH.get(next(iter(self.widths)), "...") if len(self.widths) == 1 else "..."


@dataclass
class ListOrValue:
    """Evidence for ``LIST<T>``: a list state of T, or a value that is a list of T."""

    value: Candidate
    element: Candidate
    several: bool = False

    @classmethod
    def of(cls, coder: ListCoder) -> ListOrValue:
        return cls(Candidate(coder), Candidate(coder.element))

    def add(self, column: pa.Array) -> None:
        """Add lists of byte arrays."""
        self.several |= bool((lengths(column) > 1).any())
        chunks = column.flatten()
        for candidate in (self.value, self.element):
            _fits(candidate, chunks)

    @property
    def is_value(self) -> bool:
        """Return whether every key has one value that is a list, some of them with elements."""
        return (
            self.value.alive and self.value.single and not self.several and (self.value.some or not self.element.alive)
        )


def _fits(candidate: Candidate, chunks: pa.Array) -> None:
    """Test only that byte arrays are values of any type."""
    if not candidate.alive or not len(chunks):
        return
    at = cursors(chunks, OPTIONS, Origin())
    try:
        each = count_until_end(candidate.coder, at, 0)
        decode_elements(candidate.coder, at, each)
        at.expect_end()
    except SavepointError:
        candidate.alive = False
        return
    candidate.single &= bool((each == 1).all())
    candidate.some |= bool((np.asarray(pc.binary_length(chunks)) > 4).any())
