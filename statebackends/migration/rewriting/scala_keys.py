"""Key groups of keys in Scala: jobs for Flink 1 have Scala 2.12, those for Flink 2 Scala 2.13 or 3, and hashes differ.

Scala hashes a case class by MurmurHash3 over the hashes of its fields, and since 2.13 over the hash of its name first:

    h := CAFEBABE, mix(h, hash of the name) since 2.13, mix(h, hash of each field); finalize(h, number of fields)

``Some``, ``Left`` and ``Right`` and tuples are case classes too. So such a key moves to another key group. That hashes
are those of the class and not of a ``hashCode`` of the job's own is proved by the keys: all must be in the key groups
of Scala 2.12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Ints, valid_rows
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.metadata.key_groups import key_groups_for_hashes
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import word_of
from pyspark_savepoint.formats.serializers.composite.fields import CaseClassSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import EitherSerializer
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk
from pyspark_savepoint.statebackends.migration.rewriting.scala_types import of_scala_api
from pyspark_savepoint.statebackends.migration.rewriting.value_program import PLAIN
from pyspark_savepoint.statebackends.rows.entry_bytes import TIMESTAMP_BYTES

SEED = 0xCAFEBABE
NONE = "None"
REMEDY = "leave the operator's states out (drop)"


def expect_hashes(serializer: TypeSerializer) -> None:
    """Raise UndecodableStateError or UnsupportedStateError if the hashes of a key are not known."""
    scala_hash(serializer, pa.nulls(0, serializer.arrow_type(PLAIN)), names=True)


@dataclass(frozen=True)
class ScalaKeyGroups:
    """Key groups by Scala 2.13 of entries that a job with Scala 2.12 wrote; ``timers`` are numbers of states."""

    serializer: TypeSerializer
    max_parallelism: int
    timers: frozenset[int]

    def of(self, chunk: EntryChunk) -> Ints:
        """Return the key groups; raise UnsupportedStateError if a key is not in its key group by Scala 2.12."""
        start = chunk.key_start + TIMESTAMP_BYTES * np.isin(chunk.state, list(self.timers))
        keys = self.serializer.decode(Cursors(chunk.keys, start.astype(np.int64), chunk.key_end, options=PLAIN))
        before, after = (
            key_groups_for_hashes(scala_hash(self.serializer, keys, names=names), self.max_parallelism)
            for names in (False, True)
        )
        wrong = np.flatnonzero(before != chunk.key_group)
        if len(wrong):
            row = int(wrong[0])
            raise UnsupportedStateError(
                f"a key of {self.serializer.flink_type} is not hashed as Scala 2.12 hashes its class, so its key group "
                "in the new job is not known",
                expected=f"key group {before[row]}",
                found=f"{str(keys[row].as_py())[:200]} in key group {chunk.key_group[row]}",
                remedy=REMEDY,
            )
        return after


def scala_hash(serializer: TypeSerializer, column: pa.Array, *, names: bool) -> Ints:
    """Return ``hashCode`` of the objects of a column; ``names`` of classes are part of it since Scala 2.13."""

    def product(name: str, fields: Sequence[Ints]) -> Any:
        if not fields:
            return np.full(len(column), string_hash(name), np.uint32)
        result = np.full(len(column), SEED, np.uint32)
        if names:
            result = _mix(result, np.uint32(string_hash(name)))
        for field_hashes in fields:
            result = _mix(result, field_hashes.view(np.uint32))
        return _finalized(result, len(fields))

    def part(inner: TypeSerializer, values: pa.Array) -> Ints:
        return scala_hash(inner, values, names=names)

    if isinstance(serializer, CaseClassSerializer):
        parts = [part(field, column.field(index)) for index, field in enumerate(serializer.nested)]
        hashes = product(_simple_name(serializer.class_name), parts)
    elif word_of(serializer) in ("OPTION", "FLINKX_OPTION"):
        some = product("Some", [part(serializer.children[0], column)])
        return np.where(valid_rows(column), some, np.uint32(string_hash(NONE))).astype(np.uint32).view(np.int32)
    elif isinstance(serializer, EitherSerializer) and of_scala_api(serializer):
        left, right = (
            product(name, [part(inner, column.field(index))])
            for index, (name, inner) in enumerate(zip(("Left", "Right"), serializer.nested, strict=True))
        )
        hashes = np.where(valid_rows(column.field(0)), left, right)
    elif of_scala_api(serializer):
        raise UnsupportedStateError(
            f"how Scala 2.13 hashes a key with {serializer.flink_type} in it is not known", remedy=REMEDY
        )
    else:
        return _field_hash(serializer, column)
    return np.where(valid_rows(column), hashes, 0).astype(np.uint32).view(np.int32)


def _field_hash(serializer: TypeSerializer, column: pa.Array) -> Ints:
    """Return ``##`` of the values of a column: numbers that are equal have equal hashes."""
    make = NUMBERS.get(serializer.flink_type)
    if make is None:
        return serializer.java_hash(column)
    values = column.fill_null(False if pa.types.is_boolean(column.type) else 0).to_numpy(zero_copy_only=False)
    return np.where(valid_rows(column), make(values), 0).astype(np.int32)


