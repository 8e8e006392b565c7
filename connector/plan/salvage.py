"""Plan of what is left of a damaged savepoint: what cannot be read is left out, and listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import IGNORE
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.operator_plan import KEYED, OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import Operators, SavepointPlan
from pyspark_savepoint.statebackends.surveys.losses import SCHEMA, Damage, damages_of


def damages(plan: SavepointPlan) -> list[tuple[OperatorPlan, Damage]]:
    """Return what each operator of a plan without changes loses."""
    operators, searched = [], []
    for operator in plan.operators:
        base = operator.base
        if base is None:
            continue
        options: Mapping[str, str] = {**base.options, "path": base.path}
        request = SavepointReadOptions.parse(options).request().of_version(base.snapshot.metadata.version)
        operators.append(operator)
        searched.append((base.snapshot, base.operator, request))
    return list(zip(operators, damages_of(searched), strict=True))


def losses_of(damages: list[tuple[OperatorPlan, Damage]]) -> pa.Table:
    """Return the table of all losses."""
    rows = [row for _, damage in damages for row in damage.rows]
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in SCHEMA]
    return pa.table(columns, SCHEMA)


def salvaged(plan: SavepointPlan, damages: list[tuple[OperatorPlan, Damage]]) -> SavepointPlan:
    """Return the plan without what is lost; raise OptionError if nothing is."""
    if not any(damage.rows for _, damage in damages):
        raise OptionError(
            "nothing is damaged: there is nothing to salvage",
            expected="a snapshot with state that cannot be read",
            remedy="write(path) copies it as it is; if the checksum of a file alone differs, checksums='verify' leaves "
            "its state out, and checksums='ignore' takes it as it is",
        )
    damaged = {operator.identifier: damage for operator, damage in damages if damage.rows}
    operators = Operators(
        _undamaged(operator, damaged[operator.identifier]) if operator.identifier in damaged else operator
        for operator in plan.operators
    )
    return replace(plan, operators=operators)


def _undamaged(plan: OperatorPlan, damage: Damage) -> OperatorPlan:
    assert plan.base is not None
    # What is left of a damaged file does not have its checksum.
    options = {"checksums": IGNORE, **plan.base.options}
    left = replace(plan, base=replace(plan.base, operator=damage.left, lost=damage.lost, options=options))
    return with_states(left).with_rewritten(KEYED) if damage.lost.in_part else left
