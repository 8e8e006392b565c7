"""What each field of each node means: an expression over columns of tables, whatever its name and place.

Two fields with the same digest have the same meaning in both plans. Digests leave out filters, which
:attr:`Meaning.filters` has, and names. Types are part of a call (``CAST(v AS DOUBLE)``), not of a column. What is not
understood has a digest of its whole description, so that it equals nothing but itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.accumulators import is_count_star
from pyspark_savepoint.statebackends.evolution.expected_aggregates import aggregate_calls
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.plans import AggregateCall, Json, Node, Plan, row_of
from pyspark_savepoint.statebackends.evolution.shapes import Column

#: Nodes whose rows and fields are those of their input.
PASSING = ("exchange", "watermark-assigner", "mini-batch-assigner", "drop-update-before")
#: Nodes that emit rows of their input, perhaps with a rank.
SAME_FIELDS = (
    "deduplicate", "rank", "limit", "sort-limit", "window-rank", "window-deduplicate", "changelog-normalize",
    "temporal-sort",
)  # fmt: skip
#: Windows of which each row has one; of others it has several, and is there once for each.
ONE_WINDOW = ("TumblingWindow", "SessionWindow")
JOINS = ("join", "interval-join", "temporal-join", "window-join")
#: Joins whose sides may change places, and types that mean the same then, under the other name.
SWAPPED = ("join", "interval-join", "window-join")
SWAPPED_TYPES = {"INNER": "INNER", "LEFT": "RIGHT", "RIGHT": "LEFT", "FULL": "FULL"}
AGGREGATES = ("group-aggregate", "global-group-aggregate")
WINDOW_AGGREGATES = ("window-aggregate", "global-window-aggregate", "group-window-aggregate")
LOCAL = {"global-group-aggregate": "local-group-aggregate", "global-window-aggregate": "local-window-aggregate"}
#: Attributes that say nothing about what a node means.
TECHNICAL = (
    "id", "type", "configuration", "inputProperties", "outputType", "description", "state", "generateUpdateBefore",
    "rankStrategy", "unboundedOverVersion", "outputInsertOnly", "filterCondition", "outputRowNumber",
)  # fmt: skip
#: Abilities of a source that change neither its rows nor their meaning.
HARMLESS = ("ProjectPushDown", "ReadingMetadata", "WatermarkPushDown", "SourceWatermark")
#: Functions whose operands have any order, and those that are another one with them turned.
COMMUTATIVE = ("$+$1", "$*$1", "$=$1", "$<>$1", "$AND$1", "$OR$1")
TURNED = {"$>$1": "$<$1", "$>=$1": "$<=$1"}
#: Functions that are not TRUE if an operand is NULL.
NEEDING = ("$=$1", "$<>$1", "$>$1", "$>=$1", "$<$1", "$<=$1", "$IS NOT NULL$1")
PROCESSING_TIME = "$PROCTIME$"
TEXTS = ("CHAR", "VARCHAR")
INTERVALS = ("INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH")
NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


#: Letters of an expression that is shown.
MAX_SQL = 300


def digest(*parts: object) -> str:
    """Return a short text that is equal for equal parts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Term:
    """The meaning of a field. ``rex`` and ``operands``: it is an expression over other terms."""

    digest: str
    name: str
    rex: Any = None
    operands: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Meaning:
    """What comes out of a node: the rows that it has (``relation``), its fields, and which rows were left out."""

    relation: str
    fields: tuple[Term, ...]
    #: Conditions of rows that reached it, with a text of each.
    filters: Mapping[str, str]
    tables: frozenset[str]


@dataclass(frozen=True)
class GroupingSets:
    """Sets of columns by which rows are grouped, as a field tells them apart.

    ``numbers`` are the values of that field, by the columns that a set has. ``fields`` are these columns, and
    those that no set groups by. ``relation`` are the rows.
    """

    relation: str
    numbers: Mapping[frozenset[str], int]
    fields: Mapping[frozenset[str], tuple[Term, ...]]


