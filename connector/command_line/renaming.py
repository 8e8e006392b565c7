"""Command rename-class: other names of classes of the job."""

from __future__ import annotations

from pyspark_savepoint.command_line.commands import RenameClass
from pyspark_savepoint.command_line.edits import Change, finished, opened
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.operator_plan import TIMERS, OperatorPlan


def rename_class(arguments: RenameClass, output: Output) -> int:
    """Write a savepoint with other names of classes, and show the states whose types have them."""
    base = opened(arguments, arguments.path)
    savepoint = base
    for text in arguments.classes:
        old, mark, new = text.partition("=")
        if not mark or not old or not new:
            raise UsageError(
                "a class takes the form CLASS=NEW",
                expected="such as com.shop.Order=com.shop.Purchase",
                found=repr(text),
            )
        savepoint = savepoint.rename_class(old, new, operators=arguments.operators)
    changes = []
    for before, after in zip(base.plan.operators, savepoint.plan.operators, strict=True):
        if after is not before:
            changes += _changes(with_states(before), after)
        if arguments.dry_run:
            for check in after.checks:
                check.run(after)
    return finished(arguments, arguments.target, output, savepoint, changes)


def _changes(before: OperatorPlan, after: OperatorPlan) -> list[Change]:
    """Return a row for the key and each state of an operator whose type has a new name."""
    rows: list[Change] = []
    keys = [None if one.key_serializer is None else one.key_serializer.flink_type for one in (before, after)]
    if keys[0] != keys[1]:
        rows.append({"change": "class renamed", "operator": after.label, "key_type": keys[1]})
    for old, new in zip(before.states or (), after.states or (), strict=True):
        kind = new.meta.value_serializer.flink_type
        if old.meta.serializers != new.meta.serializers and old.kind != TIMERS:
            rows.append({"change": "class renamed", "operator": after.label, "state": new.name, "type": kind})
    return rows
