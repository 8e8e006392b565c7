"""Values of Kryo, read together: a tree of numbers for each, of which VARIANT or columns are made.

One kernel reads both versions. What it knows of classes are tables (``kryo/objects/value_tables.py``), so that nothing
is compiled for a job:

    table[node]   kind, whether no reference precedes an object, first and number of the parts, the number of constants
    parts         how, node and type of a field; place of its key among the sorted keys, start, length and hash of it
    types         number of type arguments, the first, the second, the last; the node of the type if it is final
    names[slot]   start, length and node of the name of a class, by its hash
    ids[number]   the node of a registered class

    tree[i]       node, two numbers, the place after the node and all that is in it

``how`` says what precedes an object: its class (VALUE), a byte 0 or 1 (NULLABLE), or nothing but the reference (SURE).
Values that are damaged, have references to objects that are not strings, or have other classes, are left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.load import be_i64, be_u16, be_u32, be_u64, le_i64, le_u32
from pyspark_savepoint.formats.kernels.strings import HIGH_BITS, LOW6, put_utf8, varint

#: Kinds of objects. Those below CONTAINER consist of at most two numbers.
OTHER, INT, LONG, SHORT, BYTE, BOOLEAN, FLOAT, DOUBLE, CHAR, TEXT, UUID, ENUM = range(12)
MILLIS, SQL_TIME, SQL_TIMESTAMP, INSTANT, DATE, CLOCK, DATE_TIME, DURATION = range(12, 20)
CONTAINER = 32
FIELDS, COLLECTION, NO_NULLS, MAP, OPTIONAL, AS_LIST, EMPTY, SINGLETON = range(32, 40)
VALUE, NULLABLE, SURE = 0, 1, 2
NULL_NODE = -1
#: How the characters of a text are written: ASCII whose last byte has bit 0x80; ASCII; units of UTF-16.
MARKED, ASCII, UNITS = 0, 1, 2
#: Columns of the table of nodes, of the parts, and of the types.
KIND, PLAIN, FIRST, COUNT, CONSTANTS = range(5)
HOW, NODE, TYPE, RANK, KEY, KEY_SIZE, KEY_HASH = range(7)
ARGUMENTS, ARGUMENT_0, ARGUMENT_1, LAST, FINAL = range(5)
#: Results of the kernels besides the next row, in ``state``: what is to be added to the tables.
DONE, NEW_NAME, NEW_ID, NO_ROOM = 0, 1, 2, 3
#: Places in ``state``.
WHAT, AT, SIZE, USED, TRUNCATES, OBJECTS, CLASSES, OUT, METADATA, STAMP, KEYS = range(11)
MAX_OPEN, MAX_NAMES = 40, 32
#: Limit on the keys of a variant, and of the entries of a map with text keys that are sorted here.
MAX_KEYS, MAX_ENTRIES = 2048, 512
SLOTS = 4096
MIN_SECONDS, MAX_SECONDS = -62_135_596_800, 253_402_300_799
NANOS = 1_000_000_000
#: Columns of a frame: what is read next of an open object.
LEFT, PART, OWNER, TURN, SPEC = 0, 1, 2, 3, 4
LEFT_TO_CALLER = -1
ID_LIMIT = 1 << 20
LOW7, HIGH, ONE = np.uint64(0x7F), np.uint64(0x80), np.uint64(1)
FNV, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
LOW32 = np.int64(0xFFFFFFFF)


@inline
def _long(buf: Any, p: Any, end: Any) -> Any:
    """Read a varlong; return its bits and the position after it, or -1."""
    bits = np.uint64(0)
    stop = np.int64(-1)
    for k in range(9):
        if p >= end:
            break
        byte = np.uint64(buf[p])
        p += 1
        if k == 8:
            bits |= byte << np.uint64(56)
            stop = p
            break
        bits |= (byte & LOW7) << np.uint64(7 * k)
        if byte < HIGH:
            stop = p
            break
    return bits, stop


@inline
def _zig_zag(bits: Any) -> Any:
    number = bits >> ONE
    if bits & ONE:
        number = ~number
    return np.int64(number)


@inline
def _int(buf: Any, p: Any, end: Any) -> Any:
    """Read an int in zig-zag."""
    value, p = varint(buf, p, end)
    value &= LOW32
    return (value >> np.int64(1)) ^ -(value & np.int64(1)), p


@inline
def _plain_int(buf: Any, p: Any, end: Any) -> Any:
    """Read an int in two's complement."""
    value, p = varint(buf, p, end)
    return ((value & LOW32) ^ np.int64(0x80000000)) - np.int64(0x80000000), p


@kernel
def _text(buf: Any, p: Any, end: Any) -> Any:
    """Read a text: start, length and form, and the position after it; -1 for null and what is left to the caller."""
    start, size, form, stop = np.int64(p), np.int64(0), np.int64(MARKED), np.int64(-1)
    if p < end and buf[p] < 128:
        while p + 8 <= end and not be_u64(buf, p) & HIGH_BITS:
            p += 8
        while p < end and buf[p] < 128:
            p += 1
        if p < end:
            size = p + 1 - start
            stop = p + 1
    elif p < end:
        first = np.int64(buf[p])
        size = first & np.int64(0x3F)
        p += 1
        if first & 0x40:
            # A size has at most four more bytes.
            rest, after = varint(buf, p, end)
            size |= rest << np.int64(6)
            p = after if after - p <= 4 else np.int64(-1)
        size -= 1
        start = np.int64(p)
        if p >= 0 and 0 <= size <= end - p:
            form = np.int64(ASCII)
            stop = p + size
            for k in range(size):
                if buf[p + k] >= 128:
                    form = np.int64(UNITS)
                    stop = _units_end(buf, start, size, end)
                    break
    return start, size, form, stop


