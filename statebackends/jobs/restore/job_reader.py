"""Job descriptions from user input: mappings or JSON, stream graphs, plans of the REST interface, snapshots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeGuard

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.flink_releases import NEWEST_FLINK, Flink, parse_release
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import OperatorIDPair, operator_id_pairs
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import Chains, StreamGraph, StreamGraphHasher
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import POINTWISE
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import (
    PlannedVertex,
    from_execution_plan,
    read_job_plan,
    read_json,
)
from pyspark_savepoint.statebackends.jobs.restore.job_description import (
    KEYED_KINDS,
    OPERATOR_KINDS,
    JobDescription,
    OperatorDescription,
    StateDescription,
    TaskEdge,
    from_snapshot,
)
from pyspark_savepoint.statebackends.type_extraction.releases import DECLARED, ExtractionRelease
from pyspark_savepoint.statebackends.type_extraction.words import TypeInference

JOB_FIELDS = (
    *("operators", "parallelism", "maxParallelism", "flinkVersion", "stateBackend", "classes"),
    *("inferredBy", "javaClasses"),
)
#: Names that fields had before.
FORMER = {"typesFrom": "classes"}
TYPE_FIELDS = ("key", "states", "operatorStates")
OPERATOR_FIELDS = ("name", "uid", "uidHash", "generatedId", "parallelism", "maxParallelism", *TYPE_FIELDS)
#: Fields that every state has in the file of ``schema --file``.
SCHEMA_FIELDS = ("table", "state", "kind", "value")
STATE_FIELDS = ("kind", "type", "key", "namespace", "ttl")
BACKEND_NAMES = ("hashmap", "rocksdb", "forst")
#: In place of a type that no text describes.
BYTES = parse_type("PRIMITIVE_ARRAY<BYTE>")
#: The name of a Java class in a package.
JAVA_NAME = re.compile(r"[a-zA-Z_][\w$]*(\.[a-zA-Z_$][\w$]*)+")
#: A uid hash.
HASH = re.compile("[0-9a-f]{32}")

Job = JobDescription | StreamGraph | Snapshot | Mapping[str, Any] | str


def describe_job(job: Job, hasher: StreamGraphHasher | None = None, **settings: Any) -> JobDescription:
    """Describe a job given in any supported form.

    A text is JSON; a mapping is a job, an execution plan, or a plan of the REST interface. ``settings`` are those of
    :func:`from_graph`, for graphs and execution plans.
    """
    if isinstance(job, str):
        job = read_json(job, "a job given as text")
    if is_execution_plan(job):
        job = from_execution_plan(job, job.get("settings"))
    if isinstance(job, StreamGraph):
        return from_graph(job, hasher=hasher, **settings)
    setting_names = [name for name, value in settings.items() if value is not None]
    if setting_names:
        raise OptionError(
            f"{', '.join(setting_names)} apply to a stream graph only; this description contains them itself",
            found=type(job).__name__,
        )
    if isinstance(job, JobDescription):
        return job
    if isinstance(job, Snapshot):
        return from_snapshot(job)
    if not isinstance(job, Mapping):
        raise OptionError(
            "this is not the description of a job",
            expected="an object with 'operators'",
            found=type(job).__name__,
            remedy="give {'operators': [{'uid': 'accounts', ...}]}, its stream graph, its execution plan as JSON, or a "
            "savepoint that it has taken",
        )
    return from_job_plan(read_job_plan(job)) if _is_rest_plan(job) else _from_mapping(job)


def is_execution_plan(job: Job) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a job is what ``env.getExecutionPlan()`` gives."""
    return isinstance(job, Mapping) and "nodes" in job and not _is_rest_plan(job)


def with_settings(
    job: JobDescription,
    *,
    flink_version: str | None = None,
    state_backend: str | None = None,
    java_classes: Iterable[str] | None = None,
) -> JobDescription:
    """Return the description with the release and state backend that run the job, where they are given."""
    version, backend = None if flink_version is None else parse_release(flink_version), _backend(state_backend)
    return replace(
        job,
        flink_version=version or job.flink_version,
        state_backend=backend or job.state_backend,
        classes=job.classes | _classes(java_classes),
    )


