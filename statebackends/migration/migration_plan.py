"""Plan of a migration: the serializers that the new release reads, by state, and obstacles.

Nothing is decoded here. ``migration_check`` looks at the values, ``migrated_files`` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from pyspark_savepoint.formats.class_files import ClassPath
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UndecodableStateError, did_you_mean
from pyspark_savepoint.formats.flink_releases import FIRST_METADATA_OF_FLINK_2, NEWEST_FLINK
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import DescribedClasses
from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import is_read
from pyspark_savepoint.formats.serializers.registry import undescribed
from pyspark_savepoint.formats.serializers.runtime.operators import TimerSerializer
from pyspark_savepoint.formats.snapshot.changes import has_channel_state
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import KryoChange, SyntheticFields
from pyspark_savepoint.statebackends.migration.rewriting.scala_keys import ScalaKeyGroups, expect_hashes
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import (
    LIST,
    MAP,
    VALUE,
    ElementProgram,
    EntryProgram,
    Misread,
    RoleProgram,
)
from pyspark_savepoint.statebackends.migration.rewriting.target_types import (
    LEAVE_OUT,
    ChangedPart,
    Obstacle,
    Target,
    TargetTypes,
)
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import (
    KEY_KIND,
    TIMERS_KIND,
    MigrationVerdict,
    Outcome,
    PartVerdict,
    StateRef,
)
from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue
from pyspark_savepoint.statebackends.rows.entry_bytes import is_timer
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from pyspark_savepoint.statebackends.type_extraction.words import TypeInference
from pyspark_savepoint.statebackends.types.pojo_subclasses import ClassFileSubclasses
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates, StateId

#: The release whose inference POJOs of Flink 1 have: from 1.19 on the same for all that Flink 1 could write.
BEFORE = ExtractionRelease.parse("1.20")
NEWEST = ExtractionRelease(NEWEST_FLINK)
#: The key of an operator, as a state of its own in the table.
KEY_STATE = "key"
IN_FLIGHT = "records in flight"
#: The timers of an operator in raw keyed state, if they cannot be read.
RAW_TIMERS = "timers"
#: Packages whose class files no jar of a job contains.
OF_JAVA = ("java.", "javax.", "sun.", "jdk.", "com.sun.")


@dataclass(frozen=True)
class Knowledge:
    """Arguments of the user: the release, jars and folders of class files, types in words, a savepoint of the new job.

    A uid is hashed, because snapshots of Flink 1 have hashes only.
    ``types`` are by state, or by operator and state: ``total`` or ``accounts.total``; ``accounts.key`` is the key.
    """

    release: ExtractionRelease
    classes: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    types_from: Snapshot | None = None
    #: Classes in the words of option ``kryoTypes``.
    kryo_types: str = ""
    #: Whether Kryo 2 wrote fields of the compiler (``this$0``), if values have shown it.
    synthetic: bool | None = None

    @cached_property
    def class_path(self) -> ClassPath:
        """The class files."""
        return ClassPath(self.classes)

    @cached_property
    def targets(self) -> TargetTypes:
        """The types that the release infers."""
        return TargetTypes(self.release, self.class_path)

    def subclass(self, name: str) -> tuple[TypeSerializer, Target] | None:
        """Return what Flink 1 and the release infer for a subclass of a POJO, None if class files do not contain it."""
        before = BEFORE if self.release.has_collections else NEWEST
        old = TargetTypes(before, self.class_path).extracted(name)
        if isinstance(old, SavepointError):
            if not name.startswith(OF_JAVA) or not (is_read(name, 2) and is_read(name, 5)):
                return None
            # Kryo writes it, where Flink takes the class above for a POJO, such as java.util.TimeZone.
            old = KryoSerializer.of(name)
        return old, self.targets.of(old)

    @cached_property
    def described(self) -> DescribedClasses:
        """The classes whose objects Kryo writes field by field."""
        words = WordClasses.parse(self.kryo_types)
        if words.variants:
            raise OptionError(
                "a migration needs the fields of the classes in option 'kryoTypes'",
                found=f"{min(words.variants)} VARIANT",
            )
        return DescribedClasses((self.class_path, words))

    @cached_property
    def job(self) -> JobClasses | None:
        """The classes by which values are read where only their content shows where they end."""
        subclasses = ClassFileSubclasses(self.classes) if self.classes else None
        return JobClasses.of(self.classes, self.kryo_types, subclasses=subclasses)

    @cached_property
    def _operators(self) -> Mapping[str, OpenOperator]:
        savepoint = self.types_from
        operators = savepoint.operators if savepoint is not None else ()
        return {str(operator.operator_id): OpenOperator(savepoint, operator) for operator in operators if savepoint}

    def named(self, ref: StateRef) -> str | None:
        """Return the name in ``types`` that is a state's; one with the operator before one without."""
        return max((name for name in self.types if ref.is_state(name)), key=len, default=None)

    def known(self, ref: StateRef, meta: StateMetaInfoSnapshot | None, role: str) -> TypeSerializer | None:
        """Return the serializer of the new job, if ``types`` or its savepoint have it; ``meta`` is None for the key."""
        name = self.named(ref) if role in (VALUE, KEY_STATE) else None
        if name is not None:
            container = meta is not None and meta.state_type in (LIST, MAP) and ref.keyed
            return TypeInference(self.release, self.classes).parse(self.types[name], container=container, kryo=True)
        opened = self._operators.get(ref.operator_uid_hash)
        if opened is None:
            return None
        if meta is None:
            keys = opened.keyed.key_serializers
            return keys[0] if keys else None
        metas = (
            [candidate for header in opened.keyed.headers for candidate in header.states]
            if ref.keyed
            else (opened.operator_states)
        )
        for candidate in metas:
            if candidate.name == meta.name and candidate.kind is meta.kind and role in candidate.serializers:
                return candidate.serializers[role]
        return None


