"""Numbers, texts and times as both versions of Kryo write them: the inverse of ``kryo_bytes.py`` and ``kryo_times.py``.

Each function returns the next position, and those that parse text -1 for what is left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.kryo_bytes import LOW32
from pyspark_savepoint.formats.kernels.kryo_times import LONG_OFFSET, MAX_OFFSET, NANOS, is_date, packed_date
from pyspark_savepoint.formats.kernels.strings import code_point, put_varint

LOW7, HIGH, ONE = np.uint64(0x7F), np.uint64(0x80), np.uint64(1)
#: Digits of a number that is parsed here, which fits in 128 bits.
MAX_PARSED = 37

# -- numbers and texts ---------------------------------------------------------------------------------------------


@kernel
def put_int(out: Any, q: Any, value: Any) -> Any:
    """Store an int as a varint: a negative one takes five bytes."""
    return put_varint(out, q, value & LOW32)


@inline
def put_signed(out: Any, q: Any, value: Any) -> Any:
    """Store an int in zig-zag."""
    return put_int(out, q, (value << 1) ^ (value >> 31))


@kernel
def put_long(out: Any, q: Any, value: Any) -> Any:
    """Store a long in two's complement, in at most nine bytes."""
    bits = np.uint64(value)
    for _ in range(8):
        if bits < HIGH:
            break
        out[q] = (bits & LOW7) | HIGH
        bits >>= np.uint64(7)
        q += 1
    out[q] = bits & np.uint64(0xFF)
    return q + 1


@inline
def put_signed_long(out: Any, q: Any, value: Any) -> Any:
    """Store a long in zig-zag."""
    return put_long(out, q, (value << np.int64(1)) ^ (value >> np.int64(63)))


@kernel
def put_fixed(kryo: Any, out: Any, q: Any, value: Any, width: Any) -> Any:
    """Store the low bytes of a number: the highest first in Kryo 2, the lowest in Kryo 5."""
    for k in range(width):
        out[q + (width - 1 - k if kryo == 2 else k)] = (value >> np.int64(8 * k)) & 0xFF
    return q + width


@kernel
def put_flag_and_size(out: Any, q: Any, flag: Any, value: Any) -> Any:
    """Store a flag and a number, which share a byte."""
    first = (value & 0x3F) | (0x80 if flag else 0)
    if value > 0x3F:
        out[q] = first | 0x40
        return put_int(out, q + 1, value >> 6)
    out[q] = first
    return q + 1


@kernel
def put_string(kryo: Any, data: Any, start: Any, size: Any, out: Any, q: Any) -> Any:
    """Store a text of UTF-8: short ASCII without a length, others in units of UTF-16."""
    end = start + size
    units, p = np.int64(0), np.int64(start)
    while p < end:
        c, p = code_point(data, p, end)
        units += 2 if c >= 0x10000 else 1
    # An escape is longer than what it stands for.
    is_ascii = units == size
    if is_ascii and 1 < size <= (63 if kryo == 2 else 32):
        for k in range(size):
            out[q + k] = data[start + k]
        q += size
        out[q - 1] |= 0x80
        return q
    q = put_flag_and_size(out, q, True, units + 1)
    p = np.int64(start)
    while p < end:
        c, p = code_point(data, p, end)
        if c >= 0x10000:
            c -= 0x10000
            q = _put_unit(out, q, 0xD800 + (c >> np.int64(10)))
            c = 0xDC00 + (c & 0x3FF)
        q = _put_unit(out, q, c)
    return q


@inline
def _put_unit(out: Any, q: Any, unit: Any) -> Any:
    """Store a unit of UTF-16."""
    if unit < 0x80:
        out[q] = unit
        return q + 1
    if unit < 0x800:
        out[q] = 0xC0 | (unit >> 6)
        out[q + 1] = 0x80 | (unit & 0x3F)
        return q + 2
    out[q] = 0xE0 | (unit >> 12)
    out[q + 1] = 0x80 | ((unit >> 6) & 0x3F)
    out[q + 2] = 0x80 | (unit & 0x3F)
    return q + 3


@kernel
def put_big(out: Any, q: Any, low: Any, high: Any) -> Any:
    """Store the fewest bytes of a number of 128 bits, after their number plus one."""
    size = 16
    while size > 1:
        top, below = _byte_of(low, high, size - 1), _byte_of(low, high, size - 2)
        if top != (255 if below >= 128 else 0):
            break
        size -= 1
    q = put_int(out, q, np.int64(size + 1))
    for k in range(size):
        out[q + k] = _byte_of(low, high, size - 1 - k)
    return q + size


