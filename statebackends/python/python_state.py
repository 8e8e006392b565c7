"""State of a PyFlink operator as the job declares it: name, kind and type, above the byte arrays that Flink stores.

    registered as                     value, list, reducing, aggregating state    list of byte arrays
    python-state-NAME                 map state                                   map of byte arrays

A byte array holds one value, or several one after another, as PyFlink appended them. PyFlink:
``fn_execution/state_impl.py``; Flink: ``BeamStateRequestHandler``, ``BeamBagStateHandler``, ``BeamMapStateHandler``.

PyFlink pickles keys without a declared type. A key that is a number, a text, bytes, a boolean, a date, a datetime, or a
tuple of these becomes a column of that type; keys of several types are VARIANT. Spark groups and joins by the former.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Longs,
    Origin,
    binary_array,
    binary_parts,
    list_array,
    map_array,
    map_type,
    scatter,
    valid_rows,
)
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError, SavepointError
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.pickle_walker import decode_pickled_or_binary, is_pickle, read_pickle
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.temporal import TIMESTAMP, TIMESTAMP_NTZ
from pyspark_savepoint.formats.serializers.composite.fields import RowSerializer
from pyspark_savepoint.formats.serializers.layout import count_until_end, decode_elements
from pyspark_savepoint.formats.variant import VARIANT, Date, Timestamp
from pyspark_savepoint.statebackends.rows.descriptors import PYTHON_PREFIX
from pyspark_savepoint.statebackends.rows.state_column import has_ttl

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

PREFIX = PYTHON_PREFIX
MAX_LONG = (1 << 63) - 1
#: Frames of protocol 4 and 5: the shortest that CPython writes, and the size at which it begins another.
FIRST_WITH_FRAMES, MIN_FRAME, MAX_FRAME = 4, 4, 1 << 16
SIMPLE: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    Date: pa.date32(),
    Decimal: pa.string(),
}


def is_python(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether a PyFlink operator registered a state: byte arrays under a name with PyFlink's prefix."""
    return meta.name.startswith(PREFIX) and meta.options.get("KEYED_STATE_TYPE") in ("LIST", "MAP")


def is_python_state(opened: OpenOperator, registered: str) -> bool:
    """Return whether an operator has a state of PyFlink of this registered name."""
    metas = opened.keyed.metas().get((registered, False))
    return metas is not None and is_python(metas[0])


def python_states(opened: OpenOperator) -> list[str]:
    """Return the registered names of the states of PyFlink that an operator has."""
    return [name for (name, timer), metas in opened.keyed.metas().items() if not timer and is_python(metas[0])]


def is_python_operator(opened: OpenOperator) -> bool:
    """Return whether an operator of PyFlink wrote the keyed state."""
    return bool(opened.keyed.headers) and bool(python_states(opened))


def job_name_of(name: str) -> str:
    """Return the name that the job gave to a state.

    >>> job_name_of("python-state-total"), job_name_of("total")
    ('total', 'total')
    """
    return name.removeprefix(PREFIX)


def name_of(meta: StateMetaInfoSnapshot) -> str:
    """Return the name under which tables show a state: of PyFlink's, the one that the job gave."""
    return job_name_of(meta.name) if is_python(meta) else meta.name


def names(meta: StateMetaInfoSnapshot) -> set[str]:
    """Return the names under which a state may be asked for."""
    return {meta.name, name_of(meta)}


def unwrapped(key: TypeSerializer) -> TypeSerializer | None:
    """Return the type of the job's keys, which PyFlink stores as a row of one field; None for other keys."""
    return key.nested[0] if isinstance(key, RowSerializer) and len(key.nested) == 1 else None


def cursors(column: pa.Array, options: DecodeOptions, origin: Origin) -> Cursors:
    """Return cursors over the values of a binary column."""
    offsets, data = binary_parts(column)
    return Cursors(np.array(data), offsets[:-1].copy(), offsets[1:].copy(), origin, options)


