"""Conversion of key columns to serialized keys and key groups, and back to text for errors.

    sort key := key [vlen] namespace [vlen]     keyed state and windows, as in composite keys of the canonical format
                u16 stateId  compositeKey       raw entries and timers
    vlen     := length of the part before it, little-endian base 256; both are present if both parts have variable
                length, else none

Serialized values are self-delimiting, so none is a prefix of another. Rows sorted by these bytes are therefore in the
order of RocksDB's composite keys, whatever follows the key. Flink: ``CompositeKeySerializationUtils``,
``SerializedCompositeKeyBuilder``, ``KeyGroupRangeAssignment#assignToKeyGroup``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    binary_array,
    spans_of,
    struct_array,
)
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.metadata.key_groups import key_groups_for_hashes
from pyspark_savepoint.formats.serializers.basic.primitives import ConstantSerializer
from pyspark_savepoint.formats.serializers.composite.fields import FieldsSerializer
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE, TIMER_PREFIX, KeyedDescriptor
from pyspark_savepoint.statebackends.rows.state_entries import encode_column

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

PLAIN = DecodeOptions(timestamps="raw")


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """Key group (int32) and sort key (binary, no nulls) per row, the input of ``RowSorter.add``."""

    key_group: Ints
    key: pa.BinaryArray


class KeyCodec:
    """Codec for the keys of one descriptor.

    Columns must be of the serializers' own Arrow types (``exact_casts.conform_column``).
    """

    def __init__(self, descriptor: KeyedDescriptor, max_parallelism: int) -> None:
        self.descriptor = descriptor
        self.max_parallelism = max_parallelism
        self.serializer = descriptor.key_serializer
        self.namespace = descriptor.namespace or NO_NAMESPACE
        self.variable = self.serializer.length < 0 and self.namespace.length < 0

    def encode(self, rows: pa.RecordBatch) -> EncodedKeys:
        """Return key groups and sort keys of rows with the key columns and, if there is one, the namespace column."""
        keys = self.key_column(rows)
        namespaces = None
        if self.descriptor.namespace_column is not None:
            namespaces = rows.column(self.descriptor.namespace_column)
            refuse_null(namespaces, self.descriptor.namespace_column, "namespace")
        return EncodedKeys(self.key_groups(keys, rows), self.sort_keys(keys, namespaces))

    def key_column(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the key column, or a struct of several key columns."""
        names = self.descriptor.key_columns
        columns = [rows.column(name) for name in names]
        if not self.descriptor.is_composite:
            refuse_null(columns[0], names[0], "key")
            return columns[0]
        if isinstance(self.serializer, FieldsSerializer):
            for name, column, field in zip(names, columns, self.serializer.nested, strict=True):
                _refuse_null_field(column, name, field)
        whole = self.serializer.arrow_type(DecodeOptions())
        fields = [pa.field(whole.field(i).name, column.type) for i, column in enumerate(columns)]
        if any(column.offset for column in columns):
            columns = [pa.concat_arrays([column]) for column in columns]
        return struct_array(pa.struct(fields), columns, rows.num_rows)

    def key_groups(self, keys: pa.Array, rows: pa.RecordBatch | None = None) -> Ints:
        """Return key groups from the keys' Java hashes, or from the key group column if they are not computable."""
        from pyspark_savepoint.formats.kernels import keys as kernels

        name = self.descriptor.key_group
        given = self._given(rows.column(name), name) if name is not None and rows is not None else None
        try:
            hashes = self.serializer.java_hash(keys)
        except UndecodableStateError:
            if given is None:
                raise
            return given  # only the job's code can compute the hash
        groups = np.empty(len(keys), np.int32)
        kernels.key_groups(np.ascontiguousarray(hashes), self.max_parallelism, groups)
        if given is not None:
            self._expect(groups, given, keys, name)
        return groups

    def _expect(self, computed: Ints, key_groups: Ints, keys: pa.Array, name: str | None) -> None:
        """Raise an error if a given key group differs from the computed one: Flink would not find the key there."""
        wrong = np.flatnonzero(computed != key_groups)
        if len(wrong):
            row = int(wrong[0])
            raise ValueRangeError(
                f"column {name!r} has a wrong key group for some keys",
                expected=f"key group {computed[row]}, where the hash of {keys[row].as_py()!r} leads "
                f"at max parallelism {self.max_parallelism}",
                found=f"key group {key_groups[row]}, and {len(wrong)} of {len(key_groups)} rows of the batch are wrong",
                remedy=f"leave option 'keyGroup' out, because the key groups of {self.serializer.flink_type} can be "
                "computed; or read the column again from a savepoint with this max parallelism",
            )

    def _given(self, column: pa.Array, name: str) -> Ints:
        refuse_null(column, name, "key group")
        groups = np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
        wrong = np.flatnonzero((groups < 0) | (groups >= self.max_parallelism))
        if len(wrong):
            raise ValueRangeError(
                f"column {name!r} has a key group out of range",
                expected=f"0 to {self.max_parallelism - 1}, because the max parallelism is {self.max_parallelism}",
                found=int(groups[wrong[0]]),
                remedy="compute it as KeyGroupRangeAssignment.assignToKeyGroup does, with this max parallelism",
            )
        return groups.astype(np.int32)

    def sort_keys(self, keys: pa.Array, namespaces: pa.Array | None) -> pa.BinaryArray:
        """Serialize keys and namespaces; ``namespaces`` is None for a constant namespace."""
        from pyspark_savepoint.formats.kernels import keys as kernels

        count = len(keys)
        sizes = self.serializer.sizes(keys)
        if namespaces is None:
            assert isinstance(self.namespace, ConstantSerializer)
            namespace_sizes = np.full(count, self.namespace.width, np.int64)
        else:
            namespace_sizes = self.namespace.sizes(namespaces)
        total = sizes + namespace_sizes
        digits = np.empty(count, np.int64)
        for part in (sizes, namespace_sizes) if self.variable else ():
            kernels.length_digits(part, digits)
            total += digits
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(total, out=offsets[1:])
        # Constants are zeros, which need not be written.
        at = Cursors(np.zeros(int(offsets[-1]), np.uint8), offsets[:-1].copy(), offsets[1:])
        self.serializer.encode(keys, at)
        if self.variable:
            kernels.put_lengths(at.buffer, at.position, sizes)
        if namespaces is not None:
            self.namespace.encode(namespaces, at)
            if self.variable:
                kernels.put_lengths(at.buffer, at.position, namespace_sizes)
            at.expect_end()
        return binary_array(pa.binary(), offsets, at.buffer)

    def describe(self, sort_key: bytes) -> str:
        """Return the key (and namespace) of a sort key as text for errors; its bytes if it cannot be decoded."""
        at = Cursors.over([sort_key], options=PLAIN)
        try:
            text = repr(self.serializer.decode(at)[0].as_py())
            if self.descriptor.namespace_column is not None:
                if self.variable:
                    at.position += len(length_bytes(int(at.position[0])))
                text += f", {self.descriptor.namespace_column} {self.namespace.decode(at)[0].as_py()!r}"
        except (SavepointError, pa.ArrowException, ValueError, OverflowError):
            return f"of bytes {sort_key.hex()}"
        return text


