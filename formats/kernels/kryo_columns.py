"""Trees of Kryo's values (``kryo_values.py``) as variants and as columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.kryo_bytes import ASCII, put_text
from pyspark_savepoint.formats.kernels.kryo_kinds import (
    BIG_DECIMAL,
    BIG_INTEGER,
    BOOLEAN,
    BYTE,
    BYTES,
    CHAR,
    CLOCK,
    CONTAINER,
    DATE,
    DATE_TIME,
    DOUBLE,
    DURATION,
    ENUM,
    FIELDS,
    FIRST,
    FLOAT,
    INSTANT,
    INT,
    KEY,
    KEY_SIZE,
    KEYS,
    KIND,
    LEFT_TO_CALLER,
    LONG,
    MAP,
    MAX_ENTRIES,
    MAX_KEYS,
    METADATA,
    MILLIS,
    MONTH_DAY,
    OFFSET_TIME,
    OPTIONAL,
    OTHER,
    OUT,
    PERIOD,
    RANK,
    SHORT,
    SLOTS,
    SQL_TIME,
    SQL_TIMESTAMP,
    STAMP,
    TEXT,
    UUID,
    YEAR_MONTH,
    ZONE_OFFSET,
    ZONED,
)
from pyspark_savepoint.formats.kernels.kryo_times import (
    NO_OFFSET,
    OFFSET_BIAS,
    put_clock,
    put_date,
    put_digits,
    put_duration,
    put_number,
    put_offset,
    put_period,
)
from pyspark_savepoint.formats.kernels.kryo_values import FNV, FNV_PRIME
from pyspark_savepoint.formats.kernels.strings import put_utf8

OFFSET_BITS = np.int64(20)
LOW_OFFSET, LOW32 = np.int64((1 << 20) - 1), np.int64(0xFFFFFFFF)
BILLION = np.uint64(1_000_000_000)

# -- texts ---------------------------------------------------------------------------------------------------------


@kernel
def put_uuid(out: Any, q: Any, high: Any, low: Any) -> Any:
    """Store the text of a UUID; return the next position."""
    for k in range(36):
        if k in (8, 13, 18, 23):
            out[q + k] = 45
        else:
            place = k - (4 if k > 23 else 3 if k > 18 else 2 if k > 13 else 1 if k > 8 else 0)
            half = high if place < 16 else low
            digit = (half >> np.int64(60 - 4 * (place & 15))) & 15
            out[q + k] = digit + 48 if digit < 10 else digit + 87
    return q + 36


@kernel
def _halves(buf: Any, start: Any, size: Any) -> Any:
    """Return a big number as two's complement: its low and its high half."""
    low, high = np.uint64(0), np.uint64(0)
    if buf[start] >= 128:
        low, high = ~low, ~high
    for k in range(size):
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(buf[start + k])
    return low, high


@kernel
def _negated(low: Any, high: Any) -> Any:
    low = ~low + np.uint64(1)
    return low, ~high + np.uint64(1 if low == 0 else 0)


@kernel
def _split(low: Any, high: Any) -> Any:
    """Divide a number of 128 bits by a billion: the halves of the result, and the rest."""
    four = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    digit = high >> shift
    high_1, rest = digit // BILLION, digit % BILLION
    digit = (rest << shift) | (high & four)
    high_0, rest = digit // BILLION, digit % BILLION
    digit = (rest << shift) | (low >> shift)
    low_1, rest = digit // BILLION, digit % BILLION
    digit = (rest << shift) | (low & four)
    low_0, rest = digit // BILLION, digit % BILLION
    return (low_1 << shift) | low_0, (high_1 << shift) | high_0, np.int64(rest)


@kernel
def _put_big(buf: Any, start: Any, size: Any, scale: Any, out: Any, q: Any) -> Any:
    """Store ``BigDecimal.toString``, which is ``BigInteger.toString`` where the scale is 0."""
    low, high = _halves(buf, start, size)
    if buf[start] >= 128:
        out[q] = 45
        q += 1
        low, high = _negated(low, high)
    # The digits in groups of nine, the last group first, and then without the zeros that precede the number.
    count = 45
    first = q
    for k in range(5):
        low, high, group = _split(low, high)
        put_digits(out, first + 36 - 9 * k, group, 9)
    while count > 1 and out[first + 45 - count] == 48:
        count -= 1
    for k in range(count):
        out[first + k] = out[first + 45 - count + k]
    q = first + count
    if scale != 0:
        point = count - scale
        if scale > 0 and point > -6:
            if point > 0:
                for k in range(scale):
                    out[q - k] = out[q - 1 - k]
                out[first + point] = 46
                q += 1
            else:
                shift = 2 - point
                for k in range(count):
                    out[q - 1 - k + shift] = out[q - 1 - k]
                for k in range(shift):
                    out[first + k] = 48
                out[first + 1] = 46
                q += shift
        else:
            if count > 1:
                for k in range(count - 1):
                    out[q - k] = out[q - 1 - k]
                out[first + 1] = 46
                q += 1
            out[q] = 69
            q += 1
            if point >= 1:
                out[q] = 43
                q += 1
            q = put_number(out, q, point - 1)
    return q


