"""What can be made of a savepoint: every change is a plan of another one; nothing runs before it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.plan.keyed_edits import with_keys_deleted, with_states
from pyspark_savepoint.plan.merged_operators import merged_operator
from pyspark_savepoint.plan.operator_plan import OperatorPlan, OperatorRows
from pyspark_savepoint.plan.savepoint_plan import OperatorRef, SavepointPlan, identifier_of
from pyspark_savepoint.plan.state_inputs import put_rows, put_state, put_table
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    BROADCAST,
    KEYED_STATE,
    LIST,
    TIMERS,
    UNION,
    WINDOW_STATE,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SavepointEdits:
    """The base class of Savepoint that changes."""

    spark: SparkSession
    plan: SavepointPlan
    options: Mapping[str, str]

    def _planned(self, plan: SavepointPlan) -> Self:
        """The savepoint of another plan, which is not written yet."""
        raise NotImplementedError

    # -- operators -------------------------------------------------------------------------------------------

    def with_operator(
        self,
        uid: OperatorRef,
        source: DataFrame | SavepointEdits | OperatorRows | None = None,
        *,
        key: str | Sequence[str] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """With one operator more.

        ``source``: a DataFrame of its keyed state, a row for each key and a column for each state; what user functions
        make of records (OperatorTransformation); another savepoint, whose operator of this uid is taken over as it is;
        or none, for an operator that is given state by other calls.
        ``key`` is the column of the key, or several; ``name`` the operator's name, which Flink 2 records; ``options``
        are those of a write (``states``, ``types``, ``ttl`` ...). StateExistsError where the operator is there.
        """
        from pyspark.sql import DataFrame

        if isinstance(source, SavepointEdits):
            return self._planned(self.plan.taken(source.plan, uid))
        new = self.plan.new_operator(identifier_of(uid), name)
        plan = self.plan.with_new(new)
        if source is None:
            return self._planned(plan)
        if isinstance(source, DataFrame):
            changed = put_table(new, source, KEYED_STATE, {"key": key, **options})
        elif not hasattr(source, "operator_tables"):
            raise OptionError(
                "this is no state that an operator could have",
                operator=new.label,
                expected="a DataFrame, another savepoint, or what a transformation ends with",
                found=type(source).__name__,
                remedy="OperatorTransformation.bootstrap_with(df).key_by('id').transform(function); windows end with "
                "reduce, aggregate or process",
            )
        else:
            changed = put_rows(new, source, options)
        return self._planned(plan.with_changed(new, changed))

    def remove_operator(self, uid: OperatorRef) -> Self:
        """Without an operator and all its state."""
        return self._planned(self.plan.without(self.plan.operator(uid)))

    def change_operator_identifier(self, old: OperatorRef, new: OperatorRef) -> Self:
        """With an operator under another uid, or uid hash."""
        return self._planned(self.plan.with_identifier(self.plan.operator(old), identifier_of(new)))

    def copy_operator(self, uid: OperatorRef, new: OperatorRef) -> Self:
        """With an operator a second time, under another uid: to be split, by states or by keys.

        ``sp.copy_operator("a", "b").remove_state("a", "x").remove_state("b", "y")``
        """
        copied = SavepointPlan().taken(self.plan, uid)
        return self._planned(self.plan.merged(copied.with_identifier(copied.operators[0], identifier_of(new))))

    def merge_operator(self, uid: OperatorRef, *, into: OperatorRef) -> Self:
        """Without an operator, whose keyed state and timers another one has then beside its own, byte for byte.

        States go by name: those that both have are of the same type, or renamed before, and no key is in both.
        OptionError where types, keys or max parallelism differ; UnsupportedStateError where operator state would be
        lost. Writing raises DuplicateKeyError for an entry that both have.
        """
        source, target = self.plan.operator(uid), self.plan.operator(into)
        changed = merged_operator(self.spark, source, target)
        return self._planned(self.plan.with_changed(target, changed).without(source))

    def merge(self, other: SavepointEdits) -> Self:
        """With all operators of another savepoint; StateExistsError where both have one."""
        return self._planned(self.plan.merged(other.plan))

    def relocate(self, old: str, new: str) -> Self:
        """With another prefix in absolute paths of files: for snapshots whose shared files were moved."""
        return self._planned(self.plan.relocated(old, new))

    def with_max_parallelism(self, max_parallelism: int, *, key_hashes: Mapping[str, DataFrame] | None = None) -> Self:
        """With another max parallelism: keyed state and timers get the key groups that their keys have then.

        Only keys are decoded, to compute their Java hashes. Where only the job's code knows those, ``key_hashes`` has
        them by uid: a DataFrame with the key as it is read, and ``hash_code``.
        """
        return self._planned(self.plan.with_max_parallelism(max_parallelism, key_hashes or {}))

    # -- states of an operator -------------------------------------------------------------------------------

    def with_window_state(
        self, uid: OperatorRef, df: DataFrame, *, key: str | Sequence[str] | None = None, **options: Any
    ) -> Self:
        """With window state of an operator: a row for each key and ``window``, a column for each state."""
        return self._changed(uid, lambda plan: put_table(plan, df, WINDOW_STATE, {"key": key, **options}))

    def with_timers(
        self, uid: OperatorRef, df: DataFrame, *, key: str | Sequence[str] | None = None, **options: Any
    ) -> Self:
        """With timers of an operator: key, ``timestamp``, ``domain`` (``event``, ``processing``), ``service``."""
        return self._changed(uid, lambda plan: put_table(plan, df, TIMERS, {"key": key, **options}))

    def with_list_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Self:
        """With a list state of an operator (split over its subtasks): a row for each element."""
        return self._changed(uid, lambda plan: put_table(plan, df, LIST, {"state": name, **options}))

    def with_union_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Self:
        """With a union list state of an operator: a row for each element."""
        return self._changed(uid, lambda plan: put_table(plan, df, UNION, {"state": name, **options}))

    def with_broadcast_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Self:
        """With a broadcast state of an operator: ``key`` and ``value``."""
        return self._changed(uid, lambda plan: put_table(plan, df, BROADCAST, {"state": name, **options}))

    def with_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Self:
        """With one state of an operator replaced, or added; its other states, and its timers, stay byte for byte.

        ``df`` has the key and the state, as they are read (the state's column has its name, or is the only other one).
        A key that is not in it has no such state then. A state that is replaced keeps its type unless ``types`` says
        otherwise. Operator state is replaced by its name too.
        """
        return self._changed(uid, lambda plan: put_state(plan, name, df, options))

    def remove_state(self, uid: OperatorRef, name: str) -> Self:
        """Without one state of an operator, or without the timers of a service."""
        return self._changed(uid, lambda plan: with_states(plan).without_state(name))

    def rename_state(self, uid: OperatorRef, old: str, new: str) -> Self:
        """With one state of an operator, or a timer service, under another name."""
        return self._changed(uid, lambda plan: with_states(plan).with_renamed_state(old, new))

    def delete_keys(self, uid: OperatorRef, keys: DataFrame) -> Self:
        """Without some keys: none of the operator's keyed states, windows and timers has them then.

        ``keys`` has column ``key`` as it is read, or one column, or the fields of a composite key.
        """
        return self._changed(uid, lambda plan: with_keys_deleted(plan, keys))

    def _changed(self, uid: OperatorRef, change: Callable[[OperatorPlan], OperatorPlan]) -> Self:
        operator = self.plan.operator(uid)
        return self._planned(self.plan.with_changed(operator, change(operator)))