class Lineage:
    """The meaning of all nodes of a plan; ``tables`` gives other names to tables that were renamed.

    ``known``: tables that OLD has. A UNION with others means what it means without them: their rows are new ones.
    ``keeping``: nodes whose rows mean what these nodes do alone, whatever reaches them.
    """

    def __init__(
        self,
        plan: Plan,
        tables: Mapping[str, str] | None = None,
        known: frozenset[str] | None = None,
        keeping: frozenset[int] = frozenset(),
    ) -> None:
        self.plan = plan
        self.known = known
        self.keeping = keeping
        #: Tables whose rows are added to a UNION.
        self.added: set[str] = set()
        #: Conditions of rows, by their digest.
        self.conditions: dict[str, Term] = {}
        self.tables = tables or {}
        #: Sets of columns by which rows are grouped, by the digest of the field that tells them apart.
        self.sets: dict[str, GroupingSets] = {}
        #: The branches of each UNION, with those of a UNION in it.
        self.branches: dict[int, tuple[Meaning, ...]] = {}
        self.meanings: dict[int, Meaning] = {}
        for node in plan.nodes.values():
            self.meanings[node.id] = self._alone(node) if node.id in keeping else self._meaning(node)

    def cut_at(self, keeping: frozenset[int]) -> Lineage:
        """Return the same with what comes out of some nodes told by these nodes alone."""
        return Lineage(self.plan, self.tables, self.known, keeping)

    def _alone(self, node: Node) -> Meaning:
        """Return the meaning of a node whose input has any rows."""
        meanings = self.meanings
        self.meanings = {number: replace(one, relation="", filters={}) for number, one in meanings.items()}
        found = self._meaning(node)
        self.meanings = meanings
        return found

    def of(self, node: Node) -> Meaning:
        return self.meanings[node.id]

    def inputs(self, node: Node) -> tuple[Meaning, ...]:
        return tuple(self.meanings[number] for number in node.inputs)

    def table_of(self, node: Node) -> str:
        """Return the table of a source, by the name that OLD has for it."""
        name = str(
            (node.attributes.get("scanTableSource") or {}).get("table", {}).get("identifier") or node.description
        )
        return self.tables.get(name, name)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _meaning(self, node: Node) -> Meaning:
        inputs = self.inputs(node)
        if "scanTableSource" in node.attributes:
            return self._scan(node)
        if node.kind in PASSING or node.kind == "sink":
            return inputs[0]
        if node.kind == "calc":
            return self._calc(node, inputs[0])
        if node.kind == "union":
            return self._union(node, inputs)
        if node.kind == "expand":
            return self._expanded(node, inputs[0])
        if node.kind == "lookup-join":
            return self._looked_up(node, inputs[0])
        if node.kind == "correlate":
            return self._correlated(node, inputs[0])
        if node.kind in ("local-group-aggregate", "local-window-aggregate"):
            return self._opaque(node, inputs, inputs[0].relation)
        if node.kind in (*AGGREGATES, *WINDOW_AGGREGATES):
            return self._aggregate(node)
        if node.kind in JOINS:
            return self._join(node, inputs)
        if node.kind == "match":
            return self._matched(node, inputs[0])
        if node.kind in SAME_FIELDS:
            return self._same_fields(node, inputs[0])
        if node.kind in ("over-aggregate", "window-table-function"):
            return self._appending(node, inputs[0])
        return self._opaque(node, inputs, None)

    def _scan(self, node: Node) -> Meaning:
        table = self.table_of(node)
        columns = tuple(Term(digest("column", table, column.name), column.name) for column in node.output)
        relation, filters = digest("scan", table), {}
        for ability in node.attributes["scanTableSource"].get("abilities") or ():
            kind = str(ability.get("type"))
            if kind == "FilterPushDown":
                for predicate in ability.get("predicates") or ():
                    text = json.dumps(predicate, sort_keys=True)
                    filters[digest("pushed", table, text)] = f"a filter that source {table} applies"
            elif kind not in HARMLESS:
                relation = digest("scan", relation, ability)
        return Meaning(relation, columns, filters, frozenset([table]))

    def _calc(self, node: Node, below: Meaning) -> Meaning:
        names = [column.name for column in node.output]
        fields = tuple(
            self.term(rex, below.fields, name) for rex, name in zip(node.attributes["projection"], names, strict=True)
        )
        condition = node.attributes.get("condition")
        filters = dict(below.filters)
        if condition is not None:
            filters |= dict.fromkeys(self._kept(condition, below.fields), node.description)
        return replace(below, fields=fields, filters=filters)

    def _kept(self, condition: Json, fields: Sequence[Term]) -> Iterator[str]:
        """Yield the digests of the parts of a condition that are all true, and keep what they mean."""
        for part in _conjuncts(condition):
            term = self.term(part, fields, "")
            self.conditions[term.digest] = term
            yield term.digest

    def conditions_before(self, node: Node) -> tuple[frozenset[str], Meaning]:
        """Return the conditions of rows since the last operator before an aggregate, and what came out of that one."""
        conditions: set[str] = set()
        (below,) = self.plan.inputs(node)
        while below.kind in (*PASSING, *LOCAL.values(), "calc"):
            condition = below.attributes.get("condition") if below.kind == "calc" else None
            if condition is not None:
                conditions.update(self._kept(condition, self.inputs(below)[0].fields))
            (below,) = self.plan.inputs(below)
        return frozenset(conditions), self.of(below)

    def conjuncts(self, term: Term) -> Iterator[str]:
        """Yield the digests of what must be true for a BOOLEAN to be TRUE."""
        rex = term.rex
        if rex is not None and rex.get("internalName") == "$IS TRUE$1":
            (rex,) = rex["operands"]
        for part in () if rex is None else _conjuncts(rex):
            yield self.term(part, term.operands, "").digest
        if rex is None:
            yield term.digest

    def term(self, rex: Any, fields: Sequence[Term], name: str) -> Term:
        """Return the meaning of a RexNode over fields."""
        if rex.get("kind") == "INPUT_REF":
            return replace(fields[int(rex["inputIndex"])], name=name or fields[int(rex["inputIndex"])].name)
        used: dict[int, int] = {}
        renumbered = _renumbered(rex, used)
        operands = tuple(fields[index] for index in used)
        if str(rex.get("internalName", "")).startswith(PROCESSING_TIME):
            return Term(digest("processing time"), name, renumbered)  # releases describe it in different ways
        whole = _ordered(meaning_of(_with_fields(rex, fields)))
        return Term(digest("rex", whole, []), name, renumbered, operands)

    def _union(self, node: Node, inputs: Sequence[Meaning]) -> Meaning:
        inputs = [
            branch
            for number, one in zip(node.inputs, inputs, strict=True)
            for branch in self.branches.get(number, (one,))
        ]
        if self.known is not None:
            old = [one for one in inputs if one.tables <= self.known]
            if old and len(old) < len(inputs):
                self.added.update(*(one.tables - self.known for one in inputs))
                inputs = old
        inputs = sorted(
            inputs, key=lambda one: (one.relation, [each.digest for each in one.fields], sorted(one.filters))
        )
        self.branches[node.id] = tuple(inputs)
        if len(inputs) == 1:
            return inputs[0]
        relation = digest("union", [one.relation for one in inputs])
        fields = tuple(
            Term(digest("union", [one.fields[place].digest for one in inputs]), column.name)
            for place, column in enumerate(node.output)
        )
        return Meaning(relation, fields, filters_of(inputs), frozenset().union(*(one.tables for one in inputs)))

    def _expanded(self, node: Node, below: Meaning) -> Meaning:
        """Return the meaning of rows of which each is there once for each set of GROUPING SETS.

        A column is NULL where a set does not have it, and the last field is the number of the set. The number follows
        from the order of the columns, so that the sets tell what it means.
        """
        projects: list[list[Json]] = node.attributes["projects"]
        places = range(len(node.output))
        numbered = [place for place in places if all(_is_number(one[place]) for one in projects)]
        sources = {place: _source(projects, place) for place in places if place not in numbered}
        kept = [
            frozenset(
                below.fields[index].digest
                for place, index in sources.items()
                if index is not None and one[place].get("kind") == "INPUT_REF"
            )
            for one in projects
        ]
        if len(numbered) != 1 or None in sources.values() or len(set(kept)) < len(kept):
            return self._opaque(node, (below,), None)
        numbers = {columns: int(one[numbered[0]]["value"]) for columns, one in zip(kept, projects, strict=True)}
        relation = digest("expand", below.relation)
        mark = digest("set", relation, sorted((sorted(columns), number) for columns, number in numbers.items()))
        fields = []
        for place, column in enumerate(node.output):
            index = sources.get(place)
            if index is None:
                fields.append(Term(mark, column.name))
                continue
            whole = all(one[place].get("kind") == "INPUT_REF" for one in projects)
            source = below.fields[index].digest
            fields.append(Term(source if whole else grouped(source), column.name))
        names = {
            columns: tuple(fields[place] for place in sources if one[place].get("kind") == "INPUT_REF")
            for columns, one in zip(kept, projects, strict=True)
        }
        self.sets[mark] = GroupingSets(relation, numbers, names)
        return replace(below, relation=relation, fields=tuple(fields))

    def _looked_up(self, node: Node, below: Meaning) -> Meaning:
        """Return the meaning of rows with columns of a table in which they were looked up."""
        attributes = node.attributes
        temporal = attributes.get("temporalTable")
        if temporal is None:
            return self._opaque(node, (below,), None)
        source = temporal.get("lookupTableSource") or temporal
        name = str((source.get("table") or {}).get("identifier") or node.description)
        table = self.tables.get(name, name)
        columns = row_of(temporal["outputType"])
        rows = tuple(Term(digest("column", table, column.name), column.name) for column in columns)
        keys = sorted(
            (
                rows[int(place)].digest,
                below.fields[int(key["index"])].digest if key.get("type") == "FieldRef" else digest(meaning_of(key)),
            )
            for place, key in (attributes.get("lookupKeys") or {}).items()
        )
        projection = attributes.get("projectionOnTemporalTable")
        right = rows if projection is None else tuple(self.term(rex, rows, "") for rex in projection)
        conditions = [
            sorted(self.term(part, fields, "").digest for part in _conjuncts(attributes[name]))
            for name, fields in (
                ("filterOnTemporalTable", rows),
                ("preFilterCondition", below.fields),
                ("joinCondition", (*below.fields, *right)),
            )
            if attributes.get(name) is not None
        ]
        found = digest("looked up", table, keys)
        relation = digest(found, below.relation, attributes.get("joinType"), conditions)
        names = [column.name for column in node.output[len(below.fields) :]]
        more = tuple(Term(digest(found, one.digest), column) for one, column in zip(right, names, strict=True))
        return replace(below, relation=relation, fields=(*below.fields, *more))

    def _correlated(self, node: Node, below: Meaning) -> Meaning:
        """Return the meaning of rows with those that a table function, or UNNEST, makes of each."""
        attributes = node.attributes
        (source,) = self.plan.inputs(node)
        called = _of_input(attributes.get("functionCall"), names_of(source.output))
        if called is None or len(node.output) < len(below.fields):
            return self._opaque(node, (below,), None)
        columns = node.output[len(below.fields) :]
        call = self.term(called, below.fields, "").digest
        right = tuple(Term(digest("of function", call, place), one.name) for place, one in enumerate(columns))
        condition = attributes.get("condition")
        conditions = [] if condition is None else [self.term(one, right, "").digest for one in _conjuncts(condition)]
        relation = digest("correlate", below.relation, attributes.get("joinType"), call, sorted(conditions))
        return replace(below, relation=relation, fields=(*below.fields, *right))

    def rows_of(self, node: Node) -> Sequence[Term]:
        """Return the fields that the arguments of a node's calls refer to: of two phases those of the first."""
        below = self.plan.inputs(node)[0]
        wanted = LOCAL.get(node.kind)
        if wanted is not None:
            while below.kind == "exchange":
                (below,) = self.plan.inputs(below)
            if below.kind == wanted:
                return self.inputs(below)[0].fields
            return [Term(digest("partial", self.of(below).relation, place), "") for place in range(10_000)][:1000]
        return self.of(below).fields

    def keys_of(self, node: Node) -> tuple[Term, ...]:
        """Return the fields by which an aggregate groups."""
        below = self.plan.inputs(node)[0]
        while node.kind in LOCAL and below.kind == "exchange":
            (below,) = self.plan.inputs(below)
        if below.kind in ("local-group-aggregate", "local-window-aggregate"):
            rows = self.inputs(below)[0].fields
            return tuple(rows[index] for index in below.attributes["grouping"])
        grouping = node.attributes.get("grouping", node.attributes.get("partialAggGrouping", ()))
        return tuple(self.of(below).fields[index] for index in grouping)

    def call(self, call: AggregateCall, rows: Sequence[Term]) -> str:
        """Return the digest of a call: its function and its arguments, without the rows that it is over."""
        if is_count_star(call):
            return digest("call", "COUNT", "*")
        arguments = [rows[index].digest for index in call.arguments]
        where = rows[call.filter].digest if call.filter >= 0 else None
        return digest("call", call.function, call.built_in, arguments, where, call.distinct, call.more)

    def _aggregate(self, node: Node) -> Meaning:
        keys, rows = self.keys_of(node), self.rows_of(node)
        below = self._below_phases(node)
        relation = digest(
            "aggregate", below.relation, sorted(map(self._key_digest, keys)), windows_of(node, self.time_of(node))
        )
        calls = [Term(digest("result", relation, self.call(call, rows)), call.name) for call in aggregate_calls(node)]
        rest = node.output[len(keys) + len(calls) :]
        more = [
            Term(digest("window property", relation, column.name.rstrip("0123456789")), column.name) for column in rest
        ]
        names = [column.name for column in node.output]
        fields = tuple(replace(one, name=name) for one, name in zip((*keys, *calls, *more), names, strict=False))
        return Meaning(relation, fields, below.filters, below.tables)

    def _key_digest(self, key: Term) -> str:
        """Return the digest of a key; of the number of a set that of the sets, whatever their numbers are."""
        sets = self.sets.get(key.digest)
        return key.digest if sets is None else digest("sets", sets.relation, sorted(map(sorted, sets.numbers)))

    def sets_of(self, node: Node) -> GroupingSets | None:
        """Return the sets of columns by which an aggregate groups; None if it groups by one."""
        return next((self.sets[key.digest] for key in self.keys_of(node) if key.digest in self.sets), None)

    def _below_phases(self, node: Node) -> Meaning:
        below = self.plan.inputs(node)[0]
        while node.kind in LOCAL and below.kind in ("exchange", "local-group-aggregate", "local-window-aggregate"):
            (below,) = self.plan.inputs(below)
        return self.of(below)

    def time_of(self, node: Node) -> str:
        """Return the digest of the time by which windows are made, or of the windows that the rows have."""
        below = node
        while node.kind in LOCAL and below.kind in ("exchange", node.kind):
            (below,) = self.plan.inputs(below)
        if below.kind == LOCAL.get(node.kind):
            node = below
        rows = self.inputs(node)[0].fields
        windowing = node.attributes.get("windowing") or {}
        window = node.attributes.get("window") or {}
        places = [windowing.get(name) for name in ("timeAttributeIndex", "windowStart", "windowEnd")]
        places += [window.get("timeField", {}).get("fieldIndex")] if isinstance(window, Mapping) else []
        zone = (node.attributes.get("configuration") or {}).get("table.local-time-zone")
        known = [rows[int(place)].digest for place in places if place is not None and 0 <= int(place) < len(rows)]
        return digest(known, zone)

    def _join(self, node: Node, inputs: Sequence[Meaning]) -> Meaning:
        sides = (1, 0) if self.is_swapped(node) else (0, 1)
        settings = [self.join_type(node), join_spec(node).get("filterNulls"), self.bounds(node), self.times(node)]
        relations = [inputs[side].relation for side in sides]
        relation = digest(node.kind, relations, self.join_keys(node), self.residual(node), settings)
        fields = tuple(
            Term(digest("of join", number, one.digest), one.name)
            for number, side in zip(sides, inputs, strict=True)
            for one in side.fields
        )[: len(node.output)]
        return Meaning(relation, fields, filters_of(inputs), inputs[0].tables | inputs[1].tables)

    def is_swapped(self, node: Node) -> bool:
        """Return whether a join is compared with its sides swapped: ``a JOIN b`` and ``b JOIN a`` are one join.

        Which side comes first is decided by the tables of its rows. Sides of the same tables are never swapped.
        """
        if node.kind not in SWAPPED or join_spec(node).get("joinType") not in SWAPPED_TYPES:
            return False
        left, right = (sorted(one.tables) for one in self.inputs(node))
        return left > right

    def join_type(self, node: Node) -> str:
        """Return the type of a join, with its sides as they are compared."""
        kind = str(join_spec(node).get("joinType"))
        return SWAPPED_TYPES[kind] if self.is_swapped(node) else kind

    def join_keys(self, node: Node) -> list[tuple[str, str]]:
        """Return pairs of the digests of a join's keys, with its sides as they are compared."""
        spec = join_spec(node)
        left, right = self.inputs(node)
        pairs = zip(spec.get("leftKeys") or (), spec.get("rightKeys") or (), strict=True)
        found = [(left.fields[one].digest, right.fields[other].digest) for one, other in pairs]
        return [pair[::-1] for pair in found] if self.is_swapped(node) else found

    def times(self, node: Node) -> list[str]:
        """Return the digests of the times, or of the windows, by which a join finds rows."""
        attributes, (left, right) = node.attributes, self.inputs(node)
        bounds = (attributes.get("intervalJoinSpec") or {}).get("windowBounds") or {}
        sides = [(left, "left"), (right, "right")]
        places = []
        for side, name in sides[::-1] if self.is_swapped(node) else sides:
            windowing = attributes.get(f"{name}Windowing") or {}
            places.append((side, bounds.get(f"{name}TimeIndex", attributes.get(f"{name}TimeAttributeIndex"))))
            places += [(side, windowing.get(each)) for each in ("windowStart", "windowEnd")]
        known = [(side, int(place)) for side, place in places if place is not None]
        return [side.fields[place].digest for side, place in known if 0 <= place < len(side.fields)]

    def bounds(self, node: Node) -> list[Any]:
        """Return the windows of a join, or whether its times are of events, and the bounds of the first side's."""
        swapped = self.is_swapped(node)
        bounds = (node.attributes.get("intervalJoinSpec") or {}).get("windowBounds")
        if bounds is not None:
            low, high = int(bounds["leftLowerBound"]), int(bounds["leftUpperBound"])
            return [bool(bounds["isEventTime"]), *((-high, -low) if swapped else (low, high))]
        windows = [(node.attributes.get(name) or {}).get("window") for name in ("leftWindowing", "rightWindowing")]
        return windows[::-1] if swapped else windows

    def residual(self, node: Node) -> str:
        """Return the digest of a join's condition beyond its keys; empty if there is none."""
        condition = join_spec(node).get("nonEquiCondition")
        if condition is None:
            return ""
        left, right = self.inputs(node)
        return self.term(condition, (*left.fields, *right.fields), "").digest

    def _matched(self, node: Node, below: Meaning) -> Meaning:
        """Return the meaning of the matches of a pattern: a row of each, with its partition and what it measures."""
        spec = node.attributes["matchSpec"]
        partition = [below.fields[int(place)] for place in spec["partition"]["fields"]]
        if spec.get("allRows") or len(node.output) != len(partition) + len(spec["measures"]):
            return self._opaque(node, (below,), None)
        order = [{**one, "index": below.fields[int(one["index"])].digest} for one in spec["orderBy"]["fields"]]
        known = {name: value for name, value in spec.items() if name not in ("measures", "partition", "orderBy")}
        pattern = digest(meaning_of(_with_fields(known, below.fields)), sorted(one.digest for one in partition), order)
        measures = [
            Term(digest("measure", pattern, meaning_of(_with_fields(one, below.fields))), name)
            for name, one in spec["measures"].items()
        ]
        return replace(below, relation=digest("match", below.relation, pattern), fields=(*partition, *measures))

    def _same_fields(self, node: Node, below: Meaning) -> Meaning:
        relation = digest(node.kind, below.relation, self.described(node))
        fields = below.fields
        more = [Term(digest("rank of", relation), column.name) for column in node.output[len(fields) :]]
        filters = dict(below.filters)
        condition = node.attributes.get("filterCondition")
        if condition is not None:
            filters |= dict.fromkeys(self._kept(condition, fields), node.description)
        return replace(below, relation=relation, fields=(*fields, *more), filters=filters)

    def described(self, node: Node) -> str:
        """Return the digest of the attributes of a node that mean something, with fields by their meaning."""
        fields = self.inputs(node)[0].fields
        known: dict[str, Any] = {}
        for name, value in node.attributes.items():
            if name in TECHNICAL or value in (None, [], False):
                continue
            if name in ("uniqueKeys", "partitionKeys"):
                known[name] = sorted(fields[index].digest for index in value)
            elif name == "orderKey":
                known[name] = fields[value].digest
            elif name == "windowing":
                known[name] = self.windows(node)
            elif name in ("partition", "partitionSpec"):
                known[name] = sorted(fields[index].digest for index in value["fields"])
            elif name in ("orderBy", "sortSpec"):
                known[name] = [{**one, "index": fields[one["index"]].digest} for one in value["fields"]]
            else:
                known[name] = value
        return digest(known)

    def windows(self, node: Node) -> Any:
        """Return the windows that the rows of a node have: their shape, and what their beginning and end mean."""
        windowing = node.attributes.get("windowing")
        if windowing is None:
            return None
        fields = self.inputs(node)[0].fields
        places = ("windowStart", "windowEnd", "window")
        known = {
            name: fields[value].digest
            if name in places and isinstance(value, int) and 0 <= value < len(fields)
            else value
            for name, value in windowing.items()
        }
        return digest(known)

    def _appending(self, node: Node, below: Meaning) -> Meaning:
        relation = below.relation
        if node.kind == "window-table-function":
            mark = digest("windows", windows_of(node, self.time_of(node)))
            window = (node.attributes.get("windowing") or {}).get("window") or {}
            if window.get("type") not in ONE_WINDOW:
                relation = digest("in windows", relation, mark)
            calls = [digest(mark, column.name.rstrip("0123456789")) for column in node.output[len(below.fields) :]]
        else:
            mark = self.over_window(node)
            rows = (*below.fields, *constants_of(node))
            calls = [digest(mark, self.call(call, rows)) for call in aggregate_calls(node)]
        more = [
            Term(digest("of row", below.relation, call), column.name)
            for call, column in zip(calls, node.output[len(below.fields) :], strict=False)
        ]
        return replace(below, relation=relation, fields=(*below.fields, *more))

    def over_window(self, node: Node) -> str:
        """Return the digest of the windows of OVER: partition, order, bounds."""
        fields = (*self.inputs(node)[0].fields, *constants_of(node))
        spec = node.attributes["overSpec"]

        def bound(given: Mapping[str, Any]) -> Any:
            offset = given.get("offset")
            return {**given, "offset": self.term(offset, fields, "").digest} if isinstance(offset, Mapping) else given

        parts = [
            {
                "order": [{**one, "index": fields[one["index"]].digest} for one in group["orderBy"]["fields"]],
                "rows": group.get("isRows"),
                "from": bound(group["lowerBound"]),
                "to": bound(group["upperBound"]),
            }
            for group in spec["groups"]
        ]
        return digest(sorted(fields[index].digest for index in spec["partition"]["fields"]), parts)

    def _opaque(self, node: Node, inputs: Sequence[Meaning], relation: str | None) -> Meaning:
        """Return the meaning of a node that is not understood: that of its whole description."""
        plain = {name: value for name, value in node.attributes.items() if name not in ("id", "inputProperties")}
        marks = [[one.digest for one in each.fields] for each in inputs]
        whole = relation or digest(node.type, plain, [one.relation for one in inputs], marks)
        fields = tuple(
            Term(digest("opaque", node.type, plain, marks, place), column.name)
            for place, column in enumerate(node.output)
        )
        return Meaning(whole, fields, filters_of(inputs), frozenset().union(*(one.tables for one in inputs)))


