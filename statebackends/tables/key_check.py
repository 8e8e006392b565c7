"""Keys lie in the key groups that their hashes lead to: where they do not, Flink would never find them.

All keys are checked whose type has a hash that its data defines; of others (POJOs, enums, Kryo's) only the user's code
knows it. A flipped bit in a key is found unless its hash leads to the same key group: one of ``max_parallelism`` times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Flags, Ints
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: Bytes or characters of a key in an error.
SHOWN = 200


def check_key_groups(
    at: Cursors, serializer: TypeSerializer, key_group: Ints, max_parallelism: int, decoded: pa.Array | None = None
) -> bool:
    """Refuse the first of some keys that is not of its key group; False where nobody knows their hashes.

    ``at`` has the span of every key, ``decoded`` the keys as the options of ``at`` decode them.
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
            f"a key in key group {int(key_group[row])} is not of this key group",
            expected=f"keys whose hash leads to key group {int(key_group[row])} of {max_parallelism}",
            found=f"{key}, of key group {key_group_for_hash(int(hashes[row]), max_parallelism)}",
            remedy="the file is damaged, or was written by a tool that hashes keys otherwise: take it from its origin "
            "again; option('raw', 'key') reads keys as bytes, unchecked",
            **at.origin.facts(int(at.position[row])),
        )
    return True


def java_hashes(at: Cursors, serializer: TypeSerializer, decoded: pa.Array | None = None) -> Ints | None:
    """The Java ``hashCode`` of every key; None where only the user's code knows it."""
    if serializer.opaque_parts():
        return None
    exact = exact_options(at.options)
    if decoded is None or decoded.type != serializer.arrow_type(exact):
        # Options may have cut digits that the hash is made of.
        again = Cursors(at.buffer, at.position.copy(), at.end, at.origin, exact)
        decoded = serializer.decode(again)
        again.expect_end()
    try:
        return serializer.java_hash(decoded)
    except UndecodableStateError:
        return None


def exact_options(options: DecodeOptions) -> DecodeOptions:
    """The options that keep every digit."""
    return replace(options, timestamps="raw", decimals="string", row_kind=True)