def decode_all(coder: TypeSerializer, column: pa.Array, options: DecodeOptions, origin: Origin) -> pa.Array:
    """Decode byte arrays of one value each; null where the byte array is null."""
    if column.null_count:
        return scatter(decode_all(coder, column.drop_null(), options, origin), valid_rows(column))
    at = cursors(column, options, origin)
    decoded = coder.decode(at)
    at.expect_end()
    return decoded


def encode_all(coder: TypeSerializer, column: pa.Array) -> pa.Array:
    """Encode values as byte arrays of one value each; null where a value is null."""
    valid = valid_rows(column)
    values = column.filter(pa.array(valid)) if column.null_count else column
    if not len(values):
        return pa.nulls(len(column), pa.binary())
    sizes = coder.sizes(values)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    at = Cursors(np.zeros(int(offsets[-1]), np.uint8), offsets[:-1].copy(), offsets[1:])
    coder.encode(values, at)
    at.expect_end()
    return scatter(binary_array(pa.binary(), offsets, at.buffer), valid)


@dataclass(frozen=True)
class PythonState:
    """One state of a PyFlink operator. ``coder`` is None where its type is not known: values are BINARY."""

    name: str
    kind: str
    coder: TypeSerializer | None
    key: TypeSerializer | None = None
    ttl: bool = False

    @property
    def label(self) -> str:
        """Return the name that the job gave."""
        return job_name_of(self.name)

    @property
    def flink_type(self) -> str:
        """Return the type in the words of option ``pyTypes``."""
        value = self.coder.flink_type if self.coder is not None else "BYTES"
        if self.kind == "MAP":
            return f"MAP<{self.key.flink_type if self.key is not None else 'BYTES'}, {value}>"
        return f"LIST<{value}>" if self.kind == "LIST" else value

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the type of the column."""
        value = self.coder.arrow_type(options) if self.coder is not None else pa.binary()
        if self.kind == "MAP":
            return map_type(self.key.arrow_type(options) if self.key is not None else pa.binary(), value)
        return pa.list_(pa.field("element", value)) if self.kind == "LIST" else value

    def decode(self, column: pa.Array, options: DecodeOptions) -> pa.Array:
        """Convert a column of what Flink stores to values."""
        try:
            return self._decode(column, options, Origin(state=self.label))
        except CorruptStateError as error:
            raise CorruptStateError(
                f"the values of state {self.label!r} are no {self.flink_type}",
                state=self.label,
                expected=error.facts.get("expected"),
                found=error.facts.get("found"),
                remedy="option 'pyTypes' must give it the type that the job does; option 'raw' shows its bytes",
            ) from None

    def _decode(self, column: pa.Array, options: DecodeOptions, origin: Origin) -> pa.Array:
        if self.kind == "MAP":
            return self._maps(column, options, origin)
        if self.kind == "LIST":
            return self._lists(column, options, origin)
        chunks = self.only(column)
        return chunks if self.coder is None else decode_all(self.coder, chunks, options, origin)

    def _maps(self, column: pa.Array, options: DecodeOptions, origin: Origin) -> pa.Array:
        counts = lengths(column)
        keys, values = flat_entries(column)
        if self.key is not None:
            keys = decode_all(self.key, keys, options, origin)
        if self.coder is not None:
            values = decode_all(self.coder, values, options, origin)
        return map_array(self.arrow_type(options), counts, keys, values, valid_rows(column))

    def _lists(self, column: pa.Array, options: DecodeOptions, origin: Origin) -> pa.Array:
        counts, chunks = lengths(column), column.flatten()
        if self.coder is not None:
            at = cursors(chunks, options, origin)
            value_counts = count_until_end(self.coder, at, 0)
            before = np.concatenate(([0], np.cumsum(value_counts)))
            bounds = np.concatenate(([0], np.cumsum(counts)))
            counts = np.diff(before[bounds])
            chunks = decode_elements(self.coder, at, value_counts)
            at.expect_end()
        return list_array(self.arrow_type(options), counts, chunks, valid_rows(column))

    def times(self, column: pa.Array, times: pa.Array) -> pa.Array:
        """Convert times of last access of byte arrays to those of values."""
        if self.kind == "MAP":
            keys = flat_entries(column)[0]
            shown = keys if self.key is None else decode_all(self.key, keys, DecodeOptions(), Origin(state=self.label))
            kind = pa.map_(shown.type, times.type.item_type)
            return map_array(kind, lengths(column), shown, flat_entries(times)[1], valid_rows(column))
        if self.kind != "LIST":
            return scatter(times.flatten(), lengths(times) == 1)
        if self.coder is None:
            return times
        value_counts = count_until_end(
            self.coder, cursors(column.flatten(), DecodeOptions(), Origin(state=self.label)), 0
        )
        spread = times.flatten().take(pa.array(np.repeat(np.arange(len(value_counts)), value_counts)))
        before = np.concatenate(([0], np.cumsum(value_counts)))
        bounds = np.concatenate(([0], np.cumsum(lengths(column))))
        return list_array(times.type, np.diff(before[bounds]), spread, valid_rows(column))

    def only(self, column: pa.Array) -> pa.Array:
        """Return the only element of every list; raise OptionError where there are several."""
        counts = lengths(column)
        wrong = np.flatnonzero(counts > 1)
        if len(wrong):
            row = int(wrong[0])
            kind = self.coder.flink_type if self.coder is not None else "BYTES"
            raise OptionError(
                f"state {self.label!r} is not a value: a key has {int(counts[row])} of them",
                state=self.label,
                expected="one value of a key",
                remedy=f"it is a list state: option('pyTypes', '{self.label} LIST {kind}')",
            )
        return scatter(column.flatten(), counts == 1)

    def encode(self, column: pa.Array) -> pa.Array:
        """Convert a column of values to what Flink stores."""
        valid = valid_rows(column)
        if self.kind == "MAP":
            keys, values = flat_entries(column)
            if self.key is not None:
                keys = encode_all(self.key, keys)
            if self.coder is not None:
                values = encode_all(self.coder, values)
            return map_array(pa.map_(pa.binary(), pa.binary()), lengths(column), keys, values, valid)
        counts = lengths(column) if self.kind == "LIST" else valid.astype(np.int64)
        chunks = column.flatten() if self.kind == "LIST" else column.drop_null()
        if self.coder is not None:
            chunks = encode_all(self.coder, chunks)
        return list_array(pa.list_(pa.binary()), counts, chunks, valid)


def lengths(column: pa.Array) -> Longs:
    """Return the number of elements of every list or map; 0 where it is null."""
    if pa.types.is_map(column.type):
        offsets = np.diff(np.asarray(column.offsets)).astype(np.int64)
        return np.where(valid_rows(column), offsets, 0)
    return np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)


def flat_entries(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return keys and values of maps, without those of null rows."""
    whole = column.drop_null() if column.null_count else column
    offsets = whole.offsets
    if not len(whole):
        return whole.keys.slice(0, 0), whole.items.slice(0, 0)
    first, count = offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()
    return whole.keys.slice(first, count), whole.items.slice(first, count)


