"""``java.math``: BigInteger and BigDecimal.

    BigInteger := i32 k    k = 0 null, 1 the number 0, 2 the number 1, 3 the number 10
                           k > 4: k - 4 bytes, two's complement
    BigDecimal := BigInteger unscaled  i32 scale    no scale where null

Column types by ``DecodeOptions.decimals``: with ``auto``, BigInteger is DECIMAL(38,0), where more digits are an error,
and BigDecimal is a string; with ``string`` both are strings; with ``p,s`` both are DECIMAL(p,s), where a value that
does not fit exactly is an error. Numbers of up to 38 digits are converted by Arrow, all others one by one.

Strings are those of ``BigInteger.toString`` and ``BigDecimal.toString``. Python's Decimal prints by the same rule
(plain digits if the scale is not negative and the first digit is at most six places after the point, else with an
exponent), and without the limit of digits that Python's int has.

Flink: ``BigIntSerializer``, ``BigDecSerializer``.
"""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    fixed_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.java import signed32
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, SimpleSerializer
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.registry import register

EXACT = decimal.Context(
    prec=decimal.MAX_PREC,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow],
)
MAX_DIGITS = 38
# Up to this size Python's own conversion is the fastest; its time grows with the square of the digits.
_LEAF_BITS = 2048
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?")


def to_decimal(number: int) -> Decimal:
    """Convert an integer of any size to a Decimal."""
    powers: dict[int, Decimal] = {}

    def convert(part: int, bits: int) -> Decimal:
        if bits <= _LEAF_BITS:
            return Decimal(part)
        half = bits >> 1
        power = powers.get(half)
        if power is None:
            power = powers[half] = EXACT.power(Decimal(2), half)
        high = part >> half
        return EXACT.add(EXACT.multiply(convert(high, bits - half), power), convert(part - (high << half), half))

    return convert(number, number.bit_length())


def to_text(unscaled: int, scale: int) -> str:
    """Return ``BigDecimal.toString``; with scale 0 also ``BigInteger.toString``."""
    return str(EXACT.scaleb(to_decimal(unscaled), -scale) if scale else to_decimal(unscaled))


def parse_integer(text: str) -> int:
    """Return the number of ``new BigInteger(text)``."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueRangeError(
            "a string is not an integer", found=text[:60], remedy="write digits, with an optional sign"
        )
    return int(Decimal(text))


def parse_decimal(text: str) -> tuple[int, int]:
    """Return unscaled value and scale of ``new BigDecimal(text)``."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueRangeError("a string is not a number", found=text[:60], remedy="write numbers like -12.30 or 1.5E-7")
    value = Decimal(text)
    scale = -int(value.as_tuple().exponent)
    if not -(2**31) <= scale < 2**31:
        raise ValueRangeError(
            "a scale that Java's int cannot hold",
            found=text[:60],
            remedy="write a number with a scale in the range of a 32-bit integer",
        )
    return int(EXACT.scaleb(value, scale)), scale


def rescaled(unscaled: int, scale: int, to: int) -> int | None:
    """Return the unscaled value at scale ``to``; None where that is not exact or has too many digits."""
    if unscaled == 0 or scale == to:
        return unscaled
    if to > scale:
        return unscaled * 10 ** (to - scale) if to - scale <= MAX_DIGITS else None
    if scale - to > unscaled.bit_length():  # more places than the number has digits
        return None
    value, rest = divmod(unscaled, 10 ** (scale - to))
    return None if rest else value


def to_bytes(number: int) -> bytes:
    """Encode a BigInteger; 0, 1 and 10 are only a code, because Java has constants for them."""
    if number in (0, 1, 10):
        return (3 if number == 10 else number + 1).to_bytes(4, "big")
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return (size + 4).to_bytes(4, "big") + number.to_bytes(size, "big", signed=True)