def grouped(source: str) -> str:
    """Return the digest of a column that is NULL where a set does not have it."""
    return digest("grouped", source)


def _is_number(rex: Json) -> bool:
    """Return whether an expression is a whole number; before Flink 1.18 plans write it as a text."""
    if rex.get("kind") != "LITERAL" or logical_type_of(rex["type"]).root not in NUMBERS:
        return False
    return str(rex.get("value")).isdecimal()


def _source(projects: Sequence[Sequence[Json]], place: int) -> int | None:
    """Return the only field that a column of GROUPING SETS has where it is not NULL; None if there is none."""
    found = {
        int(one[place]["inputIndex"])
        if one[place].get("kind") == "INPUT_REF"
        else -1
        if one[place].get("kind") != "LITERAL" or one[place].get("value") is not None
        else None
        for one in projects
    } - {None}
    return next(iter(found)) if len(found) == 1 and -1 not in found else None


def explained(terms: Iterable[Term]) -> str:
    """Return what the fields are that the planner has named, such as ``$f1``; empty if there is none."""
    texts = dict.fromkeys(
        f"{one.name} is {sql_of(one)}" for one in terms if one.rex is not None and one.name.startswith(("$", "EXPR$"))
    )
    return "; ".join(texts)


def sql_of(term: Term) -> str:
    """Return a field as SQL: its expression, or its name."""
    return term.name if term.rex is None else _sql(term.rex, [sql_of(one) for one in term.operands])[:MAX_SQL]


