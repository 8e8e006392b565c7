"""Values of Kryo, read together: a tree of numbers for each, of which VARIANT or columns are made.

One kernel reads both versions. What it knows of classes are tables (``kryo/objects/value_tables.py``), so that nothing
is compiled for a job:

    table[node]   kind, whether no reference precedes an object, first and number of the parts, the number of constants,
                  how it is read, whether a comparator precedes its elements, whether it has type parameters
    parts         how, node and type of a field; place of its key among the sorted keys, start and length of it
    types         number of type arguments, the first, the second, the last; the node of the type if it is final;
                  the node of a generic class, and that of its objects with these arguments
    names[slot]   start, length and node of the name of a class, by its hash
    ids[number]   the node of a registered class
    zones[slot]   start and length of a zone's name, a year, first and number of its offsets
    offsets       the second of the local time from which on an offset is valid, and the offset

    tree[i]       node, two numbers, the place after the node and all that is in it; a ZonedDateTime has a second row

``how`` says what precedes an object: its class (VALUE), a byte 0 or 1 (NULLABLE), or nothing but the reference (SURE).
Values that are damaged, have references to objects that are not strings, or have other classes, are left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.kryo_bytes import (
    UNITS,
    plain_int,
    plain_long,
    read_text,
    signed_byte,
    signed_int,
    signed_long,
    size_plus_one,
    varint,
)
from pyspark_savepoint.formats.kernels.kryo_kinds import (
    ARGUMENT_0,
    ARGUMENT_1,
    ARGUMENTS,
    ARRAY,
    AS_LIST,
    AT,
    BIG_DECIMAL,
    BIG_INTEGER,
    BITS,
    BOOLEAN,
    BOUND,
    BYTE,
    BYTES,
    CHAR,
    CLASSES,
    CLOCK,
    CONSTANTS,
    CONTAINER,
    COUNT,
    DATE,
    DATE_TIME,
    DONE,
    DOUBLE,
    DURATION,
    EMPTY,
    ENTRY,
    ENUM,
    FIELDS,
    FINAL,
    FIRST,
    FIRST_YEAR,
    FLAG,
    FLOAT,
    GENERIC,
    HAS_BOUND,
    HOW,
    ID_LIMIT,
    INSTANT,
    INT,
    KIND,
    LAST,
    LAST_YEAR,
    LEFT,
    LEFT_TO_CALLER,
    LONG,
    MAP,
    MAX_BIG,
    MAX_NAMES,
    MAX_OPEN,
    MAX_SCALE,
    MAX_ZONE,
    MILLIS,
    MONTH_DAY,
    NEW_ID,
    NEW_NAME,
    NEW_ZONE,
    NO_NULLS,
    NO_ROOM,
    NODE,
    NOT_IN_TREE,
    NULL_NODE,
    NULLABLE,
    NUMBER_OR_NOT,
    OF_CLASS,
    OFFSET_DATE_TIME,
    OFFSET_TIME,
    OFFSETS,
    OPTIONAL,
    OTHER,
    OWNER,
    PART,
    PERIOD,
    PLAIN,
    PRIMITIVES,
    RAW_DATE,
    RAW_DATE_TIME,
    RAW_INSTANT,
    RAW_TIMESTAMP,
    READ,
    REFERENCE,
    REGION,
    SHORT,
    SINGLETON,
    SIZE,
    SORTED,
    SPEC,
    SQL_TIME,
    SQL_TIMESTAMP,
    SURE,
    TEXT,
    TRUNCATES,
    TURN,
    TYPE,
    USED,
    UUID,
    VALUE,
    WHAT,
    YEAR,
    YEAR_MONTH,
    YEARS,
    ZONE_OFFSET,
    ZONED,
    ZONES,
)
from pyspark_savepoint.formats.kernels.kryo_times import (
    MAX_SECONDS,
    MIN_SECONDS,
    NO_OFFSET,
    OF_DURATION,
    OF_INSTANT,
    OF_MILLIS,
    OF_TIMESTAMP,
    OFFSET_BIAS,
    days_of,
    is_in_range,
    read_clock,
    read_date,
    read_moment,
    read_offset,
    read_partial_date,
    read_period,
    year_of,
)
from pyspark_savepoint.formats.kernels.load import be_i64, be_u16, be_u32, be_u64, le_i64, le_u32

FNV, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
LOW7, ONE = np.uint64(0x7F), np.uint64(1)
LOW32 = np.int64(0xFFFFFFFF)
DAY_MICROS = 86_400_000_000


@kernel
def hash_of(buf: Any, start: Any, size: Any) -> Any:
    """Return the hash of a name, whose last byte may have bit 0x80."""
    value = FNV
    for k in range(size):
        value = (value ^ (np.uint64(buf[start + k]) & LOW7)) * FNV_PRIME
    return value


@kernel
def _is_same(texts: Any, at: Any, buf: Any, start: Any, size: Any) -> Any:
    j = size - 1
    while j >= 0 and texts[at + j] == buf[start + j] & 0x7F:
        j -= 1
    return j < 0


@kernel
def _name_node(names: Any, texts: Any, buf: Any, start: Any, size: Any) -> Any:
    """Return the node of a class by its name, or -1 if it is not in the tables."""
    slot = np.int64(hash_of(buf, start, size) % np.uint64(names.shape[0]))
    found = -1
    while names[slot, 1] > 0:
        if names[slot, 1] == size and _is_same(texts, names[slot, 0], buf, start, size):
            found = names[slot, 2]
            break
        slot = slot + 1 if slot + 1 < names.shape[0] else np.int64(0)
    return found


@kernel
def _class(names: Any, texts: Any, ids: Any, buf: Any, p: Any, end: Any, seen: Any, state: Any) -> Any:
    """Read a class: its node, NULL_NODE for null, and the position after it, -1 if it is left to the caller."""
    start = np.int64(p)
    number, p = varint(buf, p, end)
    node = NULL_NODE
    if number == 0 and p - start > 1:
        # A null that takes more bytes than one is the null of VARIANT.
        p = -1
    elif p >= 0 and number > 1:
        if number - 2 < ids.shape[0]:
            node = ids[number - 2]
        if node < 0:
            p = -1
            if number - 2 < ID_LIMIT:
                state[WHAT] = NEW_ID
                state[AT] = number - 2
    elif p >= 0 and number == 1:
        known = state[CLASSES]
        number, p = varint(buf, p, end)
        if p >= 0 and number < known:
            node = seen[number]
        elif p >= 0 and number == known and known < MAX_NAMES:
            start, size, form, p = read_text(buf, p, end)
            if p >= 0 and size > 0 and form != UNITS:
                node = _name_node(names, texts, buf, start, size)
                if node < 0:
                    p = -1
                    state[WHAT] = NEW_NAME
                    state[AT] = start
                    state[SIZE] = size
                else:
                    seen[known] = node
                    state[CLASSES] = known + 1
            else:
                p = -1
        else:
            p = -1
    return node, p


# -- what is no container ------------------------------------------------------------------------------------------


@kernel
def _number(kryo: Any, how: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a number of one or more bytes, and the position after it, or -1."""
    a = np.int64(0)
    if how in (INT, FLAG):
        a, p = signed_int(buf, p, end)
        if how == FLAG:
            a = np.int64(1 if a != 0 else 0)
    elif how == LONG:
        a, p = signed_long(buf, p, end)
    elif how == YEAR:
        a, p = signed_int(buf, p, end) if kryo == 2 else plain_int(buf, p, end)
    elif how in (BYTE, BOOLEAN):
        a = signed_byte(buf, p, end)
        p = p + 1 if a != 1000 and (how == BYTE or 0 <= a <= 1) else -1
    elif how in (DOUBLE, FLOAT, SHORT, CHAR):
        width = 8 if how == DOUBLE else 4 if how == FLOAT else 2
        if p + width > end:
            p = -1
        elif how == DOUBLE:
            a = be_i64(buf, p) if kryo == 2 else le_i64(buf, p)
        elif how == FLOAT:
            a = np.int64(be_u32(buf, p)) if kryo == 2 else le_u32(buf, p)
            # A NaN that signals is made a quiet one on its way through other types.
            if a & 0x7FC00000 == 0x7F800000 and a & 0x3FFFFF:
                p = -1
        else:
            a = be_u16(buf, p) if kryo == 2 else np.int64(buf[p]) | (np.int64(buf[p + 1]) << 8)
            if how == SHORT:
                a = (a ^ np.int64(0x8000)) - np.int64(0x8000)
            elif a >> 11 == 27:
                p = -1
        p = p + width if p >= 0 else p
    else:
        p = -1
    return a, p