def java_hash(number: int) -> int:
    """Return ``BigInteger.hashCode``: the hash of the 32-bit words of the magnitude, times the sign."""
    magnitude = abs(number)
    h = 0
    for shift in range((magnitude.bit_length() + 31) // 32 * 32 - 32, -1, -32):
        h = (31 * h + (magnitude >> shift & 0xFFFFFFFF)) & 0xFFFFFFFF
    return signed32(-h if number < 0 else h)


BIG_INTEGER = f"{BASE}BigIntSerializer$BigIntSerializerSnapshot"
BIG_DECIMAL = f"{BASE}BigDecSerializer$BigDecSerializerSnapshot"

AS_TEXT = 'option("decimals", "string") gives all digits as text'
Words = npt.NDArray[np.uint64]


@dataclass
class Numbers:
    """Numbers read from a buffer: words of numbers up to 128 bits, spans of wider ones, and all scales."""

    at: Cursors
    words: Words
    kinds: npt.NDArray[np.uint8]
    spans: Longs
    scales: Ints
    small: Flags

    @classmethod
    def read(cls, at: Cursors, scaled: bool, what: str) -> Numbers:
        """Read one number per cursor."""
        from pyspark_savepoint.formats.kernels import numbers

        rows = len(at)
        start = at.at(at.position.copy(), at.end)
        words = np.zeros((rows, 2), np.uint64)
        kinds = np.zeros(rows, np.uint8)
        spans = np.zeros((rows, 2), np.int64)
        scales = np.zeros(rows, np.int32)
        at.check(numbers.read_bigs(at.buffer, at.position, at.end, scaled, words, kinds, spans, scales), what)
        small = np.zeros(rows, np.bool_)
        numbers.magnitudes(words, np.empty_like(words), small)
        return cls(start, words, kinds, spans, scales, small & (kinds == numbers.NARROW))

    @property
    def valid(self) -> Flags:
        return np.asarray(self.kinds != 0, np.bool_)

    def unscaled(self, row: int) -> int:
        """Return the unscaled number of one row."""
        if self.kinds[row] == 1:
            low, high = int(self.words[row, 0]), int(self.words[row, 1])
            return low + (high << 64) - (high >> 63 << 128)
        start, end = self.spans[row].tolist()
        return int.from_bytes(self.at.buffer[start:end].tobytes(), "big", signed=True)

    def scale(self, row: int) -> int:
        return int(self.scales[row])

    def texts(self) -> pa.Array:
        """Return all numbers as strings; Arrow prints those of up to 38 digits and places, scale by scale."""
        plain = self.small & (np.abs(self.scales.astype(np.int64)) <= MAX_DIGITS)
        parts, order = [], []
        for rows, kind in self._by_scale(plain):
            parts.append(fixed_array(kind, self.words[rows]).cast(pa.string()))
            order.append(rows)
        rest = np.flatnonzero(~plain)
        if len(rest) or not parts:
            one_by_one = [
                to_text(self.unscaled(row), self.scale(row)) if self.kinds[row] else None for row in rest.tolist()
            ]
            parts.append(pa.array(one_by_one, pa.string()))
            order.append(rest)
        return _in_order(parts, order)

    def decimals(self, kind: pa.Decimal128Type) -> pa.Array:
        """Return all numbers as decimals of one type; the first that does not fit exactly is an error."""
        plain = self.small & (np.abs(kind.scale - self.scales.astype(np.int64)) <= MAX_DIGITS)
        plain &= np.abs(self.scales.astype(np.int64)) <= MAX_DIGITS
        parts, order = [], []
        for rows, own in self._by_scale(plain):
            try:
                parts.append(fixed_array(own, self.words[rows]).cast(kind))
                order.append(rows)
            except pa.ArrowInvalid:
                plain[rows] = False
        rest = np.flatnonzero(~plain)
        return _in_order([*parts, self._decimals_one_by_one(rest, kind)], [*order, rest])

    def _by_scale(self, rows: Flags) -> list[tuple[Longs, pa.DataType]]:
        """Return, per scale, its rows and the decimal type of their words."""
        chosen = np.flatnonzero(rows)
        return [
            (chosen[self.scales[chosen] == scale], pa.decimal128(MAX_DIGITS, int(scale)))
            for scale in np.unique(self.scales[chosen])
        ]

    def _decimals_one_by_one(self, rows: Longs, kind: pa.Decimal128Type) -> pa.Array:
        words = np.zeros((len(rows), 2), np.uint64)
        for index, row in enumerate(rows.tolist()):
            value = rescaled(self.unscaled(row), self.scale(row), kind.scale) if self.kinds[row] else 0
            if value is None or abs(value) >= 10**kind.precision:
                bits, scale = self.unscaled(row).bit_length(), self.scale(row)
                message = f"a number of {bits} bits and scale {scale} is not exactly a {kind}"
                self.at.out_of_range(row, message, AS_TEXT)
            words[index] = value & (1 << 64) - 1, value >> 64 & (1 << 64) - 1
        return fixed_array(kind, words, self.valid[rows])


def _in_order(parts: list[pa.Array], rows: list[Longs]) -> pa.Array:
    """Concatenate the parts and put each value at its row."""
    if len(parts) == 1:
        return parts[0]
    places = np.concatenate(rows)
    inverse = np.empty(len(places), np.int64)
    inverse[places] = np.arange(len(places))
    return pa.concat_arrays(parts).take(fixed_array(pa.int64(), inverse))


def words_of(column: pa.Array) -> Words:
    """Return the low and high 64 bits of every number of a decimal column, of shape (rows, 2)."""
    data = np.frombuffer(column.buffers()[1] or b"", np.uint64)
    return data.reshape(-1, 2)[column.offset : column.offset + len(column)]


@register(BIG_INTEGER, BIG_DECIMAL)
@dataclass(frozen=True)
class BigNumberSerializer(SimpleSerializer):
    """Serializer of BIG_INTEGER and BIG_DECIMAL."""

    @property
    def flink_type(self) -> str:
        """BIG_INTEGER or BIG_DECIMAL."""
        return "BIG_DECIMAL" if self.scaled else "BIG_INTEGER"

    @property
    def scaled(self) -> bool:
        return self.snapshot_class == BIG_DECIMAL

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return DECIMAL or STRING, by the option ``decimals``: see the module."""
        if options.decimals == "string" or (options.decimals == "auto" and self.scaled):
            return pa.string()
        if options.decimals == "objects" and self.scaled:
            return pa.large_string()
        if options.decimals in ("auto", "objects"):
            return pa.decimal128(MAX_DIGITS, 0)
        precision, scale = options.decimals.split(",")
        return pa.decimal128(int(precision), int(scale))

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.BIG_INTEGER, int(self.scaled))

    def decode(self, at: Cursors) -> pa.Array:
        numbers = Numbers.read(at, self.scaled, f"a value of {self.flink_type}")
        kind = self.arrow_type(at.options)
        return numbers.decimals(kind) if pa.types.is_decimal(kind) else numbers.texts().cast(kind)

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of the length or code, of the number and of the scale."""
        if pa.types.is_decimal(column.type):
            valid = valid_rows(column)
            tail = 4 + 4 * self.scaled
            return np.where(valid, self._measure(column)[1] + tail, 4)
        return np.diff(self._spell(column)[0])

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import numbers

        if pa.types.is_decimal(column.type):
            words, sizes = self._measure(column)
            scale = column.type.scale
            numbers.write_bigs(at.buffer, at.position, words, sizes, valid_rows(column), self.scaled, scale)
        else:
            numbers.write_bytes(at.buffer, at.position, *self._spell(column))

    def _measure(self, column: pa.Array) -> tuple[Words, Longs]:
        """Return words and encoded bytes of a decimal column; for integers, zeros after the point are dropped."""
        from pyspark_savepoint.formats.kernels import numbers

        words = np.ascontiguousarray(words_of(self._integers(column)))
        sizes = np.zeros(len(column), np.int64)
        numbers.big_sizes(words, sizes)
        return words, sizes

    def _integers(self, column: pa.Array) -> pa.Array:
        if self.scaled or column.type.scale == 0:
            return column
        try:
            return column.cast(pa.decimal128(MAX_DIGITS, 0))
        except pa.ArrowInvalid as error:
            raise ValueRangeError(
                "a decimal with fraction digits cannot be a BIG_INTEGER", found=str(error), remedy="round the column"
            ) from error

    def _spell(self, column: pa.Array) -> tuple[Longs, Any]:
        """Return offsets and bytes of the encoded numbers of a string column."""
        values = [self._spell_one(text) for text in column.to_pylist()]
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        return offsets, np.frombuffer(b"".join(values), np.uint8)

    def _spell_one(self, text: str | None) -> bytes:
        if text is None:
            return bytes(4)
        if not self.scaled:
            return to_bytes(parse_integer(text))
        unscaled, scale = parse_decimal(text)
        return to_bytes(unscaled) + scale.to_bytes(4, "big", signed=True)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``BigInteger.hashCode``, or ``BigDecimal.hashCode``, which is 31 times that plus the scale."""
        if pa.types.is_decimal(column.type):
            scale = column.type.scale if self.scaled else 0
            hashes = hash_words(words_of(self._integers(column)))
            return self._with_scale(hashes, np.full(len(column), scale), valid_rows(column))
        pairs = [(0, 0) if text is None else self._parse(text) for text in column.to_pylist()]
        hashes = np.array([java_hash(unscaled) for unscaled, _ in pairs], np.int64)
        return self._with_scale(hashes, np.array([scale for _, scale in pairs], np.int64), valid_rows(column))

    def _parse(self, text: str) -> tuple[int, int]:
        return parse_decimal(text) if self.scaled else (parse_integer(text), 0)

    def _with_scale(self, hashes: Longs, scales: Longs, valid: Flags) -> Ints:
        full = 31 * hashes + scales if self.scaled else hashes
        return np.where(valid, full, 0).astype(np.uint64).astype(np.uint32).view(np.int32)


def hash_words(words: Words) -> Longs:
    """Return ``BigInteger.hashCode`` of 128-bit numbers; leading zero words do not change the hash."""
    from pyspark_savepoint.formats.kernels import numbers

    plain = np.ascontiguousarray(words)
    magnitudes = np.empty_like(plain)
    numbers.magnitudes(plain, magnitudes, np.empty(len(plain), np.bool_))
    low, high = magnitudes[:, 0], magnitudes[:, 1]
    half, mask, base = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(31)
    h = high >> half
    for word in (high & mask, low >> half, low & mask):
        h = (h * base + word) & mask
    negative = plain[:, 1] >> np.uint64(63) == 1
    return np.where(negative, -h.astype(np.int64), h.astype(np.int64))
