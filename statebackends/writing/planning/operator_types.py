"""Types of an existing operator: of the one in option ``typesFrom``, or of the one at the path.

Serializer snapshots are copied exactly, so that the written state has the types of the job. Subtasks write their own
snapshots; if those of a state differ (subclasses of a POJO are recorded only where they were used), the largest is
used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    StateNotFoundError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.base import ClassDescriptions, TypeSerializer, write_enveloped
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue, timer_queues
from pyspark_savepoint.statebackends.rows.state_column import unwrap
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.types.serializer_parts import with_parts
from pyspark_savepoint.statebackends.types.unify import merge_registrations, merge_serializers

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
    from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
    from pyspark_savepoint.statebackends.type_extraction.words import TypeInference
    from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec


@redacted
@dataclass(frozen=True)
class OperatorTypes:
    """Key, keyed states, timers by service and operator states of one operator, by name."""

    label: str
    path: str
    key: TypeSerializer | None = None
    states: Mapping[str, StateMetaInfoSnapshot] = field(default_factory=dict)
    timers: Mapping[str, TimerQueue] = field(default_factory=dict)
    operator_states: Mapping[str, StateMetaInfoSnapshot] = field(default_factory=dict)

    @classmethod
    def named_by(cls, request: WriteSpec) -> OperatorTypes | None:
        """Read the operator of option ``typesFrom``; None without it."""
        opened = cls.opened_by(request)
        return None if opened is None else cls.of_operator(opened)

    @staticmethod
    def opened_by(request: WriteSpec) -> OpenOperator | None:
        """Open the operator of option ``typesFrom``: a path, or ``path#uid`` or ``path#hash``; None without it."""
        if request.type_source is None:
            return None
        path, _, name = request.type_source.partition("#")
        located = StoragePath.of(path, StoragePath.options_of(request.type_source))
        savepoint = Snapshot.open(located, allow_outside=request.allow_outside, classes=_job_classes(request))
        if not name and not request.names_operator:
            raise OptionError(
                "option 'typesFrom' needs an operator", path=savepoint.path, remedy="name it: savepoint#uid"
            )
        if not name:
            try:
                operator = savepoint.operator(
                    uid=request.uid,
                    uid_hash=request.uid_hash if request.uid is None else None,
                    name=request.operator_name if request.uid is None and request.uid_hash is None else None,
                )
            except OperatorNotFoundError as error:
                raise OperatorNotFoundError(
                    "the savepoint of option 'typesFrom' has no operator of the name that is written",
                    path=savepoint.path,
                    operator=error.facts.get("operator"),
                    remedy="name the operator whose types are taken: "
                    + ", ".join(f"'{path}#{known.uid or known.operator_id}'" for known in savepoint.operators[:3]),
                ) from None
        elif any(str(known.operator_id) == name for known in savepoint.operators):
            operator = savepoint.operator(uid_hash=OperatorID.from_hex(name).hex)
        else:
            operator = savepoint.operator(uid=name)
        return OpenOperator(savepoint, operator)

    @classmethod
    def of_operator(cls, opened: OpenOperator) -> OperatorTypes:
        """Return the types of all states of an operator, which are found once."""
        if cls not in opened.derived:
            opened.derived[cls] = cls.of(opened.keyed, opened.operator_states, opened.savepoint.path)
        types: OperatorTypes = opened.derived[cls]
        return types

    @classmethod
    def of(cls, headers: OperatorHeaders, metas: Iterable[StateMetaInfoSnapshot] = (), path: str = "") -> OperatorTypes:
        """Build the types from headers of keyed state and registrations of operator state."""
        states = {name: registrations for (name, timer), registrations in headers.metas().items() if not timer}
        queues = [queue for header in headers.headers for _, queue in timer_queues(header)]
        operator_states: dict[str, list[StateMetaInfoSnapshot]] = {}
        for meta in metas:
            operator_states.setdefault(meta.name, []).append(meta)
        return cls(
            headers.operator.label,
            path,
            cls.of_keys(headers).key,
            {name: _fullest(registrations) for name, registrations in states.items()},
            {queue.service: queue for queue in queues},
            {name: _fullest(registrations) for name, registrations in operator_states.items()},
        )

    @classmethod
    def of_keys(cls, headers: OperatorHeaders) -> OperatorTypes:
        """Build the type of an operator's keys alone, whatever the number of its states."""
        keys = headers.key_serializers
        return cls(headers.operator.label, "", (merge_serializers(keys) or max(keys, key=_size)) if keys else None)

    def only(self, names: Collection[str]) -> OperatorTypes:
        """Return the types of some states, so that what is done with them does not take time for all others."""
        return replace(
            self,
            states={name: meta for name, meta in self.states.items() if name in names},
            operator_states={name: meta for name, meta in self.operator_states.items() if name in names},
        )

    def described(self, classes: JobClasses) -> OperatorTypes:
        """Return the types with generic types as the user's classes describe them, so that they can be written."""

        def whole(serializer: TypeSerializer, path: tuple[str, ...] = ()) -> TypeSerializer:
            return classes.described(with_parts(serializer, whole, path))

        def meta_of(meta: StateMetaInfoSnapshot) -> StateMetaInfoSnapshot:
            return replace(meta, serializers={role: whole(stored) for role, stored in meta.serializers.items()})

        return replace(
            self,
            key=None if self.key is None else whole(self.key),
            states={name: meta_of(meta) for name, meta in self.states.items()},
            operator_states={name: meta_of(meta) for name, meta in self.operator_states.items()},
        )

    @property
    def sessions(self) -> str | None:
        """The state that names the sessions of windows that merge; None if windows do not merge."""
        from pyspark_savepoint.statebackends.tables.session_windows import merging_state

        return merging_state({(name, False): [meta] for name, meta in self.states.items()})

    def keyed(self, name: str) -> StateMetaInfoSnapshot:
        """Return a keyed state; raise StateNotFoundError with the nearest name if there is none."""
        meta = self._find(name, self.states, "keyed state")
        if meta.kind is BackendStateType.KEY_VALUE_V2:
            raise UnsupportedStateError(
                f"state {name!r} is of Flink's asynchronous state API, whose states are not written yet",
                path=self.path,
                operator=self.label,
                state=name,
                remedy="Savepoint.load(...) keeps such an operator as it is",
            )
        return meta

    def operator_state(self, name: str) -> StateMetaInfoSnapshot:
        """Return a list, union or broadcast state; raise StateNotFoundError with the nearest name."""
        return self._find(name, self.operator_states, "operator state")

    def _find(self, name: str, among: Mapping[str, StateMetaInfoSnapshot], what: str) -> StateMetaInfoSnapshot:
        if name not in among:
            raise StateNotFoundError(
                f"option 'typesFrom': the operator has no {what} {name!r}",
                path=self.path,
                operator=self.label,
                remedy=f"{did_you_mean(name, among)} (or name its type in option 'types')",
            )
        return among[name]


