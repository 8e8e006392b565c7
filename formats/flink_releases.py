"""What each release of Flink reads: one table that every write for a release is checked against.

=================== ================================================================================================
``metadata``        the newest version of ``_metadata`` that it reads, which is the one that it writes
``operator_stream`` the newest version of an operator state stream; ``compressed`` where it also reads compressed ones
``meta_info``       the newest version of a state's registration in a changelog
``merged_files``    whether it knows handles of segments of files that several states share (types 15 to 17)
``async_state``     whether it knows state of the asynchronous API (``KEY_VALUE_V2``)
``rocksdb``         the RocksDB whose files it reads: 8 writes checksums that 6 does not know
``kryo``            the Kryo that reads and writes generic types
=================== ================================================================================================

Keyed streams have version 6 in all of them. Snapshot classes that only some releases have are in ``CLASSES``; all other
built-in ones are there in each release, in the same version. Taken from the releases' own classes:
``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``MetadataSerializers``,
``StateMetaInfoSnapshotReadersWriters``, ``MetadataV2V3SerializerBase``.
"""

from __future__ import annotations

from dataclasses import dataclass

Flink = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Release:
    """One row of the table."""

    version: Flink
    metadata: int
    operator_stream: int
    compressed: bool
    meta_info: int
    merged_files: bool
    async_state: bool
    rocksdb: int
    kryo: int

    @property
    def name(self) -> str:
        """``1.16``."""
        return ".".join(map(str, self.version))


#: Oldest first. 1.18 reads compressed operator state from its third patch on only, so it is not given any.
RELEASES = (
    Release((1, 16), 4, 5, False, 6, False, False, 6, 2),
    Release((1, 17), 4, 5, False, 6, False, False, 6, 2),
    Release((1, 18), 4, 6, False, 7, False, False, 6, 2),
    Release((1, 19), 4, 6, True, 7, False, False, 6, 2),
    Release((1, 20), 4, 6, True, 7, True, False, 6, 2),
    Release((2, 0), 5, 6, True, 7, True, True, 8, 5),
    Release((2, 1), 6, 6, True, 7, True, True, 8, 5),
    Release((2, 2), 6, 6, True, 7, True, True, 8, 5),
    Release((2, 3), 6, 6, True, 7, True, True, 8, 5),
)

CORE = "org.apache.flink.api.common.typeutils.base."
STATE = "org.apache.flink.runtime.state."
SINK = "org.apache.flink.streaming.api.functions.sink."
TABLE = "org.apache.flink.table."

#: Snapshot classes by what their names begin with: the first release that has them, and the first that has not.
CLASSES: tuple[tuple[str, Flink | None, Flink | None], ...] = (
    (CORE + "SetSerializerSnapshot", (2, 0), None),
    (CORE + "VariantSerializer$", (2, 1), None),
    (CORE + "BitmapSerializer$", (2, 3), None),
    (STATE + "ttl.TtlAwareSerializerSnapshot", (2, 0), None),
    (STATE + "v2.", (2, 0), None),
    (SINK + "legacy.", (2, 0), None),
    (TABLE + "api.typeutils.", (2, 0), None),
    (TABLE + "runtime.operators.window.GlobalWindow$", (2, 0), None),
    (TABLE + "runtime.sequencedmultisetstate.", (2, 2), None),
    (TABLE + "runtime.operators.sink.SortedLongSerializer$", (2, 3), None),
    ("org.apache.flink.api.scala.", None, (2, 0)),
    ("org.apache.flink.graph.", None, (2, 0)),
    (SINK + "TwoPhaseCommitSinkFunction", None, (2, 0)),
    ("org.apache.flink.api.java.typeutils.runtime.EitherSerializerSnapshot", None, (2, 0)),
)


def release_of(version: Flink) -> Release:
    """Return what a release reads; one that is newer than all that are known reads what the newest of them does.

    >>> release_of((1, 20)).metadata, release_of((2, 9)).name
    (4, '2.3')
    """
    return next((release for release in reversed(RELEASES) if release.version <= version), RELEASES[0])


def first_with_metadata(version: int) -> Release:
    """Return the oldest release that reads a version of metadata."""
    return next((release for release in RELEASES if release.metadata >= version), RELEASES[-1])


def last_with_metadata(version: int) -> Release:
    """Return the newest release that may have written a version of metadata."""
    return next((release for release in reversed(RELEASES) if release.metadata <= version), RELEASES[4])


def lifetime(snapshot_class: str) -> tuple[Flink | None, Flink | None]:
    """Return the first release that has a snapshot class and the first that has not, None where there is none such.

    >>> lifetime("org.apache.flink.api.common.typeutils.base.SetSerializerSnapshot")
    ((2, 0), None)
    """
    found = ((since, until) for start, since, until in CLASSES if snapshot_class.startswith(start))
    return next(found, (None, None))


def why_unknown(snapshot_class: str, version: Flink) -> str | None:
    """Return why a release does not know a snapshot class, or None where it does."""
    since, until = lifetime(snapshot_class)
    if since is not None and version < since:
        return f"{snapshot_class} came with Flink {since[0]}.{since[1]}"
    if until is not None and version >= until:
        return f"Flink {until[0]} has no class {snapshot_class}"
    return None