def _is_rest_plan(job: Mapping[str, Any]) -> bool:
    nodes = job.get("nodes")
    return "plan" in job or (
        isinstance(nodes, list) and any(isinstance(node, Mapping) and "description" in node for node in nodes)
    )


def from_graph(
    graph: StreamGraph,
    types: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    hasher: StreamGraphHasher | None = None,
    flink_version: str | None = None,
    state_backend: str | None = None,
    java_classes: Iterable[str] | None = None,
    inferred_by: str | None = None,
    classes: str | Iterable[str] | None = None,
) -> JobDescription:
    """Describe the job of a stream graph; ``types`` has ``key``, ``states`` and ``operatorStates`` by uid or name.

    ``java_classes`` are names of classes that the job has besides those in its types. ``inferred_by`` is the Flink
    release that infers types from the classes that the notation names; ``classes`` are jars and folders of class
    files.
    """
    version = None if flink_version is None else parse_release(flink_version)
    read = _TypeReader.of(version, inferred_by, classes)
    node_of = graph.lookup()
    given = {node_of(name).id: (name, values) for name, values in (types or {}).items()}
    places = {
        node: (head, chain_index)
        for head, nodes in Chains(graph).tasks().items()
        for chain_index, node in enumerate(nodes)
    }
    operators = []
    for node_id, pair in operator_id_pairs(graph, hasher).items():
        node = graph.nodes[node_id]
        name, values = given.get(node_id, (node.name, {}))
        is_inlined = node_id not in places
        head, chain_index = places.get(node_id, (node_id, 0))
        _check_fields(values, TYPE_FIELDS, f"the types of {name!r}")
        operators.append(
            OperatorDescription(
                label=node.label,
                uid=node.uid,
                name=node.name,
                ids=pair,
                task=head,
                place=chain_index,
                is_inlined=is_inlined,
                parallelism=node.parallelism,
                max_parallelism=graph.nodes[head].max_parallelism,
                **_types(values, name, read),
            )
        )
    backend = _backend(state_backend)
    edges = tuple(
        TaskEdge(places[edge.source][0], places[edge.target][0], edge.partitioner not in POINTWISE)
        for node in graph.nodes.values()
        for edge in node.in_edges
        if edge.source in places and edge.target in places and places[edge.source][0] != places[edge.target][0]
    )
    unnamed = [one for one in operators if one.uid is None and not one.ids.alternatives and not one.is_inlined]
    return JobDescription(
        tuple(operators),
        version,
        backend,
        classes=_classes(java_classes),
        notes=graph.assumptions,
        edges=edges,
        without_uids=() if graph.knows_uids else tuple(one.name or one.label for one in unnamed),
    )


def from_job_plan(vertices: Sequence[PlannedVertex]) -> JobDescription:
    """Describe the job of a plan of the REST interface: chain heads have ids, the other operators only names."""
    operators = tuple(
        OperatorDescription(
            label=repr(vertex.descriptions[0]),
            name=vertex.descriptions[0],
            ids=OperatorIDPair(vertex.head, "v2"),
            task=number,
            parallelism=vertex.parallelism,
        )
        for number, vertex in enumerate(vertices)
    )
    chained = tuple(name for vertex in vertices for name in vertex.descriptions[1:])
    notes = ("a plan of the REST interface does not say whether max parallelism was set, nor uid hashes",)
    return JobDescription(operators, unidentified=chained, notes=notes)


# -- mappings ------------------------------------------------------------------------------------------------


