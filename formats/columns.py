"""Cursors: one position per row in one buffer, the interface between bytes and Arrow columns.

A serializer decodes a *column*: it reads one value at every cursor and moves each cursor past its value. So a tuple
decodes field 0 of all rows, which moves every cursor to field 1, and so on: nothing is interpreted per row. Writing
reverses this: compute the sizes of all rows, allocate one buffer, then fill in the columns one after the other.

Columns that are to be written are checked here for values that the bytes of a type cannot represent.

Arrays are made of buffers, and buffers are read, because ``pa.array``, ``pa.scalar`` and ``Array.to_numpy`` import
pandas: 0.3 s of the processor and 50 MB of memory in each process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.redaction import redacted

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
#: Largest offset in a column with 32-bit offsets.
MAX_OFFSET = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options for values that can be represented in Spark in more than one way; the last ones are no reader's options.

    ``timestamps``: ``micros`` (an error where a value is finer or out of range), ``truncate`` (finer digits are cut),
    or ``raw`` (Flink's own representation: longs and structs). ``decimals``: ``auto`` (BigInteger as DECIMAL(38,0),
    BigDecimal as STRING), ``string``, ``p,s``, or ``objects``: as auto, but BigDecimal as LARGE_STRING. No other type
    uses LARGE_STRING, so code that converts columns to objects can distinguish numbers from strings.
    ``row_kind``: rows get a field ``__row_kind``. ``kryo``: 2 or 5. ``pickle``: PyFlink's plain pickled values are
    decoded. ``ttl``: a TTL value is a struct of value and last access. ``times``: a LOCAL_TIME is Arrow's time of day
    rather than a long of nanoseconds. ``internal``: a stream element has all its fields; otherwise it is a record's
    value and timestamp. ``text``: ``escape``, ``replace`` or ``error`` for half of a surrogate pair. ``ends``: only the
    ends of values are needed, so that a value that no column can hold may be NULL. ``synthetic``: Kryo 2 wrote fields
    of the compiler (``this$0``), as it does where flink-scala is on the class path; no option, but tried both ways.
    """

    timestamps: str = "micros"
    decimals: str = "auto"
    row_kind: bool = False
    kryo: int = 5
    pickle: bool = False
    ttl: bool = False
    times: bool = False
    internal: bool = True
    text: str = "escape"
    ends: bool = False
    synthetic: bool = True
    #: Where serializers put whether their values have shown the form of fields of the compiler; None: not asked.
    shown: list[bool] | None = field(default=None, compare=False, repr=False)

    def undecoded(self) -> DecodeOptions:
        """Return options for locating the ends of values, which also accept values that no column can hold."""
        return self if self.ends else replace(self, timestamps="raw", decimals="string", text="escape", ends=True)


@redacted
@dataclass(frozen=True, slots=True)
class Origin:
    """Position of a buffer in its file, for error messages.

    Byte 0 of the buffer is byte ``base`` of the file (or of its decompressed content, where ``compressed``).
    """

    path: str | None = None
    base: int = 0
    operator: str | None = None
    state: str | None = None
    compressed: bool = False

    def of_state(self, name: str) -> Origin:
        """Return the position, in errors that name a state."""
        return Origin(self.path, self.base, self.operator, name, self.compressed)

    def facts(self, position: int | None = None) -> dict[str, Any]:
        """Return the facts for an error at a position of the buffer."""
        at = None
        if position is not None:
            at = f"{self.base + position} (decompressed)" if self.compressed else self.base + position
        return {"path": self.path, "offset": at, "operator": self.operator, "state": self.state}