def _sql(rex: Mapping[str, Any], operands: Sequence[str]) -> str:
    kind = rex.get("kind")
    if kind == "INPUT_REF":
        return operands[int(rex["inputIndex"])]
    if kind == "LITERAL":
        value = rex.get("value")
        return (
            "NULL"
            if value is None
            else f"'{value}'"
            if isinstance(value, str) and not value.isdecimal()
            else str(value)
        )
    if kind == "FIELD_ACCESS":
        return f"{_sql(rex['expr'], operands)}.{rex.get('name')}"
    if kind != "CALL":
        return "..."
    name = str(rex.get("internalName") or rex.get("catalogName") or rex.get("systemName") or rex.get("sqlKind") or "")
    name = name.replace("`", "").rpartition(".")[2].lstrip("$").partition("$")[0]
    parts = [_sql(one, operands) for one in rex.get("operands") or ()]
    if name == "CASE" and len(parts) % 2:
        pairs = zip(parts[:-1:2], parts[1:-1:2], strict=True)
        return f"CASE {' '.join(f'WHEN {one} THEN {other}' for one, other in pairs)} ELSE {parts[-1]} END"
    if name in ("CAST", "REINTERPRET") and len(parts) == 1:
        return f"CAST({parts[0]} AS {replace(logical_type_of(rex['type']), nullable=True)})"
    if name and not name[0].isalpha() and len(parts) == 2:
        return f"({parts[0]} {name} {parts[1]})"
    if name in ("AND", "OR"):
        return f"({f' {name} '.join(parts)})"
    if name.startswith("IS ") and len(parts) == 1:
        return f"{parts[0]} {name}"
    return f"{name}({', '.join(parts)})"