def _from_mapping(job: Mapping[str, Any]) -> JobDescription:
    _check_fields(job, JOB_FIELDS, "the job")
    operators = job.get("operators")
    if not isinstance(operators, Sequence) or not all(isinstance(operator, Mapping) for operator in operators):
        raise OptionError(
            "the description of a job needs a list of operators", expected="'operators': [{...}, ...]", found=operators
        )
    version = None if job.get("flinkVersion") is None else parse_release(job["flinkVersion"], None)
    read = _TypeReader.of(version, job.get("inferredBy"), job.get("classes"))
    described = tuple(_operator(number, operator, job, read) for number, operator in enumerate(operators))
    labels: dict[OperatorID, str] = {}
    for operator in described:
        if operator.ids.generated in labels:
            raise OptionError(
                "two operators have the same id", operator=f"{labels[operator.ids.generated]}, {operator.label}"
            )
        labels[operator.ids.generated] = operator.label
    return JobDescription(
        described, version, _backend(job.get("stateBackend")), classes=_classes(job.get("javaClasses"))
    )


def _classes(names: Any) -> frozenset[str]:
    """Return class names; raise OptionError for a text, which would be taken for a list of letters."""
    listed = [] if names is None else list(names) if isinstance(names, Iterable) else [names]
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        raise OptionError(
            "'javaClasses' must be a list of names of Java classes",
            expected="['com.shop.Order', ...]",
            found=repr(names),
        )
    return frozenset(listed)


def _operator(
    number: int, description: Mapping[str, Any], job: Mapping[str, Any], read: TypeReader
) -> OperatorDescription:
    label = str(
        description.get("uid")
        or description.get("name")
        or description.get("uidHash")
        or description.get("generatedId")
        or number
    )
    _check_fields(description, OPERATOR_FIELDS, f"operator {label!r}")
    for name in ("uid", "uidHash", "generatedId", "name"):
        if not isinstance(description.get(name), str | None):
            raise OptionError(f'field "{name}" must be a text', operator=label, found=repr(description[name]))
    return OperatorDescription(
        label=repr(label),
        uid=description.get("uid"),
        name=description.get("name"),
        ids=_ids(description, label),
        task=number,
        parallelism=_number(description.get("parallelism", job.get("parallelism", 1)), "parallelism", label) or 1,
        max_parallelism=_number(description.get("maxParallelism", job.get("maxParallelism")), "maxParallelism", label),
        **_types_of(description, label, read),
    )


def _ids(description: Mapping[str, Any], label: str) -> OperatorIDPair:
    uid, uid_hash, generated = (description.get(name) for name in ("uid", "uidHash", "generatedId"))
    if isinstance(description.get("states"), list) and uid is not None and HASH.fullmatch(uid):
        uid, uid_hash = None, uid  # such a file named hashes as uids
    alternatives = (("uid hash", OperatorID.from_hex(uid_hash)),) if uid_hash is not None else ()
    if uid is not None:
        return OperatorIDPair(OperatorID.from_uid(uid), "uid", alternatives)
    if generated is not None:
        return OperatorIDPair(OperatorID.from_hex(generated), "v2", alternatives)
    if alternatives:
        return OperatorIDPair(alternatives[0][1], "uid hash")
    raise OptionError(
        "the id of an operator without uid depends on the whole job, and is missing here",
        operator=label,
        expected="a field uid, uidHash or generatedId",
        remedy="describe the job as a StreamGraph, or take the id from the snapshot of the job as it is now",
    )


def _types_of(types: Mapping[str, Any], label: str, read: TypeReader) -> dict[str, Any]:
    """Return key and states as keyword arguments of an OperatorDescription; errors name the operator."""
    try:
        return _types(types, label, read)
    except OptionError as error:
        raise error.with_facts(operator=label) from None


def _types(types: Mapping[str, Any], label: str, read: TypeReader) -> dict[str, Any]:
    """Return key and states as keyword arguments of an OperatorDescription."""
    arguments: dict[str, Any] = {}
    if types.get("key") is not None:
        arguments["key"] = read(types["key"])
    if isinstance(types.get("states"), list):
        return _of_schema(types["states"], label, read)
    for name, field, kinds in (
        ("states", "keyed_states", KEYED_KINDS),
        ("operatorStates", "operator_states", OPERATOR_KINDS),
    ):
        if name in types:
            states = types[name]
            if not isinstance(states, Mapping):
                raise OptionError(
                    f'field "{name}" has states by name',
                    operator=label,
                    expected='an object, such as {"total": "LONG"}',
                    found=type(states).__name__,
                )
            arguments[field] = {state: _named_state(state, spec, kinds, read) for state, spec in states.items()}
    return arguments


