"""Formats that each Flink release reads: the table that every write for a release is checked against.

=================== ================================================================================================
``metadata``        the newest version of ``_metadata`` that the release reads; it writes the same version
``operator_stream`` the newest version of an operator state stream; ``compressed`` where it also reads compressed ones
``meta_info``       the newest version of a state's registration in a changelog
``merged_files``    whether it reads handles of file segments shared by several states (types 15 to 17)
``async_state``     whether it reads state of the asynchronous API (``KEY_VALUE_V2``)
``rocksdb``         the RocksDB version whose files it reads: 8 writes checksums that 6 cannot read
``kryo``            the Kryo version that reads and writes generic types
=================== ================================================================================================

Keyed streams have version 6 in all releases. ``CLASSES`` lists the snapshot classes that only some releases have; all
other built-in ones are in every release, in the same version. Taken from the releases' own classes:
``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``MetadataSerializers``,
``StateMetaInfoSnapshotReadersWriters``, ``MetadataV2V3SerializerBase``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark_savepoint.formats.errors import OptionError, type_name

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
        """Return the version as text, such as ``1.16``."""
        return ".".join(map(str, self.version))


#: Oldest first. 1.18 reads compressed operator state only from its third patch on, so none is written for 1.18.
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
LAST_OF_FLINK_1 = next(release for release in reversed(RELEASES) if release.version < (2, 0))
#: The versions of all releases of the table, oldest first, and the newest of them.
FLINK_VERSIONS: tuple[Flink, ...] = tuple(release.version for release in RELEASES)
NEWEST_FLINK = FLINK_VERSIONS[-1]
RELEASE_EXPECTED = (
    f"a release from {RELEASES[0].name} to {LAST_OF_FLINK_1.name}, or from 2.0 to {RELEASES[-1].name}, such as '1.20'"
)
#: Flink 2 has Kryo 5; metadata of an older version is of Flink 1, with Kryo 2.
FIRST_METADATA_OF_FLINK_2 = next(release.metadata for release in RELEASES if release.version >= (2, 0))

CORE = "org.apache.flink.api.common.typeutils.base."
STATE = "org.apache.flink.runtime.state."
SINK = "org.apache.flink.streaming.api.functions.sink."
TABLE = "org.apache.flink.table."

#: Prefixes of snapshot class names, with the first release that has the class and the first that no longer has it.
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


def parse_release(release: object, option: str | None = "flinkVersion") -> Flink:
    """Return major and minor version of a release that a user named; no format depends on the patch version.

    Args:
        release: The release, as text.
        option: The option that names it; None for a field of a file.

    Raises:
        OptionError: If it is no text (1.20 is the number 1.2), or no release of the table.

    >>> parse_release("1.20.5")
    (1, 20)

    """
    remedy = None if option is None else f"give another release as option '{option}'"
    if not isinstance(release, str):
        raise OptionError(
            "a Flink release must be given as text",
            expected=RELEASE_EXPECTED,
            found=f"{type_name(release)} {release!r}",
            remedy=remedy,
        )
    match = re.fullmatch(r"\s*([0-9])\.([0-9]{1,2})(?:\.[0-9]{1,3})?\s*", release, re.ASCII)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version not in FLINK_VERSIONS:
        raise OptionError("the Flink release is not known", expected=RELEASE_EXPECTED, found=release, remedy=remedy)
    return version


def release_of(version: Flink) -> Release:
    """Return the table row of a release; a release newer than the table gets the newest row.

    >>> release_of((1, 20)).metadata, release_of((2, 9)).name
    (4, '2.3')
    """
    return next((release for release in reversed(RELEASES) if release.version <= version), RELEASES[0])


def first_with_metadata(version: int) -> Release:
    """Return the oldest release that reads a version of metadata."""
    return next((release for release in RELEASES if release.metadata >= version), RELEASES[-1])


def releases_with_metadata(version: int) -> str:
    """Return the releases that write a version of metadata, as text.

    >>> releases_with_metadata(4), releases_with_metadata(5), releases_with_metadata(3)
    ('1.16 to 1.20', '2.0', 'older than 1.16')
    """
    names = [release.name for release in RELEASES if release.metadata == version]
    if not names:
        return f"older than {RELEASES[0].name}"
    return f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]


def last_with_metadata(version: int) -> Release:
    """Return the newest release that may have written a version of metadata."""
    return next((release for release in reversed(RELEASES) if release.metadata <= version), LAST_OF_FLINK_1)


def lifetime(snapshot_class: str) -> tuple[Flink | None, Flink | None]:
    """Return the first release that has a snapshot class and the first that no longer has it, None if there is none.

    >>> lifetime("org.apache.flink.api.common.typeutils.base.SetSerializerSnapshot")
    ((2, 0), None)
    """
    matches = ((since, until) for start, since, until in CLASSES if snapshot_class.startswith(start))
    return next(matches, (None, None))


def why_unknown(snapshot_class: str, version: Flink) -> str | None:
    """Return the reason why a release does not have a snapshot class, or None if it has the class."""
    since, until = lifetime(snapshot_class)
    if since is not None and version < since:
        return f"{snapshot_class} came with Flink {since[0]}.{since[1]}"
    if until is not None and version >= until:
        return f"Flink {until[0]} has no class {snapshot_class}"
    return None