@kernel
def _put_time(kind: Any, buf: Any, tree: Any, i: Any, out: Any, q: Any) -> Any:
    """Store the text of a time that has no column type of its own; return the next position."""
    a, b = tree[i, 1], tree[i, 2]
    if kind == CLOCK:
        q = put_clock(out, q, a)
    elif kind == DURATION:
        q = put_duration(out, q, a, b)
    elif kind == ZONE_OFFSET:
        q = put_offset(out, q, a)
    elif kind == PERIOD:
        q = put_period(out, q, a, b)
    elif kind == YEAR_MONTH:
        q = put_date(out, q, a) - 3
    elif kind == MONTH_DAY:
        # In place of the year is a hyphen.
        q = put_date(out, q, a) - 10
        out[q] = 45
        for k in range(6):
            out[q + 1 + k] = out[q + 4 + k]
        q += 7
    else:
        if kind != OFFSET_TIME:
            q = put_date(out, q, a >> OFFSET_BITS)
            out[q] = 84
            q += 1
        q = put_clock(out, q, b)
        offset = (a & LOW_OFFSET) - OFFSET_BIAS
        if kind != ZONED:
            return put_offset(out, q, offset)
        start, size = tree[i + 1, 1], tree[i + 1, 2] >> 2
        if size == 0:
            # The zone is an offset.
            q = put_offset(out, q, offset)
            return q if start == offset else put_offset(out, q, start)
        first = buf[start] & 0x7F
        is_offset = first in (43, 45) or (first == 90 and size == 1)
        if not is_offset:
            if offset != NO_OFFSET:
                q = put_offset(out, q, offset)
            out[q] = 91
            q += 1
        for k in range(size):
            out[q + k] = buf[start + k] & 0x7F
        q += size
        if not is_offset:
            out[q] = 93
            q += 1
    return q


@kernel
def _has_text(kind: Any) -> Any:
    """Return whether the value of a kind is a text in VARIANT."""
    return kind in (TEXT, CHAR, UUID, ENUM, CLOCK, DURATION) or ZONED <= kind <= MONTH_DAY


@kernel
def put_value_text(
    table: Any, parts: Any, texts: Any, buf: Any, tree: Any, i: Any, out: Any, q: Any
) -> Any:  # fmt: skip
    """Store the text of an object, or its bytes; return the next position. There is room for ``room_of``."""
    node, a, b = tree[i, 0], tree[i, 1], tree[i, 2]
    kind = table[node, KIND]
    if kind in (TEXT, BYTES):
        if kind == BYTES:
            for k in range(b >> 2):
                out[q + k] = buf[a + k]
            q += b >> 2
        else:
            q = put_text(buf, a, b >> 2, b & 3, out, q)
    elif kind == CHAR:
        q = put_utf8(out, q, a)
    elif kind == UUID:
        q = put_uuid(out, q, a, b)
    elif kind == ENUM:
        part = table[node, FIRST] + a
        for k in range(parts[part, KEY_SIZE]):
            out[q + k] = texts[parts[part, KEY] + k]
        q += parts[part, KEY_SIZE]
    elif kind in (BIG_INTEGER, BIG_DECIMAL):
        scale = ((b & LOW32) ^ np.int64(0x80000000)) - np.int64(0x80000000)
        q = _put_big(buf, a, b >> 32, scale, out, q)
    else:
        q = _put_time(kind, buf, tree, i, out, q)
    return q


@kernel
def room_of(table: Any, parts: Any, tree: Any, i: Any) -> Any:
    """Return the bytes that suffice for what is no container."""
    node = tree[i, 0]
    room = 128
    if node >= 0:
        if table[node, KIND] in (TEXT, BYTES):
            room += 3 * (tree[i, 2] >> 2)
        elif table[node, KIND] == ENUM:
            room += parts[table[node, FIRST] + tree[i, 1], KEY_SIZE]
    return room


@kernel
def text_rows(
    table: Any, parts: Any, texts: Any, buf: Any, tree: Any, valid: Any, places: Any, first: Any, out: Any, offsets: Any
) -> Any:
    """Store the texts or bytes of objects one after another, from row ``first`` on; return the row that has no room."""
    row = np.int64(first)
    q = offsets[row]
    while row < places.shape[0]:
        if valid[row]:
            if q + room_of(table, parts, tree, places[row]) > out.shape[0]:
                break
            q = put_value_text(table, parts, texts, buf, tree, places[row], out, q)
        row += 1
        offsets[row] = q
    return row