def _of_long(values: Any) -> Any:
    """Return the number itself where it is an int, else both halves, combined."""
    values = values.astype(np.int64)
    low = values.astype(np.int32)
    return np.where(low == values, low, _folded(values))


def _of_floating(kind: Any, bits: Any) -> Callable[[Any], Any]:
    def hashed(values: Any) -> Any:
        values = values.astype(kind)
        whole = np.isfinite(values) & (np.abs(values) < 2.0**63)
        longs = np.where(whole, values, 0).astype(np.int64)
        is_long = whole & (longs == values)
        canonical = np.where(np.isnan(values), kind(np.nan), values).astype(kind)
        raw = _folded(canonical.view(bits))
        if kind is np.float64:
            with np.errstate(over="ignore"):
                single = canonical.astype(np.float32)
            fits = single == canonical
            raw = np.where(fits, single.view(np.int32), raw)
        return np.where(is_long, _of_long(longs), raw)

    return hashed


def _folded(bits: Any) -> Any:
    if bits.dtype == np.int32:
        return bits
    return (bits ^ (bits.view(np.uint64) >> np.uint64(32)).view(np.int64)).astype(np.int32)


#: Hashes of numbers, which are equal where the numbers are.
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "BOOLEAN": lambda values: np.where(values, 1231, 1237),
    "BYTE": lambda values: values.astype(np.int32),
    "SHORT": lambda values: values.astype(np.int32),
    "INT": lambda values: values.astype(np.int32),
    "LONG": _of_long,
    "FLOAT": _of_floating(np.float32, np.int32),
    "DOUBLE": _of_floating(np.float64, np.int64),
}


def _simple_name(class_name: str) -> str:
    """Return the name of a class without its package and outer classes, as ``productPrefix`` has it."""
    name = class_name.rpartition(".")[2].rpartition("$")[2]
    if not name or name[0].isdigit() or class_name.rpartition(".")[2].endswith("$sp"):
        raise UnsupportedStateError(
            "what Scala calls a class is not known, which is part of the hashes of keys",
            found=class_name[:200],
            remedy=REMEDY,
        )
    return name


def string_hash(text: str) -> int:
    """Return ``String.hashCode`` without its sign."""
    result = 0
    data = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(data[::2], data[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def _rotated(values: Any, by: int) -> Any:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _mix(hashes: Any, data: Any) -> Any:
    with np.errstate(over="ignore"):
        scrambled = _rotated(np.asarray(data, np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        return _rotated(hashes ^ scrambled, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finalized(hashes: Any, length: int) -> Any:
    with np.errstate(over="ignore"):
        hashes = hashes ^ np.uint32(length)
        hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))