@dataclass(slots=True)
class Cursors:
    """A buffer and, per row, the position of the next byte and the end that must not be passed.

    ``buffer`` is a writable uint8 array owned by the cursors; ``position`` and ``end`` are int64 arrays of the same
    length. ``position`` advances in place.
    """

    buffer: Bytes
    position: Longs
    end: Longs
    origin: Origin = field(default_factory=Origin)
    options: DecodeOptions = field(default_factory=DecodeOptions)
    path: tuple[str, ...] = ()

    @classmethod
    def over(cls, values: Sequence[bytes], **context: Any) -> Cursors:
        """Return cursors over a sequence of values, one per row."""
        lengths = np.array([len(value) for value in values], np.int64)
        end = np.cumsum(lengths)
        buffer = np.frombuffer(bytearray(b"".join(values)), np.uint8)
        return cls(buffer, end - lengths, end, **context)

    def __len__(self) -> int:
        return len(self.position)

    def select(self, rows: npt.NDArray[Any]) -> Cursors:
        """Return cursors of some rows (indices or a mask); call :meth:`update` to apply their new positions here."""
        return self.at(self.position[rows], self.end[rows])

    def at(self, position: Longs, end: Longs) -> Cursors:
        """Return cursors at other positions in the same buffer."""
        return Cursors(self.buffer, position, end, self.origin, self.options, self.path)

    def update(self, rows: npt.NDArray[Any], moved: Cursors) -> None:
        """Copy the positions of ``moved`` to the selected rows."""
        self.position[rows] = moved.position

    @contextmanager
    def inside(self, name: str) -> Iterator[Cursors]:
        """Yield these cursors; errors inside the block name the part ``name`` of the value."""
        outer = self.path
        self.path = (*outer, name)
        try:
            yield self
        finally:
            self.path = outer

    def _facts(self, row: int) -> dict[str, Any]:
        facts = self.origin.facts(int(self.position[row]))
        if self.path:
            facts["state"] = ".".join((facts["state"] or "value", *self.path))
        return facts

    def check(self, row: int, expected: str) -> None:
        """Raise a CorruptStateError for the failing row of a kernel; -1 means that no row failed."""
        if row >= 0:
            self.fail(row, expected)

    def fail(self, row: int, expected: str, found: object = None) -> NoReturn:
        """Raise a CorruptStateError for a row."""
        raise CorruptStateError(
            "the bytes of a value do not match its serializer's format",
            expected=expected,
            found=found if found is not None else f"{int(self.end[row] - self.position[row])} bytes until its end",
            remedy=UNREADABLE,
            **self._facts(row),
        )

    def out_of_range(self, row: int, message: str, remedy: str) -> NoReturn:
        """Raise a ValueRangeError for a row whose value is valid but does not fit its column."""
        remedy = remedy.replace("<state>", self.origin.state or "<state>")
        raise ValueRangeError(message, remedy=remedy, **self._facts(row))

    def expect_end(self) -> None:
        """Raise a CorruptStateError unless every value was read to its last byte."""
        rest = np.flatnonzero(self.position != self.end)
        if len(rest):
            self.fail(int(rest[0]), "the end of the value")


def distinct(values: Longs) -> Longs:
    """Return the distinct values, ascending: by sorting, because ``np.unique`` hashes, 90 times as slow for offsets."""
    if (values[1:] > values[:-1]).all():
        return values
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def validity_buffer(valid: Flags) -> pa.Buffer | None:
    """Return Arrow's validity bitmap, or None where all rows are valid."""
    if valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed_array(kind: pa.DataType, values: npt.NDArray[Any], valid: Flags | None = None) -> pa.Array:
    """Return an Arrow array over a numpy array of the same layout (no copy)."""
    bitmap = validity_buffer(valid) if valid is not None else None
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])


def bool_array(values: Flags, valid: Flags | None = None) -> pa.Array:
    """Return an Arrow boolean array."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    bitmap = validity_buffer(valid) if valid is not None else None
    return pa.Array.from_buffers(pa.bool_(), len(values), [bitmap, bits])


def short_offsets(offsets: Ints | Longs) -> Ints:
    """Convert offsets to Arrow's 32 bits; raise a ValueRangeError if the last one is too large."""
    if offsets[-1] > MAX_OFFSET:
        raise ValueRangeError(
            "a column of one batch would exceed the size limit of an Arrow column",
            expected=f"at most {MAX_OFFSET} bytes or elements",
            found=f"{offsets[-1]} in {len(offsets) - 1} rows",
            remedy="read with a smaller batch: option('batchSize', ...)",
        )
    return offsets.astype(np.int32)


def doubled(array: Bytes) -> Bytes:
    """Return an array of twice the size, which begins with the same bytes."""
    more = np.empty(2 * len(array), np.uint8)
    more[: len(array)] = array
    return more


def binary_array(kind: pa.DataType, offsets: Ints | Longs, data: Bytes, valid: Flags | None = None) -> pa.Array:
    """Return a utf8 or binary array over offsets and bytes."""
    places = offsets if offsets.dtype == np.int32 else short_offsets(offsets)
    bitmap = validity_buffer(valid) if valid is not None else None
    return pa.Array.from_buffers(kind, len(offsets) - 1, [bitmap, pa.py_buffer(places), pa.py_buffer(data)])


def list_array(kind: pa.DataType, counts: Longs, items: pa.Array, valid: Flags | None = None) -> pa.Array:
    """Return a list array (or, with a struct of key and value as items, a map array) of the given lengths."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    bitmap = validity_buffer(valid) if valid is not None else None
    return pa.Array.from_buffers(kind, len(counts), [bitmap, pa.py_buffer(short_offsets(offsets))], children=[items])


def struct_array(kind: pa.DataType, columns: Sequence[pa.Array], rows: int, valid: Flags | None = None) -> pa.Array:
    """Return a struct array; ``columns`` may be empty."""
    bitmap = validity_buffer(valid) if valid is not None else None
    return pa.Array.from_buffers(kind, rows, [bitmap], children=list(columns))


def map_type(key: pa.DataType, item: pa.DataType) -> pa.DataType:
    """Return the type of maps; keys that are always null (UNIT, VOID, NULL) raise UnsupportedStateError."""
    if pa.types.is_null(key):
        raise UnsupportedStateError(
            "a map with null keys cannot be a column: maps of Spark and Arrow have no null keys",
            remedy="leave this state out, or read its bytes with the option raw",
        )
    return pa.map_(key, item)


def map_array(
    kind: pa.DataType, counts: Longs, keys: pa.Array, values: pa.Array, valid: Flags | None = None
) -> pa.Array:
    """Return a map array from flattened keys and values."""
    entries = pa.struct([kind.key_field, kind.item_field])
    return list_array(kind, counts, struct_array(entries, [keys, values], len(keys)), valid)


def scatter(array: pa.Array, valid: Flags) -> pa.Array:
    """Place the array's rows at the valid positions, with null elsewhere."""
    if len(array) == len(valid):
        return array
    if not len(array):
        return pa.nulls(len(valid), array.type)
    places = np.cumsum(valid, dtype=np.int64) - 1
    index = pa.Array.from_buffers(pa.int64(), len(valid), [validity_buffer(valid), pa.py_buffer(places)])
    return array.take(index)


