"""Parts of a kept operator that a Flink release cannot read, and which of its streams must be rewritten.

Streams in a form too new are rewritten, entry by entry as bytes: operator state of a newer version or compressed, files
of a newer RocksDB, changelogs that register states in a newer form. If rewriting does not help, the part is reported as
a problem with operator and state: serializers that the release does not have, values of another Kryo version, state of
the asynchronous API. ``formats.flink_releases`` has the table of the forms that each release reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark_savepoint.formats.errors import OptionError, UndecodableStateError, UnsupportedVersionError
from pyspark_savepoint.formats.flink_releases import Flink, Release, last_with_metadata, why_unknown
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, OperatorBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyedStateHandle,
)
from pyspark_savepoint.formats.metadata.operator_handles import MergedChannelStateHandle
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: The first release in which map state of the asynchronous API has a separate serializer for user keys.
USER_KEY, WITH_USER_KEY = "USER_KEY_SERIALIZER", (2, 1)
#: Longest list of places per reason in a message, in characters.
LISTED = 400


class Misfit(NamedTuple):
    """Part that a release cannot read: ``place`` is a state, the key, ... of the operator."""

    place: str
    why: str


@dataclass(frozen=True)
class OperatorFit:
    """Result for one operator: streams to rewrite, and parts that cannot be written for the release at all.

    ``keyed_state`` and ``operator_state`` say why the streams must be rewritten; empty if they stay.
    """

    problems: tuple[Misfit, ...] = ()
    keyed_state: str = ""
    operator_state: str = ""


def operator_fit(opened: OpenOperator, release: Release) -> OperatorFit:
    """Check an operator of a snapshot against a release, from its handles and the headers of its streams."""
    written = last_with_metadata(opened.savepoint.metadata.version)
    try:
        return _fit(opened, written, release)
    except UndecodableStateError as error:
        # Headers that cannot be parsed are kept if the release is not older than the one that wrote them.
        older = release.version < written.version
        why = f"its serializer snapshot cannot be read: {error.facts.get('found', error)}"
        return OperatorFit((Misfit("state", why),) if older else ())


def _fit(opened: OpenOperator, written: Release, release: Release) -> OperatorFit:
    keyed, operator = opened.keyed, opened.operator
    problems = list(_channel_problems(operator, release))
    for serializer in keyed.key_serializers:
        problems += key_problems(serializer, release, written.kryo)
    for queue in opened.raw_queues():
        for serializer in (queue.key, queue.namespace):
            reasons = _serializer_problems(serializer, release, written.kryo)
            problems += [Misfit(f"timers {queue.service}", reason) for reason in reasons]
    metas = [meta for registrations in keyed.metas().values() for meta in registrations]
    metas += opened.operator_states
    problems += meta_problems(metas, release, written.kryo)
    return OperatorFit(
        tuple(dict.fromkeys(problems)),
        _keyed_misfit(operator, written, release),
        _stream_misfit(opened.stream_headers, release),
    )


def expect_one_kryo(serializers: Iterable[TypeSerializer], path: str, operator: str, remedy: str) -> None:
    """Raise OptionError for generic types in a new savepoint for no named release: two versions of Kryo differ."""
    for serializer in serializers:
        if "KRYO<" in serializer.flink_type:
            raise OptionError(
                "Flink 1 has Kryo 2 and Flink 2 has Kryo 5, whose values differ: the release is missing",
                path=path,
                operator=operator,
                found=serializer.flink_type,
                remedy=remedy,
            )


def key_problems(serializer: TypeSerializer, release: Release, kryo: int) -> Iterator[Misfit]:
    """Yield why a release cannot read an operator's keys."""
    return (Misfit("key", why) for why in _serializer_problems(serializer, release, kryo))