@dataclass(frozen=True)
class StatePlan:
    """The old registration of a state, and the target of each of its serializers."""

    ref: StateRef
    meta: StateMetaInfoSnapshot
    roles: Mapping[str, Target]

    @property
    def parts(self) -> Iterator[tuple[str, Target]]:
        """Yield roles and targets with parts to change."""
        return ((role, target) for role, target in self.roles.items() if target.parts)

    @property
    def is_hindered(self) -> bool:
        """Return whether a part cannot be rewritten with what is known."""
        return any(part.obstacle is not None for _, target in self.parts for part in target.parts)

    @property
    def is_refused(self) -> bool:
        """Return whether Flink finds a new serializer incompatible with the old one when the state is registered."""
        return any(part.is_refused for _, target in self.parts for part in target.parts)

    @property
    def has_values(self) -> bool:
        """Return whether values must be looked at: Kryo or the Scala API wrote a part of them."""
        return any(part.has_values for _, target in self.parts for part in target.parts)

    @property
    def may_hide_parts(self) -> bool:
        """Return whether only a subclass of a POJO that the snapshot does not list may have parts to change."""
        return not self.has_values and any(target.has_pojos for target in self.roles.values())


@dataclass
class OperatorMigration:
    """The plan of one operator; states named by ``left_out`` are not in it."""

    opened: OpenOperator
    knowledge: Knowledge
    change: KryoChange | None
    left_out: frozenset[str] = frozenset()
    _plans: dict[object, StatePlan] = field(default_factory=dict, init=False)

    def without(self, names: Iterable[str]) -> OperatorMigration:
        """Return the plan without the states of some names."""
        return OperatorMigration(self.opened, self.knowledge, self.change, frozenset(names))

    @property
    def operator(self) -> OperatorState:
        """The operator in the metadata."""
        return self.opened.operator

    def ref(self, state: str, kind: str, keyed: bool) -> StateRef:
        """Return a state of the operator."""
        operator = self.operator
        return StateRef(operator.uid, str(operator.operator_id), operator.name, state, kind, keyed)

    @property
    def key_ref(self) -> StateRef:
        """The key, as a state of its own."""
        return self.ref(KEY_STATE, KEY_KIND, True)

    @cached_property
    def described(self) -> OpenOperator:
        """The operator as class files and words describe its values: where values end is found by it."""
        opened, job = self.opened, self.knowledge.job
        return opened if job is None else OpenOperator(opened.savepoint.with_classes(job), opened.operator)

    @cached_property
    def _raw_queues(self) -> tuple[list[TimerQueue], UndecodableStateError | None]:
        try:
            return self.described.raw_queues(), None
        except UndecodableStateError as error:
            return [], error

    @property
    def raw_queues(self) -> list[TimerQueue]:
        """The queues of timers in raw keyed state; none if they cannot be read."""
        return self._raw_queues[0]

    @property
    def unread_timers(self) -> PartVerdict | None:
        """The verdict about timers in raw keyed state that cannot be read: only the keys show where they end."""
        error, ref = self._raw_queues[1], self.ref(RAW_TIMERS, TIMERS_KIND, False)
        if error is None:
            return None
        if self.change is None:
            return PartVerdict(ref, "", MigrationVerdict.AS_IS, Outcome.RESTORES, "TIMER")
        return PartVerdict(
            ref,
            "",
            MigrationVerdict.NEEDS,
            Outcome.UNKNOWN,
            "TIMER",
            reason=f"timers in raw keyed state end where their keys end: {error.message}",
            remedy=str(error.facts.get("remedy") or LEAVE_OUT),
        )

    @cached_property
    def keyed(self) -> KeyedStates | None:
        """The keyed states and timers over all files, None if there are none."""
        queues = [
            replace(queue, key=undescribed(queue.key), namespace=undescribed(queue.namespace))
            for queue in self.raw_queues
        ]
        states = KeyedStates.of(self.opened, queues)
        return states if states.key_serializer is not None else None

    @cached_property
    def key(self) -> Target | None:
        """The target of the key."""
        serializer = self.keyed.key_serializer if self.keyed is not None else None
        if serializer is None:
            return None
        target = self._target(serializer, self.knowledge.known(self.key_ref, None, KEY_STATE))
        if any(part.is_scala for part in target.parts) and all(part.obstacle is None for part in target.parts):
            try:
                expect_hashes(serializer)
            except SavepointError as error:
                obstacle = Obstacle(MigrationVerdict.IMPOSSIBLE, error.message, LEAVE_OUT)
                return replace(target, parts=(*target.parts, ChangedPart((), serializer, serializer, obstacle)))
        return target

    @property
    def moves_keys(self) -> bool:
        """Return whether keys move to other key groups, because the new job's Scala hashes them otherwise."""
        return self.key is not None and any(part.is_scala for part in self.key.parts)

    def moved_key_groups(self, states: Sequence[StateId]) -> ScalaKeyGroups:
        """Return the key groups to which the keys of some states move; the place of a state is its number."""
        assert self.keyed is not None
        assert self.keyed.key_serializer is not None
        timers = frozenset(number for number, (_, timer) in enumerate(states) if timer)
        return ScalaKeyGroups(self.keyed.key_serializer, self.operator.max_parallelism, timers)

    @cached_property
    def keyed_plans(self) -> Mapping[StateId, StatePlan]:
        """The plans of keyed states and timers, by name and whether they are timers."""
        metas = self.keyed.metas if self.keyed is not None else {}
        plans = {state: self.plan(meta, keyed=True) for state, meta in metas.items()}
        return {state: plan for state, plan in plans.items() if not plan.ref.is_named(self.left_out)}

    @cached_property
    def operator_plans(self) -> Sequence[StatePlan]:
        """The plans of operator states, one for each registration that differs."""
        plans = [self.plan(meta, keyed=False) for meta in self.opened.operator_states]
        return list({id(plan): plan for plan in plans if not plan.ref.is_named(self.left_out)}.values())

    def plan(self, meta: StateMetaInfoSnapshot, *, keyed: bool) -> StatePlan:
        """Return the plan of a registration."""
        plan_key = (meta.name, meta.kind, tuple(meta.serializers.items()))
        if plan_key not in self._plans:
            ref = self.ref(meta.name, meta.state_type, keyed)
            roles = {
                role: self._target(serializer, self._known(ref, meta, role))
                for role, serializer in meta.serializers.items()
            }
            self._plans[plan_key] = StatePlan(ref, meta, roles)
        return self._plans[plan_key]

    def _known(self, ref: StateRef, meta: StateMetaInfoSnapshot, role: str) -> TypeSerializer | None:
        if is_timer(meta):
            key = self.key
            timer = meta.value_serializer
            if key is None or not isinstance(timer, TimerSerializer):
                return None
            return replace(timer, nested=(key.serializer, timer.namespace))
        return self.knowledge.known(ref, meta, role)

    def _target(self, serializer: TypeSerializer, target: TypeSerializer | None) -> Target:
        if self.change is None:
            return Target(serializer, ())
        return self.knowledge.targets.of(serializer, target)

    @property
    def refs(self) -> Iterator[StateRef]:
        """Yield the states, and the timers that cannot be read."""
        for plan in self.plans:
            yield plan.ref
        if self.unread_timers is not None:
            yield self.unread_timers.ref

    @property
    def plans(self) -> Iterator[StatePlan]:
        """Yield the plans of all states."""
        yield from self.keyed_plans.values()
        yield from self.operator_plans

    def entry_program(
        self, plan: StatePlan, *, misread: Misread | None = None, walks: Collection[str] = ()
    ) -> EntryProgram:
        """Return the program of a keyed state or queue of timers; ``walks``: see :class:`EntryProgram`."""
        assert self.key is not None
        assert self.keyed is not None
        assert self.keyed.key_serializer is not None
        key = RoleProgram.of(self.key, self.change)
        roles = {role: RoleProgram.of(target, self.change) for role, target in plan.roles.items()}
        return EntryProgram(plan.meta, self.keyed.key_serializer, key, roles, misread, walks)

    def element_program(self, plan: StatePlan, *, misread: Misread | None = None) -> ElementProgram:
        """Return the program of an operator state."""
        roles = {role: RoleProgram.of(target, self.change) for role, target in plan.roles.items()}
        return ElementProgram(plan.meta, roles, misread)

    @property
    def in_flight(self) -> PartVerdict | None:
        """The verdict about records in flight, which may have values of Kryo."""
        if self.change is None or not has_channel_state(self.operator):
            return None
        return PartVerdict(
            self.ref(IN_FLIGHT, "CHANNEL", False),
            "",
            MigrationVerdict.IMPOSSIBLE,
            Outcome.UNKNOWN,
            "records",
            reason="records in flight may have values of Kryo, and a snapshot does not contain their types",
            remedy="take a savepoint, or an aligned checkpoint",
        )