def _of_schema(states: list[Any], label: str, read: TypeReader) -> dict[str, Any]:
    """Return key and states of an operator in the file that ``schema --file`` writes, which has all of its states."""
    keyed: dict[str, StateDescription] = {}
    of_operator: dict[str, StateDescription] = {}
    timers: set[str] = set()
    arguments: dict[str, Any] = {"keyed_states": keyed, "operator_states": of_operator}
    for state in states:
        if not isinstance(state, Mapping) or not all(isinstance(state.get(name), str) for name in SCHEMA_FIELDS):
            raise OptionError(
                "'states' has states by name, or is the list of the file that schema --file writes",
                operator=label,
                expected='an object, such as {"total": "LONG"}',
                found=repr(state)[:80],
            )
        name, table, kind, text = (state[field] for field in ("state", "table", "kind", "value"))
        key, namespace = (_read_listed(state.get(field), read) for field in ("key", "namespace"))
        if table == "operator_state":
            of_operator[name] = _listed(name, kind, text, read, key=key)
            continue
        arguments |= {"key": key, "key_text": state.get("key")}
        if table == "timers":
            timers.add(name.rpartition(" ")[2])  # after the domain: event user-timers
        else:
            keyed[name] = _listed(name, kind, text, read, namespace=namespace)
    arguments["timers"] = frozenset(timers)
    if not keyed and arguments.get("key") is None and any(state["table"] == "timers" for state in states):
        arguments["keyed_states"] = None  # keyed, by a key that no text describes
    return arguments


def _listed(
    name: str,
    kind: str,
    text: str,
    read: TypeReader,
    key: TypeSerializer | None = None,
    namespace: TypeSerializer | None = None,
) -> StateDescription:
    """Return a state by its type as a listing shows it."""
    value = _read_listed(text, read)
    return StateDescription(name, kind, value or BYTES, key, namespace, text=text, is_readable=value is not None)


def _read_listed(text: Any, read: TypeReader) -> TypeSerializer | None:
    """Return a type that a listing shows; None for one that no text describes in full, such as of Kryo."""
    if text is None:
        return None
    try:
        return read(text)
    except OptionError:
        return None


def _named_state(name: str, description: Any, kinds: tuple[str, ...], read: TypeReader) -> StateDescription:
    """Return the description of a state; errors name it."""
    try:
        return _state(name, description, kinds, read)
    except OptionError as error:
        raise error.with_facts(state=name) from None


def _state(name: str, description: Any, kinds: tuple[str, ...], read: TypeReader) -> StateDescription:
    spec = description if isinstance(description, Mapping) else {"type": description}
    _check_fields(spec, STATE_FIELDS, f"state {name!r}")
    if "kind" not in spec and "key" not in spec and spec.get("type") is not None and kinds is KEYED_KINDS:
        return _by_type(name, spec, read)
    kind = str(spec.get("kind", kinds[0])).upper()
    if kind not in kinds:
        raise OptionError(f"unknown kind of state: {kind}", state=name, remedy=did_you_mean(kind, kinds))
    required = ["type", "key"] if kind in ("MAP", "BROADCAST") else ["type"]
    missing = [part for part in required if spec.get(part) is None]
    if missing:
        raise OptionError(f"a {kind} state has a {' and a '.join(missing)}", state=name)
    value = read(spec["type"])
    key = read(spec["key"]) if spec.get("key") is not None else None
    namespace = read(spec["namespace"]) if spec.get("namespace") is not None else None
    if kinds is OPERATOR_KINDS:
        return StateDescription(name, kind, value, key, kind_is_given="kind" in spec)
    whole = _whole(kind, value, key, bool(spec.get("ttl")))
    return StateDescription(
        name, kind, whole, None, namespace, "kind" in spec, "ttl" in spec or has_time_to_live(whole)
    )