def meta_problems(metas: Iterable[StateMetaInfoSnapshot], release: Release, kryo: int) -> Iterator[Misfit]:
    """Yield why a release cannot read states; ``kryo`` is the version that wrote their values."""
    for meta in metas:
        if meta.kind is BackendStateType.KEY_VALUE_V2 and not release.async_state:
            yield Misfit(meta.name, "state of the asynchronous API came with Flink 2.0")
        elif USER_KEY in meta.serializers and release.version < WITH_USER_KEY:
            yield Misfit(meta.name, "map state of the asynchronous API has another form before Flink 2.1")
        for serializer in meta.serializers.values():
            yield from (Misfit(meta.name, why) for why in _serializer_problems(serializer, release, kryo))


def _serializer_problems(serializer: TypeSerializer, release: Release, kryo: int) -> list[str]:
    """Return why a release cannot read a serializer's snapshot, or the values that it wrote."""
    of_kryo = f"values were written by Kryo {kryo}, and Flink {release.name} reads with Kryo {release.kryo}"

    def problems(part: TypeSerializer, inner: Iterator[list[str]]) -> list[str]:
        unknown = why_unknown(part.snapshot_class, release.version)
        if unknown is not None:
            return [unknown]
        below = [problem for nested in inner for problem in nested]
        return [of_kryo, *below] if isinstance(part, KryoSerializer) and kryo != release.kryo else below

    return serializer.fold(problems)


def refuse_misfits(problems: Iterable[tuple[str, Misfit]], version: Flink, path: str | None = None) -> None:
    """Raise UnsupportedVersionError that lists all parts that a release cannot read, by reason and operator."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for operator, problem in problems:
        by_reason.setdefault(problem.why, {}).setdefault(operator, []).append(problem.place)
    if not by_reason:
        return
    name = ".".join(map(str, version))
    raise UnsupportedVersionError(
        f"Flink {name} could not read this savepoint",
        path=path,
        found="; ".join(f"{why}: {_places(by_operator)}" for why, by_operator in list(by_reason.items())[:4])
        + (f"; and {len(by_reason) - 4} more reasons" if len(by_reason) > 4 else ""),
        remedy="leave those states out (remove_state, remove_operator), give them another type (with_state(..., "
        "types=...)), or leave flink_version out: then all state keeps its format",
    )


def _places(misfits: Mapping[str, Sequence[str]]) -> str:
    """Return ``accounts (total, names), audit (key)``, cut at ``LISTED`` characters."""
    text = ", ".join(f"{operator} ({', '.join(dict.fromkeys(places))})" for operator, places in misfits.items())
    return text if len(text) <= LISTED else text[:LISTED] + " ..."


def _channel_problems(operator: OperatorState, release: Release) -> Iterator[Misfit]:
    for subtask in operator.subtasks.values():
        handles = subtask.input_channel_state + subtask.result_subpartition_state
        if release.metadata < 6 and any(isinstance(handle, MergedChannelStateHandle) for handle in handles):
            yield Misfit("records in flight", "they are in a form that came with Flink 2.1: take a savepoint instead")


def _keyed_misfit(operator: OperatorState, written: Release, release: Release) -> str:
    handles = [subtask.managed_keyed_state for subtask in operator.subtasks.values()]
    misfits = (_handle_misfit(handle, written, release) for handle in handles if handle is not None)
    return next((why for why in misfits if why), "")


def _handle_misfit(handle: KeyedStateHandle, written: Release, release: Release) -> str:
    """Return why a handle's files are too new, or an empty string."""
    if isinstance(handle, IncrementalRemoteKeyedStateHandle) and written.rocksdb > release.rocksdb:
        return f"files of RocksDB {written.rocksdb}, and Flink {release.name} has RocksDB {release.rocksdb}"
    if not isinstance(handle, ChangelogStateBackendHandle):
        return ""
    if handle.non_materialized and written.meta_info > release.meta_info:
        return "changelogs in the form that came with Flink 1.18"
    misfits = (_handle_misfit(part, written, release) for part in handle.materialized)
    return next((why for why in misfits if why), "")


def _stream_misfit(streams: Iterable[OperatorBackendHeader], release: Release) -> str:
    for header in streams:
        if header.version > release.operator_stream:
            return f"operator state of version {header.version}"
        if header.compressed and not release.compressed:
            return "compressed operator state"
    return ""