@kernel
def _micros(kryo: Any, kind: Any, truncates: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a moment as microseconds, and the position after it, or -1."""
    how = OF_MILLIS if kind == MILLIS else OF_TIMESTAMP if kind == SQL_TIMESTAMP else OF_INSTANT
    seconds, nanos, p = read_moment(kryo, how, buf, p, end)
    if not (MIN_SECONDS <= seconds <= MAX_SECONDS and (truncates or nanos % 1000 == 0)):
        p = -1
        seconds = 0
    return seconds * 1_000_000 + nanos // 1000, p


@kernel
def _big(scaled: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a big number: its start, its bytes with its scale, and the position after it, or -1."""
    size, p = size_plus_one(buf, p, end)
    start, scale = np.int64(p), 0
    if not (p >= 0 and 1 <= size <= MAX_BIG) or (size > 1 and buf[p] == (255 if buf[p + 1] >= 128 else 0)):
        p = -1
    elif scaled:
        scale, p = signed_int(buf, p + size, end)
        if not -MAX_SCALE <= scale <= MAX_SCALE:
            p = -1
    else:
        p += size
    return start, (size << 32) | (scale & LOW32), p


@kernel
def _leaf(kryo: Any, how: Any, constants: Any, truncates: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read an object of at most two numbers, and the position after it, -1 if it is left to the caller."""
    a, b = np.int64(0), 0
    if how == TEXT:
        a, size, form, p = read_text(buf, p, end)
        b = (size << 2) | form
    elif how <= CHAR or how in (FLAG, YEAR):
        a, p = _number(kryo, how, buf, p, end)
    elif how == ENUM:
        a, p = varint(buf, p, end)
        a -= 1
        p = p if 0 <= a < constants else -1
    elif how == UUID:
        if kryo == 2:
            a, p = signed_long(buf, p, end)
            if p >= 0:
                b, p = signed_long(buf, p, end)
        elif p + 16 <= end:
            a, b = le_i64(buf, p), le_i64(buf, p + 8)
            p += 16
        else:
            p = -1
    elif how in (MILLIS, SQL_TIMESTAMP, INSTANT):
        a, p = _micros(kryo, how, truncates, buf, p, end)
    elif how == SQL_TIME:
        a, p = plain_long(buf, p, end)
    elif how == DATE:
        a, p = read_date(kryo, buf, p, end)
        if not is_in_range(a):
            p = -1
        a = days_of(a)
    elif how == CLOCK:
        a, p = read_clock(kryo, buf, p, end)
    elif how == DURATION:
        a, b, p = read_moment(kryo, OF_DURATION, buf, p, end)
        if not -(1 << 42) < a < 1 << 42:
            p = -1
    elif how == ZONE_OFFSET:
        a, p = read_offset(kryo, buf, p, end)
    elif how == PERIOD:
        a, b, p = read_period(kryo, buf, p, end)
    elif how in (YEAR_MONTH, MONTH_DAY):
        a, p = read_partial_date(kryo, how == YEAR_MONTH, buf, p, end)
    elif how in (BIG_INTEGER, BIG_DECIMAL):
        a, b, p = _big(how == BIG_DECIMAL, buf, p, end)
    elif how == BYTES:
        b, p = size_plus_one(buf, p, end)
        a = np.int64(p)
        p = p + b if p >= 0 else p
        b = b << 2
    else:
        p = -1
    return a, b, p


# -- times that have others in them --------------------------------------------------------------------------------


@inline
def _one(buf: Any, p: Any, end: Any) -> Any:
    """Read the reference of a new object: return the position after it, or -1."""
    return p + 1 if 0 <= p < end and buf[p] == 1 else -1


@kernel
def _date_time(kryo: Any, buf: Any, p: Any, end: Any, objects: Any, found: Any) -> Any:
    """Read a LocalDateTime: its date, its nanoseconds of the day, the objects found, the position after it, or -1.

    Kryo 2 writes a reference before each of its parts.
    """
    date, nanos = 0, 0
    if kryo == 2:
        p = _one(buf, p, end)
        objects[found] = NOT_IN_TREE
    if p >= 0:
        date, p = read_date(kryo, buf, p, end)
    if kryo == 2 and p >= 0:
        p = _one(buf, p, end)
        objects[found + 1] = NOT_IN_TREE
        found += 2
    if p >= 0:
        nanos, p = read_clock(kryo, buf, p, end)
    return date, nanos, found, p


@kernel
def _part_offset(kryo: Any, table: Any, tree: Any, buf: Any, p: Any, end: Any, objects: Any, found: Any) -> Any:
    """Read a ZoneOffset in another object: its seconds, the objects found, and the position after it, or -1."""
    seconds = 0
    if kryo == 2:
        if p >= end:
            return seconds, found, -1
        reference = np.int64(buf[p])
        p += 1
        if reference != 1:
            if reference < 2 or reference >= 128 or reference - 2 >= found:
                return seconds, found, -1
            known = objects[reference - 2]
            if known >= 0 and tree[known, 0] >= 0 and table[tree[known, 0], KIND] == ZONE_OFFSET:
                return tree[known, 1], found, p
            if known < NOT_IN_TREE and known > -2 * OFFSETS:
                return -known - OFFSETS, found, p
            return seconds, found, -1
    seconds, p = read_offset(kryo, buf, p, end)
    if kryo == 2:
        objects[found] = -seconds - OFFSETS
        found += 1
    return seconds, found, p


@kernel
def _zone_at(zones: Any, offsets: Any, texts: Any, buf: Any, start: Any, size: Any, date: Any, nanos: Any) -> Any:
    """Return the offset of a zone at a local time, NO_OFFSET if it has none, -ZONES if that is not in the tables."""
    year = year_of(date)
    slot = np.int64((hash_of(buf, start, size) ^ np.uint64(year)) % np.uint64(zones.shape[0]))
    seconds = days_of(date) * 86_400 + nanos // 1_000_000_000
    offset = -ZONES
    while zones[slot, 1] > 0:
        if zones[slot, 2] == year and zones[slot, 1] == size and _is_same(texts, zones[slot, 0], buf, start, size):
            offset = NO_OFFSET
            for k in range(zones[slot, 3], zones[slot, 3] + zones[slot, 4]):
                if offsets[k, 0] <= seconds:
                    offset = offsets[k, 1]
            break
        slot = slot + 1 if slot + 1 < zones.shape[0] else np.int64(0)
    return offset


@kernel
def _region(kryo: Any, buf: Any, p: Any, end: Any, objects: Any, found: Any) -> Any:
    """Read the text of a ZoneRegion: start, size and form, the objects found, and the position after it, or -1."""
    if kryo == 2:
        p = _one(buf, p, end)
        objects[found] = NOT_IN_TREE
        found += 1
    start, size, form = 0, 0, 0
    if p >= 0:
        start, size, form, p = read_text(buf, p, end)
    return start, size, form, found, p


@kernel
def _zoned(
    kryo: Any, kind: Any, table: Any, names: Any, texts: Any, ids: Any, zones: Any, offsets: Any, zone_texts: Any,
    buf: Any, p: Any, end: Any, tree: Any, n: Any, seen: Any, objects: Any, found: Any, state: Any,
) -> Any:  # fmt: skip
    """Read an OffsetTime, OffsetDateTime or ZonedDateTime into the tree; return the objects found and the position.

    Its first number are the date and the offset, its second the nanoseconds of the day; a ZonedDateTime has start, size
    and form of its zone in the next row, or no size where the zone is an offset, at the start.
    """
    date, nanos, offset = 0, 0, NO_OFFSET
    start, size, form = 0, 0, 0
    if kind == OFFSET_TIME:
        # The parts in the order of their names.
        if kryo == 2:
            offset, found, p = _part_offset(kryo, table, tree, buf, p, end, objects, found)
            p = _one(buf, p, end)
            objects[found] = NOT_IN_TREE
            found += 1
            if p >= 0:
                nanos, p = read_clock(kryo, buf, p, end)
        else:
            nanos, p = read_clock(kryo, buf, p, end)
            if p >= 0:
                offset, found, p = _part_offset(kryo, table, tree, buf, p, end, objects, found)
    else:
        if kryo == 2:
            p = _one(buf, p, end)
            objects[found] = NOT_IN_TREE
            found += 1
        if p >= 0:
            date, nanos, found, p = _date_time(kryo, buf, p, end, objects, found)
        if p >= 0 and not is_in_range(date):
            p = -1
        if p >= 0 and (kryo == 2 or kind == OFFSET_DATE_TIME):
            offset, found, p = _part_offset(kryo, table, tree, buf, p, end, objects, found)
        if p >= 0 and kind == ZONED:
            if kryo == 2:
                node, p = _class(names, texts, ids, buf, p, end, seen, state)
                how = OTHER
                if p >= 0 and node >= 0:
                    how = table[node, READ]
                if how == ZONE_OFFSET:
                    start, found, p = _part_offset(kryo, table, tree, buf, p, end, objects, found)
                elif how == REGION and p < end and buf[p] == 1:
                    objects[found] = -ZONES - p - 1
                    start, size, form, found, p = _region(kryo, buf, p + 1, end, objects, found + 1)
                elif how == REGION and p < end and 2 <= buf[p] < 128 and buf[p] - 2 < found:
                    known = objects[buf[p] - 2]
                    if known <= -ZONES:
                        start, size, form, _, after = _region(kryo, buf, -known - ZONES, end, objects, found)
                        p = p + 1 if after >= 0 else -1
                    else:
                        p = -1
                else:
                    p = -1
            else:
                start, size, form, p = read_text(buf, p, end)
                if p >= 0 and size == 0:
                    p = -1
            if p >= 0 and size > 0:
                first = np.int64(buf[start] & 0x7F)
                is_offset = first in (43, 45) or (first == 90 and size == 1)
                if form == UNITS or size > MAX_ZONE or (is_offset and kryo == 2):
                    p = -1
                elif kryo != 2 and not is_offset:
                    year = year_of(date)
                    if not FIRST_YEAR <= year <= LAST_YEAR:
                        p = -1
                    else:
                        offset = _zone_at(zones, offsets, zone_texts, buf, start, size, date, nanos)
                        if offset == -ZONES:
                            p = -1
                            state[WHAT] = NEW_ZONE
                            state[AT] = start
                            state[SIZE] = size
                            state[YEARS] = year
    tree[n, 1] = (date << 20) | (offset + OFFSET_BIAS)
    tree[n, 2] = nanos
    if kind == ZONED:
        tree[n + 1, 0] = 0
        tree[n + 1, 1] = start
        tree[n + 1, 2] = (size << 2) | form
        tree[n + 1, 3] = n + 2
    return found, p


# -- containers that are not read part by part ---------------------------------------------------------------------


@inline
def _child(tree: Any, n: Any, node: Any, a: Any) -> Any:
    """Append an object of one number."""
    tree[n, 0] = node
    tree[n, 1] = a
    tree[n, 2] = 0
    tree[n, 3] = n + 1
    return n + 1


@kernel
def _whole(
    kryo: Any, how: Any, table: Any, parts: Any, names: Any, texts: Any, ids: Any, buf: Any, p: Any, end: Any,
    tree: Any, n: Any, seen: Any, objects: Any, found: Any, state: Any,
) -> Any:  # fmt: skip
    """Read a container with all that is in it into the tree; return the number of the parts, the next place in the
    tree, the objects found, and the position, -1 if it is left to the caller; ``state`` says if there is no room.
    """
    first = table[tree[n, 0], FIRST]
    count = 0
    n += 1
    room = tree.shape[0] - n
    if how in (RAW_TIMESTAMP, RAW_INSTANT):
        what = OF_TIMESTAMP if how == RAW_TIMESTAMP else OF_INSTANT
        seconds, nanos, p = read_moment(kryo, what, buf, p, end)
        count = 2
        if room >= 2:
            n = _child(tree, n, parts[first, NODE], seconds)
            n = _child(tree, n, parts[first + 1, NODE], nanos)
    elif how in (RAW_DATE, RAW_DATE_TIME):
        date, nanos = 0, 0
        if how == RAW_DATE:
            date, p = read_date(kryo, buf, p, end)
        else:
            date, nanos, found, p = _date_time(kryo, buf, p, end, objects, found)
        count = 3 if how == RAW_DATE else 4
        if room >= 4:
            n = _child(tree, n, parts[first, NODE], year_of(date))
            n = _child(tree, n, parts[first + 1, NODE], (date >> 5) & 15)
            n = _child(tree, n, parts[first + 2, NODE], date & 31)
            if how == RAW_DATE_TIME:
                n = _child(tree, n, parts[first + 3, NODE], nanos)
    elif how == NUMBER_OR_NOT:
        some = signed_byte(buf, p, end)
        count = 1
        p = p + 1 if 0 <= some <= 1 else -1
        number = 0
        kind = table[parts[first, NODE], READ]
        if p >= 0 and kryo == 2:
            number, p = _number(kryo, kind, buf, p, end)
        elif p >= 0 and some:
            if kind == INT and p + 4 <= end:
                number = (le_u32(buf, p) ^ np.int64(0x80000000)) - np.int64(0x80000000)
                p += 4
            elif kind != INT and p + 8 <= end:
                number = le_i64(buf, p)
                p += 8
            else:
                p = -1
        if room >= 1:
            n = _child(tree, n, parts[first, NODE] if some == 1 else NULL_NODE, number)
    elif how == PRIMITIVES:
        count, p = size_plus_one(buf, p, end)
        node = parts[first, NODE]
        kind = table[node, READ]
        if p >= 0 and count <= room:
            for _ in range(count):
                number, p = _number(kryo, kind, buf, p, end)
                if p < 0:
                    break
                n = _child(tree, n, node, number)
    elif how == BITS:
        words, p = varint(buf, p, end)
        if p >= 0 and words * 8 <= end - p:
            for k in range(words):
                bits = be_u64(buf, p) if kryo == 2 else np.uint64(le_i64(buf, p))
                p += 8
                place = np.int64(64 * k)
                while bits:
                    if bits & ONE:
                        if count < room:
                            n = _child(tree, n, parts[first, NODE], place)
                        count += 1
                    bits >>= ONE
                    place += 1
        else:
            p = -1
    else:  # ENUM_SET
        node, p = _class(names, texts, ids, buf, p, end, seen, state)
        if p >= 0 and (node < 0 or table[node, KIND] != ENUM):
            p = -1
        if p >= 0:
            count, p = varint(buf, p, end)
            if p >= 0 and count > end - p:
                p = -1
        if p >= 0 and count <= room:
            for _ in range(count):
                ordinal, p = varint(buf, p, end)
                ordinal -= 1
                if p < 0 or not 0 <= ordinal < table[node, CONSTANTS]:
                    p = -1
                    break
                n = _child(tree, n, node, ordinal)
    if p >= 0 and count > room:
        p = -1
        state[WHAT] = NO_ROOM
    return count, n, found, p


# -- containers ----------------------------------------------------------------------------------------------------


@inline
def _flag_and_size(buf: Any, p: Any, end: Any) -> Any:
    """Read a flag and a size plus one, which share a byte; return them and the position, or -1."""
    flag, count = np.int64(0), np.int64(0)
    if p < end:
        count = np.int64(buf[p])
        flag = count >> 7
        more = count & 0x40
        count &= np.int64(0x3F)
        p += 1
        if more:
            rest, after = varint(buf, p, end)
            count |= rest << 6
            p = after if after - p <= 4 else -1
    else:
        p = -1
    return flag, count - 1, p


@inline
def _no_comparator(is_sorted: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read the comparator that is null; return the position after it, -1 if there is one."""
    if is_sorted and p >= 0:
        p = p + 1 if p < end and buf[p] == 0 else -1
    return p


@kernel
def _open(
    kryo: Any, how: Any, node: Any, kind_of: Any, table: Any, parts: Any, types: Any, names: Any, texts: Any, ids: Any,
    buf: Any, p: Any, end: Any, frames: Any, depth: Any, seen: Any, state: Any,
) -> Any:  # fmt: skip
    """Read what precedes the parts of a container, and what they are, into its frame; return the position, or -1."""
    frames[depth, PART] = -1
    frames[depth, TURN] = 0
    frames[depth, HAS_BOUND] = 0
    count = 0
    how_0: Any = VALUE
    how_1: Any = VALUE
    node_0, node_1, type_0, type_1 = np.int64(-1), np.int64(-1), np.int64(0), np.int64(0)
    with_types = types[kind_of, ARGUMENTS] > 0
    is_sorted = table[node, SORTED] == 1
    if how == FIELDS:
        if table[node, GENERIC] == 1 and with_types:
            # The class of the object is the one that the field declares, or its arguments are of another class.
            node = np.int64(types[kind_of, BOUND] if types[kind_of, OF_CLASS] == node else -1)
            frames[depth, HAS_BOUND] = 1
        if node >= 0:
            frames[depth, PART] = table[node, FIRST]
            count = table[node, COUNT]
        else:
            p = -1
    elif how in (OPTIONAL, SINGLETON, REFERENCE):
        count = 1
        if with_types and how != SINGLETON and (kryo == 2 or how == REFERENCE):
            node_0 = types[types[kind_of, ARGUMENT_0], FINAL]
            how_0 = VALUE if node_0 < 0 else NULLABLE
            type_0 = np.int64(types[kind_of, ARGUMENT_0] if kryo == 2 else 0)
            frames[depth, HAS_BOUND] = 1
    elif how == ENTRY:
        count = 2
    elif how == MAP:
        if kryo == 2:
            p = _no_comparator(is_sorted, buf, p, end)
        count, p = varint(buf, p, end) if p >= 0 else (count, p)
        count -= 1 if kryo != 2 else 0
        if count < 0 or p < 0 or count > end - p:
            p = -1
        if kryo != 2:
            p = _no_comparator(is_sorted, buf, p, end)
        if with_types:
            node_0 = types[types[kind_of, ARGUMENT_0], FINAL]
            if types[kind_of, ARGUMENTS] > 1:
                node_1 = types[types[kind_of, ARGUMENT_1], FINAL]
            if kryo != 2:
                type_0, type_1 = types[kind_of, ARGUMENT_0], types[kind_of, LAST]
            how_0 = VALUE if node_0 < 0 else NULLABLE
            how_1 = VALUE if node_1 < 0 else NULLABLE
        count *= 2
    elif how == ARRAY:
        count, p = size_plus_one(buf, p, end)
        node_0, how_0 = parts[table[node, FIRST], NODE], parts[table[node, FIRST], HOW]
        if kryo == 2 and with_types:
            p = -1
    elif how != EMPTY:
        if with_types and how != AS_LIST:
            node_0 = types[types[kind_of, ARGUMENT_0], FINAL]
            type_0 = np.int64(types[kind_of, LAST] if kryo != 2 else 0)
        some = 0
        if kryo == 2:
            p = _no_comparator(is_sorted, buf, p, end)
            count, p = varint(buf, p, end) if p >= 0 else (count, p)
            if how == AS_LIST and p >= 0:
                # The class of the elements of the array, which has an id: that of a String, mostly.
                number, p = varint(buf, p, end)
                if number < 2 or number - 2 >= ids.shape[0] or ids[number - 2] < 0:
                    p = -1
            how_0 = VALUE if node_0 < 0 else NULLABLE
        elif how == NO_NULLS and node_0 >= 0:
            count, p = size_plus_one(buf, p, end)
            how_0 = SURE
        else:
            some, count, p = _flag_and_size(buf, p, end)
            p = _no_comparator(is_sorted, buf, p, end)
            if node_0 >= 0:
                how_0 = NULLABLE if some else SURE
            elif some and count > 0 and p >= 0:
                # All of one class, which is written once.
                node_0, p = _class(names, texts, ids, buf, p, end, seen, state)
                how_0 = SURE
                if node_0 < 0:
                    p = -1
                if how != NO_NULLS and p >= 0:
                    if p < end and buf[p] <= 1:
                        how_0 = NULLABLE if buf[p] else SURE
                        p += 1
                    else:
                        p = -1
        if count < 0 or p < 0 or count > end - p:
            p = -1
        how_1, node_1, type_1 = how_0, node_0, type_0
    frames[depth, LEFT] = count
    frames[depth, SPEC] = how_0
    frames[depth, SPEC + 1] = node_0
    frames[depth, SPEC + 2] = type_0
    frames[depth, SPEC + 3] = how_1
    frames[depth, SPEC + 4] = node_1
    frames[depth, SPEC + 5] = type_1
    return p


@kernel
def read_rows(
    kryo: Any, table: Any, parts: Any, types: Any, names: Any, texts: Any, ids: Any, zones: Any, offsets: Any,
    zone_texts: Any, top: Any, buf: Any, position: Any, end: Any, roots: Any, first: Any, tree: Any, frames: Any,
    seen: Any, objects: Any, state: Any,
) -> Any:  # fmt: skip
    """Read the values of rows into the tree, from row ``first`` on; return the row before which it stopped.

    ``roots`` are their places in the tree, LEFT_TO_CALLER for those left to the caller, whose position stays. ``top``
    is how, node and type of a value. ``state`` says why it stopped, and what is not in the tables.
    """
    row = np.int64(first)
    n = state[USED]
    state[WHAT] = DONE
    truncates = state[TRUNCATES] != 0
    while row < position.shape[0]:
        p, stop = np.int64(position[row]), np.int64(end[row])
        before = n
        depth, bound = 0, 0
        how, node, kind_of = top[0], top[1], top[2]
        found = 0
        state[CLASSES] = 0
        repeated = 0
        good = True
        while True:
            if n + 2 > tree.shape[0]:
                good = False
                state[WHAT] = NO_ROOM
                break
            # -- class and reference --
            null, plain = False, True
            if how == VALUE:
                node, p = _class(names, texts, ids, buf, p, stop, seen, state)
                if p < 0:
                    good = False
                    break
                null = node < 0
            read = OTHER
            referred = -1
            if not null:
                read = table[node, READ]
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
                        if referred < 0 or tree[referred, 0] != node or read != TEXT:
                            good = False
                            break
                        repeated += tree[referred, 2]
                        if repeated > 4 * (p - position[row]) + 256:
                            good = False
                            break
                if null and (table[node, KIND] >= CONTAINER and kryo == 2 and types[kind_of, ARGUMENTS] > 0):
                    good = False
                    break
            # -- object --
            if null:
                n = _child(tree, n, NULL_NODE, 0)
            elif referred >= 0:
                tree[n, 0] = node
                tree[n, 1] = tree[referred, 1]
                tree[n, 2] = tree[referred, 2]
                n += 1
                tree[n - 1, 3] = n
            else:
                if not plain:
                    objects[found] = n
                    found += 1
                tree[n, 0] = node
                after = n + 1
                if read < CONTAINER or read in (FLAG, YEAR):
                    if read in (ZONED, OFFSET_DATE_TIME, OFFSET_TIME):
                        found, p = _zoned(
                            kryo, read, table, names, texts, ids, zones, offsets, zone_texts, buf, p, stop, tree, n,
                            seen, objects, found, state,
                        )  # fmt: skip
                        after += 1 if read == ZONED else 0
                    elif read == DATE_TIME:
                        date, nanos, found, p = _date_time(kryo, buf, p, stop, objects, found)
                        if not is_in_range(date) or (nanos % 1000 != 0 and not truncates):
                            p = np.int64(-1)
                        tree[n, 1] = days_of(date) * DAY_MICROS + nanos // 1000
                        tree[n, 2] = 0
                    else:
                        a, b, p = _leaf(kryo, read, table[node, CONSTANTS], truncates, buf, p, stop)
                        tree[n, 1] = a
                        tree[n, 2] = b
                elif read == REGION:
                    start, size, form, found, p = _region(kryo, buf, p, stop, objects, found)
                    tree[n, 1] = start
                    tree[n, 2] = (size << 2) | form
                elif RAW_TIMESTAMP <= read <= NUMBER_OR_NOT:
                    count, after, found, p = _whole(
                        kryo, read, table, parts, names, texts, ids, buf, p, stop, tree, n, seen, objects, found, state
                    )
                    tree[n, 1] = count
                    tree[n, 2] = 0
                elif depth < MAX_OPEN:
                    generic = (read == FIELDS and table[node, GENERIC] == 1) or read == REFERENCE
                    if generic and kryo != 2 and bound > 0 and types[kind_of, ARGUMENTS] == 0:
                        # Its variables may be bound by an object around it.
                        p = np.int64(-1)
                    else:
                        p = _open(
                            kryo, read, node, kind_of, table, parts, types, names, texts, ids, buf, p, stop,
                            frames, depth, seen, state,
                        )  # fmt: skip
                        frames[depth, OWNER] = n
                        bound += frames[depth, HAS_BOUND]
                        tree[n, 1] = frames[depth, LEFT]
                        tree[n, 2] = 0
                        depth += 1
                else:
                    p = np.int64(-1)
                if p < 0:
                    good = False
                    break
                tree[n, 3] = after
                n = after
            # -- what is next --
            while depth > 0 and frames[depth - 1, LEFT] == 0:
                depth -= 1
                bound -= frames[depth, HAS_BOUND]
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
