"""Descriptors of state from a DataFrame's schema and options: all checks without data.

Of keyed state, windows and timers:

    key            one column, or several: a TUPLE of them unless ``types`` has a type for ``key``
    states         every other column: an array is a LIST state, a map a MAP state, anything else a VALUE state,
                   unless option ``states`` or the type gives another
    types          by column: option ``types``, else the state of that name in ``typesFrom``, else the default
                   (``flink_types.py``). For a list state, the type of the list or of its elements
    X__last_access the times of last access of state X, which has a time to live

A failure here comes before any task, and its error names column and remedy. In a Flink job, state descriptors have
this role.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.formats.class_files.class_path import expect_paths
from pyspark_savepoint.formats.errors import OptionError, SavepointError, did_you_mean
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.name_lists import split_names
from pyspark_savepoint.formats.serializers.basic.primitives import ConstantSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.rows.descriptors import (
    NAMESPACE_COLUMN,
    NO_NAMESPACE,
    STATE_WINDOW,
    TIMER_DOMAINS,
    USER_TIMERS,
    WINDOW_COLUMN,
    WINDOW_CONTENTS,
    WINDOW_TIMERS,
    KeyedDescriptor,
    OperatorStateDescriptor,
    StateDescriptor,
    StateKind,
    timer_states,
)
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS, unwrap
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import SPAN_COLUMNS
from pyspark_savepoint.statebackends.tables.session_windows import MERGING, merging_state
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY, describe_key, key_columns
from pyspark_savepoint.statebackends.writing.planning.exact_casts import (
    MOMENT,
    access_serializer,
    check_writable,
    expect_column,
    expect_each_name_once,
    expect_names,
    fits,
    form_of,
    with_ttl,
    without_ttl,
)
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer, parts_of, type_of
from pyspark_savepoint.statebackends.writing.planning.kept_states import state_of_column
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes, inference_of
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    BROADCAST,
    LIST,
    TIMERS,
    WINDOW_STATE,
    WriteSpec,
    is_type_of,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
    from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders

TIMESTAMP, DOMAIN, SERVICE = "timestamp", "domain", "service"


def describe_keyed(
    schema: pa.Schema,
    request: WriteSpec,
    base: OperatorHeaders | None,
    types: OperatorTypes | None = None,
    classes: JobClasses | None = None,
    *,
    added: bool = False,
    own_namespace: TypeSerializer | None = None,
) -> KeyedDescriptor:
    """Describe keyed state, windows or timers.

    ``base`` has the headers of the existing operator at the path. ``types`` are those to keep, else those of option
    ``typesFrom``, which must have every state; ``added``: states that ``types`` lacks are new. ``classes`` describe
    Kryo's values and keys, in the version of Kryo that writes them; None for that of the release in the request.
    ``own_namespace`` is that of timers that the operator had, which is taken if neither option ``types`` nor
    ``typesFrom`` gives another.
    """
    expect_paths(request.classes)
    expect_each_name_once(schema)
    known = types or OperatorTypes.named_by(request)
    return _Keyed(schema, request, base, known, classes or request.job_classes, added, own_namespace).describe()


class _Keyed:
    def __init__(
        self,
        schema: pa.Schema,
        request: WriteSpec,
        base: OperatorHeaders | None,
        types: OperatorTypes | None,
        classes: JobClasses,
        added: bool,
        own_namespace: TypeSerializer | None,
    ) -> None:
        self.schema = schema
        self.columns = frozenset(schema.names)
        self.own_namespace = own_namespace
        self.request = request
        self.added = added
        self.types = types.described(classes) if types is not None else None
        self.inference = inference_of(request)
        self.base = OperatorTypes.of_keys(base).described(classes) if base is not None else None
        of_base = base.metas() if base is not None else {}
        self.existing = {name for name, timer in of_base if not timer}
        self.existing |= set(self.types.states) if self.types is not None else set()
        self.merging = merging_state(of_base)
        self.keys = key_columns(schema, request)
        self.spans = self.columns_of_windows()
        self.check_names()

    def columns_of_windows(self) -> set[str]:
        """Return the columns that follow from the windows of SQL operators, unless they are states."""
        return {
            field.name
            for field in self.schema
            if field.name in SPAN_COLUMNS and field.name not in self.existing and pa.types.is_timestamp(field.type)
        }

    def check_names(self) -> None:
        """Raise an error if options name columns that do not exist."""
        others = [KEY]
        others += [NAMESPACE_COLUMN] if self.request.table == TIMERS else []
        others += [WINDOW_COLUMN, STATE_WINDOW] if self.request.table == WINDOW_STATE else []
        parts = [path for field in self.schema for path in parts_of(field.type, field.name)]
        expect_names("types", self.request.types, [*parts, *others])
        expect_names("states", self.request.states, self.schema.names)
        if isinstance(self.request.ttl, tuple):
            expect_names("ttl", self.request.ttl, self.schema.names, "the time to live itself is set in the job only; ")

    def describe(self) -> KeyedDescriptor:
        existing = self.base or self.types
        bound = self.base.key if self.base is not None else None
        key = describe_key(self.schema, self.request, bound, existing.key if existing is not None else None)
        key_names = {*self.keys, self.request.key_group}
        if self.request.table == TIMERS:
            namespace = self.namespace(NAMESPACE_COLUMN)
            states = self.timers(key.serializer, namespace, key_names | self.spans)
            column = None if isinstance(namespace, ConstantSerializer) else NAMESPACE_COLUMN
        elif self.request.table == WINDOW_STATE:
            window = STATE_WINDOW if STATE_WINDOW in self.schema.names else WINDOW_COLUMN
            namespace = self.namespace(window)
            states = self.states(key_names | {WINDOW_COLUMN, STATE_WINDOW} | self.spans, namespace)
            self.check_windows([state.name for state in states], window)
            column = None if isinstance(namespace, ConstantSerializer) else window
        else:
            namespace, column, states = NO_NAMESPACE, None, self.states(key_names, NO_NAMESPACE)
        return KeyedDescriptor(
            key.columns,
            key.serializer,
            states,
            None if namespace == NO_NAMESPACE else namespace,
            column,
            self.request.key_group,
            key.composite,
        )

    def check_windows(self, states: list[str], window: str) -> None:
        """Raise an error unless contents of sessions come with their state windows, and other states without."""
        contents = [name for name in states if name in WINDOW_CONTENTS]
        if window == STATE_WINDOW and contents != states:
            others = [name for name in states if name not in contents]
            raise OptionError(
                f"state {others[0]!r} is stored under the window of the session, not under column {STATE_WINDOW!r}",
                operator=self.request.operator,
                remedy=f"write it on its own, without {STATE_WINDOW!r}",
            )
        if window == WINDOW_COLUMN and contents and self.merging is not None:
            raise OptionError(
                f"the windows of state {contents[0]!r} merge: Flink looks for its rows under their state windows, "
                f"which {self.merging!r} names",
                operator=self.request.operator,
                expected=f"column {STATE_WINDOW!r}",
                remedy="read with option('includeStateWindow', 'true') and write that column too",
            )

    # -- states ----------------------------------------------------------------------------------------------

    def states(self, used: set[str | None], namespace: TypeSerializer) -> tuple[StateDescriptor, ...]:
        names = [name for name in self.schema.names if name not in used]
        all_names = frozenset(names)
        values = [name for name in names if not self.is_access(name, all_names)]
        if not values:
            raise OptionError(
                "the rows have no column for a state",
                found=f"columns {', '.join(map(repr, self.schema.names))}, of which the key is {', '.join(self.keys)}",
                remedy="every column other than the key becomes a state",
            )
        states = tuple(self.state(name, namespace) for name in values)
        repeated = [name for name, count in Counter(state.name for state in states).items() if count > 1]
        if repeated:
            raise OptionError(f"two columns are state {repeated[0]!r}", remedy="rename one of them")
        return states

    @staticmethod
    def is_access(name: str, names: frozenset[str]) -> bool:
        """Return whether a column has the times of last access of another one."""
        return name.endswith(LAST_ACCESS) and name.removesuffix(LAST_ACCESS) in names

    def state(self, column: str, namespace: TypeSerializer) -> StateDescriptor:
        kind_of_column = self.schema.field(column).type
        name = self.state_name(column)
        kind_option = self.kind_option(column)
        try:
            meta = self.recorded(column, kind_of_column, name)
            if meta is None:
                kind, serializer = self.chosen(column, kind_of_column, kind_option)
            else:
                kind, serializer = StateKind(meta.state_type), unwrap(meta.value_serializer)
                if kind_option is not None and kind_option is not kind:
                    raise OptionError(
                        f"{column!r} is {kind_option.lower()} in option 'states', but the state is {kind.lower()}",
                        remedy="name its type in option 'types' as well, or leave option 'states' out",
                    )
            timed = self.request.has_ttl(column)
            if timed is not None:
                serializer = with_ttl(kind, serializer) if timed else without_ttl(kind, serializer)
            check_writable(kind_of_column, serializer, column)
        except SavepointError as error:
            raise error.with_facts(operator=self.request.operator) from None
        state = StateDescriptor(name, kind, serializer, namespace, column)
        return self.with_access(state)

    def recorded(self, column: str, kind: pa.DataType, name: str) -> StateMetaInfoSnapshot | None:
        """Return the registration whose serializer the state gets; None if options or the column give its type."""
        if self.types is None or any(path in self.request.types for path in parts_of(kind, column)):
            return None
        return None if self.added and name not in self.types.states else self.types.keyed(name)

    def state_name(self, column: str) -> str:
        """Return the state name of a column."""
        return state_of_column(column, self.types.states if self.types is not None else ())

    def kind_option(self, column: str) -> StateKind | None:
        text = self.request.states.get(column)
        if text is None:
            return None
        kind_names = [kind.lower() for kind in StateKind if kind is not StateKind.TIMER]
        if text.lower() not in kind_names:
            raise OptionError(
                f"option 'states': {text!r} of column {column!r} is not a kind of state",
                remedy=did_you_mean(text, kind_names),
            )
        return StateKind(text.upper())

    def chosen(
        self, column: str, kind_of_column: pa.DataType, state_kind: StateKind | None
    ) -> tuple[StateKind, TypeSerializer]:
        """Return kind and serializer of the whole state, by the options and the column's type."""
        if (
            state_kind is None
            and column == MERGING[0]
            and _names_sessions(kind_of_column)
            and not self.has_type(column)
        ):
            return StateKind.LIST, SESSIONS_TYPE
        version = self.request.restoring_flink
        types, inference, serializers = self.request.types, self.inference, self.request.serializers
        serializer = default_serializer(kind_of_column, column, version, types, inference, serializers, container=True)
        is_list, is_map = pa.types.is_list(kind_of_column), pa.types.is_map(kind_of_column)
        by_column = StateKind.LIST if is_list else StateKind.MAP if is_map else StateKind.VALUE
        kind = state_kind or by_column
        if kind is StateKind.LIST and is_list:
            if type(serializer) is ListSerializer and fits(kind_of_column, serializer):
                return kind, serializer
            if fits(kind_of_column.value_type, serializer):
                return kind, ListSerializer.of(serializer)
        elif (
            kind is StateKind.MAP and is_map and type(serializer) is MapSerializer and fits(kind_of_column, serializer)
        ):
            return kind, serializer
        if kind in (StateKind.LIST, StateKind.MAP) and (state_kind is not None or not fits(kind_of_column, serializer)):
            form_of(kind_of_column, serializer, column)
            raise OptionError(
                f"column {column!r} cannot be {kind.lower()} state with the type {serializer.flink_type}",
                expected="an array, and the type of its elements" if kind is StateKind.LIST else "a map, and MAP<K, V>",
                remedy="name the type in option 'types', the kind in option 'states'",
            )
        if inference is not None:
            # A list or map that is a value is not the container of list or map state.
            serializer = default_serializer(kind_of_column, column, version, types, inference, serializers)
        form_of(kind_of_column, serializer, column)
        return (StateKind.VALUE if kind in (StateKind.LIST, StateKind.MAP) else kind), serializer

    def has_type(self, column: str) -> bool:
        """Return whether option ``types`` names the type of a column, or of a part of it."""
        return any(is_type_of(path, column) for path in self.request.types)

    def with_access(self, state: StateDescriptor) -> StateDescriptor:
        """Return the state with the column of its times of last access, if there is one."""
        column = state.column + LAST_ACCESS
        if column not in self.columns:
            return state
        if not state.has_ttl:
            raise OptionError(
                f"column {column!r} has times of last access, but state {state.name!r} has no time to live",
                operator=self.request.operator,
                remedy="option('ttl', 'true'), or drop the column",
            )
        described = StateDescriptor(state.name, state.kind, state.serializer, state.namespace, state.column, column)
        form_of(self.schema.field(column).type, access_serializer(described), column)
        return described

    # -- namespaces and timers -------------------------------------------------------------------------------

    def namespace(self, column: str) -> TypeSerializer:
        """Return the namespace's serializer, by options or the column's type."""
        is_given = column in self.schema.names
        kind = self.schema.field(column).type if is_given else pa.null()
        text = self.request.types.get(column)
        if text is not None:
            serializer = type_of(text, column, self.request.restoring_flink, self.inference, self.request.serializers)
        elif (known := self.known_namespace(column)) is not None:
            serializer = known
        elif column == NAMESPACE_COLUMN and self.own_namespace is not None:
            serializer = self.own_namespace
        elif column == NAMESPACE_COLUMN and pa.types.is_null(kind):
            return NO_NAMESPACE
        elif pa.types.is_struct(kind) and [field.name for field in kind] == ["start", "end"]:
            serializer = parse_type("TIME_WINDOW")
        elif pa.types.is_null(kind) and is_given:
            serializer = parse_type("GLOBAL_WINDOW")
        else:
            raise OptionError(
                f"the type of {column!r} is not known" if is_given else f"there is no column {column!r}",
                expected="a struct<start, end> of timestamps, or a type in option 'types'",
                found=str(kind) if is_given else f"columns {', '.join(map(repr, self.schema.names))}",
                remedy=f"""option("types", '{{"{column}": "GLOBAL_WINDOW"}}'), LONG or COUNT_WINDOW of SQL""",
            )
        if not is_given and not isinstance(serializer, ConstantSerializer):
            expect_column(self.schema, column, f"a namespace of type {serializer.flink_type}")
        if not isinstance(serializer, ConstantSerializer):
            check_writable(kind, serializer, column)
        return serializer

    def known_namespace(self, column: str) -> TypeSerializer | None:
        """Return the namespace type in ``typesFrom``: that of the written states, or of the timer services."""
        if self.types is None:
            return None
        if column in (WINDOW_COLUMN, STATE_WINDOW):
            state_names = list(map(self.state_name, self.schema.names))
            namespaces = {
                name: meta.namespace_serializer for name, meta in self.types.states.items() if name in state_names
            }
        else:
            state_names = list(self.services(NO_NAMESPACE))
            namespaces = {name: queue.namespace for name, queue in self.types.timers.items() if name in state_names}
        if len(set(namespaces.values())) > 1:
            raise OptionError(
                "the written states have namespaces of different types in 'typesFrom'",
                operator=self.request.operator,
                found=", ".join(f"{name} {namespace.flink_type}" for name, namespace in namespaces.items()),
                remedy="write states of the same namespace type together"
                + ("; option('state', ...) names timer services" if column == NAMESPACE_COLUMN else ""),
            )
        return next(iter(namespaces.values()), None)

    def services(self, namespace: TypeSerializer) -> tuple[str, ...]:
        """Return the timer services: option ``state``, else those of ``typesFrom``, else Flink's default name."""
        if self.request.state is not None:
            return split_names(self.request.state)
        if self.types is not None and self.types.timers and not self.added:
            return tuple(self.types.timers)
        return (USER_TIMERS,) if namespace == NO_NAMESPACE else (WINDOW_TIMERS,)

    def timers(
        self, key: TypeSerializer, namespace: TypeSerializer, used: set[str | None]
    ) -> tuple[StateDescriptor, ...]:
        timer_columns = {TIMESTAMP, DOMAIN, SERVICE, NAMESPACE_COLUMN}
        for name in self.schema.names:
            if name not in used | timer_columns:
                raise OptionError(
                    f"table 'timers' takes no column {name!r}",
                    remedy=f"drop it; {did_you_mean(name, sorted(timer_columns))}",
                )
        expect_column(self.schema, TIMESTAMP, "the time of a timer: a long as registered, or a TIMESTAMP")
        form_of(self.schema.field(TIMESTAMP).type, MOMENT, TIMESTAMP)
        expect_column(self.schema, DOMAIN, f"one of {', '.join(TIMER_DOMAINS)}")
        for name in (DOMAIN, SERVICE):
            if name in self.schema.names:
                form_of(self.schema.field(name).type, parse_type("STRING"), name)
        return timer_states(key, namespace, self.services(namespace))