@kernel
def big_rows(buf: Any, tree: Any, valid: Any, places: Any, out: Any) -> None:
    """Store whole numbers as decimals of 128 bits."""
    for row in range(places.shape[0]):
        low, high = np.uint64(0), np.uint64(0)
        if valid[row]:
            i = places[row]
            low, high = _halves(buf, tree[i, 1], tree[i, 2] >> 32)
        out[row, 0] = low
        out[row, 1] = high


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


@inline
def _put_integer(out: Any, q: Any, a: Any) -> Any:
    size = a if a >= 0 else ~a
    width = 0 if size < 1 << 7 else 1 if size < 1 << 15 else 2 if size < 1 << 31 else 3
    out[q] = (3 + width) << 2
    return _put(out, q + 1, a, 1 << np.int64(width))


@kernel
def _put_decimal(is_whole: Any, buf: Any, start: Any, b: Any, out: Any, q: Any) -> Any:
    """Store a big number; return the next position, -1 if it is left to the caller."""
    scale = ((b & LOW32) ^ np.int64(0x80000000)) - np.int64(0x80000000)
    if not 0 <= scale <= 38:
        return -1
    size = b >> 32
    low, high = _halves(buf, start, size)
    if is_whole and size <= 8:
        return _put_integer(out, q, np.int64(low))
    positive, above = (low, high) if buf[start] < 128 else _negated(low, high)
    kind = 2
    if above == 0 and positive < np.uint64(1_000_000_000):
        kind = 0
    elif above == 0 and positive < np.uint64(1_000_000_000_000_000_000):
        kind = 1
    out[q] = (8 + kind) << 2
    out[q + 1] = scale
    q = _put(out, q + 2, np.int64(low), 4 if kind == 0 else 8)
    if kind == 2:
        q = _put(out, q, np.int64(high), 8)
    return q


@kernel
def _leaf(table: Any, parts: Any, texts: Any, buf: Any, tree: Any, i: Any, out: Any, q: Any) -> Any:
    """Store what is no container; return the next position, -1 if it is left to the caller."""
    node, a, b = tree[i, 0], tree[i, 1], tree[i, 2]
    kind = OTHER
    if node >= 0:
        kind = table[node, KIND]
    if node < 0:
        out[q] = 0
        q += 1
    elif _has_text(kind):
        after = put_value_text(table, parts, texts, buf, tree, i, out, q + 5)
        size = after - q - 5
        if size <= 63:
            out[q] = (size << 2) | 1
            for k in range(size):
                out[q + 1 + k] = out[q + 5 + k]
            q += 1 + size
        else:
            out[q] = 16 << 2
            _put(out, q + 1, size, 4)
            q = after
    elif kind == BYTES:
        out[q] = 15 << 2
        after = put_value_text(table, parts, texts, buf, tree, i, out, q + 5)
        _put(out, q + 1, after - q - 5, 4)
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
    elif kind == DATE:
        out[q] = 11 << 2
        q = _put(out, q + 1, a, 4)
    elif kind in (MILLIS, SQL_TIMESTAMP, INSTANT, DATE_TIME):
        out[q] = (13 if kind == DATE_TIME else 12) << 2
        q = _put(out, q + 1, a, 8)
    elif kind in (INT, LONG, SHORT, BYTE, SQL_TIME):
        q = _put_integer(out, q, a)
    elif kind in (BIG_INTEGER, BIG_DECIMAL):
        q = _put_decimal(kind == BIG_INTEGER, buf, a, b, out, q)
    else:
        q = -1
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
    found = -1
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
        found = state[KEYS]
        slots[slot] = state[STAMP] * SLOTS + found
        keys[found, 0] = start
        keys[found, 1] = size
        keys[found, 2] = of_text
        state[KEYS] += 1
    return found


@kernel
def _is_before(
    texts: Any, buf: Any, left: Any, left_size: Any, left_home: Any, right: Any, right_size: Any, right_home: Any
) -> Any:
    """Compare two texts of ASCII: -1, 0 or 1."""
    size = min(left_size, right_size)
    result = 0
    for k in range(size):
        one = np.int64(texts[left + k] if left_home else buf[left + k]) & 0x7F
        difference = one - (np.int64(texts[right + k] if right_home else buf[right + k]) & 0x7F)
        if difference != 0:
            result = -1 if difference < 0 else 1
            break
    if result == 0 and left_size != right_size:
        result = -1 if left_size < right_size else 1
    return result