@inline
def _byte_of(low: Any, high: Any, place: Any) -> Any:
    return ((low if place < 8 else high) >> np.int64(8 * (place & 7))) & 0xFF


# -- times ---------------------------------------------------------------------------------------------------------


@kernel
def date_of(days: Any) -> Any:
    """Return the parts of the date of a day since 1970, as ``packed_date`` does."""
    z = days + 719_468
    era = z // 146_097
    of_era = z - era * 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return packed_date(year + era * 400 + (1 if month <= 2 else 0), month, day)


@kernel
def put_local_date(kryo: Any, out: Any, q: Any, packed: Any) -> Any:
    """Store a LocalDate."""
    year, month, day = packed >> 9, (packed >> 5) & 15, packed & 31
    if kryo == 2:
        q = put_fixed(kryo, out, q, day, 2)
        q = put_fixed(kryo, out, q, month, 2)
        return put_signed(out, q, year)
    q = put_int(out, q, year)
    out[q] = month
    out[q + 1] = day
    return q + 2


@kernel
def put_local_time(kryo: Any, out: Any, q: Any, nanos: Any) -> Any:
    """Store a LocalTime."""
    seconds, nano = nanos // NANOS, nanos % NANOS
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    out[q] = hour
    if kryo == 2:
        out[q + 1] = minute
        q = put_signed(out, q + 2, nano)
        out[q] = second
        return q + 1
    if nano != 0 or second != 0:
        out[q + 1] = minute
        q += 2
        if nano != 0:
            out[q] = second
            return put_int(out, q + 1, nano)
        last = second
    elif minute != 0:
        q += 1
        last = minute
    else:
        last = hour
    out[q] = ~last & 0xFF
    return q + 1