@inline
def _unit(buf: Any, p: Any, end: Any) -> Any:
    """Read a unit of UTF-16; return it and the position after it, or -1."""
    unit = np.int64(buf[p]) if p < end else np.int64(-1)
    stop = np.int64(-1)
    if 0 <= unit < 128:
        stop = p + 1
    elif unit >> 5 == 6 and p + 1 < end and buf[p + 1] >> 6 == 2:
        unit = ((unit & 31) << np.int64(6)) | (np.int64(buf[p + 1]) & LOW6)
        stop = p + 2
    elif unit >> 4 == 14 and p + 2 < end and buf[p + 1] >> 6 == 2 and buf[p + 2] >> 6 == 2:
        unit = ((unit & 15) << np.int64(12)) | ((np.int64(buf[p + 1]) & LOW6) << np.int64(6))
        unit |= np.int64(buf[p + 2]) & LOW6
        stop = p + 3
    return unit, stop


@kernel
def _character(buf: Any, p: Any, end: Any) -> Any:
    """Read a code point of one or two units; return it, its units, and the position after it.

    The position is -1 for half of a pair, and for U+10FFFF, which may precede digits that stand for half of a pair.
    """
    unit, p = _unit(buf, p, end)
    units = np.int64(1)
    if p >= 0 and unit >> 11 == 27:
        low, after = _unit(buf, p, end)
        p = np.int64(-1)
        if after >= 0 and unit < 0xDC00 and low >> 10 == 55:
            unit = 0x10000 + ((unit - 0xD800) << np.int64(10)) + (low - 0xDC00)
            units = np.int64(2)
            p = after if unit != 0x10FFFF else np.int64(-1)
    return unit, units, p


@kernel
def _units_end(buf: Any, p: Any, size: Any, end: Any) -> Any:
    """Return the position after units of UTF-16, or -1."""
    while size > 0 and p >= 0:
        _, units, p = _character(buf, p, end)
        size -= units
    return p if size == 0 else np.int64(-1)


@inline
def _date(year: Any, month: Any, day: Any) -> Any:
    """Return the day since 1970 of a date in the years 1 to 9999, and whether it is one."""
    good = 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= 31
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    if month == 2:
        good = good and day <= (29 if leap else 28)
    elif month in (4, 6, 9, 11):
        good = good and day <= 30
    y = year - (1 if month <= 2 else 0)
    era = y // 400
    in_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + in_era * 365 + in_era // 4 - in_era // 100 + of_year - 719468, good


