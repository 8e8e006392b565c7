"""Look-up of keys without a scan: option ``keys``.

The keys of the JSON list, written as the table shows them, become a column of the key's type. Their Java hashes give
the key groups to open, and their serialized bytes are compared with the entries. If only user code defines the hash
(POJO, Kryo), every key group is read; a key that cannot be given as JSON is an error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Bytes, Cursors, DecodeOptions, Flags, Longs
from pyspark_savepoint.formats.errors import OptionError, UndecodableStateError
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.strings import column_texts
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import kryo_keys
from pyspark_savepoint.statebackends.model.json_values import from_json

MAX_KEYS = 100_000
#: Most (key group, key) pairs that a task seeks where the key groups of the keys are unknown; else it scans.
MAX_PLACES = 4096


@dataclass(frozen=True)
class KeyLookup:
    """The keys to look up, as serialized bytes, and the key group of each (None: unknown)."""

    encoded: pa.Array
    groups: tuple[int, ...] | None

    @property
    def key_groups(self) -> set[int] | None:
        """Return the key groups that hold the keys (None: unknown)."""
        return None if self.groups is None else set(self.groups)

    def places(self, key_groups: Sequence[int]) -> list[tuple[int, bytes]] | None:
        """Return the (key group, key) pairs to seek within some key groups; None if these are too many guesses."""
        keys = self.encoded.to_pylist()
        if self.groups is not None:
            wanted = set(key_groups)
            return [place for place in zip(self.groups, keys, strict=True) if place[0] in wanted]
        return list(product(key_groups, keys)) if len(keys) * len(key_groups) <= MAX_PLACES else None

    @classmethod
    def of(cls, text: str, serializer: TypeSerializer, max_parallelism: int, options: DecodeOptions) -> KeyLookup:
        """Parse the option's text: keys as the table shows them, but decimals with all their digits."""
        exact = options.decimals if options.decimals in ("auto", "string") else "auto"
        column = keys_of(text, serializer.arrow_type(replace(options, decimals=exact)))
        if isinstance(serializer, KryoSerializer):
            encoded = kryo_keys(serializer.type_class, serializer.classes, column, options.kryo)
            if encoded is not None:
                return cls(encoded, cls._groups(serializer, column, max_parallelism))
        return cls.of_column(column, serializer, max_parallelism)

    @classmethod
    def of_column(cls, column: pa.Array, serializer: TypeSerializer, max_parallelism: int) -> KeyLookup:
        """Return the look-up of keys that are a column of the serializer's type."""
        return cls(encode(serializer, column), cls._groups(serializer, column, max_parallelism))

    @staticmethod
    def _groups(serializer: TypeSerializer, column: pa.Array, max_parallelism: int) -> tuple[int, ...] | None:
        try:
            hashes = serializer.java_hash(column)
        except UndecodableStateError:
            return None
        return tuple(key_group_for_hash(value, max_parallelism) for value in hashes.tolist())

    def matches(self, buffer: Bytes, start: Longs, end: Longs) -> Flags:
        """Return which of some keys, given as spans, are to be looked up."""
        keys = binary_column(buffer, start, end)
        found: Any = pc.is_in(keys, value_set=self.encoded)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def keys_of(text: str, kind: pa.DataType) -> pa.Array:
    """Parse the option's text as a column of a type."""
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError):
        wanted = None
    if not isinstance(wanted, list) or len(wanted) > MAX_KEYS:
        raise OptionError(
            "option 'keys' is not a JSON list of keys",
            found=text[:200],
            remedy="""for example '[1, 2]' or '["a"]'""",
        )
    try:
        # JSON can name half of a surrogate pair, "\ud83d", besides the escape that columns have for it.
        return pa.array([from_json(column_texts(value, given=True), kind, "key") for value in wanted], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise OptionError(f"option 'keys' has a key that {kind} cannot hold", found=str(error)) from None


def encode(serializer: TypeSerializer, column: pa.Array) -> pa.Array:
    """Return the serialized bytes of every row as a binary column."""
    sizes = serializer.sizes(column)
    ends = np.cumsum(sizes)
    at = Cursors(np.zeros(int(sizes.sum()), np.uint8), ends - sizes, ends)
    serializer.encode(column, at)
    at.expect_end()
    data = at.buffer.tobytes()
    bounds = [0, *ends.tolist()]
    return pa.array([data[a:b] for a, b in pairwise(bounds)], pa.binary())