def kryo_of(savepoint: Snapshot) -> int:
    """Return the version of Kryo that wrote a snapshot: not in serializer snapshots, but known by the metadata."""
    return 5 if savepoint.metadata.version >= FIRST_METADATA_OF_FLINK_2 else 2


def plan_migration(
    savepoint: Snapshot, knowledge: Knowledge, opened: Callable[[OperatorState], OpenOperator] | None = None
) -> list[OperatorMigration]:
    """Return the plan of every operator; ``opened`` opens one, by default anew."""
    before, after = kryo_of(savepoint), 5 if knowledge.release.version >= (2, 0) else 2
    change = None
    if before != after:
        synthetic = SyntheticFields(knowledge.synthetic is not False, knowledge.synthetic is not None)
        change = KryoChange(before, after, knowledge.described, knowledge.targets.pojo, knowledge.subclass, synthetic)
    of = opened or partial(OpenOperator, savepoint)
    return [OperatorMigration(of(operator), knowledge, change) for operator in savepoint.operators]


def expect_names(plans: Iterable[OperatorMigration], names: Iterable[str], option: str) -> None:
    """Raise OptionError if a name in an option is neither a state nor an operator."""
    refs = [ref for operator in plans for ref in operator.refs]
    for name in names:
        if not any(ref.is_named([name]) for ref in refs):
            raise _no_state(option, name, refs)


