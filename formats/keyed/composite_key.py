"""Splitting of composite keys of the canonical format and of RocksDB into key, namespace and user key.

    compositeKey := prefix  key  [vlen]  namespace  [vlen]  [userKey]        timers: prefix  timer
    vlen         := length of the part before it, little-endian base 256; present only if key and namespace are variable

Flink: ``CompositeKeySerializationUtils``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs, Origin
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.layout import program, skip_rows


def constant_width(serializer: TypeSerializer) -> int:
    """Return the bytes of every value, or -1 if that varies; ``getLength`` may be 0 for a namespace of one byte."""
    return program(serializer).widths[0]


def is_map(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether entries have a user key."""
    return meta.kind is not BackendStateType.PRIORITY_QUEUE and meta.state_type == "MAP"


def split_composite_keys(block: KeyedBlock, key: TypeSerializer, selected: set[int], options: DecodeOptions) -> None:
    """Compute the ends of key and namespace, and the start of the user key, for the entries of the selected states."""
    metas = [
        (i, meta)
        for i, meta in enumerate(block.states)
        if i in selected and meta.kind is not BackendStateType.PRIORITY_QUEUE
    ]
    widths = {constant_width(meta.namespace_serializer) for _, meta in metas}
    easy = len(widths) == 1 and -1 not in widths and not any(is_map(meta) for _, meta in metas)
    if easy:
        block.namespace_end = block.key_end
        width: int | Longs = widths.pop()
        timers = [i for i in selected if block.states[i].kind is BackendStateType.PRIORITY_QUEUE]
        if timers:  # the whole timer is the key
            width = np.where(np.isin(block.state, timers), 0, width)
        block.key_end = block.namespace_start = block.key_end - width
        # Entries of other states may have shorter namespaces; their keys are not used.
        short = np.flatnonzero(block.key_end < block.key_start)
        _check_order(block, short[np.isin(block.state[short], list(selected))])
        return
    composite_end = block.key_end
    block.key_end, block.namespace_start = composite_end.copy(), composite_end.copy()
    block.namespace_end, block.user_start = composite_end.copy(), composite_end.copy()
    for i, meta in metas:
        rows = block.entries_of(i)
        if len(rows):
            _split_state(block, rows, key, meta, composite_end[rows], options)


def _split_state(
    block: KeyedBlock,
    rows: Longs,
    key: TypeSerializer,
    meta: StateMetaInfoSnapshot,
    end: Longs,
    options: DecodeOptions,
) -> None:
    namespace = meta.namespace_serializer
    width = constant_width(namespace)
    variable = key.length < 0 and namespace.length < 0
    start = block.key_start[rows]
    origin = replace(block.origin, state=meta.name)
    if not is_map(meta) and width >= 0:
        key_end, user = end - width, end
        namespace_start = key_end
        namespace_end = end
    else:
        _require_delimited(key, namespace, meta, origin)
        at = Cursors(block.buffer, start.copy(), end, origin, options)
        skip_rows(key, at)
        key_end = at.position.copy()
        if variable:
            _skip_length(at, key_end - start)
        namespace_start = at.position.copy()
        skip_rows(namespace, at)
        namespace_end = at.position.copy()
        if variable:
            _skip_length(at, namespace_end - namespace_start)
        if not is_map(meta):
            at.expect_end()
        user = at.position
    block.key_end[rows], block.namespace_start[rows] = key_end, namespace_start
    block.namespace_end[rows], block.user_start[rows] = namespace_end, user
    _check_order(block, rows[key_end < start])


def _require_delimited(
    key: TypeSerializer, namespace: TypeSerializer, meta: StateMetaInfoSnapshot, origin: Origin
) -> None:
    opaque = key.opaque_parts() + namespace.opaque_parts()
    if opaque:
        raise UndecodableStateError(
            f"the keys of state {meta.name!r} cannot be split into their parts: only the job's own serializer can "
            f"delimit them",
            expected="a key whose serializer delimits it",
            found=opaque[0].flink_type,
            remedy=f"read other states of the operator (option 'state'), or {opaque[0].remedy}",
            **origin.facts(),
        )


def _skip_length(at: Cursors, lengths: Longs) -> None:
    """Skip the little-endian length after a value, and check it."""
    digits = np.maximum(1, (np.ceil(np.log2(lengths.astype(np.float64) + 1) / 8)).astype(np.int64))
    beyond = np.flatnonzero(at.position + digits > at.end)
    if len(beyond):
        at.fail(int(beyond[0]), "the length after a variable key or namespace")
    value = np.zeros(len(at), np.int64)
    for digit in range(int(digits.max(initial=0))):
        here = digits > digit
        value[here] |= at.buffer[at.position[here] + digit].astype(np.int64) << (8 * digit)
    wrong = np.flatnonzero(value != lengths)
    if len(wrong):
        at.fail(int(wrong[0]), f"the length {int(lengths[wrong[0]])} after a variable key or namespace")
    at.position += digits


def _check_order(block: KeyedBlock, short: Longs) -> None:
    """Raise a CorruptStateError if any of the entries has a key shorter than its namespace."""
    if len(short):
        raise CorruptStateError(
            "a composite key is shorter than its namespace",
            remedy=UNREADABLE,
            **block.origin.facts(int(block.key_start[short[0]])),
        )