def _job_classes(request: WriteSpec) -> ClassDescriptions | None:
    """Return the user's serializers for the savepoint of option ``typesFrom``; None if there are none."""
    if request.serializers is None:
        return None
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses

    return JobClasses.of(serializers=request.serializers)


def split_types_from(paths: Iterable[str], inferred: bool) -> tuple[str | None, tuple[str, ...]]:
    """Split the paths of ``typesFrom`` into a savepoint and, if types are inferred, jars and folders of classes."""
    savepoints: list[str] = []
    classes: list[str] = []
    for path in paths:
        (classes if inferred and "#" not in path and _has_classes(path) else savepoints).append(path)
    if len(savepoints) > 1:
        raise OptionError(
            "option 'typesFrom' names two savepoints",
            found=", ".join(savepoints),
            expected="one savepoint, besides jars and folders of class files",
        )
    return next(iter(savepoints), None), tuple(classes)


def _has_classes(path: str) -> bool:
    """Return whether a path is a jar, or a folder that is not a snapshot."""
    if path.endswith(".jar"):
        return True
    filesystem, root = locate(path)
    info = filesystem.info(root)
    return info is not None and info.is_directory and filesystem.info(f"{root.rstrip('/')}/_metadata") is None


def inference_of(request: WriteSpec) -> TypeInference | None:
    """Return the type inference of the release in option ``inferredBy``; None if types are declared."""
    if request.inferred_by is None:
        return None
    from pyspark_savepoint.statebackends.type_extraction.releases import ExtractionRelease
    from pyspark_savepoint.statebackends.type_extraction.words import TypeInference

    return TypeInference(ExtractionRelease.parse(request.inferred_by), request.class_path)


def _fullest(metas: list[StateMetaInfoSnapshot]) -> StateMetaInfoSnapshot:
    return merge_registrations(metas) or max(metas, key=lambda meta: _size(unwrap(meta.value_serializer)))


def _size(serializer: TypeSerializer) -> int:
    return len(snapshot_bytes(serializer))


def snapshot_bytes(serializer: TypeSerializer) -> bytes:
    """Return a serializer's snapshot, which is the same whether the user's classes are described or not."""
    view = DataOutputView()
    write_enveloped(serializer, view)
    return view.getvalue()


def expect_same_key(written: TypeSerializer, existing: TypeSerializer, operator: str | None) -> None:
    """Raise UnsupportedStateError unless written keys have the type of those that are there."""
    if snapshot_bytes(written) != snapshot_bytes(existing):
        raise UnsupportedStateError(
            "the type of the written keys differs from the operator's key type",
            operator=operator,
            expected=existing.flink_type,
            found=written.flink_type,
            remedy="cast the key column, or option 'types' with the type that is expected for 'key'",
        )