def expect_types_fit(plans: Iterable[OperatorMigration], knowledge: Knowledge) -> None:
    """Raise OptionError for a type that is given for no state, or for one in which no part depends on it."""
    plans = list(plans)
    refs = [plan.ref for operator in plans for plan in operator.plans]
    refs += [operator.key_ref for operator in plans if operator.keyed is not None]
    for name in knowledge.types:
        same_name = [ref for ref in refs if ref.is_state(name)]
        if not same_name:
            raise _no_state("types", name, refs)
    for operator in plans:
        targets = [(plan.ref, plan.roles.get(VALUE)) for plan in operator.plans if not is_timer(plan.meta)]
        targets += [(operator.key_ref, operator.key)] if operator.keyed is not None else []
        for ref, target in targets:
            flink_type = knowledge.named(ref)
            if flink_type is not None and target is not None and not target.parts and operator.change is not None:
                raise OptionError(
                    f"types gives a type for {ref.label}, in which nothing depends on it",
                    found=knowledge.types[flink_type],
                    expected=f"the type is known: {target.serializer.flink_type}",
                )
    new_job = knowledge.types_from
    if new_job is not None and plans:
        ids = {operator.operator_id for operator in new_job.operators}
        if ids.isdisjoint(operator.operator.operator_id for operator in plans):
            raise OptionError(
                "types_from has none of the operators of the snapshot",
                path=new_job.path,
                remedy="name a savepoint of the same job, with the same uids",
            )


def _no_state(option: str, name: str, refs: Sequence[StateRef]) -> OptionError:
    labels = sorted({ref.label for ref in refs})
    operator, dot, state = name.rpartition(".")
    close = [ref.label for ref in refs if dot and ref.is_of_operator(operator)]
    remedy = did_you_mean(state if close else name, sorted({label.rpartition(".")[2] for label in close}) or labels)
    return OptionError(f"{option} names no state of the snapshot", found=name, remedy=remedy)
