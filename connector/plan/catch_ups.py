"""What brings a sink from the result of a SQL job's old query to that of the new one, computed from both savepoints."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.plan.engine import Engine, Rows
from pyspark_savepoint.plan.keyed_edits import read_options, with_states
from pyspark_savepoint.plan.operator_plan import KEYED
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.statebackends.evolution.belongs import as_it_ran, check_belongs
from pyspark_savepoint.statebackends.evolution.connector_parts import with_parts
from pyspark_savepoint.statebackends.evolution.exact import raw_type
from pyspark_savepoint.statebackends.evolution.expected import shapes_of
from pyspark_savepoint.statebackends.evolution.plans import PlanLike, read_plan, refusing
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import EXACT
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, OldStates
from pyspark_savepoint.statebackends.evolution.rewriting.results import (
    CHANGE_TYPE,
    IS_NEW,
    MAX_PARALLELISM,
    ChangedRows,
    ResultRows,
    SinkResult,
    sink_result,
    user_type,
)
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.tables.keyed_table import column_names
from pyspark_savepoint.statebackends.writing.planning.write_request import DEFAULT_SORT_MEMORY, KEYED_STATE

NO_PLAN = "If a job ran without a plan, the changes are not known: run the new query once, into a new sink"
#: The result of a sink, and the savepoint that has its state.
Side = tuple[SinkResult, SavepointPlan]


def side_of(plan: SavepointPlan, snapshot: Snapshot, query: PlanLike, sink: str | None, argument: str) -> Side:
    """Return the result of a sink under a query, whose savepoint is given.

    Args:
        plan: The plan of the savepoint.
        snapshot: The savepoint.
        query: The compiled plan of the query.
        sink: The table of the sink; None for the only one.
        argument: The name of the argument that has the compiled plan, for errors.

    Returns:
        The result, with the plan of the savepoint.

    Raises:
        OptionError: If the compiled plan is none, or not that of the savepoint, or has no such sink.
        UnsupportedStateError: If the result does not follow from the state of one operator.

    """
    ran = as_it_ran(read_plan(query, argument), snapshot)
    with refusing(argument):
        shapes = shapes_of(ran)
        result = sink_result(ran, sink, argument)
    check_belongs(with_parts(ran, shapes, snapshot), snapshot, argument, NO_PLAN)
    return result, plan


@dataclass(frozen=True)
class CatchUp:
    """The results of a sink under both queries, each with the savepoint that has its state."""

    engine: Engine
    old: Side
    new: Side

    def changes(self) -> Rows:
        """Return the changes between them, in the columns of the new one."""
        result = self.new[0]
        columns = result.columns
        known = {column.name for column in self.old[0].columns}
        key = result.key if result.key and set(result.key) <= known else tuple(one.name for one in columns)
        kinds = {one.name: one.kind for one in columns}
        serializer = parse_type(f"ROWDATA<{', '.join(str(kinds[name]) for name in key)}>")
        assert isinstance(serializer, RowDataSerializer)
        serializer = serializer.as_key()
        fields = [pa.field(one.name, raw_type(one.kind)) for one in columns]
        rows = pa.schema([pa.field(KEY, serializer.arrow_type(EXACT)), *fields, pa.field(IS_NEW, pa.bool_())])
        sides = []
        for is_new, (own, plan) in enumerate((self.old, self.new)):
            found = self._states(own, plan)
            if found is not None:
                table, states = found
                sides.append(table.mapped(ResultRows(own, states, columns, key, rows, bool(is_new)), rows))
        if not sides:
            raise UnsupportedStateError(
                "neither savepoint has the state of the operator before the sink",
                operator=result.operator.uid,
                remedy="has the job read any row? then give the plans that ran",
            )
        together = sides[0] if len(sides) == 1 else sides[0].union(sides[1])
        descriptor = KeyedDescriptor((KEY,), serializer, ())
        placed = self.engine.by_key(together, descriptor, MAX_PARALLELISM, None)
        shown = [pa.field(one.name, user_type(one.kind)) for one in columns]
        schema = pa.schema([*shown, pa.field(CHANGE_TYPE, pa.string())])
        return placed.mapped(ChangedRows(descriptor, columns, schema, rows, DEFAULT_SORT_MEMORY), schema)

    def _states(self, result: SinkResult, plan: SavepointPlan) -> tuple[Rows, OldStates] | None:
        """Return the keyed state of an operator; None if the savepoint has none of it."""
        operator = plan.find(identifier_of(result.operator.uid))
        if operator is None or operator.base is None:
            return None
        base = operator.base
        names = [state.name for state in with_states(operator).of_kind(KEYED)]
        if not names:
            return None
        options = read_options(base)
        options |= {"path": base.path, "uidHash": base.operator.operator_id.hex, "timestamps": "raw"}
        shown = column_names(names, namespaced=False)
        shapes = tuple((one, shown.get(one.name, "")) for one in result.operator.states)
        return self.engine.read(options | {"table": KEYED_STATE}), OldStates(shapes)