def python_metas(metas: Sequence[StateMetaInfoSnapshot]) -> tuple[str, bool]:
    """Return the registered kind of a state, LIST or MAP, and whether it has a time to live."""
    return metas[0].options["KEYED_STATE_TYPE"], has_ttl(metas[0])


def type_of(value: Any) -> pa.DataType:
    """Return the type of a key; VARIANT for one that has no other."""
    if isinstance(value, list) and value:
        parts = [type_of(part) for part in value]
        fields = [pa.field(f"f{index}", part) for index, part in enumerate(parts)]
        return VARIANT if VARIANT in parts else pa.struct(fields)
    if isinstance(value, Timestamp):
        return TIMESTAMP if value.zoned else TIMESTAMP_NTZ
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if -MAX_LONG - 1 <= value <= MAX_LONG else VARIANT
    return SIMPLE.get(type(value), VARIANT)


def _converted(value: Any) -> Any:
    if isinstance(value, list):
        return {f"f{index}": _converted(part) for index, part in enumerate(value)}
    if isinstance(value, Timestamp):
        return value.micros
    if isinstance(value, Date):
        return value.days
    return str(value) if isinstance(value, Decimal) else value


@dataclass
class PickledKeys:
    """Evidence that keys are pickles, and of which type."""

    kind: pa.DataType | None = None
    pickled: bool = True
    #: The protocol of all keys, if :func:`write_pickle` gives the same bytes for their values; else None.
    protocol: int | None = None
    exact: bool = True

    def add(self, column: pa.Array) -> None:
        """Add keys."""
        for data in column.to_pylist() if self.pickled else ():
            if not is_pickle(data):
                self.pickled = False
                return
            if self.kind != VARIANT:
                value = _plain(data)
                kind = type_of(value)
                self.kind = kind if self.kind in (None, kind) else VARIANT
                self.protocol = self.protocol or data[1]
                self.exact = self.exact and kind != VARIANT and write_pickle(value, self.protocol) == data


