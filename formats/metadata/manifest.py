"""Checksums of a savepoint's files, stored after the part of ``_metadata`` that Flink reads.

    _metadata := part for Flink      JSON  u32 length of the JSON  u64 XXH3-64 of the JSON  u64 MAGIC      big-endian
    JSON      := {"version": 1, "metadata": XXH3-128 of the part for Flink,
                  "files": {name: {"size": bytes, "xxh3_128": of the whole file, "blocks": XXH3-64 of each 4 MiB}},
                  "uids": [uid of each operator that has one, if the part for Flink cannot store uids],
                  "origin": {"metadata": XXH3-128 of a copy's original, "modified": when that was written, or null},
                  "copies": {name: the identity of the file that this one is a copy of}}

Flink stops reading at the end of the metadata. When it disposes of a savepoint, it deletes this one file and then the
folder: a separate file would remain, and Flink would report that it could not dispose of the savepoint. As part of
``_metadata``, the checksums are published together with the metadata that they belong to. Checksums are in hex. They
detect damage, not forgery: an attacker who can change a file can change its checksums. A later version may add keys,
or use another magic number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import xxhash

from pyspark_savepoint.formats.errors import CorruptStateError

MAGIC = b"SPchksm1"
TAIL = 4 + 8 + len(MAGIC)
#: Block size in bytes: a file has one checksum for the whole file and one per block.
BLOCK = 4 << 20
DIGEST_BYTES, BLOCK_DIGEST_BYTES = 16, 8


@dataclass(frozen=True, slots=True)
class FileChecksums:
    """XXH3-128 of a whole file, and the concatenated XXH3-64 of its blocks, all big-endian."""

    size: int
    digest: bytes
    blocks: bytes = field(repr=False)

    def __post_init__(self) -> None:
        wanted = -(-self.size // BLOCK) * BLOCK_DIGEST_BYTES
        if self.size < 0 or len(self.digest) != DIGEST_BYTES or len(self.blocks) != wanted:
            raise ValueError(f"checksums of {len(self.digest)} and {len(self.blocks)} bytes for {self.size} bytes")

    def to_bytes(self) -> bytes:
        """Return size, checksum of the file and checksums of its blocks."""
        return self.size.to_bytes(8, "big") + self.digest + self.blocks

    @classmethod
    def from_bytes(cls, data: bytes) -> FileChecksums:
        """Parse the result of :meth:`to_bytes`."""
        return cls(int.from_bytes(data[:8], "big"), data[8 : 8 + DIGEST_BYTES], data[8 + DIGEST_BYTES :])

    def block(self, number: int) -> bytes:
        """Return the checksum of a block."""
        return self.blocks[number * BLOCK_DIGEST_BYTES : (number + 1) * BLOCK_DIGEST_BYTES]


Manifest = Mapping[str, FileChecksums]
NO_COPIES: Mapping[str, bytes] = MappingProxyType({})


class Origin(NamedTuple):
    """The snapshot that another one is a copy of: the checksum of its ``_metadata``, and when that was written."""

    digest: bytes
    modified: float | None


class Appendix(NamedTuple):
    """What ``_metadata`` contains: the verified part for Flink, checksums of files (None without), uids, the origin.

    ``copies`` are the identities of the files that files of the savepoint are copies of, by their names.
    """

    metadata: memoryview
    files: Manifest | None = None
    uids: tuple[str, ...] = ()
    origin: Origin | None = None
    copies: Mapping[str, bytes] = NO_COPIES


def with_manifest(
    metadata: bytes,
    files: Manifest,
    uids: Iterable[str] = (),
    origin: Origin | None = None,
    copies: Mapping[str, bytes] = NO_COPIES,
) -> bytes:
    """Return the bytes of ``_metadata``, followed by the checksums of files and of the metadata, uids and copies."""
    described = {
        name: {"size": one.size, "xxh3_128": one.digest.hex(), "blocks": one.blocks.hex()}
        for name, one in sorted(files.items())
    }
    content = {"version": 1, "metadata": xxhash.xxh3_128_hexdigest(metadata), "files": described}
    content |= {"uids": named} if (named := list(uids)) else {}
    content |= {"origin": {"metadata": origin.digest.hex(), "modified": origin.modified}} if origin is not None else {}
    content |= {"copies": {name: identity.hex() for name, identity in sorted(copies.items())}} if copies else {}
    text = json.dumps(content, separators=(",", ":")).encode()
    return b"".join([metadata, text, len(text).to_bytes(4, "big"), xxhash.xxh3_64_digest(text), MAGIC])


def split_manifest(data: memoryview, path: str | None) -> Appendix:
    """Split ``_metadata`` into the verified part for Flink, and what this package has appended."""
    if len(data) < TAIL or bytes(data[-len(MAGIC) :]) != MAGIC:
        return Appendix(data)
    end = len(data) - TAIL
    length = int.from_bytes(data[end : end + 4], "big")
    text = data[max(0, end - length) : end]
    metadata = data[: max(0, end - length)]
    parsed = _parsed(bytes(text)) if xxhash.xxh3_64_digest(text) == bytes(data[end + 4 : end + 12]) else None
    if parsed is None or xxhash.xxh3_128_hexdigest(metadata) != parsed[0]:
        raise CorruptStateError(
            "the metadata of the savepoint has changed since it was written: its checksum differs",
            path=path,
            remedy="copy the file from its origin again: it is damaged",
        )
    return Appendix(metadata, *parsed[1:])


def _parsed(text: bytes) -> tuple[str, Manifest, tuple[str, ...], Origin | None, Mapping[str, bytes]] | None:
    """Parse the checksum of the metadata, and the fields of an Appendix; None for a text of another writer."""
    try:
        content = json.loads(text)
        files = {str(name): _file(one) for name, one in content["files"].items()}
        uids, origin = tuple(str(uid) for uid in content.get("uids", ())), content.get("origin")
        copies = {str(name): bytes.fromhex(one) for name, one in content.get("copies", {}).items()}
        return str(content["metadata"]), files, uids, None if origin is None else _origin(origin), copies
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _origin(described: Any) -> Origin:
    modified = described["modified"]
    return Origin(bytes.fromhex(described["metadata"]), None if modified is None else float(modified))


def _file(described: Any) -> FileChecksums:
    return FileChecksums(
        int(described["size"]), bytes.fromhex(described["xxh3_128"]), bytes.fromhex(described["blocks"])
    )
