"""Columns as Kryo's objects, written together: the inverse of ``kryo_values.py``, for both versions.

What it knows of the classes of a column are tables (``kryo/objects/written_columns.py``), so that nothing is compiled
for a job:

    columns[c]    how an object is read, whether no reference precedes it, what precedes it (VALUE: its class, NULLABLE:
                  a byte 0 or 1, SURE: nothing), its class, the first column of its parts and their number, and
                  where its cells begin
    classes[k]    the registered id, or -1; start and length of the name in ``names``, as Kryo writes it; the number of
                  the name in a value
    cells         values of all columns: whether there is one, and two numbers; of a text start and length in ``data``,
                  of a list the first of the cells of its parts and their number

Values that have no such bytes, or a text that is not written as usual, are left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.kryo_kinds import (
    ARRAY,
    BIG_DECIMAL,
    BIG_INTEGER,
    BITS,
    BOOLEAN,
    BYTE,
    BYTES,
    CHAR,
    CLOCK,
    COLLECTION,
    DATE,
    DATE_TIME,
    DOUBLE,
    DURATION,
    ENUM,
    FIELDS,
    FLAG,
    FLOAT,
    INSTANT,
    INT,
    LONG,
    MAP,
    MILLIS,
    NO_NULLS,
    NULLABLE,
    OFFSET_DATE_TIME,
    OFFSET_TIME,
    OPTIONAL,
    PERIOD,
    PRIMITIVES,
    REFERENCE,
    SHORT,
    SQL_TIME,
    SQL_TIMESTAMP,
    SURE,
    TEXT,
    UUID,
    VALUE,
    YEAR,
    YEAR_MONTH,
    ZONE_OFFSET,
    ZONED,
)
from pyspark_savepoint.formats.kernels.kryo_output import (
    date_of,
    parse_clock,
    parse_decimal,
    parse_halves,
    parse_month_day,
    parse_offset,
    parse_period,
    parse_year,
    put_big,
    put_fixed,
    put_flag_and_size,
    put_int,
    put_local_date,
    put_local_time,
    put_long,
    put_signed,
    put_signed_long,
    put_string,
    put_zone_offset,
)
from pyspark_savepoint.formats.kernels.kryo_times import NANOS
from pyspark_savepoint.formats.kernels.kryo_values import DAY_MICROS
from pyspark_savepoint.formats.kernels.strings import code_point

#: Columns of the table of columns, and of that of classes.
HOW_READ, PLAIN_BODY, PRECEDED, CLASS, FIRST_COLUMN, COLUMNS, BASE = range(7)
ID, NAME, NAME_SIZE, SEEN = range(4)
#: What precedes an element where no elements follow, and where each part has what its column says.
NO_ELEMENTS, OF_COLUMN = -1, -2
#: Objects of which the parts are written one by one.
OPENED = (FIELDS, OPTIONAL, REFERENCE, COLLECTION, NO_NULLS, ARRAY, MAP)
#: The classes of time zones, which are in every table.
OFFSET_CLASS, REGION_CLASS = 0, 1
#: What a cell has: nothing, a value, or one that is left to the caller.
MISSING, THERE, LEFT_OUT = 0, 1, 2
#: Results in place of a position.
LEFT, NO_ROOM = -1, -2
#: Places in ``state``: objects and class names that the value has so far, its constants, and the room of an object
#: without its text.
OBJECTS, NAMED, CONSTANTS, ROOM = range(4)
#: Constants of a value, which are written once: their class, a number or the place of a text, its length, their object.
MAX_CONSTANTS = 64
MAX_WORDS = 1 << 14
LAST_MICROS = 253_402_300_800_000_000
FIRST_MICROS = -62_135_596_800_000_000
LAST_DAY, FIRST_DAY = 2_932_896, -719_162

# -- classes and references ----------------------------------------------------------------------------------------


@kernel
def _put_class(classes: Any, names: Any, k: Any, out: Any, q: Any, state: Any) -> Any:
    """Store a class: its id, its name, or the number of its name in this value."""
    if classes[k, ID] >= 0:
        return put_int(out, q, classes[k, ID] + 2)
    out[q] = 1
    if classes[k, SEEN] >= 0:
        return put_int(out, q + 1, classes[k, SEEN])
    q = put_int(out, q + 1, state[NAMED])
    classes[k, SEEN] = state[NAMED]
    state[NAMED] += 1
    for j in range(classes[k, NAME_SIZE]):
        out[q + j] = names[classes[k, NAME] + j]
    return q + classes[k, NAME_SIZE]


@inline
def _new(out: Any, q: Any, state: Any) -> Any:
    """Store the reference of a new object."""
    out[q] = 1
    state[OBJECTS] += 1
    return q + 1


@kernel
def _put_constant(data: Any, k: Any, number: Any, size: Any, out: Any, q: Any, constants: Any, state: Any) -> Any:
    """Store the reference of a constant; return the position, and whether its body follows; LEFT if there are many.

    ``size``: it is a text at ``number`` if it is not 0.
    """
    count = state[CONSTANTS]
    for j in range(count):
        if constants[j, 0] == k and constants[j, 2] == size:
            same = size > 0 or constants[j, 1] == number
            for at in range(size):
                same = same and data[constants[j, 1] + at] == data[number + at]
            if same:
                return put_int(out, q, constants[j, 3] + 2), False
    if count == MAX_CONSTANTS:
        return LEFT, False
    constants[count, 0] = k
    constants[count, 1] = number
    constants[count, 2] = size
    constants[count, 3] = state[OBJECTS]
    state[CONSTANTS] = count + 1
    return _new(out, q, state), True


# -- what is no container ------------------------------------------------------------------------------------------


@kernel
def _put_number(kryo: Any, read: Any, a: Any, out: Any, q: Any) -> Any:
    if read in (INT, FLAG):
        q = put_signed(out, q, a)
    elif read == LONG:
        q = put_signed_long(out, q, a)
    elif read == YEAR:
        q = put_signed(out, q, a) if kryo == 2 else put_int(out, q, a)
    elif read in (BYTE, BOOLEAN):
        out[q] = a & 0xFF
        q += 1
    else:
        q = put_fixed(kryo, out, q, a, 8 if read == DOUBLE else 4 if read == FLOAT else 2)
    return q


@kernel
def _put_moment(kryo: Any, read: Any, seconds: Any, nanos: Any, out: Any, q: Any) -> Any:
    """Store an Instant, Duration or Timestamp."""
    if not 0 <= nanos < NANOS:
        return LEFT
    if read == SQL_TIMESTAMP:
        if not -(1 << 52) < seconds < 1 << 52:
            return LEFT
        q = put_long(out, q, seconds * 1000 + (nanos // 1_000_000 if kryo == 2 else 0))
        return put_int(out, q, nanos)
    if kryo == 2:
        return put_signed_long(out, put_signed(out, q, nanos), seconds)
    q = put_long(out, q, seconds) if read == INSTANT else put_fixed(kryo, out, q, seconds, 8)
    return put_int(out, q, nanos)


@kernel
def _put_date_time(kryo: Any, packed: Any, nanos: Any, out: Any, q: Any, state: Any) -> Any:
    """Store a LocalDateTime; Kryo 2 writes a reference before each of its parts."""
    if kryo == 2:
        q = _new(out, q, state)
    q = put_local_date(kryo, out, q, packed)
    if kryo == 2:
        q = _new(out, q, state)
    return put_local_time(kryo, out, q, nanos)


@kernel
def _put_part_offset(kryo: Any, data: Any, seconds: Any, out: Any, q: Any, constants: Any, state: Any) -> Any:
    """Store a ZoneOffset in another object."""
    follows = True
    if kryo == 2:
        q, follows = _put_constant(data, OFFSET_CLASS, seconds, 0, out, q, constants, state)
    if follows and q >= 0:
        q = put_zone_offset(kryo, out, q, seconds)
    return q


@kernel
def _put_zoned(
    kryo: Any, read: Any, classes: Any, names: Any, data: Any, p: Any, end: Any, out: Any, q: Any,
    constants: Any, state: Any,
) -> Any:  # fmt: skip
    """Store the text of an OffsetTime, OffsetDateTime or ZonedDateTime."""
    packed = np.int64(0)
    if read != OFFSET_TIME:
        year, p = parse_year(data, p, end)
        if p >= 0:
            packed, p = parse_month_day(data, p, end, year)
        p = p + 1 if 0 <= p < end and data[p] == 84 else np.int64(-1)
    nanos, offset = np.int64(0), np.int64(0)
    if p >= 0:
        nanos, p = parse_clock(data, p, end)
    zone = np.int64(p)
    if p >= 0 and p < end and data[p] != 91:
        offset, p = parse_offset(data, p, end)
    elif read != ZONED or kryo == 2:
        # Kryo 2 writes the offset, too, which the caller looks up.
        p = np.int64(-1)
    has_offset = p > zone
    size = np.int64(0)
    if read == ZONED and p >= 0 and p < end and data[p] == 91:
        zone = p + 1
        size = end - 1 - zone
        good = size > 0 and data[end - 1] == 93
        for j in range(zone, end - 1):
            good = good and data[j] < 128 and data[j] != 93
        # An offset in brackets is the same as one before them.
        p = end if good and data[zone] not in (43, 45) and not (data[zone] == 90 and size == 1) else np.int64(-1)
    if p != end or (size == 0 and not has_offset):
        return LEFT
    if read == OFFSET_TIME:
        if kryo == 2:
            q = _put_part_offset(kryo, data, offset, out, q, constants, state)
            return put_local_time(kryo, out, _new(out, q, state), nanos) if q >= 0 else q
        return put_zone_offset(kryo, out, put_local_time(kryo, out, q, nanos), offset)
    if kryo == 2:
        q = _new(out, q, state)
    q = _put_date_time(kryo, packed, nanos, out, q, state)
    if read == OFFSET_DATE_TIME or kryo == 2:
        q = _put_part_offset(kryo, data, offset, out, q, constants, state)
        if q < 0 or read == OFFSET_DATE_TIME:
            return q
        if size == 0:
            q = _put_class(classes, names, OFFSET_CLASS, out, q, state)
            return _put_part_offset(kryo, data, offset, out, q, constants, state)
        q = _put_class(classes, names, REGION_CLASS, out, q, state)
        q, follows = _put_constant(data, REGION_CLASS, zone, size, out, q, constants, state)
        return put_string(kryo, data, zone, size, out, _new(out, q, state)) if follows else q
    return put_string(kryo, data, zone, size if size > 0 else p - zone, out, q)


@kernel
def _put_partial(kryo: Any, read: Any, data: Any, p: Any, end: Any, out: Any, q: Any) -> Any:
    """Store the text of a Period, YearMonth or MonthDay, or of a UUID or a number."""
    if read == PERIOD:
        years, months, days, p = parse_period(data, p, end)
        if p != end:
            return LEFT
        if kryo == 2:
            return put_signed(out, put_signed(out, put_signed(out, q, days), months), years)
        return put_int(out, put_int(out, put_int(out, q, years), months), days)
    if read == UUID:
        high, low, p = parse_halves(data, p, end)
        if p != end:
            return LEFT
        if kryo == 2:
            return put_signed_long(out, put_signed_long(out, q, high), low)
        return put_fixed(kryo, out, put_fixed(kryo, out, q, high, 8), low, 8)
    if read == BIG_DECIMAL:
        low, high, scale, p = parse_decimal(data, p, end)
        return put_signed(out, put_big(out, q, low, high), scale) if p == end else LEFT
    if read == CHAR:
        c = np.int64(-1)
        if p < end:
            c, p = code_point(data, p, end)
        return put_fixed(kryo, out, q, c, 2) if p == end and 0 <= c < 0x10000 else LEFT
    year, month, day = np.int64(2000), np.int64(0), np.int64(0)
    if read == YEAR_MONTH:
        year, p = parse_year(data, p, end)
        if p >= 0 and p + 3 == end and data[p] == 45:
            high, low = np.int64(data[p + 1]) - 48, np.int64(data[p + 2]) - 48
            month = high * 10 + low if 0 <= high <= 9 and 0 <= low <= 9 else np.int64(0)
        if not 1 <= month <= 12:
            return LEFT
        if kryo == 2:
            return put_signed(out, put_signed(out, q, month), year)
        q = put_int(out, q, year)
        out[q] = month
        return q + 1
    packed = np.int64(0)
    if p < end and data[p] == 45:
        packed, p = parse_month_day(data, p + 1, end, year)
        month, day = (packed >> 5) & 15, packed & 31
    if p != end or packed == 0:
        return LEFT
    if kryo == 2:
        return put_signed(out, put_signed(out, q, day), month)
    out[q] = month
    out[q + 1] = day
    return q + 2


@kernel
def _put_leaf(
    kryo: Any, read: Any, classes: Any, names: Any, data: Any, a: Any, b: Any, out: Any, q: Any,
    constants: Any, state: Any,
) -> Any:  # fmt: skip
    """Store the body of what is no container."""
    if read == TEXT:
        q = put_string(kryo, data, a, b, out, q)
    elif read in (INT, LONG, SHORT, BYTE, BOOLEAN, FLOAT, DOUBLE, FLAG, YEAR):
        q = _put_number(kryo, read, a, out, q)
    elif read == ENUM:
        q = put_int(out, q, a + 1)
    elif read == BYTES:
        q = put_int(out, q, b + 1)
        for j in range(b):
            out[q + j] = data[a + j]
        q += b
    elif read in (MILLIS, SQL_TIME):
        q = put_long(out, q, a)
    elif read in (INSTANT, DURATION, SQL_TIMESTAMP):
        q = _put_moment(kryo, read, a, b, out, q)
    elif read == DATE:
        q = put_local_date(kryo, out, q, date_of(a)) if FIRST_DAY <= a <= LAST_DAY else LEFT
    elif read == CLOCK:
        q = put_local_time(kryo, out, q, a) if 0 <= a < 86_400 * NANOS else LEFT
    elif read == DATE_TIME:
        good = FIRST_MICROS <= a < LAST_MICROS
        nanos = a % DAY_MICROS * 1000
        q = _put_date_time(kryo, date_of(a // DAY_MICROS), nanos, out, q, state) if good else LEFT
    elif read in (ZONED, OFFSET_DATE_TIME, OFFSET_TIME):
        q = _put_zoned(kryo, read, classes, names, data, a, a + b, out, q, constants, state)
    elif read == BIG_INTEGER:
        q = put_big(out, q, a, b)
    else:
        q = _put_partial(kryo, read, data, a, a + b, out, q)
    return q


# -- containers ----------------------------------------------------------------------------------------------------


@kernel
def _put_numbers(kryo: Any, read: Any, cells: Any, first: Any, count: Any, out: Any, q: Any) -> Any:
    """Store an array of a primitive type."""
    if q + 10 * count + 10 > out.shape[0]:
        return NO_ROOM
    q = put_int(out, q, count + 1)
    for j in range(first, first + count):
        if cells[j, 0] != THERE:
            return LEFT
        q = _put_number(kryo, read, cells[j, 1], out, q)
    return q


@kernel
def _put_bits(kryo: Any, cells: Any, first: Any, count: Any, out: Any, q: Any) -> Any:
    """Store a BitSet of the positions of its bits."""
    words = np.int64(1 if kryo == 2 else 0)
    for j in range(first, first + count):
        if cells[j, 0] != THERE or cells[j, 1] < 0 or cells[j, 1] >= 64 * MAX_WORDS:
            return LEFT
        words = max(words, (cells[j, 1] >> 6) + 1)
    if q + 8 * words + 10 > out.shape[0]:
        return NO_ROOM
    q = put_int(out, q, words)
    for j in range(8 * words):
        out[q + j] = 0
    for j in range(first, first + count):
        place = cells[j, 1]
        byte = (place & 63) >> 3
        out[q + 8 * (place >> 6) + (7 - byte if kryo == 2 else byte)] |= 1 << (place & 7)
    return q + 8 * words


@kernel
def _put_list_head(
    kryo: Any, read: Any, columns: Any, classes: Any, names: Any, cells: Any, part: Any, first: Any, count: Any,
    out: Any, q: Any, state: Any,
) -> Any:  # fmt: skip
    """Store what precedes the elements of a collection; return the position and what precedes each element."""
    how = np.int64(columns[part, PRECEDED])
    first += columns[part, BASE]
    if kryo == 2 or read == ARRAY:
        return put_int(out, q, count + (1 if read == ARRAY else 0)), how
    if count == 0:
        out[q] = 1
        return q + 1, np.int64(NO_ELEMENTS)
    some, every = False, True
    for j in range(first, first + count):
        some = some or cells[j, 0] == MISSING
        every = every and cells[j, 0] == MISSING
    if some and read == NO_NULLS:
        return np.int64(LEFT), how
    if how != VALUE:
        q = put_int(out, q, count + 1) if read == NO_NULLS else put_flag_and_size(out, q, some, count + 1)
    else:
        q = put_flag_and_size(out, q, True, count + 1)
        if every:
            out[q] = 0
            return q + 1, np.int64(NO_ELEMENTS)
        q = _put_class(classes, names, columns[part, CLASS], out, q, state)
        if read != NO_NULLS:
            out[q] = 1 if some else 0
            q += 1
    return q, np.int64(NULLABLE if some else SURE)


@kernel
def _put_object(
    kryo: Any, columns: Any, classes: Any, names: Any, cells: Any, data: Any, c: Any, i: Any, how: Any,
    out: Any, q: Any, constants: Any, state: Any,
) -> Any:  # fmt: skip
    """Store object ``i`` of column ``c``, or null, with what precedes it; return the next position, LEFT or NO_ROOM."""
    cell = columns[c, BASE] + i
    read = columns[c, HOW_READ]
    there, a, b = cells[cell, 0], cells[cell, 1], cells[cell, 2]
    if there == LEFT_OUT or (there == MISSING and how == SURE):
        return np.int64(LEFT)
    if q + state[ROOM] > out.shape[0]:
        return np.int64(NO_ROOM)
    if there == MISSING:
        out[q] = 0
        return np.int64(q + 1)
    if how == VALUE:
        q = _put_class(classes, names, columns[c, CLASS], out, q, state)
    if columns[c, PLAIN_BODY]:
        if how == NULLABLE:
            out[q] = 1
            q += 1
    elif read in (ENUM, ZONE_OFFSET):
        if read == ZONE_OFFSET:
            a, p = parse_offset(data, a, a + b)
            if p != cells[cell, 1] + b:
                return np.int64(LEFT)
        q, follows = _put_constant(data, columns[c, CLASS], a, 0, out, q, constants, state)
        if q < 0 or not follows:
            return np.int64(q)
        return np.int64(put_int(out, q, a + 1) if read == ENUM else put_zone_offset(kryo, out, q, a))
    else:
        q = _new(out, q, state)
    first = columns[c, FIRST_COLUMN]
    if read in OPENED:
        # The parts: how many columns, and how many cells of each.
        part, size, each = np.int64(0), columns[c, COLUMNS], np.int64(OF_COLUMN)
        start, count = np.int64(i), np.int64(1)
        if read in (MAP, COLLECTION, NO_NULLS, ARRAY):
            start, count = a, b
            if read == MAP:
                q = put_int(out, q, b if kryo == 2 else b + 1)
            else:
                q, each = _put_list_head(kryo, read, columns, classes, names, cells, first, a, b, out, q, state)
                count = b if q >= 0 and each != NO_ELEMENTS else np.int64(0)
        for k in range(count * size):
            part = first + k % size
            q = _put_object(
                kryo, columns, classes, names, cells, data, part, start + k // size,
                columns[part, PRECEDED] if each == OF_COLUMN else each, out, q, constants, state,
            )  # fmt: skip
            if q < 0:
                break
    elif read == PRIMITIVES:
        q = _put_numbers(kryo, columns[first, HOW_READ], cells, columns[first, BASE] + a, b, out, q)
    elif read == BITS:
        q = _put_bits(kryo, cells, columns[first, BASE] + a, b, out, q)
    elif q + state[ROOM] + (3 * b if read in (TEXT, BYTES, ZONED) else 0) > out.shape[0]:
        q = np.int64(NO_ROOM)
    else:
        q = _put_leaf(kryo, read, classes, names, data, a, b, out, q, constants, state)
    return np.int64(q)


@kernel
def write_rows(
    kryo: Any, columns: Any, classes: Any, names: Any, cells: Any, data: Any, first: Any, out: Any,
    ends: Any, left: Any, constants: Any, state: Any,
) -> Any:  # fmt: skip
    """Store the values of rows one after the other, from row ``first`` on; return the row that has no room.

    ``ends`` are their ends. Those in ``left`` are left to the caller, and have no bytes.
    """
    row = np.int64(first)
    q = ends[row]
    while row < left.shape[0]:
        state[OBJECTS] = 0
        state[NAMED] = 0
        state[CONSTANTS] = 0
        for k in range(classes.shape[0]):
            classes[k, SEEN] = -1
        after = _put_object(
            kryo, columns, classes, names, cells, data, np.int64(0), row, columns[0, PRECEDED], out, q,
            constants, state,
        )  # fmt: skip
        if after == NO_ROOM:
            break
        left[row] = after < 0
        q = after if after >= 0 else q
        row += 1
        ends[row] = q
    return row