def needed_of(condition: Term) -> Iterator[str]:
    """Yield the digests of the fields that have a value wherever a condition is TRUE."""
    rex = condition.rex or {}
    for operand in (rex.get("operands") or ()) if rex.get("internalName") in NEEDING else ():
        while operand.get("internalName") == "$CAST$1":
            (operand,) = operand["operands"]
        if operand.get("kind") == "INPUT_REF":
            yield condition.operands[int(operand["inputIndex"])].digest


def filters_of(inputs: Sequence[Meaning]) -> dict[str, str]:
    """Return the conditions of rows of some inputs; those of a table that several have are told apart by the place.

    ``t JOIN (t WHERE v > 5)`` has other rows than ``(t WHERE v > 5) JOIN t``.
    """
    if len(inputs) == 1:
        return dict(inputs[0].filters)
    told = sum(len(one.tables) for one in inputs) == len(frozenset[str]().union(*(one.tables for one in inputs)))
    return {
        digest("of input", 0 if told else place, key): text
        for place, one in enumerate(inputs)
        for key, text in one.filters.items()
    }


def delay_of(lineage: Lineage, node: Node) -> int | None:
    """Return by how many milliseconds the watermark is behind the times of a node's rows; None if that is not known."""
    while True:
        if len(node.inputs) != 1:
            abilities = (node.attributes.get("scanTableSource") or {}).get("abilities") or ()
            found = next(
                (one.get("watermarkExpr") for one in abilities if one.get("type") == "WatermarkPushDown"), None
            )
            return _delay(found) if not node.inputs else None
        if node.kind == "watermark-assigner":
            return _delay(node.attributes.get("watermarkExpr"))
        (node,) = lineage.plan.inputs(node)