@kernel
def put_zone_offset(kryo: Any, out: Any, q: Any, seconds: Any) -> Any:
    """Store a ZoneOffset."""
    if kryo == 2:
        return put_signed(out, q, seconds)
    if seconds % 900 != 0:
        out[q] = LONG_OFFSET
        return put_fixed(kryo, out, q + 1, seconds, 4)
    out[q] = (seconds // 900) & 0xFF
    return q + 1


# -- texts that are parsed -----------------------------------------------------------------------------------------


@inline
def _pair(data: Any, p: Any, end: Any) -> Any:
    """Return the number of two digits, -1 if there are none."""
    number = np.int64(-1)
    if p + 2 <= end and 48 <= data[p] <= 57 and 48 <= data[p + 1] <= 57:
        number = np.int64(data[p] - 48) * 10 + np.int64(data[p + 1] - 48)
    return number


@kernel
def parse_month_day(data: Any, p: Any, end: Any, year: Any) -> Any:
    """Read ``-01-31``: the parts of the date with its year, and the position."""
    month, day = np.int64(-1), np.int64(-1)
    if p + 6 <= end and data[p] == 45 and data[p + 3] == 45:
        month, day = _pair(data, p + 1, end), _pair(data, p + 4, end)
    if not is_date(year, month, day):
        return np.int64(0), np.int64(-1)
    return packed_date(year, month, day), np.int64(p + 6)


@kernel
def parse_year(data: Any, p: Any, end: Any) -> Any:
    """Read a year of four digits, and return the position."""
    high, low = _pair(data, p, end), _pair(data, p + 2, end)
    if high < 0 or low < 0:
        return np.int64(0), np.int64(-1)
    return np.int64(high * 100 + low), np.int64(p + 4)


@kernel
def parse_clock(data: Any, p: Any, end: Any) -> Any:
    """Read ``10:30``, ``10:30:59`` or ``10:30:59.5``: nanoseconds since midnight, and the position."""
    hour, minute, second, nano = _pair(data, p, end), np.int64(-1), np.int64(0), np.int64(0)
    if p + 5 <= end and data[p + 2] == 58:
        minute = _pair(data, p + 3, end)
    p += 5
    if minute >= 0 and p < end and data[p] == 58:
        second = _pair(data, p + 1, end)
        p += 3
        if p < end and data[p] == 46:
            p += 1
            start = p
            while p < end and p - start < 9 and 48 <= data[p] <= 57:
                nano = nano * 10 + np.int64(data[p] - 48)
                p += 1
            if p == start:
                second = np.int64(-1)
            for _ in range(9 - (p - start)):
                nano *= 10
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return np.int64(0), np.int64(-1)
    return (hour * 3600 + minute * 60 + second) * NANOS + nano, np.int64(p)


@kernel
def parse_offset(data: Any, p: Any, end: Any) -> Any:
    """Read an offset as ``ZoneOffset.toString`` writes it: its seconds, and the position."""
    seconds, stop = np.int64(0), np.int64(-1)
    if p < end and data[p] == 90:
        stop = np.int64(p + 1)
    elif p + 6 <= end and (data[p] in (43, 45)) and data[p + 3] == 58:
        hours, minutes, rest = _pair(data, p + 1, end), _pair(data, p + 4, end), np.int64(0)
        after = np.int64(p + 6)
        if after < end and data[after] == 58:
            rest = _pair(data, after + 1, end)
            after += 3
            if rest == 0:
                rest = np.int64(-1)
        seconds = hours * 3600 + minutes * 60 + rest
        if hours >= 0 and 0 <= minutes < 60 and 0 <= rest < 60 and 0 < seconds <= MAX_OFFSET:
            stop = after
        if data[p] == 45:
            seconds = -seconds
    return seconds, stop


@kernel
def parse_halves(data: Any, p: Any, end: Any) -> Any:
    """Read a UUID in five groups: its halves, and the position."""
    high, low = np.uint64(0), np.uint64(0)
    good = end - p == 36
    if good:
        for k in range(36):
            c = np.int64(data[p + k])
            if k in (8, 13, 18, 23):
                good = good and c == 45
            else:
                digit = c - 48 if c <= 57 else (c | 32) - 87
                good = good and (48 <= c <= 57 or 97 <= (c | 32) <= 102)
                high = (high << np.uint64(4)) | (low >> np.uint64(60))
                low = (low << np.uint64(4)) | np.uint64(digit & 15)
    return np.int64(high), np.int64(low), np.int64(end if good else -1)


@kernel
def parse_period(data: Any, p: Any, end: Any) -> Any:
    """Read ``P1Y-2M3D``: years, months and days, and the position."""
    years, months, days = np.int64(0), np.int64(0), np.int64(0)
    good = end - p > 1 and data[p] == 80
    p += 1
    last = 0
    while good and p < end:
        negative = data[p] == 45
        p += 1 if negative else 0
        number, start = np.int64(0), np.int64(p)
        while p < end and p - start < 9 and 48 <= data[p] <= 57:
            number = number * 10 + np.int64(data[p] - 48)
            p += 1
        number = -number if negative else number
        unit = np.int64(data[p]) if start < p < end else np.int64(0)
        p += 1
        if unit == 89 and last < 1:
            years, last = number, 1
        elif unit == 77 and last < 2:
            months, last = number, 2
        elif unit == 68 and last < 3:
            days, last = number, 3
        else:
            good = False
    return years, months, days, np.int64(p if good else -1)


@kernel
def parse_decimal(data: Any, p: Any, end: Any) -> Any:
    """Read ``-12.30`` or ``1.5E-7``: the halves of the unscaled number, the scale, and the position."""
    low, high = np.uint64(0), np.uint64(0)
    negative = p < end and data[p] == 45
    p += 1 if negative else 0
    digits, point, scale = 0, -1, np.int64(0)
    good = True
    four, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    while good and p < end:
        c = np.int64(data[p])
        if c == 46 and point < 0 and digits > 0:
            point = digits
        elif 48 <= c <= 57:
            # Times ten, by halves of 32 bits.
            below = (low & four) * np.uint64(10) + np.uint64(c - 48)
            above = (low >> shift) * np.uint64(10) + (below >> shift)
            low = (above << shift) | (below & four)
            high = high * np.uint64(10) + (above >> shift)
            digits += 1
        elif c == 69 and p + 2 < end and p + 6 >= end and data[p + 1] in (43, 45):
            exponent = np.int64(0)
            for k in range(p + 2, end):
                good = good and 48 <= data[k] <= 57
                exponent = exponent * 10 + (np.int64(data[k]) - 48)
            scale = exponent if data[p + 1] == 45 else -exponent
            p = end - 1
        else:
            good = False
        p += 1
    good = good and 0 < digits <= MAX_PARSED and point != digits
    scale += digits - point if point >= 0 else 0
    if negative:
        low = ~low + ONE
        high = ~high + np.uint64(1 if low == 0 else 0)
    return np.int64(low), np.int64(high), scale, np.int64(end if good else -1)
