"""Values of the Scala API of Flink 1 as those of flink-scala-api, with which jobs in Scala go on in Flink 2.

case class    field...                            ->  i32 n, field[n]; nothing of a class without fields
Option, Either                                        as they were
collection    i32 n (u8 isPresent, element)[n]    ->  i32 n, element[n]; an absent one has no form
Map           a collection of pairs               ->  i32 n (key, value)[n]
Array         i32 n (u8 isPresent, element)[n]    ->  i32 n, element[n]
Unit          u8 0                                ->  nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import word_of
from pyspark_savepoint.formats.serializers.composite.flinkx import (
    FlinkxCaseClassSerializer,
)
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import PartError
from pyspark_savepoint.statebackends.migration.rewriting.scala_types import FLINKX_UNIT, is_rewritten, pairs_of
from pyspark_savepoint.statebackends.migration.rewriting.target_types import ChangedPart
from pyspark_savepoint.statebackends.migration.rewriting.value_program import (
    Rewrite,
    SubclassOf,
    ValueEndsError,
    ValueProgram,
    bounded_count,
)
from pyspark_savepoint.statebackends.types.serializer_parts import Path


@dataclass
class ScalaPart:
    """A part of a state whose values become those of flink-scala-api, and what was found in them so far."""

    part: ChangedPart
    values: int = 0
    changed: int = 0

    def rewrite(self, path: Path, inside: Mapping[Path, Rewrite], subclass_of: SubclassOf | None) -> Rewrite:
        """Return the function that rewrites a value; ``inside`` are those of other parts, by paths as ``path`` is."""
        convert = _Converter(self.part, inside, subclass_of).of(self.part.old, self.part.new, path)

        def rewrite(data: bytes, at: int, out: bytearray) -> int:
            start = len(out)
            end = convert(data, at, out)
            self.values += 1
            self.changed += out[start:] != data[at:end]
            return end

        return rewrite


@dataclass
class _Converter:
    """Functions that rewrite the values of a part, and of the parts in it."""

    part: ChangedPart
    inside: Mapping[Path, Rewrite]
    subclass_of: SubclassOf | None

    def of(self, old: TypeSerializer, new: TypeSerializer, path: Path) -> Rewrite:
        """Return the function for a serializer; other values are copied, but not parts of the Scala API in them."""
        if not is_rewritten(old, new):
            size = len(path)
            rewrites = {part_path[size:]: made for part_path, made in self.inside.items() if part_path[:size] == path}
            return ValueProgram(old, rewrites, subclass_of=self.subclass_of).run
        pairs = pairs_of(old, new) or ()
        parts = [self.of(pair.old, pair.new, (*path, *pair.path)) for pair in pairs]
        if new.flink_type == FLINKX_UNIT:
            return _unit
        if isinstance(new, FlinkxCaseClassSerializer):
            return _fields(parts)
        if word_of(new) == "FLINKX_OPTION":
            return _chosen({1: parts[0], 0: _nothing})
        if word_of(new) == "FLINKX_EITHER":
            return _chosen({1: parts[0], 0: parts[1]})
        return self._elements(parts)

    def _elements(self, parts: Sequence[Rewrite]) -> Rewrite:
        def elements(data: bytes, at: int, out: bytearray) -> int:
            count = bounded_count(data, at)
            out += data[at : at + 4]
            at += 4
            for _ in range(count):
                if data[at] == 0:
                    raise PartError(
                        self.part,
                        UnsupportedStateError(
                            f"a collection has a null element, for which {self.part.new.flink_type} has no form",
                            remedy="leave the state out (drop), or remove the nulls with the job in Flink 1",
                        ),
                    )
                at += 1
                for part in parts:
                    at = part(data, at, out)
            return at

        return elements


def _fields(parts: Sequence[Rewrite]) -> Rewrite:
    count = len(parts).to_bytes(4, "big") if parts else b""

    def fields(data: bytes, at: int, out: bytearray) -> int:
        out += count
        for part in parts:
            at = part(data, at, out)
        return at

    return fields


def _chosen(parts: Mapping[int, Rewrite]) -> Rewrite:
    def chosen(data: bytes, at: int, out: bytearray) -> int:
        part = parts.get(data[at])
        if part is None:
            raise ValueEndsError
        out.append(data[at])
        return part(data, at + 1, out)

    return chosen


def _nothing(_data: bytes, at: int, _out: bytearray) -> int:
    return at


def _unit(data: bytes, at: int, _out: bytearray) -> int:
    if data[at] != 0:
        raise ValueEndsError
    return at + 1