def _delay(expression: Any) -> int | None:
    """Return the delay of a watermark that is a column, or a column less a constant."""
    if not isinstance(expression, Mapping):
        return None
    if expression.get("kind") == "INPUT_REF":
        return 0
    operands = expression.get("operands") or ()
    if str(expression.get("internalName")) == "$-$1" and len(operands) == 2:
        column, constant = list(operands)
        value = constant.get("value")
        if column.get("kind") == "INPUT_REF" and constant.get("kind") == "LITERAL" and isinstance(value, int | str):
            return int(value) if str(value).isdecimal() else None
    return None


def join_spec(node: Node) -> Mapping[str, Any]:
    """Return the type, keys and condition of a join."""
    spec = node.attributes.get("joinSpec") or (node.attributes.get("intervalJoinSpec") or {}).get("joinSpec") or {}
    return dict(spec)


def pattern_of(node: Node) -> Any:
    """Return the pattern of a MATCH_RECOGNIZE: all but its measures, with operands in one order."""
    spec = node.attributes["matchSpec"]
    return _ordered(meaning_of({name: value for name, value in spec.items() if name not in ("measures", "partition")}))


def windows_of(node: Node, time: str) -> Any:
    """Return the windows of a node: shape, sizes, and the time by which they are made."""
    windowing = node.attributes.get("windowing")
    if windowing is not None:
        return [windowing.get("window"), windowing.get("isRowtime"), time]
    window = node.attributes.get("window")
    if isinstance(window, Mapping):
        return [{name: value for name, value in window.items() if name not in ("alias", "timeField")}, time]
    return None


