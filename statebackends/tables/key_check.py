"""Check that keys lie in the key groups that their hashes give: Flink never finds a key in another key group.

Keys are checked if their type has a hash that follows from the data; of other types (POJOs, enums, Kryo) only user
code defines the hash. A flipped bit in a key is found unless its new hash leads to the same key group, which has a
probability of one in ``max_parallelism``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Flags, Ints
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: Longest excerpt of a key in an error message, in bytes or characters.
SHOWN = 200


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

    found = np.empty(len(hashes), np.int32)
    kernels.key_groups(hashes, max_parallelism, found)
    wrong: Flags = found != key_group
    if wrong.any():
        row = int(wrong.argmax())
        span = at.buffer[int(at.position[row]) : int(at.end[row])]
        key = f"the bytes {span[:SHOWN].tobytes().hex()}" if decoded is None else repr(decoded[row].as_py())[:SHOWN]
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