def key_text(serializer: TypeSerializer | None, composite: bytes, state: str) -> str:
    """Return the key of an entry of a state as text for errors: its composite key begins with it, a timer's after 8."""
    if serializer is None:
        return f"key of bytes {composite.hex()}"
    at = Cursors.over([composite[8:] if state.startswith(TIMER_PREFIX) else composite], options=PLAIN)
    try:
        return f"key {serializer.decode(at)[0].as_py()!r}"
    except (SavepointError, pa.ArrowException, ValueError, OverflowError):
        return f"key of bytes {composite.hex()}"


def groups_of_serialized(
    serializer: TypeSerializer, keys: Cursors, max_parallelism: int, path_of: Callable[[int], str | None] | None = None
) -> Ints:
    """Return the key groups of serialized keys, which may be gathered from several files.

    So the error of a key that cannot be read has its bytes, and not their place among all. ``path_of`` returns the file
    that a row's key is from.
    """
    start = keys.position.copy()
    try:
        hashes = serializer.java_hash(serializer.decode(keys))
    except CorruptStateError as error:
        row = _unreadable(serializer, keys, start)
        first, end = int(start[row]), int(keys.end[row])
        path = None if path_of is None else path_of(row)
        facts: dict[str, Any] = {**error.facts, "path": path, "offset": None, "state": None}
        text = f"of bytes {keys.buffer[first:end].tobytes().hex()}"
        raise CorruptStateError(error.message, **{**facts, "key": text}) from None
    return key_groups_for_hashes(hashes, max_parallelism).astype(np.int32)


def _unreadable(serializer: TypeSerializer, keys: Cursors, start: Longs) -> int:
    """Return the row of the first key that cannot be read."""
    low, high = 0, len(start)  # all before the first one can be read, and not all before the second
    while high - low > 1:
        middle = (low + high) // 2
        try:
            serializer.decode(keys.at(start[low:middle].copy(), keys.end[low:middle]))
            low = middle
        except CorruptStateError:
            high = middle
    return low


def entry_keys(state: Ints, composite: pa.BinaryArray) -> pa.BinaryArray:
    """Return sort keys of raw entries: the state number of each entry before its composite key."""
    from pyspark_savepoint.formats.kernels import frames

    buffer, start, end = spans_of(composite)
    numbers = np.ascontiguousarray(state, ">u2").view(np.uint8)
    at = np.arange(0, 2 * len(state), 2)
    offsets = np.zeros(len(state) + 1, np.int64)
    np.cumsum(end - start + 2, out=offsets[1:])
    joined = np.empty(int(offsets[-1]), np.uint8)
    frames.join_spans(read_only(numbers), at, at + 2, read_only(buffer), start, end, offsets, joined)
    return binary_array(pa.binary(), offsets, joined)


def length_bytes(length: int) -> bytes:
    """Return the little-endian length that follows a part of variable length.

    >>> length_bytes(0).hex(), length_bytes(300).hex()
    ('00', '2c01')
    """
    return length.to_bytes(max(1, (length.bit_length() + 7) // 8), "little")


def refuse_null(column: pa.Array, name: str, what: str) -> None:
    """Raise an error for NULLs: Flink has no null key, namespace or key group."""
    if column.null_count:
        raise ValueRangeError(
            f"column {name!r} is NULL in some rows, and a {what} cannot be",
            found=f"{column.null_count} of {len(column)} rows",
            remedy=f"leave the rows out in which {name!r} is NULL",
        )


def _refuse_null_field(column: pa.Array, name: str, field: TypeSerializer) -> None:
    """Raise an error for NULLs in a tuple field whose serializer cannot encode null, unlike STRING."""
    if column.null_count:
        try:
            encode_column(field, column.filter(column.is_null()).slice(0, 1))
        except ValueRangeError:
            refuse_null(column, name, f"part of a key of type {field.flink_type}")