def _by_type(name: str, spec: Mapping[str, Any], read: TypeReader) -> StateDescription:
    """Return a state whose kind follows from its type, as a listing shows it: a list, a map, else a value."""
    whole = read(spec["type"])
    namespace = read(spec["namespace"]) if spec.get("namespace") is not None else None
    if isinstance(whole, ListSerializer):
        whole, kind = _whole("LIST", whole.nested[0], None, bool(spec.get("ttl"))), "LIST"
    elif isinstance(whole, MapSerializer):
        whole, kind = _whole("MAP", whole.nested[1], whole.nested[0], bool(spec.get("ttl"))), "MAP"
    else:
        whole, kind = _whole("VALUE", whole, None, bool(spec.get("ttl"))), "VALUE"
    ttl = "ttl" in spec or has_time_to_live(whole)
    return StateDescription(name, kind, whole, None, namespace, kind_is_given=False, ttl_is_given=ttl)


def has_time_to_live(whole: TypeSerializer) -> bool:
    """Return whether values of a registered type have times of last access."""
    unit = whole.nested[-1] if isinstance(whole, ListSerializer | MapSerializer) else whole
    return isinstance(unit, TtlSerializer)


def _whole(kind: str, value: TypeSerializer, key: TypeSerializer | None, ttl: bool) -> TypeSerializer:
    """Return the serializer that Flink registers; time to live applies to a list's elements and a map's values."""
    unit = TtlSerializer.of(value) if ttl and not isinstance(value, TtlSerializer) else value
    if kind == "LIST":
        return ListSerializer.of(unit)
    if kind == "MAP" and key is not None:
        return MapSerializer.of(key, unit)
    return unit


@dataclass(frozen=True)
class _TypeReader:
    """Reader of types: serializers, notation for them or, with a release, notation for classes."""

    version: Flink
    inference: TypeInference | None

    @classmethod
    def of(cls, version: Flink | None, inferred_by: Any, classes: Any) -> _TypeReader:
        """Build the reader from the fields of a job; class files are for types that a release infers."""
        paths = class_paths(classes)
        if inferred_by in (None, DECLARED):
            return cls(version or NEWEST_FLINK, None)
        return cls(version or NEWEST_FLINK, TypeInference(ExtractionRelease.parse(str(inferred_by)), paths))

    def __call__(self, value: Any) -> TypeSerializer:
        if isinstance(value, TypeSerializer):
            return value
        if self.inference is None:
            return parse_type(str(value), self.version)
        return self.inference.parse(str(value), self.version)


TypeReader = Callable[[Any], TypeSerializer]


def class_paths(source: Any) -> tuple[str, ...]:
    """Return the jars and folders that 'classes' names; raise OptionError for names of Java classes."""
    if not isinstance(source, str | PathLike | Iterable | None):
        raise OptionError(
            "'classes' names jars and folders of class files", expected="a path, or several", found=source
        )
    paths = (fspath(source),) if isinstance(source, str | PathLike) else tuple(map(str, source or ()))
    for path in paths:
        if JAVA_NAME.fullmatch(path) and not path.endswith((".jar", ".zip")) and not Path(path).exists():
            raise OptionError(
                "'classes' names jars and folders of class files",
                found=path,
                remedy="'javaClasses' of a description, java_classes=[...] in Python, take names of Java classes",
            )
    return paths


# -- small fields --------------------------------------------------------------------------------------------


def _check_fields(fields: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in fields:
        if name not in names:
            new = FORMER.get(str(name))
            remedy = f"it is {new!r} now" if new in names else did_you_mean(str(name), names)
            raise OptionError(f"{what} has no field {name!r}", remedy=_as_json(remedy))


def _as_json(text: str) -> str:
    """Return a text whose names are quoted as JSON does: fields of a file are not options of a door."""
    return text.replace("'", '"')


def _number(value: Any, name: str, label: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1 << 15:
        raise OptionError(f'field "{name}" is a number from 1 to 32768', operator=label, found=value)
    return value


def _backend(value: Any) -> str | None:
    if value is not None and value not in BACKEND_NAMES:
        raise OptionError("unknown state backend", found=value, remedy=did_you_mean(str(value), BACKEND_NAMES))
    return None if value is None else str(value)