def constants_of(node: Node) -> tuple[Term, ...]:
    """Return the constants of OVER, which follow the fields of its input."""
    constants = (node.attributes.get("overSpec") or {}).get("constants") or ()
    return tuple(Term(digest("rex", meaning_of(one), []), str(one.get("value"))) for one in constants)


def _conjuncts(condition: Mapping[str, Any]) -> list[Any]:
    if condition.get("kind") == "CALL" and str(condition.get("internalName")) == "$AND$1":
        return [part for operand in condition.get("operands") or () for part in _conjuncts(operand)]
    return [condition]


def _renumbered(rex: Any, used: dict[int, int]) -> Any:
    """Return a RexNode whose references count the fields that it uses, in order of first use."""
    if isinstance(rex, Mapping):
        if rex.get("kind") == "INPUT_REF":
            return {**rex, "inputIndex": used.setdefault(int(rex["inputIndex"]), len(used))}
        return {name: _renumbered(value, used) for name, value in rex.items()}
    if isinstance(rex, list):
        return [_renumbered(value, used) for value in rex]
    return rex


def meaning_of(rex: Any) -> Any:
    """Return a RexNode without what does not matter: nullability, syntax, types of references, small numbers, lists.

    An interval has any unit: its value is in milliseconds, or in months.
    """
    if isinstance(rex, list):
        return [meaning_of(value) for value in rex]
    if not isinstance(rex, Mapping):
        return rex
    hidden = ("type", "syntax", "catalogName") if rex.get("class") else ("type", "syntax")  # a class has any name
    plain = {name: meaning_of(value) for name, value in rex.items() if name not in hidden}
    if rex.get("kind") != "INPUT_REF" and "type" in rex:
        kind = logical_type_of(rex["type"])
        plain["type"] = str(replace(kind, nullable=True))
        if rex.get("kind") == "LITERAL" and kind.root in (*NUMBERS, *INTERVALS):
            plain["type"] = "number" if kind.root in NUMBERS else kind.root
        if "sarg" in rex and kind.root in TEXTS:
            plain["type"] = "text"
        if rex.get("kind") == "LITERAL" and type(rex.get("value")) is int:
            plain["value"] = str(rex["value"])  # as before Flink 1.18
    return plain


