"""Digests of places: equal for the same places in any order and parts, and for no others."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.statebackends.writing.entry_encoder import PLACE, DigestedPlaces, new_secrets

SECRETS = new_secrets()
#: Of the lengths at which a hash takes other ways: below 4, 8, 16 and 32 bytes.
PLACES = st.lists(st.binary(max_size=40) | st.integers(0, 300).map(lambda n: n.to_bytes(12, "big")), unique=True)


def digest(places: list[bytes], size: int = 1000) -> tuple[int, ...]:
    """The digest of some places, in batches."""

    def batches(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for at in range(0, max(len(places), 1), size):
            yield pa.record_batch({PLACE: pa.array(places[at : at + size], pa.binary())})

    (one,) = DigestedPlaces(batches, SECRETS)(iter(()))
    return tuple(one.to_pylist()[0].values())


@given(places=PLACES, size=st.integers(1, 5), seed=st.randoms())
def test_order_and_batches_do_not_matter(places: list[bytes], size: int, seed: object) -> None:
    turned = sorted(places, key=lambda _: seed.random())  # type: ignore[attr-defined]
    assert digest(places, size) == digest(turned)
    neighbours = [place for place in places for _ in range(3)]
    assert digest(neighbours, size) == digest(places)


@given(places=PLACES.filter(bool), other=st.binary(max_size=40), at=st.integers(0, 1 << 20))
def test_another_place_gives_another_digest(places: list[bytes], other: bytes, at: int) -> None:
    changed = [*places]
    changed[at % len(places)] = other
    assert (digest(changed) == digest(places)) == (set(changed) == set(places))
    assert digest(places[1:]) != digest(places)


@pytest.mark.parametrize("length", [1, 7, 8, 15, 16, 17, 33])
def test_zeros_count(length: int) -> None:
    assert digest([bytes(length)]) != digest([bytes(length + 1)])