def placed(array: pa.Array, rows: Longs, count: int) -> pa.Array:
    """Place the array's values at some of ``count`` rows, given in ascending order, with null elsewhere.

    For a few values it takes little: memory of the others is cleared by the system, when it is read.
    """
    kind = array.type
    valid = np.zeros(count, np.bool_)
    valid[rows] = True
    if not pa.types.is_primitive(kind) or kind.bit_width not in (8, 16, 32, 64):
        return scatter(array, valid)
    if array.null_count:
        valid[rows] = valid_rows(array)
    width = np.dtype(f"i{kind.bit_width // 8}")
    values = np.zeros(count, width)
    values[rows] = fixed_values(array, width)
    return fixed_array(kind, values, valid)


def valid_rows(array: pa.Array) -> Flags:
    """Return True for each row that is not null."""
    return true_rows(pc.is_valid(array)) if array.null_count else np.ones(len(array), np.bool_)


def true_rows(array: pa.BooleanArray) -> Flags:
    """Return True for each row that is true. A null is not."""
    first = array.offset
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[first // 8 : (first + len(array) + 7) // 8]
    flags = np.unpackbits(data, bitorder="little")[first % 8 : first % 8 + len(array)].view(np.bool_)
    return flags & valid_rows(array) if array.null_count else flags


def fixed_values(array: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array as numpy (no copy); the values of null rows are undefined."""
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def filled_values(array: pa.Array, dtype: Any, null: int) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array as numpy, with a number in place of each null."""
    values = fixed_values(array, dtype)
    return np.where(valid_rows(array), values, np.asarray(null, dtype)) if array.null_count else values


def binary_parts(array: pa.Array) -> tuple[Longs, Bytes]:
    """Return the offsets (int64, one more than rows) and bytes of a utf8 or binary array."""
    if not len(array):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, offsets, data = array.buffers()
    wide = np.int64 if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type) else np.int32
    places = np.frombuffer(offsets, wide)[array.offset : array.offset + len(array) + 1]
    return places.astype(np.int64), np.frombuffer(data or b"", np.uint8)


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with another schema of the same layout, at every depth, without copying."""
    return pa.record_batch(_Relabelled(batch, schema))


@dataclass(frozen=True)
class _Relabelled:
    """A batch that exports another schema of the same layout through Arrow's C data interface."""

    batch: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, array = self.batch.__arrow_c_array__()
        return self.schema.__arrow_c_schema__(), array


def spans_of(column: pa.Array) -> tuple[Bytes, Longs, Longs]:
    """Return bytes, starts and ends of a binary column for kernels, which only read the bytes."""
    if not len(column):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, places, data = column.buffers()
    wide = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    offsets = np.frombuffer(places, wide)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    buffer = np.frombuffer(data or b"", np.uint8)
    return buffer, offsets[:-1], offsets[1:]


def refuse_nulls(column: pa.Array, flink_type: str, why: str = "this serializer has no byte that means null") -> None:
    """Raise ValueRangeError if a column has nulls, for types without an encoding of null."""
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ValueRangeError(
            f"a value of {flink_type} cannot be null",
            found=f"null in row {row} of a column of {len(column)}",
            remedy=f"filter these rows, or give them a value: {why}; "
            f"if the job has NULLABLE<{flink_type}>, name that in option 'types'",
        )


def refuse_where(bad: Flags, column: pa.Array, expected: str, remedy: str) -> None:
    """Raise ValueRangeError for the first of the marked values."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueRangeError(
            "a value cannot be written exactly",
            expected=expected,
            found=f"{as_python(column[row])} in row {row} of a column of {len(column)}",
            remedy=remedy,
        )


def as_python(value: pa.Scalar) -> object:
    """Return a value for the text of an error: Python's, or the number of a time that Python cannot hold.

    >>> as_python(pa.scalar(7)), as_python(pa.scalar(1 << 62, pa.timestamp("us")))
    (7, '4611686018427387904 of timestamp[us]')
    """
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return f"{getattr(value, 'value', 'a value')} of {value.type}"
