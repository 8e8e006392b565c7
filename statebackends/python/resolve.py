"""Types of the states of a PyFlink operator: those of option ``pyTypes``, else those that all bytes prove.

A type is proved if every value of the state is one, to its last byte, and if its form leaves no doubt: a length and a
pickle, a length and a printable text in UTF-8, or lists and maps of these. Eight bytes prove nothing: they may be a
LONG, a DOUBLE, a TIMESTAMP or two INTs. Whether a state is a value or a list is proved only by keys that have several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import DecodeOptions, Origin
from pyspark_savepoint.formats.errors import SavepointError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.pickle_walker import is_pickle
from pyspark_savepoint.formats.serializers.base import TypeSerializer, quoted
from pyspark_savepoint.formats.serializers.basic.blobs import BYTES
from pyspark_savepoint.formats.serializers.composite.collections import MapSerializer
from pyspark_savepoint.formats.serializers.layout import count_until_end, decode_elements
from pyspark_savepoint.formats.serializers.notation.python_types import (
    BINARY,
    PICKLED,
    STRING,
    TIME_WINDOW,
    DeclaredState,
    ListCoder,
    PickledCoder,
    StringCoder,
    list_of,
    parse_python_types,
)
from pyspark_savepoint.statebackends.python.python_state import (
    PREFIX,
    PickledKeys,
    PythonState,
    cursors,
    job_name_of,
    lengths,
    python_metas,
    python_states,
    unwrapped,
)
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_plan import is_namespaced
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.keyed_table import KEY, KeyedTable, column_names

#: What bytes can prove, the strongest first.
PROVABLE: tuple[TypeSerializer, ...] = (
    PICKLED,
    list_of(PICKLED),
    list_of(STRING),
    MapSerializer.of(STRING, STRING),
    MapSerializer.of(STRING, PICKLED),
    STRING,
)
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
#: Types by the bytes that each of their values has. Messages suggest them; no column is read with them.
OF_WIDTH = {1: "BOOLEAN", 2: "SHORT", 4: "INT", 8: "LONG", 12: "INSTANT", 16: "TUPLE<LONG, LONG>"}
OPTIONS = DecodeOptions(timestamps="raw", decimals="string")
#: States that PyFlink's own operators register, with the types of their code.
OF_PYFLINK = {
    f"{PREFIX}merging-window-set": DeclaredState("MAP", MapSerializer.of(TIME_WINDOW, TIME_WINDOW)),
}
MAX_SUGGESTED = 40
#: Bytes of state of an operator up to which a listing reads the values to prove their types.
MAX_LISTED = 1 << 24


@dataclass
class Candidate:
    """A type that all byte arrays so far may have.

    ``single``: each is one value. ``some``: not all of them are empty.
    """

    coder: TypeSerializer
    single: bool = True
    some: bool = False
    alive: bool = True

    def add(self, chunks: pa.Array) -> None:
        """Test the byte arrays."""
        if not self.alive or not len(chunks):
            return
        at = cursors(chunks, OPTIONS, Origin())
        try:
            value_counts = count_until_end(self.coder, at, 0)
            leaves = self._leaves(decode_elements(_bytes_of(self.coder), at, value_counts))
            at.expect_end()
        except SavepointError:
            self.alive = False
            return
        self.single &= bool((value_counts == 1).all())
        self.alive = bool(value_counts.all()) and all(self._proves(kind, leaf) for kind, leaf in leaves)
        self.some |= any(int(pc.sum(pc.binary_length(leaf)).as_py() or 0) > 0 for _, leaf in leaves)

    def _leaves(self, column: pa.Array) -> list[tuple[TypeSerializer, pa.Array]]:
        """Return the byte arrays of texts and pickles."""
        if isinstance(self.coder, ListCoder):
            return [(self.coder.element, column.flatten().drop_null())]
        if isinstance(self.coder, MapSerializer):
            return [(self.coder.key, column.keys), (self.coder.value, column.items.drop_null())]
        return [(self.coder, column)]

    @staticmethod
    def _proves(kind: TypeSerializer, leaf: pa.Array) -> bool:
        if isinstance(kind, PickledCoder):
            return all(map(is_pickle, leaf.to_pylist()))
        try:
            texts = leaf.cast(pa.string())
        except pa.ArrowInvalid:
            return False
        return not pc.any(pc.match_substring_regex(texts, CONTROL)).as_py()


def _bytes_of(coder: TypeSerializer) -> TypeSerializer:
    """Return the coder with byte arrays in place of texts and pickles."""
    if isinstance(coder, ListCoder):
        return list_of(_bytes_of(coder.element))
    if isinstance(coder, MapSerializer):
        return MapSerializer.of(_bytes_of(coder.key), _bytes_of(coder.value))
    return BINARY if isinstance(coder, StringCoder | PickledCoder) else coder


@dataclass
class Evidence:
    """Evidence of the byte arrays of one state, or of its map keys."""

    candidates: Sequence[Candidate] = field(default_factory=lambda: [Candidate(coder) for coder in PROVABLE])
    widths: set[int] = field(default_factory=set)
    several: bool = False

    def add(self, column: pa.Array) -> None:
        """Add lists of byte arrays."""
        self.several |= bool((lengths(column) > 1).any())
        self.add_chunks(column.flatten())

    def add_chunks(self, chunks: pa.Array) -> None:
        """Add byte arrays."""
        chunks = chunks.drop_null()
        if len(self.widths) <= 1:
            self.widths.update(np.unique(np.asarray(pc.binary_length(chunks))).tolist())
        for candidate in self.candidates:
            candidate.add(chunks)

    @property
    def proved(self) -> Candidate | None:
        """Return the type that is proved."""
        return next((candidate for candidate in self.candidates if candidate.alive and candidate.some), None)

    @property
    def suggestion(self) -> str:
        """Return a type for the user to confirm, by the width of the values; ``...`` if there is none."""
        return OF_WIDTH.get(next(iter(self.widths)), "...") if len(self.widths) == 1 else "..."


@dataclass
class ListOrValue:
    """Evidence for ``LIST<T>``: a list state of T, or a value that is a list of T."""

    value: Candidate
    element: Candidate
    several: bool = False

    @classmethod
    def of(cls, coder: ListCoder) -> ListOrValue:
        return cls(Candidate(coder), Candidate(coder.element))

    def add(self, column: pa.Array) -> None:
        """Add lists of byte arrays."""
        self.several |= bool((lengths(column) > 1).any())
        chunks = column.flatten()
        for candidate in (self.value, self.element):
            _fits(candidate, chunks)

    @property
    def is_value(self) -> bool:
        """Return whether every key has one value that is a list, some of them with elements."""
        return (
            self.value.alive and self.value.single and not self.several and (self.value.some or not self.element.alive)
        )


def _fits(candidate: Candidate, chunks: pa.Array) -> None:
    """Test only that byte arrays are values of any type."""
    if not candidate.alive or not len(chunks):
        return
    at = cursors(chunks, OPTIONS, Origin())
    try:
        value_counts = count_until_end(candidate.coder, at, 0)
        decode_elements(candidate.coder, at, value_counts)
        at.expect_end()
    except SavepointError:
        candidate.alive = False
        return
    candidate.single &= bool((value_counts == 1).all())
    candidate.some |= bool((np.asarray(pc.binary_length(chunks)) > 4).any())


@dataclass(frozen=True)
class PythonKey:
    """Keys of a PyFlink operator: the serializer of the row that wraps them, and the type of pickled ones."""

    wrapped: TypeSerializer
    pickled: pa.DataType | None = None
    #: The protocol in which pickled keys can be written; None if they cannot.
    protocol: int | None = None


@dataclass(frozen=True)
class PythonOperator:
    """States of a PyFlink operator by their registered names, its keys, and warnings about types that are not known."""

    states: dict[str, PythonState]
    key: PythonKey | None
    warnings: tuple[str, ...] = ()


def registered_names(opened: OpenOperator, names: Iterable[str]) -> tuple[str, ...]:
    """Return the registered names of states, given as the job named them or as they are registered."""
    known = {job_name_of(name): name for name in python_states(opened)}
    return tuple(known.get(name, name) for name in names)


def resolve(opened: OpenOperator, request: TableRequest, namespaced: bool, names: Sequence[str]) -> PythonOperator:
    """Return the types of some states of a PyFlink operator, given by their registered names."""
    declared = {**OF_PYFLINK, **_declared(opened, request)}
    metas = {name: python_metas(opened.keyed.metas()[name, False]) for name in names}
    open_states = tuple(name for name, (kind, _) in metas.items() if _needs_evidence(declared.get(name), kind))
    evidence = _evidence(opened, request, namespaced, open_states)
    states, unknown = {}, []
    for name, (registered, ttl) in metas.items():
        states[name], suggestion = _state(name, registered, ttl, declared.get(name), evidence)
        if suggestion:
            unknown.append(f"{_quoted(job_name_of(name))} {suggestion}")
    key = python_key(opened, request)
    return PythonOperator(states, key, (_warning(unknown),) if unknown else ())


def python_key(opened: OpenOperator, request: TableRequest) -> PythonKey | None:
    """Return how keys are wrapped; None if they are not, or shown raw."""
    serializers = opened.keyed.key_serializers
    inner = unwrapped(serializers[0])
    if inner is None or KEY in request.raw or any(other != serializers[0] for other in serializers):
        return None
    if inner.snapshot_class != BYTES:
        return PythonKey(serializers[0])
    keys = _pickled_keys(opened, request)
    return PythonKey(serializers[0], keys.kind if keys.pickled else None, keys.protocol if keys.exact else None)


def listed_states(opened: OpenOperator, request: TableRequest) -> PythonOperator:
    """Return the types of all states for a listing: of an operator with much state, values are not read."""
    known = {job_name_of(name): name for name in python_states(opened)}
    python_types = parse_python_types(request.py_types or "")
    texts = ";".join(
        f"{_quoted(name)} {typed.text}" for name, typed in python_types.items() if job_name_of(name) in known
    )
    request = replace(request, py_types=texts, raw=(), undecodable="binary")
    if opened.operator.state_size <= MAX_LISTED:
        shapes = {name: is_namespaced(opened.keyed.metas()[name, False][0]) for name in known.values()}
        typed = [
            resolve(opened, request, shape, [name for name in shapes if shapes[name] == shape])
            for shape in set(shapes.values())
        ]
        return PythonOperator({name: state for part in typed for name, state in part.states.items()}, typed[0].key)
    declared = _declared(opened, request)
    states = {}
    for name in known.values():
        registered, ttl = python_metas(opened.keyed.metas()[name, False])
        one = declared.get(name)
        if one is not None and not _needs_evidence(one, registered):
            states[name] = _state(name, registered, ttl, one, {})[0]
    return PythonOperator(states, None)


def _declared(opened: OpenOperator, request: TableRequest) -> dict[str, DeclaredState]:
    """Return the types of ``pyTypes``, by registered name; raise an error for a state that does not exist."""
    python_types = parse_python_types(request.py_types or "")
    known = {job_name_of(name): name for name in python_states(opened)}
    for name in python_types:
        if job_name_of(name) not in known:
            raise StateNotFoundError(
                f"option 'pyTypes' names {name!r}, which is not a state of PyFlink of the operator",
                operator=opened.operator.label,
                remedy=did_you_mean(name, known),
            )
    return {known[job_name_of(name)]: declared for name, declared in python_types.items()}


def _needs_evidence(declared: DeclaredState | None, registered: str) -> bool:
    if declared is None:
        return True
    return registered == "LIST" and not declared.kind and isinstance(declared.type, ListCoder)


StateEvidence = dict[str, tuple[Any, ...]]


def _evidence(opened: OpenOperator, request: TableRequest, namespaced: bool, names: tuple[str, ...]) -> StateEvidence:
    """Read all values of some states once, and return the evidence of each: of its values, and of its map keys."""
    if not names:
        return {}
    said = _declared(opened, request)
    cache_key = "evidence", namespaced, tuple((name, repr(said.get(name))) for name in names)
    if cache_key not in opened.derived:
        evidence: StateEvidence = {}
        for name in names:
            declared = said.get(name)
            if declared is not None and isinstance(declared.type, ListCoder):
                evidence[name] = (ListOrValue.of(declared.type),)
            else:
                evidence[name] = (Evidence(), Evidence())
        for name, column in _columns(opened, request, namespaced, names):
            if pa.types.is_map(column.type):
                evidence[name][0].add_chunks(column.items)
                evidence[name][1].add_chunks(column.keys)
            else:
                evidence[name][0].add(column)
        opened.derived[cache_key] = evidence
    result: StateEvidence = opened.derived[cache_key]
    return result


def _columns(
    opened: OpenOperator, request: TableRequest, namespaced: bool, names: Sequence[str]
) -> Iterator[tuple[str, pa.Array]]:
    plain = replace(
        request, state=None, raw=(), keys=None, key_groups=None, include_ttl=False, undecodable="binary",
        include_key_group=False, decode=replace(request.decode, pickle=False),
    )  # fmt: skip
    table = KeyedTable(opened, plain, namespaced)
    columns = column_names(table.spec.states, namespaced)
    table = table.select([columns[name] for name in names])
    for partition in table.partitions(1):
        for batch in partition.batches():
            yield from zip(names, batch.columns, strict=True)


def _pickled_keys(opened: OpenOperator, request: TableRequest) -> PickledKeys:
    """Return the evidence of all keys, those of timers too."""
    from pyspark_savepoint.statebackends.tables.timers_table import TimersTable

    cache_key = "keys"
    if cache_key not in opened.derived:
        evidence = PickledKeys()
        shapes = {is_namespaced(metas[0]) for (_, timer), metas in opened.keyed.metas().items() if not timer}
        plain = replace(request, state=None, raw=("window",), keys=None, key_groups=None, include_ttl=False)
        plain = replace(plain, undecodable="binary", decode=replace(plain.decode, pickle=False), flatten=False)
        tables: list[Any] = [KeyedTable(opened, plain, shape).select([KEY]) for shape in sorted(shapes)]
        if any(timer for _, timer in opened.keyed.metas()):
            tables.append(TimersTable(opened, replace(plain, raw=("namespace",))).select([KEY]))
        for table in tables:
            for partition in table.partitions(1):
                for batch in partition.batches():
                    evidence.add(batch.column(0).field(0))
        opened.derived[cache_key] = evidence
    keys: PickledKeys = opened.derived[cache_key]
    return keys


def _state(
    name: str, registered: str, ttl: bool, declared: DeclaredState | None, inferred: StateEvidence
) -> tuple[PythonState, str]:
    """Return a state, and a suggestion for ``pyTypes`` where its type is not known."""
    if registered == "MAP":
        return _map_state(name, ttl, declared, inferred)
    if declared is None:
        evidence: Evidence = inferred[name][0]
        proved = evidence.proved
        kind = "LIST" if evidence.several or (proved is not None and not proved.single) else "VALUE"
        suggestion = "" if proved is not None else f"{'LIST ' if kind == 'LIST' else ''}{evidence.suggestion}"
        return PythonState(name, kind, proved.coder if proved is not None else None, ttl=ttl), suggestion
    if not declared.kind and isinstance(declared.type, ListCoder) and name in inferred:
        either: ListOrValue = inferred[name][0]
        if not either.is_value:
            return PythonState(name, "LIST", declared.type.element, ttl=ttl), ""
    return PythonState(name, declared.kind or "VALUE", declared.type, ttl=ttl), ""


def _map_state(
    name: str, ttl: bool, declared: DeclaredState | None, inferred: StateEvidence
) -> tuple[PythonState, str]:
    if declared is not None and isinstance(declared.type, MapSerializer):
        return PythonState(name, "MAP", declared.type.value, declared.type.key, ttl), ""
    if declared is not None:
        raise StateNotFoundError(
            f"option 'pyTypes' gives map state {job_name_of(name)!r} a type that is not a map",
            expected=f"{job_name_of(name)} MAP<K, V>",
            found=declared.type.flink_type,
        )
    values, keys = (evidence.proved for evidence in inferred[name])
    one = [candidate.coder if candidate and candidate.single else None for candidate in (keys, values)]
    suggested = [
        coder.flink_type if coder is not None else evidence.suggestion
        for coder, evidence in zip(one, reversed(inferred[name]), strict=True)
    ]
    suggestion = "" if None not in one else f"MAP<{', '.join(suggested)}>"
    return PythonState(name, "MAP", one[1], one[0], ttl), suggestion


def _quoted(name: str) -> str:
    return name if not set(name) & set(" `;\t\n") else quoted(name)


def _warning(unknown: list[str]) -> str:
    text = "; ".join(unknown[:MAX_SUGGESTED]) + ("; ..." if len(unknown) > MAX_SUGGESTED else "")
    states = "1 state of PyFlink is" if len(unknown) == 1 else f"{len(unknown)} states of PyFlink are"
    return (
        f"{states} BINARY: the types are not in a savepoint, and the bytes do not prove "
        f"one. To do: give the types that the job declared: option('pyTypes', '{text}'). The types here follow from "
        "the number of bytes alone, so check them, and replace every '...'."
    )
