"""Keys of tables: a check of their key groups, and look-up without a scan (option ``keys``).

Flink never finds a key in a key group other than that which its hash gives. Keys are checked if their type has a hash
that follows from the data; of other types (POJOs, enums, Kryo) only user code defines the hash. A flipped bit in a key
is found unless its new hash leads to the same key group, which has a probability of one in ``max_parallelism``.

The keys of the JSON list, written as the table shows them, become a column of the key's type. Their Java hashes give
the key groups to open, and their serialized bytes are compared with the entries. If only user code defines the hash
(POJO, Kryo), every key group is read; a key that cannot be given as JSON is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import Bytes, Cursors, DecodeOptions, Flags, Ints, Longs, true_rows
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError, UndecodableStateError
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.strings import column_texts
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.statebackends.rows.json_values import from_json

#: Longest excerpt of a key in an error message, in bytes or characters.
MAX_KEY = 200
MAX_KEYS = 100_000
#: Most (key group, key) pairs that a task seeks where the key groups of the keys are unknown; else it scans.
MAX_PLACES = 4096


def check_key_groups(
    at: Cursors, serializer: TypeSerializer, key_group: Ints, max_parallelism: int, decoded: pa.Array | None = None
) -> bool:
    """Raise an error for the first key outside its key group; return False if the keys' hashes are not computable.

    ``at`` has the span of every key, ``decoded`` the keys as decoded with the options of ``at``.
    """
    hashes = java_hashes(at, serializer, decoded)
    if hashes is None:
        return False
    from pyspark_savepoint.formats.kernels import keys as kernels

    computed = np.empty(len(hashes), np.int32)
    kernels.key_groups(hashes, max_parallelism, computed)
    wrong: Flags = computed != key_group
    if wrong.any():
        row = int(wrong.argmax())
        span = at.buffer[int(at.position[row]) : int(at.end[row])]
        key = f"the bytes {span[:MAX_KEY].tobytes().hex()}" if decoded is None else repr(decoded[row].as_py())[:MAX_KEY]
        raise CorruptStateError(
            f"a key is in key group {int(key_group[row])}, but belongs to another one",
            expected=f"keys whose hash leads to key group {int(key_group[row])} of {max_parallelism}",
            found=f"{key}, of key group {key_group_for_hash(int(hashes[row]), max_parallelism)}",
            remedy="the file is damaged, or was written by a tool that hashes keys in another way: copy it from its "
            "origin again; option('raw', 'key') reads keys as bytes, unchecked",
            **at.origin.facts(int(at.position[row])),
        )
    return True


def java_hashes(at: Cursors, serializer: TypeSerializer, decoded: pa.Array | None = None) -> Ints | None:
    """Return the Java ``hashCode`` of every key, or None if only the user's code can compute it."""
    if serializer.opaque_parts():
        return None
    exact = exact_options(at.options)
    if decoded is None or decoded.type != serializer.arrow_type(exact) or at.options.text != exact.text:
        # The options may have dropped digits that the hash depends on.
        again = Cursors(at.buffer, at.position.copy(), at.end, at.origin, exact)
        decoded = serializer.decode(again)
        again.expect_end()
    try:
        return serializer.java_hash(decoded)
    except UndecodableStateError:
        return None


def exact_options(options: DecodeOptions) -> DecodeOptions:
    """Return the options that keep full precision, and pickles as the bytes that are hashed."""
    return replace(options, timestamps="raw", decimals="string", row_kind=True, pickle=False, text="escape")


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
            selected_groups = set(key_groups)
            return [pair for pair in zip(self.groups, keys, strict=True) if pair[0] in selected_groups]
        return list(product(key_groups, keys)) if len(keys) * len(key_groups) <= MAX_PLACES else None

    @classmethod
    def of(cls, text: str, serializer: TypeSerializer, max_parallelism: int, options: DecodeOptions) -> KeyLookup:
        """Parse the option's text: keys as the table shows them, but decimals with all their digits."""
        exact = options.decimals if options.decimals in ("auto", "string") else "auto"
        column = keys_of(text, serializer.arrow_type(replace(options, decimals=exact)))
        if isinstance(serializer, KryoSerializer):
            from pyspark_savepoint.formats.serializers.kryo.objects.conversion import kryo_keys

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
        return true_rows(pc.is_in(keys, value_set=self.encoded))


def keys_of(text: str, kind: pa.DataType) -> pa.Array:
    """Parse the option's text as a column of a type."""
    try:
        parsed_keys = parse_json(text, constants=True)
    except (ValueError, RecursionError):
        parsed_keys = None
    if not isinstance(parsed_keys, list) or len(parsed_keys) > MAX_KEYS:
        raise OptionError(
            "option 'keys' is not a JSON list of keys",
            found=text[:200],
            remedy="""for example '[1, 2]' or '["a"]'""",
        )
    if None in parsed_keys:
        raise OptionError("option 'keys' has a key that is null", remedy="leave it out: Flink has no key that is null")
    try:
        # JSON can name half of a surrogate pair, "\ud83d", besides the escape that columns have for it.
        return pa.array([from_json(column_texts(value, given=True), kind, "key") for value in parsed_keys], kind)
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
