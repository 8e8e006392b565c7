"""Places of bytes in a column, by their hashes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xxhash

from pyspark_savepoint.engines.arrow.byte_index import ByteIndex


@pytest.mark.parametrize("bits", [64, 3])
def test_places_are_those_of_a_search(bits: int) -> None:
    """Also where many values have one hash."""

    def digest(value: bytes) -> int:
        return xxhash.xxh3_64_intdigest(value) & ((1 << bits) - 1)

    generator = np.random.default_rng(5)
    values = pa.array([b"%d" % n for n in generator.integers(0, 500, 400)], pa.binary())
    keys = pa.array([b"%d" % n for n in generator.integers(0, 700, 3000)], pa.binary())
    expected = pc.index_in(keys, value_set=values)
    assert ByteIndex(values, digest).places(keys).to_pylist() == expected.to_pylist()


def test_nothing_is_in_an_empty_column() -> None:
    assert ByteIndex(pa.array([], pa.binary())).places(pa.array([b"a"], pa.binary())).to_pylist() == [None]
    assert ByteIndex(pa.array([b"a"], pa.binary())).places(pa.array([], pa.binary())).to_pylist() == []
