"""Changes of sinks, asynchronous functions and older sources in a plan: computed when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.plan.source_changes import base_of, rows_of_table, with_operator
from pyspark_savepoint.statebackends.connectors.edits.committables import (
    marked_committables,
    without_committables,
    without_in_flight,
)
from pyspark_savepoint.statebackends.connectors.migrated_sources import (
    KAFKA_SOURCE,
    MARKERS,
    enumerator_version,
    kafka_source,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator


def with_committables_removed(
    engine: Engine,
    plan: OperatorPlan,
    rows: object,
    lose_data: bool,
    connector: str | None,
) -> OperatorPlan:
    """Return the plan without committables."""
    opened = _opened(plan)
    return with_operator(plan, without_committables(opened, _rows(engine, rows, plan), lose_data, connector))


def with_committables_marked(
    engine: Engine,
    plan: OperatorPlan,
    rows: object,
    status: str,
    connector: str | None,
) -> OperatorPlan:
    """Return the plan with another status of committables."""
    opened = _opened(plan)
    return with_operator(plan, marked_committables(opened, _rows(engine, rows, plan), status, connector))


def with_in_flight_cleared(plan: OperatorPlan, lose_data: bool) -> OperatorPlan:
    """Return the plan with an empty queue of asynchronous calls."""
    return with_operator(plan, without_in_flight(_opened(plan), lose_data))


def with_migrated_source(
    plan: OperatorPlan, to: str, connector_version: str, not_set: str | None, lose_data: bool
) -> OperatorPlan:
    """Return the plan with the state of a KafkaSource in place of that of a FlinkKafkaConsumer."""
    if to != KAFKA_SOURCE:
        raise OptionError(
            "the state of a FlinkKafkaConsumer can be migrated to a KafkaSource only",
            operator=plan.label,
            expected=KAFKA_SOURCE,
            found=to,
        )
    if not_set is not None and not_set not in MARKERS:
        raise OptionError(
            "argument 'not_set' is not a position in a partition", expected=", ".join(MARKERS), found=not_set
        )
    version = enumerator_version(connector_version)
    # The states that were planned before are not those of the new source.
    return replace(with_operator(plan, kafka_source(_opened(plan), version, not_set, lose_data)), states=None)


def _opened(plan: OperatorPlan) -> OpenOperator:
    """Return the operator in the base; raise OptionError if its operator state was changed as a table before."""
    if plan.base is not None and plan.edits_operator_state:
        raise OptionError(
            "the operator state was replaced, renamed or removed: the state of its connector cannot be changed "
            "in the same write",
            operator=plan.label,
            remedy="write the savepoint, load the written one and change it; or change the connector's state first",
        )
    return base_of(plan).opened


def _rows(engine: Engine, rows: object, plan: OperatorPlan) -> list[Mapping[str, Any]] | None:
    if rows is None:
        return None
    return list(rows_of_table(engine, rows, plan))