def _plain(data: bytes) -> Any:
    try:
        return read_pickle(data)
    except SavepointError:
        return None


def decode_keys(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert pickled keys to a column of their type."""
    if kind == VARIANT:
        return decode_pickled_or_binary(column)
    return pa.array([_converted(read_pickle(data, row)) for row, data in enumerate(column.to_pylist())], kind)


def display_keys(column: pa.Array) -> pa.Array:
    """Return some keys as tables show them; a column that is not of pickles, or of several types, is unchanged."""
    if not pa.types.is_binary(column.type):
        return column
    evidence = PickledKeys()
    evidence.add(column)
    return decode_keys(column, evidence.kind) if evidence.pickled and evidence.kind not in (None, VARIANT) else column


def encode_keys(column: pa.Array, protocol: int) -> pa.Array:
    """Convert a column of keys to pickles of a protocol, as CPython writes them."""
    return pa.array([write_pickle(_tuples(value), protocol) for value in column.to_pylist()], pa.binary())


def _tuples(value: Any) -> Any:
    return [_tuples(part) for part in value.values()] if isinstance(value, dict) else value


def write_pickle(value: Any, protocol: int) -> bytes | None:
    """Return the pickle of a boolean, number, text, bytes, or a tuple of these, given as a list; None for others.

    Protocols before 4, which Python 3.8 and later do not choose, have other opcodes.
    """
    body = _body(value)
    if body is None or len(body) >= MAX_FRAME or protocol < FIRST_WITH_FRAMES:
        return None
    body += b"."
    frame = b"\x95" + len(body).to_bytes(8, "little") if len(body) >= MIN_FRAME else b""
    return bytes([0x80, protocol]) + frame + body


def _body(value: Any) -> bytes | None:
    match value:
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return _whole(value)
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            return _sized(value.encode("utf-8", "surrogatepass"), b"\x8c", b"X")
        case bytes():
            return _sized(value, b"C", b"B")
        case list() if value:
            return _tuple([_body(part) for part in value])
    return None


def _whole(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + value.to_bytes(2, "little")
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + value.to_bytes(4, "little", signed=True)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if value < 0 and len(data) > 1 and data[-1] == 0xFF and data[-2] & 0x80:
        data = data[:-1]
    return b"\x8a" + bytes([len(data)]) + data


def _sized(data: bytes, short: bytes, long: bytes) -> bytes:
    size = short + bytes([len(data)]) if len(data) < 1 << 8 else long + len(data).to_bytes(4, "little")
    return size + data + b"\x94"


def _tuple(parts: list[bytes | None]) -> bytes | None:
    present = [part for part in parts if part is not None]
    if len(present) < len(parts):
        return None
    if len(present) <= 3:
        return b"".join(present) + bytes([0x84 + len(present)]) + b"\x94"
    return b"(" + b"".join(present) + b"t\x94"