def _of_input(rex: Any, names: Sequence[str]) -> Any:
    """Return the call of a table function with references to its input's fields, which it has by name; None if not."""
    if isinstance(rex, list):
        parts = [_of_input(value, names) for value in rex]
        return None if any(one is None for one in parts) else parts
    if not isinstance(rex, Mapping):
        return rex
    if rex.get("kind") == "FIELD_ACCESS" and (rex.get("expr") or {}).get("kind") == "CORREL_VARIABLE":
        name = str(rex.get("name"))
        return {"kind": "INPUT_REF", "inputIndex": names.index(name)} if names.count(name) == 1 else None
    if rex.get("kind") == "CALL":
        operands = _of_input(list(rex.get("operands") or ()), names)
        return None if operands is None else {**rex, "operands": operands}
    if rex.get("kind") == "FIELD_ACCESS":
        inner = _of_input(rex.get("expr"), names)
        return None if inner is None else {**rex, "expr": inner}
    return rex if rex.get("kind") in ("LITERAL", "INPUT_REF") else None


def _with_fields(rex: Any, fields: Sequence[Term]) -> Any:
    """Return a RexNode with what the fields mean in place of their numbers."""
    if isinstance(rex, list):
        return [_with_fields(value, fields) for value in rex]
    if not isinstance(rex, Mapping):
        return rex
    if rex.get("kind") in ("INPUT_REF", "PATTERN_INPUT_REF"):
        plain = {name: value for name, value in rex.items() if name not in ("inputIndex", "type")}
        return {**plain, "field": fields[int(rex["inputIndex"])].digest}
    return {name: _with_fields(value, fields) for name, value in rex.items()}


def _ordered(rex: Any) -> Any:
    """Return a RexNode with the operands in one order, where SQL has several for the same; IF is a CASE."""
    if isinstance(rex, list):
        return [_ordered(value) for value in rex]
    if not isinstance(rex, Mapping):
        return rex
    plain = {name: _ordered(value) for name, value in rex.items()}
    function, operands = str(plain.get("internalName")), plain.get("operands")
    if not isinstance(operands, list):
        return plain
    if function == "$IF$1" and len(operands) == 3:
        plain["internalName"] = "$CASE$1"
    elif function in TURNED and len(operands) == 2:
        plain |= {"internalName": TURNED[function], "operands": operands[::-1]}
    elif function in COMMUTATIVE:
        plain["operands"] = sorted(operands, key=lambda one: json.dumps(one, sort_keys=True, default=str))
    return plain


def quotients(rex: Any) -> Iterator[set[int]]:
    """Yield the numbers of the fields that each division in an expression is of."""
    if isinstance(rex, Mapping):
        if str(rex.get("internalName")) == "$/$1":
            used: dict[int, int] = {}
            _renumbered(rex, used)
            yield set(used)
        rex = list(rex.values())
    for one in rex if isinstance(rex, list) else ():
        yield from quotients(one)


def same_type(one: LogicalType, other: LogicalType) -> bool:
    """Return whether two types are equal for state: kinds of times are not compared."""
    plain = [
        replace(kind, kind="REGULAR" if kind.kind in ("ROWTIME", "PROCTIME") else kind.kind) for kind in (one, other)
    ]
    return plain[0] == plain[1]


def names_of(columns: Sequence[Column]) -> list[str]:
    """Return the names of columns."""
    return [column.name for column in columns]