VALUE = "value"
#: The state that names the sessions of a window operator, as Flink registers it.
SESSIONS_TYPE = parse_type("LIST<TUPLE<TIME_WINDOW, TIME_WINDOW>>")


def _names_sessions(kind: pa.DataType) -> bool:
    """Return whether a column has pairs of windows by time, as the state that names sessions is shown."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    return [field.name for field in kind.value_type] == ["f0", "f1"] and all(
        pa.types.is_struct(field.type) and [part.name for part in field.type] == ["start", "end"]
        for field in kind.value_type
    )


def describe_operator_state(
    schema: pa.Schema, request: WriteSpec, types: OperatorTypes | None = None, *, added: bool = False
) -> OperatorStateDescriptor:
    """Describe list, union or broadcast state; ``types`` are those to keep, else those of option ``typesFrom``.

    ``added``: a state that ``types`` lacks is new.
    """
    expect_paths(request.classes)
    name = request.state
    if not name:
        raise OptionError(
            "the name of the operator state is missing",
            remedy="set option('state', ...) to the name in the job's state descriptor",
        )
    expect_each_name_once(schema)
    types = types or OperatorTypes.named_by(request)
    types = types.described(request.job_classes) if types is not None else None
    existing = types.operator_states.get(name) if types is not None else None
    if added and existing is None:
        types = None
    state_kind = request.kind or (
        existing.state_type.lower() if existing is not None else kind_by_columns(schema.names)
    )
    columns = (KEY, VALUE) if state_kind == BROADCAST else _only_column(schema, state_kind)
    for column in columns:
        expect_column(schema, column, "key and value of a broadcast state" if len(columns) == 2 else "the elements")
    others = [column for column in schema.names if column not in columns]
    if others:
        raise OptionError(
            f"column {others[0]!r} does not belong to a {state_kind} state",
            expected=f"columns {', '.join(columns)}",
            remedy="drop it, or put all columns into one: struct(*)",
        )
    expect_names("types", request.types, [path for field in schema for path in parts_of(field.type, field.name)])
    roles = {KEY: "KEY_SERIALIZER", VALUE: "VALUE_SERIALIZER"}
    serializers = {}
    for column in columns:
        kind = schema.field(column).type
        role = roles[column if len(columns) == 2 else VALUE]
        if types is None or any(path in request.types for path in parts_of(kind, column)):
            serializer = default_serializer(
                kind, column, request.restoring_flink, request.types, inference_of(request), request.serializers
            )
        else:
            serializer = unwrap(types.operator_state(name).serializers[role])
        check_writable(kind, serializer, column)
        serializers[role] = serializer
    return OperatorStateDescriptor(
        name,
        Mode.of(state_kind.upper()),
        serializers["VALUE_SERIALIZER"],
        serializers.get("KEY_SERIALIZER"),
        columns,
    )


def kind_by_columns(columns: Collection[str]) -> str:
    """Return the kind of an operator state by its columns as they are read.

    >>> kind_by_columns(["key", "value"]), kind_by_columns(["value"])
    ('broadcast', 'list')
    """
    return BROADCAST if set(columns) == {KEY, VALUE} else LIST


def _only_column(schema: pa.Schema, kind: str) -> tuple[str, ...]:
    if len(schema.names) == 1:
        return (schema.names[0],)
    if VALUE in schema.names:
        return (VALUE,)
    raise OptionError(
        f"a {kind} state is written from one column",
        found=f"columns {', '.join(map(repr, schema.names))}",
        remedy="select one column; elements of several fields are one column of structs",
    )


def entry_columns(descriptor: KeyedDescriptor, numbers: Mapping[str, int]) -> tuple[tuple[int, str, str | None], ...]:
    """Return the columns of the states that have a number, as ``WriteSpec.entry_columns`` has them."""
    states = [(numbers[state.name], state) for state in descriptor.states if state.name in numbers]
    return tuple((number, state.column, state.last_access) for number, state in states)
