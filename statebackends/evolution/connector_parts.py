"""Parts of connectors that no plan names: their uids have the id of the source or sink, and a name of the connector.

A savepoint of Flink 2 has the uids. One of Flink 1 has their hashes alone, so that only parts of known names are found.
Flink: ``ProviderContext.generateUid``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.evolution.expected import SOURCES
from pyspark_savepoint.statebackends.evolution.expected_rows import SINK_PARTS
from pyspark_savepoint.statebackends.evolution.plans import Node, Plan
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape
from pyspark_savepoint.statebackends.jobs.restore.restore_check import has_state

#: What Flink's connectors name their parts: files, Hive, and what most others use.
NAMES = (
    "streaming-writer", "compact-coordinator", "compact-operator", "partition-committer", "writer", "committer",
    "sink", "source",
)  # fmt: skip
Shapes = Mapping[int, tuple[OperatorShape, ...]]


def with_parts(plan: Plan, shapes: Shapes, savepoint: Snapshot) -> dict[int, tuple[OperatorShape, ...]]:
    """Return the shapes with the parts of connectors that a savepoint has beside them."""
    found = dict(shapes)
    known = {one.operator_id for each in shapes.values() for one in each}
    nodes = plan.of_kind("sink", *SOURCES)
    for operator in savepoint.operators:
        if operator.operator_id not in known and has_state(operator) and not is_keyed(operator):
            part = _part(operator, nodes)
            if part is not None:
                found[part.node] = (*found[part.node], part)
    return found


def is_keyed(operator: OperatorState) -> bool:
    """Return whether an operator has keyed state, which parts of connectors do not have."""
    return any(one.managed_keyed_state or one.raw_keyed_state for one in operator.subtasks.values())


def _part(operator: OperatorState, nodes: Iterable[Node]) -> OperatorShape | None:
    for node in nodes:
        for form in SINK_PARTS:
            for name in _names(operator, node, form):
                uid = form.format(uid=node.uid(name))
                if OperatorID.from_uid(uid) == operator.operator_id:
                    part = form.format(uid=name)
                    return OperatorShape(node.id, part, uid, node.description, of_connector=True)
    return None


def _names(operator: OperatorState, node: Node, form: str) -> Iterator[str]:
    """Yield names that a part may have: what its uid says, or those that are known."""
    if operator.uid is None:
        yield from NAMES
        return
    before, _, behind = form.format(uid=node.uid("\0")).partition("\0")
    if operator.uid.startswith(before) and operator.uid.endswith(behind):
        yield operator.uid[len(before) : len(operator.uid) - len(behind)]


def moved_part(part: OperatorShape, old: Node, new: Node) -> OperatorShape:
    """Return a part of a connector as NEW's job has it: with the id of its source or sink there."""
    for form in SINK_PARTS:
        before, _, behind = form.partition("{uid}")
        if part.uid.startswith(before) and part.uid.endswith(behind):
            name = part.transformation[len(before) : len(part.transformation) - len(behind)]
            if form.format(uid=old.uid(name)) == part.uid:
                return replace(part, node=new.id, uid=form.format(uid=new.uid(name)), description=new.description)
    raise AssertionError(part.uid)