@kernel
def _read_date(kryo: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a LocalDate: its day since 1970, and the position after it, or -1."""
    year, month, day = np.int64(0), np.int64(0), np.int64(0)
    stop = np.int64(-1)
    if kryo == 2:
        if p + 4 <= end:
            day = (be_u16(buf, p) ^ np.int64(0x8000)) - np.int64(0x8000)
            month = (be_u16(buf, p + 2) ^ np.int64(0x8000)) - np.int64(0x8000)
            year, stop = _int(buf, p + 4, end)
    else:
        year, p = _plain_int(buf, p, end)
        if p >= 0 and p + 2 <= end:
            month, day = np.int64(buf[p]), np.int64(buf[p + 1])
            stop = p + 2
    days, good = _date(year, month, day)
    return days, stop if good else np.int64(-1)


@inline
def _signed_byte(buf: Any, p: Any, end: Any) -> Any:
    return (np.int64(buf[p]) ^ np.int64(0x80)) - np.int64(0x80) if p < end else np.int64(1000)


@kernel
def _read_clock(kryo: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a LocalTime: nanoseconds since midnight, and the position after it, or -1."""
    hour = _signed_byte(buf, p, end)
    minute, second, nano = np.int64(0), np.int64(0), np.int64(0)
    p += 1
    if kryo == 2:
        minute = _signed_byte(buf, p, end)
        nano, p = _int(buf, p + 1, end)
        second = _signed_byte(buf, p, end) if p >= 0 else np.int64(1000)
        p += 1
    elif hour < 0:
        hour = ~hour
    else:
        minute = _signed_byte(buf, p, end)
        p += 1
        if minute < 0:
            minute = ~minute
        else:
            second = _signed_byte(buf, p, end)
            p += 1
            if second < 0:
                second = ~second
            else:
                nano, p = varint(buf, p, end)
    good = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nano < NANOS and 0 < p <= end
    return (hour * 3600 + minute * 60 + second) * NANOS + nano, p if good else np.int64(-1)


@kernel
def _name_node(names: Any, texts: Any, buf: Any, start: Any, size: Any) -> Any:
    """Return the node of a class by its name, or -1 if it is not in the tables."""
    value = FNV
    for k in range(size):
        value = (value ^ (np.uint64(buf[start + k]) & LOW7)) * FNV_PRIME
    slot = np.int64(value % np.uint64(names.shape[0]))
    found = np.int64(-1)
    while names[slot, 1] > 0:
        if names[slot, 1] == size:
            j = size - 1
            while j >= 0 and texts[names[slot, 0] + j] == buf[start + j] & 0x7F:
                j -= 1
            if j < 0:
                found = names[slot, 2]
                break
        slot = slot + 1 if slot + 1 < names.shape[0] else np.int64(0)
    return found


@kernel
def read_rows(
    kryo: Any, table: Any, parts: Any, types: Any, names: Any, texts: Any, ids: Any, top: Any, buf: Any, position: Any,
    end: Any, roots: Any, first: Any, tree: Any, frames: Any, seen: Any, objects: Any, state: Any,
) -> Any:  # fmt: skip
    """Read the values of rows into the tree, from row ``first`` on; return the row before which it stopped.

    ``roots`` are their places in the tree, LEFT_TO_CALLER for those left to the caller, whose position stays. ``top``
    is how, node and type of a value. ``state`` says why it stopped, and what is not in the tables.
    """
    row = np.int64(first)
    n = np.int64(state[USED])
    state[WHAT] = DONE
    truncates = state[TRUNCATES] != 0
    while row < position.shape[0]:
        p, stop = np.int64(position[row]), np.int64(end[row])
        before = n
        depth = np.int64(0)
        how, node, kind_of = np.int64(top[0]), np.int64(top[1]), np.int64(top[2])
        found, seen_names = np.int64(0), np.int64(0)
        repeated = np.int64(0)
        good = True
        while True:
            if n >= tree.shape[0]:
                good = False
                state[WHAT] = NO_ROOM
                break
            # -- class and reference --
            null, plain = False, True
            if how == VALUE:
                number, p = varint(buf, p, stop)
                if p < 0:
                    good = False
                    break
                if number == 0:
                    null = True
                elif number > 1:
                    node = np.int64(-1)
                    if number - 2 < ids.shape[0]:
                        node = ids[number - 2]
                    if node < 0:
                        good = False
                        if number - 2 < ID_LIMIT:
                            state[WHAT] = NEW_ID
                            state[AT] = number - 2
                        break
                else:
                    number, p = varint(buf, p, stop)
                    if p < 0 or number > seen_names or seen_names >= MAX_NAMES:
                        good = False
                        break
                    if number == seen_names:
                        start, size, form, p = _text(buf, p, stop)
                        if p < 0 or size == 0 or form == UNITS:
                            good = False
                            break
                        node = _name_node(names, texts, buf, start, size)
                        if node < 0:
                            good = False
                            state[WHAT] = NEW_NAME
                            state[AT] = start
                            state[SIZE] = size
                            break
                        seen[seen_names] = node
                        seen_names += 1
                    node = seen[number]
            kind = np.int64(OTHER)
            referred = np.int64(-1)
            if not null:
                kind = table[node, KIND]
                plain = table[node, PLAIN] == 1
                if not plain or how == NULLABLE:
                    if p >= stop:
                        good = False
                        break
                    reference = np.int64(buf[p])
                    p += 1
                    if reference == 0 and how == NULLABLE:
                        null = True
                    elif reference != 1:
                        # A string that was read before; others are left to the caller.
                        if plain or reference < 2 or reference >= 128 or reference - 2 >= found:
                            good = False
                            break
                        referred = objects[reference - 2]
                        if referred < 0 or tree[referred, 0] != node or kind != TEXT:
                            good = False
                            break
                        repeated += tree[referred, 2]
                        if repeated > 4 * (p - position[row]) + 256:
                            good = False
                            break
                if null and (kind >= CONTAINER and kryo == 2 and types[kind_of, ARGUMENTS] > 0):
                    good = False
                    break
            # -- object --
            if null:
                tree[n, 0] = NULL_NODE
                n += 1
                tree[n - 1, 3] = n
            elif referred >= 0:
                tree[n, 0] = node
                tree[n, 1] = tree[referred, 1]
                tree[n, 2] = tree[referred, 2]
                n += 1
                tree[n - 1, 3] = n
            else:
                if not plain:
                    if found >= objects.shape[0]:
                        good = False
                        break
                    objects[found] = n
                    found += 1
                tree[n, 0] = node
                a, b = np.int64(0), np.int64(0)
                if kind == TEXT:
                    a, size, form, p = _text(buf, p, stop)
                    b = (size << np.int64(2)) | form
                elif kind == INT:
                    a, p = _int(buf, p, stop)
                elif kind == LONG:
                    bits, p = _long(buf, p, stop)
                    a = _zig_zag(bits)
                elif kind in (DOUBLE, FLOAT, SHORT, CHAR):
                    width = 8 if kind == DOUBLE else 4 if kind == FLOAT else 2
                    if p + width > stop:
                        p = np.int64(-1)
                    elif kind == DOUBLE:
                        a = be_i64(buf, p) if kryo == 2 else le_i64(buf, p)
                    elif kind == FLOAT:
                        a = np.int64(be_u32(buf, p)) if kryo == 2 else le_u32(buf, p)
                        # A NaN that signals is made a quiet one on its way through other types.
                        if a & 0x7FC00000 == 0x7F800000 and a & 0x3FFFFF:
                            p = np.int64(-1)
                    else:
                        a = be_u16(buf, p) if kryo == 2 else np.int64(buf[p]) | (np.int64(buf[p + 1]) << np.int64(8))
                        if kind == SHORT:
                            a = (a ^ np.int64(0x8000)) - np.int64(0x8000)
                        elif a >> 11 == 27:
                            p = np.int64(-1)
                    p = p + width if p >= 0 else p
                elif kind in (BYTE, BOOLEAN):
                    a = _signed_byte(buf, p, stop)
                    p = p + 1 if a != 1000 and (kind == BYTE or 0 <= a <= 1) else np.int64(-1)
                elif kind == ENUM:
                    a, p = varint(buf, p, stop)
                    a -= 1
                    p = p if 0 <= a < table[node, CONSTANTS] else np.int64(-1)
                elif kind == UUID:
                    if kryo == 2:
                        bits, p = _long(buf, p, stop)
                        a = _zig_zag(bits)
                        bits, p = _long(buf, p, stop) if p >= 0 else (bits, p)
                        b = _zig_zag(bits)
                    elif p + 16 <= stop:
                        a, b = le_i64(buf, p), le_i64(buf, p + 8)
                        p += 16
                    else:
                        p = np.int64(-1)
                elif kind in (MILLIS, SQL_TIME, SQL_TIMESTAMP, INSTANT, DURATION):
                    a, b, p = _moment(kryo, kind, truncates, buf, p, stop)
                elif kind == DATE:
                    a, p = _read_date(kryo, buf, p, stop)
                elif kind == CLOCK:
                    a, p = _read_clock(kryo, buf, p, stop)
                elif kind == DATE_TIME:
                    # Kryo 2 writes a reference before each of its parts.
                    if kryo == 2:
                        p = p + 1 if p < stop and buf[p] == 1 and found + 2 <= objects.shape[0] else np.int64(-1)
                    if p >= 0:
                        a, p = _read_date(kryo, buf, p, stop)
                    if kryo == 2 and p >= 0:
                        p = p + 1 if p < stop and buf[p] == 1 else np.int64(-1)
                        objects[found] = -1
                        objects[found + 1] = -1
                        found += 2
                    if p >= 0:
                        b, p = _read_clock(kryo, buf, p, stop)
                        a = a * 86_400_000_000 + b // 1000
                        if b % 1000 != 0 and not truncates:
                            p = np.int64(-1)
                elif kind >= CONTAINER and depth < MAX_OPEN:
                    # -- what is in it --
                    count = np.int64(0)
                    frames[depth, PART] = -1
                    frames[depth, OWNER] = n
                    frames[depth, TURN] = 0
                    how_0, node_0, type_0 = np.int64(VALUE), np.int64(-1), np.int64(0)
                    how_1, node_1, type_1 = np.int64(VALUE), np.int64(-1), np.int64(0)
                    with_types = types[kind_of, ARGUMENTS] > 0
                    if kind == FIELDS:
                        frames[depth, PART] = table[node, FIRST]
                        count = table[node, COUNT]
                    elif kind in (OPTIONAL, SINGLETON):
                        count = np.int64(1)
                        if kind == OPTIONAL and kryo == 2 and with_types:
                            p = np.int64(-1)
                    elif kind == MAP:
                        count, p = varint(buf, p, stop)
                        count -= 1 if kryo != 2 else 0
                        if count < 0 or p < 0 or count > stop - p:
                            p = np.int64(-1)
                        if with_types:
                            node_0 = types[types[kind_of, ARGUMENT_0], FINAL]
                            if types[kind_of, ARGUMENTS] > 1:
                                node_1 = types[types[kind_of, ARGUMENT_1], FINAL]
                            if kryo != 2:
                                type_0, type_1 = types[kind_of, ARGUMENT_0], types[kind_of, LAST]
                            how_0 = np.int64(VALUE if node_0 < 0 else NULLABLE)
                            how_1 = np.int64(VALUE if node_1 < 0 else NULLABLE)
                        count *= 2
                    elif kind != EMPTY:
                        if with_types and kind != AS_LIST:
                            node_0 = types[types[kind_of, ARGUMENT_0], FINAL]
                            type_0 = types[kind_of, LAST] if kryo != 2 else np.int64(0)
                        some = np.int64(0)
                        if kryo == 2:
                            count, p = varint(buf, p, stop)
                            if kind == AS_LIST and p >= 0:
                                # The class of the elements of the array, which has an id: that of a String, mostly.
                                number, p = varint(buf, p, stop)
                                if number < 2 or number - 2 >= ids.shape[0] or ids[number - 2] < 0:
                                    p = np.int64(-1)
                            how_0 = np.int64(VALUE if node_0 < 0 else NULLABLE)
                        elif kind == NO_NULLS and node_0 >= 0:
                            count, p = varint(buf, p, stop)
                            count -= 1
                            how_0 = np.int64(SURE)
                        elif p < stop:
                            count = np.int64(buf[p])
                            some = count >> np.int64(7)
                            more = count & 0x40
                            count &= np.int64(0x3F)
                            p += 1
                            if more:
                                rest, after = varint(buf, p, stop)
                                count |= rest << np.int64(6)
                                p = after if after - p <= 4 else np.int64(-1)
                            count -= 1
                            if node_0 >= 0:
                                how_0 = np.int64(NULLABLE if some else SURE)
                            elif some and count > 0 and p >= 0:
                                # All of one class, which is written once.
                                number, p = varint(buf, p, stop)
                                if p >= 0 and number == 1:
                                    number, p = varint(buf, p, stop)
                                    if p < 0 or number > seen_names or seen_names >= MAX_NAMES:
                                        p = np.int64(-1)
                                    elif number == seen_names:
                                        start, size, form, p = _text(buf, p, stop)
                                        node_0 = np.int64(-1)
                                        if p >= 0 and size > 0 and form != UNITS:
                                            node_0 = _name_node(names, texts, buf, start, size)
                                            if node_0 < 0:
                                                state[WHAT] = NEW_NAME
                                                state[AT] = start
                                                state[SIZE] = size
                                        if node_0 < 0:
                                            good = False
                                            break
                                        seen[seen_names] = node_0
                                        seen_names += 1
                                    else:
                                        node_0 = seen[number]
                                elif p >= 0 and number > 1 and number - 2 < ID_LIMIT:
                                    if number - 2 < ids.shape[0]:
                                        node_0 = ids[number - 2]
                                    if node_0 < 0:
                                        good = False
                                        state[WHAT] = NEW_ID
                                        state[AT] = number - 2
                                        break
                                else:
                                    p = np.int64(-1)
                                how_0 = np.int64(SURE)
                                if kind != NO_NULLS and p >= 0:
                                    if p < stop and buf[p] <= 1:
                                        how_0 = np.int64(NULLABLE if buf[p] else SURE)
                                        p += 1
                                    else:
                                        p = np.int64(-1)
                        else:
                            p = np.int64(-1)
                        if count < 0 or p < 0 or count > stop - p:
                            p = np.int64(-1)
                        how_1, node_1, type_1 = how_0, node_0, type_0
                    frames[depth, LEFT] = count
                    frames[depth, SPEC] = how_0
                    frames[depth, SPEC + 1] = node_0
                    frames[depth, SPEC + 2] = type_0
                    frames[depth, SPEC + 3] = how_1
                    frames[depth, SPEC + 4] = node_1
                    frames[depth, SPEC + 5] = type_1
                    a = count
                    depth += 1
                else:
                    good = False
                    break
                if p < 0:
                    good = False
                    break
                tree[n, 1] = a
                tree[n, 2] = b
                n += 1
                tree[n - 1, 3] = n
            # -- what is next --
            while depth > 0 and frames[depth - 1, LEFT] == 0:
                depth -= 1
                tree[frames[depth, OWNER], 3] = n
            if depth == 0:
                break
            frame = depth - 1
            frames[frame, LEFT] -= 1
            part = frames[frame, PART]
            if part >= 0:
                how, node, kind_of = parts[part, HOW], parts[part, NODE], parts[part, TYPE]
                frames[frame, PART] = part + 1
            else:
                turn = frames[frame, TURN]
                at = SPEC + 3 * turn
                how, node, kind_of = frames[frame, at], frames[frame, at + 1], frames[frame, at + 2]
                frames[frame, TURN] = 1 - turn
        if good:
            roots[row] = before
            position[row] = p
        else:
            n = before
            if state[WHAT] != DONE:
                break
            roots[row] = LEFT_TO_CALLER
        row += 1
    state[USED] = n
    return row


@kernel
def _moment(kryo: Any, kind: Any, truncates: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a moment or duration: microseconds, or the number of a Time; 0; and the position after it, or -1."""
    seconds, nanos = np.int64(0), np.int64(0)
    if kind in (INSTANT, DURATION):
        if kryo == 2:
            nanos, p = _int(buf, p, end)
            if p >= 0:
                bits, p = _long(buf, p, end)
                seconds = _zig_zag(bits)
        elif kind == INSTANT:
            bits, p = _long(buf, p, end)
            seconds = np.int64(bits)
            if p >= 0:
                nanos, p = _plain_int(buf, p, end)
        elif p + 8 <= end:
            seconds = le_i64(buf, p)
            nanos, p = _plain_int(buf, p + 8, end)
        else:
            p = np.int64(-1)
    else:
        bits, p = _long(buf, p, end)
        seconds = np.int64(bits)
        if kind != SQL_TIME:
            millis = seconds
            if not (MIN_SECONDS - 1) * 1000 < millis < (MAX_SECONDS + 1) * 1000:
                p = np.int64(-1)
                millis = np.int64(0)
            nanos = (millis % 1000) * 1_000_000
            if kind == SQL_TIMESTAMP and p >= 0:
                nanos, p = varint(buf, p, end)
                if kryo != 2:
                    millis += nanos // 1_000_000
            seconds = millis // 1000
    if kind != SQL_TIME:
        if not (MIN_SECONDS <= seconds <= MAX_SECONDS and 0 <= nanos < NANOS and (truncates or nanos % 1000 == 0)):
            p = np.int64(-1)
            seconds = np.int64(0)
        seconds = seconds * 1_000_000 + nanos // 1000
    return seconds, np.int64(0), p


# -- VARIANT -------------------------------------------------------------------------------------------------------


@inline
def _put(out: Any, q: Any, number: Any, width: Any) -> Any:
    """Store the low bytes of a number, little-endian; return the next position."""
    for k in range(width):
        out[q + k] = (number >> np.int64(8 * k)) & 0xFF
    return q + width


@inline
def _width(number: Any) -> Any:
    return 1 if number < 1 << 8 else 2 if number < 1 << 16 else 3 if number < 1 << 24 else 4


@kernel
def put_text(buf: Any, start: Any, size: Any, form: Any, out: Any, q: Any) -> Any:
    """Store a text in UTF-8; return the next position. There is room for three bytes a unit."""
    if form == UNITS:
        p = start
        while size > 0:
            c, units, p = _character(buf, p, np.int64(buf.shape[0]))
            if p < 0:
                break
            size -= units
            q = put_utf8(out, q, c)
    else:
        for k in range(size):
            out[q + k] = buf[start + k] & 0x7F
        q += size
    return q


@kernel
def put_uuid(out: Any, q: Any, high: Any, low: Any) -> Any:
    """Store the text of a UUID; return the next position."""
    for k in range(36):
        if k in (8, 13, 18, 23):
            out[q + k] = 45
        else:
            place = k - (4 if k > 23 else 3 if k > 18 else 2 if k > 13 else 1 if k > 8 else 0)
            half = high if place < 16 else low
            digit = (half >> np.int64(60 - 4 * (place & 15))) & np.int64(15)
            out[q + k] = digit + 48 if digit < 10 else digit + 87
    return q + 36


@kernel
def _room(table: Any, parts: Any, tree: Any, i: Any) -> Any:
    """Return the bytes that suffice for what is no container."""
    node = tree[i, 0]
    room = np.int64(64)
    if node >= 0:
        if table[node, KIND] == TEXT:
            room += 3 * (tree[i, 2] >> np.int64(2))
        elif table[node, KIND] == ENUM:
            room += parts[table[node, FIRST] + tree[i, 1], KEY_SIZE]
    return room


@kernel
def _leaf(table: Any, parts: Any, texts: Any, buf: Any, tree: Any, i: Any, out: Any, q: Any) -> Any:
    """Store what is no container; return the next position, -1 if it is left to the caller."""
    node, a, b = tree[i, 0], tree[i, 1], tree[i, 2]
    kind = np.int64(OTHER)
    if node >= 0:
        kind = table[node, KIND]
    if node < 0:
        out[q] = 0
        q += 1
    elif kind in (TEXT, ENUM, CHAR):
        after = q + 5
        if kind == TEXT:
            after = put_text(buf, a, b >> np.int64(2), b & np.int64(3), out, after)
        elif kind == CHAR:
            after = put_utf8(out, after, a)
        else:
            part = table[node, FIRST] + a
            for k in range(parts[part, KEY_SIZE]):
                out[after + k] = texts[parts[part, KEY] + k]
            after += parts[part, KEY_SIZE]
        size = after - q - 5
        if size <= 63:
            out[q] = (size << np.int64(2)) | 1
            for k in range(size):
                out[q + 1 + k] = out[q + 5 + k]
            q += 1 + size
        else:
            out[q] = 16 << 2
            _put(out, q + 1, size, 4)
            q = after
    elif kind == BOOLEAN:
        out[q] = (1 if a else 2) << 2
        q += 1
    elif kind == DOUBLE:
        out[q] = 7 << 2
        q = _put(out, q + 1, a, 8)
    elif kind == FLOAT:
        out[q] = 14 << 2
        q = _put(out, q + 1, a, 4)
    elif kind == UUID:
        out[q] = (36 << 2) | 1
        q = put_uuid(out, q + 1, a, b)
    elif kind == DATE:
        out[q] = 11 << 2
        q = _put(out, q + 1, a, 4)
    elif kind in (MILLIS, SQL_TIMESTAMP, INSTANT, DATE_TIME):
        out[q] = (13 if kind == DATE_TIME else 12) << 2
        q = _put(out, q + 1, a, 8)
    elif kind in (INT, LONG, SHORT, BYTE, SQL_TIME):
        size = a if a >= 0 else ~a
        width = 0 if size < 1 << 7 else 1 if size < 1 << 15 else 2 if size < 1 << 31 else 3
        out[q] = (3 + width) << 2
        q = _put(out, q + 1, a, np.int64(1) << np.int64(width))
    else:
        q = np.int64(-1)
    return q


@kernel
def _key_id(keys: Any, slots: Any, texts: Any, buf: Any, of_text: Any, start: Any, size: Any, state: Any) -> Any:
    """Return the number of a key in the metadata of this value, which has it from now on; -1 if it has too many.

    ``of_text``: it is in ``texts``, else in ``buf``, where bit 0x80 of the last byte marks the end.
    """
    value = FNV
    for k in range(size):
        value = (value ^ np.uint64((texts[start + k] if of_text else buf[start + k]) & 0x7F)) * FNV_PRIME
    slot = np.int64(value % np.uint64(SLOTS))
    found = np.int64(-1)
    while slots[slot] // SLOTS == state[STAMP] and found < 0:
        other = slots[slot] % SLOTS
        if keys[other, 1] == size:
            from_texts = keys[other, 2]
            at = keys[other, 0]
            j = size - 1
            while j >= 0:
                left = (texts[start + j] if of_text else buf[start + j]) & 0x7F
                right = (texts[at + j] if from_texts else buf[at + j]) & 0x7F
                if left != right:
                    break
                j -= 1
            if j < 0:
                found = other
        slot = (slot + 1) % SLOTS
    if found < 0 and state[KEYS] < MAX_KEYS:
        found = np.int64(state[KEYS])
        slots[slot] = state[STAMP] * SLOTS + found
        keys[found, 0] = start
        keys[found, 1] = size
        keys[found, 2] = of_text
        state[KEYS] += 1
    return found


@kernel
def _is_before(buf: Any, left: Any, left_size: Any, right: Any, right_size: Any) -> Any:
    """Compare two texts of ASCII: -1, 0 or 1."""
    size = min(left_size, right_size)
    result = np.int64(0)
    for k in range(size):
        difference = np.int64(buf[left + k] & 0x7F) - np.int64(buf[right + k] & 0x7F)
        if difference != 0:
            result = np.int64(-1 if difference < 0 else 1)
            break
    if result == 0 and left_size != right_size:
        result = np.int64(-1 if left_size < right_size else 1)
    return result


@kernel
def _order(table: Any, parts: Any, buf: Any, tree: Any, i: Any, pair: Any, work: Any, base: Any) -> Any:
    """List what is in an object in ``work``, from ``base`` on: the place in the tree, and start, size, home of the key.

    Returns the number of members, whether they have keys, whether they are pairs of a key and a value, and whether
    the caller has to do it.
    """
    node = tree[i, 0]
    kind = table[node, KIND] if node >= 0 and not pair else np.int64(OTHER)
    count = np.int64(2) if pair else tree[i, 1]
    keyed, paired, good = pair, False, True
    child = i if pair else i + 1
    if kind == MAP:
        count //= 2
        keyed = True
        j = child
        for _ in range(count):
            key = tree[j, 0]
            key_kind = table[key, KIND] if key >= 0 else np.int64(OTHER)
            if key_kind == TEXT:
                good = good and tree[j, 2] & 3 != UNITS
            elif key_kind in (CHAR, UUID, ENUM) or key_kind >= CONTAINER:
                good = False
            else:
                keyed = False
            j = tree[tree[j, 3], 3]
        if keyed and count > MAX_ENTRIES:
            good = False
        paired = not keyed
    if good and keyed and kind == MAP:
        for k in range(count):
            start, size = tree[child, 1], tree[child, 2] >> np.int64(2)
            at = base + k
            while at > base:
                order = _is_before(buf, start, size, work[at - 1, 1], work[at - 1, 2])
                if order == 0:
                    keyed = False
                if order >= 0:
                    break
                for column in range(4):
                    work[at, column] = work[at - 1, column]
                at -= 1
            work[at, 0] = tree[child, 3]
            work[at, 1] = start
            work[at, 2] = size
            work[at, 3] = 0
            child = tree[tree[child, 3], 3]
        if not keyed:  # the same key twice
            good = False
    elif good:
        first = np.int64(0) if pair else table[node, FIRST]
        for k in range(count):
            at = base + k
            if pair or kind == FIELDS:
                part = k if pair else first + k
                at = base + parts[part, RANK]
                work[at, 1] = parts[part, KEY]
                work[at, 2] = parts[part, KEY_SIZE]
                work[at, 3] = 1
                keyed = True
            work[at, 0] = child
            child = tree[child, 3]
            if paired:
                child = tree[child, 3]
    return count, keyed, paired, good


@kernel
def _container(
    table: Any, parts: Any, texts: Any, buf: Any, tree: Any, i: Any, pair: Any, out: Any, q: Any, work: Any, base: Any,
    keys: Any, slots: Any, state: Any,
) -> Any:  # fmt: skip
    """Store an object or array; return the next position, -1 if it is left to the caller, -2 if there is no room."""
    while not pair and table[tree[i, 0], KIND] == OPTIONAL:
        i += 1
        if tree[i, 0] < 0 or table[tree[i, 0], KIND] < CONTAINER:
            if q + _room(table, parts, tree, i) > out.shape[0]:
                return -2
            return _leaf(table, parts, texts, buf, tree, i, out, q)
    limit = np.int64(2) if pair else tree[i, 1]
    if base + limit > work.shape[0]:
        return -1
    count, keyed, paired, good = _order(table, parts, buf, tree, i, pair, work, base)
    if not good:
        return -1
    if q + 5 + 8 * (count + 1) > out.shape[0]:
        return -2
    most = np.int64(0)
    if keyed:
        for k in range(base, base + count):
            number = _key_id(keys, slots, texts, buf, work[k, 3], work[k, 1], work[k, 2], state)
            if number < 0:
                return -1
            work[k, 1] = number
            most = max(most, number)
    id_width = np.int64(_width(most))
    wide = 4 if count > 255 else 1
    # Offsets have mostly one byte: the members move if they need more.
    start = q + 1 + wide + (count * id_width if keyed else 0) + count + 1
    at = np.int64(start)
    for k in range(base, base + count):
        child = work[k, 0]
        inner = tree[child, 0]
        if paired or (inner >= 0 and table[inner, KIND] >= CONTAINER):
            at = _container(
                table, parts, texts, buf, tree, child, paired, out, at, work, base + count, keys, slots, state
            )
        else:
            if at + _room(table, parts, tree, child) > out.shape[0]:
                return -2
            at = _leaf(table, parts, texts, buf, tree, child, out, at)
        if at < 0:
            return at
        work[k, 2] = at - start
    total = at - start
    width = np.int64(_width(total))
    if total >= 1 << 24:
        return -1
    shift = (width - 1) * (count + 1)
    if shift:
        if at + shift > out.shape[0]:
            return -2
        for k in range(total):
            out[at + shift - 1 - k] = out[at - 1 - k]
    if keyed:
        out[q] = ((1 if wide == 4 else 0) << 6) | ((id_width - 1) << 4) | ((width - 1) << 2) | 2
    else:
        out[q] = ((1 if wide == 4 else 0) << 4) | ((width - 1) << 2) | 3
    p = _put(out, q + 1, count, wide)
    if keyed:
        for k in range(base, base + count):
            p = _put(out, p, work[k, 1], id_width)
    p = _put(out, p, np.int64(0), width)
    for k in range(base, base + count):
        p = _put(out, p, work[k, 2], width)
    return at + shift


@kernel
def variant_rows(
    table: Any, parts: Any, texts: Any, buf: Any, tree: Any, roots: Any, first: int, out: Any, ends: Any, metadata: Any,
    metadata_ends: Any, work: Any, keys: Any, slots: Any, state: Any,
) -> Any:  # fmt: skip
    """Store the variants of rows, from row ``first`` on; return the row before which there was no more room.

    ``ends`` are the ends of their values and metadata. Rows whose root becomes LEFT_TO_CALLER are left to the caller.
    """
    row = np.int64(first)
    alone: Any = np.bool_(False)
    q, m = np.int64(state[OUT]), np.int64(state[METADATA])
    while row < roots.shape[0]:
        i = roots[row]
        if i >= 0 and tree[i, 0] >= 0:
            state[STAMP] += 1
            state[KEYS] = 0
            kind = table[tree[i, 0], KIND]
            after = np.int64(-2)
            if kind >= CONTAINER:
                after = np.int64(
                    _container(table, parts, texts, buf, tree, i, alone, out, q, work, np.int64(0), keys, slots, state)
                )
            elif q + _room(table, parts, tree, i) <= out.shape[0]:
                after = _leaf(table, parts, texts, buf, tree, i, out, q)
            if after == -2:
                break
            count, total = np.int64(state[KEYS]), np.int64(0)
            for k in range(count):
                total += keys[k, 1]
            if after >= 0 and m + 5 + 4 * (count + 1) + total > metadata.shape[0]:
                break
            if after < 0 or after - q >= 1 << 24 or total >= 1 << 23:
                roots[row] = LEFT_TO_CALLER
            else:
                q = after
                width = np.int64(_width(max(total, count)))
                metadata[m] = 1 | ((width - 1) << 6)
                m = _put(metadata, m + 1, count, width)
                m = _put(metadata, m, np.int64(0), width)
                total = np.int64(0)
                for k in range(count):
                    total += keys[k, 1]
                    m = _put(metadata, m, total, width)
                for k in range(count):
                    at, size = keys[k, 0], keys[k, 1]
                    if keys[k, 2]:
                        for j in range(size):
                            metadata[m + j] = texts[at + j]
                    else:
                        for j in range(size):
                            metadata[m + j] = buf[at + j] & 0x7F
                    m += size
        ends[row] = q
        metadata_ends[row] = m
        row += 1
    state[OUT] = q
    state[METADATA] = m
    return row


# -- columns -------------------------------------------------------------------------------------------------------

#: Kinds of columns: those without parts, all others. A column has a slot, and the first and the number of its parts.
SCALAR, VARIANT, STRUCT, LIST, ENTRIES, HELD = range(6)
COLUMN_KIND, SLOT, FIRST_PART, PARTS = range(4)


@kernel
def _fill(
    columns: Any, members: Any, accepts: Any, tree: Any, column: Any, i: Any, row: Any, bases: Any, counts: Any,
    numbers: Any,
) -> Any:  # fmt: skip
    """Append an object, or null, to a column; return whether the column accepts it and all that is in it."""
    if i >= 0 and tree[i, 0] < 0:
        i = np.int64(-1)
    if i >= 0 and accepts[column, tree[i, 0]] == 0:
        return False
    kind = columns[column, COLUMN_KIND]
    if kind != HELD:
        slot = columns[column, SLOT]
        at = bases[slot] + counts[slot]
        counts[slot] += 1
        if numbers.shape[0] > 0:
            numbers[at, 0] = 1 if i >= 0 else 0
            numbers[at, 1] = 0
            numbers[at, 2] = row
            if kind == VARIANT:
                numbers[at, 1] = i
            elif i >= 0:
                numbers[at, 1] = tree[i, 1]
                numbers[at, 2] = tree[i, 0] if accepts[column, tree[i, 0]] == 2 else tree[i, 2]
    rounds = np.int64(0)
    if kind in (STRUCT, HELD):
        rounds = columns[column, PARTS]
    elif kind in (LIST, ENTRIES) and i >= 0:
        rounds = tree[i, 1]
    child = i + 1
    for k in range(rounds):
        part = columns[column, FIRST_PART]
        if kind == STRUCT:
            part += k
        elif kind == ENTRIES:
            part += k & 1
            if k & 1 == 0 and tree[child, 0] < 0:
                return False
        inner = child if i >= 0 else np.int64(-1)
        if not _fill(columns, members, accepts, tree, members[part], inner, row, bases, counts, numbers):
            return False
        if i >= 0:
            child = tree[child, 3]
    return True


@kernel
def fill_rows(
    columns: Any, members: Any, accepts: Any, tree: Any, roots: Any, bases: Any, counts: Any, numbers: Any
) -> None:
    """Append values to columns; without ``numbers`` they are only counted, for which there is to be room then.

    Numbers of a column's slot: whether it is not null; the number or the place of the text, the length of a list, the
    root of a variant; another number: the row of a variant, the node of a constant of an enum. Rows that a column does
    not accept become LEFT_TO_CALLER.
    """
    for row in range(roots.shape[0]):
        if roots[row] >= 0 and not _fill(
            columns, members, accepts, tree, np.int64(0), roots[row], np.int64(row), bases, counts, numbers
        ):
            roots[row] = LEFT_TO_CALLER


@kernel
def write_texts(buf: Any, valid: Any, starts: Any, sizes: Any, offsets: Any, out: Any) -> None:
    """Store texts in UTF-8, one after another: starts, and sizes with their forms."""
    q = np.int64(0)
    offsets[0] = 0
    for row in range(starts.shape[0]):
        if valid[row]:
            q = put_text(buf, starts[row], sizes[row] >> np.int64(2), sizes[row] & np.int64(3), out, q)
        offsets[row + 1] = q
