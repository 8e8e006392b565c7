"""Operator state streams: elements at offsets, plain and compressed, also as Flink 1.18.1 compressed them."""

from __future__ import annotations

from collections.abc import Sequence

import cramjam
import numpy as np
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.io.snappy import IDENTIFIER
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStream

HEAD = bytes(7)
ELEMENTS = [b"first", b"second", b"", b"the fourth"]
WINDOWS = pytest.mark.parametrize("window", [1, 8, 1 << 20])


def stream_of(content: bytes, offsets: Sequence[int], compressed: bool) -> OperatorStream:
    header = OperatorBackendHeader(6, compressed, (), (), len(HEAD))
    return OperatorStream(InlineByteSource("a stream", HEAD + content), header, np.unique(offsets))


def read(stream: OperatorStream, offsets: Sequence[int], window: int) -> list[tuple[bytes, int]]:
    """The bytes of every piece, and how many elements it has."""
    found = []
    for buffer, pieces, base in stream.windows(np.array(offsets), window):
        at = stream.cursors(buffer, pieces, base, "a state", DecodeOptions())
        for start, end, count in zip(at.position, at.end, pieces.count, strict=True):
            found.append((buffer[start:end].tobytes(), int(count)))
    return found


def chunks(elements: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """One framed stream with a chunk per element, and where the chunks begin."""
    content, offsets = bytearray(IDENTIFIER), []
    for element in elements:
        offsets.append(len(HEAD) + len(content))
        content += bytes(cramjam.snappy.compress(element))[len(IDENTIFIER) :]
    return bytes(content), offsets


@WINDOWS
def test_plain_elements(window: int) -> None:
    elements = [element for element in ELEMENTS if element]
    offsets = [len(HEAD) + sum(map(len, elements[:i])) for i in range(len(elements))]
    stream = stream_of(b"".join(elements), offsets, compressed=False)

    assert read(stream, offsets, window) == [(element, 1) for element in elements]
    assert read(stream, offsets[1:2], window) == [(elements[1], 1)]


@WINDOWS
def test_compressed_elements(window: int) -> None:
    elements = [element for element in ELEMENTS if element] + [bytes(200_000)]
    content, offsets = chunks(elements)
    stream = stream_of(content, offsets, compressed=True)

    assert read(stream, offsets, window) == [(element, 1) for element in elements]
    assert read(stream, offsets[1:3], window) == [(element, 1) for element in elements[1:3]]


@WINDOWS
def test_one_offset_for_all_elements_of_a_state(window: int) -> None:
    """Flink 1.18.1: no flush between elements, and a stream for every state."""
    first, second = (bytes(cramjam.snappy.compress(part)) for part in (b"aabbcc", b"dd"))
    places = [len(HEAD) + len(IDENTIFIER), len(HEAD) + len(first) + len(IDENTIFIER)]
    offsets = [places[0]] * 3 + [places[1]]
    stream = stream_of(first + second, offsets, compressed=True)

    assert read(stream, offsets[:3], window) == [(b"aabbcc", 3)]
    assert read(stream, offsets[3:], window) == [(b"dd", 1)]


@pytest.mark.parametrize("offset", [0, len(HEAD) - 1, 1000])
def test_an_offset_outside_of_the_data_is_refused(offset: int) -> None:
    with pytest.raises(CorruptStateError, match="the offset of an element of operator state is not valid"):
        stream_of(b"data", [offset], compressed=False)


def test_an_offset_within_a_chunk_is_refused() -> None:
    content, offsets = chunks([b"first", b"second"])
    stream = stream_of(content, [offsets[0], offsets[0] + 3], compressed=True)

    with pytest.raises(CorruptStateError):
        read(stream, [offsets[0] + 3], 1 << 20)


def test_a_flipped_bit_is_refused() -> None:
    content, offsets = chunks([b"first", b"second"])
    damaged = bytearray(content)
    damaged[-1] ^= 1
    stream = stream_of(bytes(damaged), offsets, compressed=True)

    with pytest.raises(CorruptStateError, match=r"does not match the format|bytes are cut off"):
        read(stream, offsets, 1 << 20)
