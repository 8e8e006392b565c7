"""Numbers of any size, one at a time: for those that Arrow's 38 digits cannot hold.

Texts are those of ``BigInteger.toString`` and ``BigDecimal.toString``. Python's decimals print by the same rule
(plain digits while the scale is not negative and the first digit is at most six places behind the point, else an
exponent), without the limit of digits that its integers have.
"""

from __future__ import annotations

import decimal
import re
from decimal import Decimal

from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.java import signed32

EXACT = decimal.Context(
    prec=decimal.MAX_PREC,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow],
)
MAX_DIGITS = 38
# Below, Python's own conversion is the fastest; its time grows with the square of the digits.
_LEAF_BITS = 2048
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?")


def to_decimal(number: int) -> Decimal:
    """An integer of any size as a decimal."""
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
    """``BigDecimal.toString``; with scale 0 also ``BigInteger.toString``."""
    return str(EXACT.scaleb(to_decimal(unscaled), -scale) if scale else to_decimal(unscaled))


def parse_integer(text: str) -> int:
    """The number that ``new BigInteger(text)`` is."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueRangeError(
            "a text is no integer", found=text[:60], remedy="write digits, with a sign before them perhaps"
        )
    return int(Decimal(text))


def parse_decimal(text: str) -> tuple[int, int]:
    """Unscaled value and scale of ``new BigDecimal(text)``."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueRangeError("a text is no number", found=text[:60], remedy="write numbers like -12.30 or 1.5E-7")
    value = Decimal(text)
    scale = -int(value.as_tuple().exponent)
    if not -(2**31) <= scale < 2**31:
        raise ValueRangeError("a scale that Java's int cannot hold", found=text[:60], remedy="write a nearer number")
    return int(EXACT.scaleb(value, scale)), scale


def rescaled(unscaled: int, scale: int, to: int) -> int | None:
    """The unscaled value at another scale; None where that is not exact or has too many digits."""
    if unscaled == 0 or scale == to:
        return unscaled
    if to > scale:
        return unscaled * 10 ** (to - scale) if to - scale <= MAX_DIGITS else None
    if scale - to > unscaled.bit_length():  # more places than the number has digits
        return None
    value, rest = divmod(unscaled, 10 ** (scale - to))
    return None if rest else value


def to_bytes(number: int) -> bytes:
    """The bytes of a BigInteger without scale: a code for 0, 1 and 10, as Java's cached constants are written."""
    if number in (0, 1, 10):
        return (3 if number == 10 else number + 1).to_bytes(4, "big")
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return (size + 4).to_bytes(4, "big") + number.to_bytes(size, "big", signed=True)


def java_hash(number: int) -> int:
    """``BigInteger.hashCode``: over the 32-bit words of the magnitude, times the sign."""
    magnitude = abs(number)
    h = 0
    for shift in range((magnitude.bit_length() + 31) // 32 * 32 - 32, -1, -32):
        h = (31 * h + (magnitude >> shift & 0xFFFFFFFF)) & 0xFFFFFFFF
    return signed32(-h if number < 0 else h)