@kernel
def _order(table: Any, parts: Any, texts: Any, buf: Any, tree: Any, i: Any, pair: Any, work: Any, base: Any) -> Any:
    """List what is in an object in ``work``, from ``base`` on: the place in the tree, and start, size, home of the key.

    Returns the number of members, whether they have keys, whether they are pairs of a key and a value, and whether
    the caller has to do it.
    """
    node = tree[i, 0]
    kind = table[node, KIND] if node >= 0 and not pair else OTHER
    count = 2 if pair else tree[i, 1]
    keyed, paired, good = pair, False, True
    child = i if pair else i + 1
    if kind == MAP:
        count //= 2
        keyed = True
        j = child
        for _ in range(count):
            key = tree[j, 0]
            key_kind = table[key, KIND] if key >= 0 else OTHER
            if key_kind == TEXT:
                good = good and tree[j, 2] & 3 <= ASCII
            elif (_has_text(key_kind) and key_kind != ENUM) or key_kind >= CONTAINER:
                good = False
            elif key_kind != ENUM:
                keyed = False
            j = tree[tree[j, 3], 3]
        if keyed and count > MAX_ENTRIES:
            good = False
        paired = not keyed
    if good and keyed and kind == MAP:
        for k in range(count):
            start, size, home = tree[child, 1], tree[child, 2] >> 2, 0
            if table[tree[child, 0], KIND] == ENUM:
                part = table[tree[child, 0], FIRST] + tree[child, 1]
                start, size, home = parts[part, KEY], parts[part, KEY_SIZE], 1
            at = base + k
            while at > base:
                order = _is_before(texts, buf, start, size, home, work[at - 1, 1], work[at - 1, 2], work[at - 1, 3])
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
            work[at, 3] = home
            child = tree[tree[child, 3], 3]
        if not keyed:  # the same key twice
            good = False
    elif good:
        first = 0 if pair else table[node, FIRST]
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
            if q + room_of(table, parts, tree, i) > out.shape[0]:
                return -2
            return _leaf(table, parts, texts, buf, tree, i, out, q)
    limit = 2 if pair else tree[i, 1]
    if base + limit > work.shape[0]:
        return -1
    count, keyed, paired, good = _order(table, parts, texts, buf, tree, i, pair, work, base)
    if not good:
        return -1
    if q + 5 + 8 * (count + 1) > out.shape[0]:
        return -2
    most = 0
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
            if at + room_of(table, parts, tree, child) > out.shape[0]:
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
    p = _put(out, p, 0, width)
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
    q, m = state[OUT], state[METADATA]
    while row < roots.shape[0]:
        i = roots[row]
        if i >= 0 and tree[i, 0] >= 0:
            state[STAMP] += 1
            state[KEYS] = 0
            kind = table[tree[i, 0], KIND]
            after = np.int64(-2)
            if kind >= CONTAINER:
                after = np.int64(
                    _container(table, parts, texts, buf, tree, i, alone, out, q, work, 0, keys, slots, state)
                )
            elif q + room_of(table, parts, tree, i) <= out.shape[0]:
                after = _leaf(table, parts, texts, buf, tree, i, out, q)
            if after == -2:
                break
            count, total = state[KEYS], 0
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
                m = _put(metadata, m, 0, width)
                total = 0
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

#: Kinds of columns: of numbers, of variants, those with parts, and those that are made of the objects. A column has a
#: slot, and the first and the number of its parts.
SCALAR, VARIANT, STRUCT, LIST, ENTRIES, HELD, PLACES = range(7)
COLUMN_KIND, SLOT, FIRST_PART, PARTS = range(4)
#: Whether a column accepts the objects of a class, or only those without nanoseconds.
ACCEPTED, WHOLE_MICROS = 1, 2


@kernel
def _fill(
    columns: Any, members: Any, accepts: Any, tree: Any, column: Any, i: Any, row: Any, bases: Any, counts: Any,
    numbers: Any,
) -> Any:  # fmt: skip
    """Append an object, or null, to a column; return whether the column accepts it and all that is in it."""
    if i >= 0 and tree[i, 0] < 0:
        i = -1
    accepted = 1
    if i >= 0:
        accepted = accepts[column, tree[i, 0]]
        if accepted == 0 or (accepted == WHOLE_MICROS and tree[i, 2] % 1000 != 0):
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
            if kind in (VARIANT, PLACES):
                numbers[at, 1] = i
            elif i >= 0:
                numbers[at, 1] = tree[i, 1]
                numbers[at, 2] = tree[i, 2]
    rounds = 0
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
        inner = child if i >= 0 else -1
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

    Numbers of a column's slot: whether it is not null; the number, the length of a list, or the place of the object;
    another number: the second of the object, or the row. Rows that a column does not accept become LEFT_TO_CALLER.
    """
    for row in range(roots.shape[0]):
        if roots[row] >= 0 and not _fill(
            columns, members, accepts, tree, 0, roots[row], np.int64(row), bases, counts, numbers
        ):
            roots[row] = LEFT_TO_CALLER
