"""Verbs that add, remove, rename, copy and merge operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import OptionError, type_name
from pyspark_savepoint.options.operators import OperatorRef, identifier_of
from pyspark_savepoint.plan.engine import expect_same_engine
from pyspark_savepoint.plan.merged_operators import merged_operator
from pyspark_savepoint.plan.operator_plan import OperatorRows
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.plan.state_inputs import add_rows, add_table
from pyspark_savepoint.statebackends.writing.planning.write_request import KEYED_STATE
from pyspark_savepoint.text.helpful_names import own_arguments

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import KeyedStateOptions
    from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph


class OperatorEdits(Face[R, T]):
    """Changes of operators, of their max parallelism and of their uids."""

    def with_operator(
        self,
        uid: OperatorRef,
        source: R | Face[R, T] | OperatorRows | None = None,
        *,
        key: str | Sequence[str] | None = None,
        name: str | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> Self:
        """Add an operator.

        Flink: ``SavepointWriter#withOperator``.

        Args:
            uid: The new operator.
            source: Its state. Rows have one row per key and one column per state. The end of an
                :class:`OperatorTransformation` makes the state with functions. From another savepoint, the operator
                of this uid is copied as it is. None adds an operator without state, for calls that add some.
            key: The column of the key, or several of a composite key. By default ``key``.
            name: The operator's name, which metadata of Flink 2 records.
            **options: Options of a write, such as ``states``, ``types``, ``ttl``.

        Returns:
            The savepoint with the operator. Nothing is written yet.

        Raises:
            StateExistsError: If the savepoint has such an operator.
            OptionError: If ``source`` is of another type, or an option is invalid.

        Example::

            sp.with_operator("totals", df, key="account_id", types={"total": "LONG"})

        """
        row_options = {"key": key, **options}
        if isinstance(source, Face):
            _refuse_arguments(uid, {"name": name, **row_options}, "the operator is copied as it is")
            return self._planned(self.plan.taken(self._of_same_engine(source).plan, uid))
        new = self.plan.new_operator(identifier_of(uid), name)
        plan = self.plan.with_new(new)
        if source is None:
            _refuse_arguments(uid, row_options, "no state is given, and the calls that add it have options")
            return self._planned(plan)
        if self._engine.rows(source) is not None:
            changed = add_table(self._engine, new, source, KEYED_STATE, {"key": key, **options})
        elif not isinstance(source, OperatorRows):
            raise OptionError(
                "this value cannot be the state of an operator",
                operator=new.label,
                expected=f"{self._engine.rows_are}, another savepoint, or a finished transformation",
                found=type_name(source),
                remedy=self._engine.make_rows
                if isinstance(source, dict | list | tuple)
                else "OperatorTransformation.bootstrap_with(rows).key_by('id').transform(function); windows end with "
                "reduce, aggregate or process",
            )
        else:
            expect_same_engine(self._engine, source.engine)
            _refuse_arguments(uid, {"key": key}, "key_by names the key")
            changed = add_rows(new, source, options)
        return self._planned(plan.with_changed(new, changed))

    def remove_operator(self, uid: OperatorRef) -> Self:
        """Remove an operator and all its state.

        Flink: ``SavepointWriter#removeOperator``.

        Args:
            uid: The operator.

        Returns:
            The savepoint without the operator. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.remove_operator("audit").write("/savepoints/without-audit")

        """
        return self._planned(self.plan.without(self.plan.operator(uid)))

    def change_operator_identifier(self, old: OperatorRef, new: OperatorRef) -> Self:
        """Change the uid, or uid hash, of an operator.

        All changes apply together: ``old`` is the identifier of before, and two operators can be swapped. Flink:
        ``SavepointWriter#changeOperatorIdentifier``.

        Args:
            old: The operator.
            new: Its new identifier.

        Returns:
            The savepoint with the renamed operator. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no operator ``old``. If two operators have one identifier in the
                end, :meth:`write` raises StateExistsError.

        Example::

            sp.change_operator_identifier("a", "b").change_operator_identifier("b", "a").write("/savepoints/swapped")

        """
        return self._planned(self.plan.with_identifier(self.plan.operator(old), identifier_of(new)))

    def copy_operator(self, uid: OperatorRef, new: OperatorRef) -> Self:
        """Copy an operator under another uid, for example to split it by states or by keys.

        Args:
            uid: The operator.
            new: The identifier of the copy.

        Returns:
            The savepoint with both operators. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no operator ``uid``.
            StateExistsError: If it has an operator ``new``.

        Example::

            sp.copy_operator("a", "b").remove_state("a", "x").remove_state("b", "y")

        """
        copied = SavepointPlan().taken(self.plan, uid)
        return self._planned(self.plan.merged(copied.with_identifier(copied.operators[0], identifier_of(new))))

    def merge_operator(self, uid: OperatorRef, *, into: OperatorRef) -> Self:
        """Move the keyed state and timers of an operator into another one, byte for byte, then drop it.

        States are matched by name: a state of both operators must have the same type (rename one otherwise), and a key
        may have it in one of them only.

        Args:
            uid: The operator that is dropped.
            into: The operator that gets its state.

        Returns:
            The savepoint without ``uid``. Nothing is written yet. Writing it fails if a key has the same state in
            both operators.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operators.
            StateNotFoundError: If ``uid`` has no keyed state.
            OptionError: If types, keys or max parallelism differ, or both are the same operator.
            UnsupportedStateError: If operator state or in-flight records would be lost.

        Example::

            sp.merge_operator("b", into="a")

        """
        source, target = self.plan.operator(uid), self.plan.operator(into)
        changed = merged_operator(self._engine, source, target)
        return self._planned(self.plan.with_changed(target, changed).without(source))

    def merge(self, other: Face[R, T]) -> Self:
        """Add all operators of another savepoint.

        Args:
            other: The other savepoint.

        Returns:
            The savepoint with the operators of both. Nothing is written yet.

        Raises:
            OptionError: If ``other`` is not a savepoint of the same kind.
            StateExistsError: If both have the same operator.

        Example::

            sp.merge(other).write("/savepoints/both")

        """
        if not isinstance(other, Face):
            raise OptionError("merge takes another Savepoint", found=type_name(other), remedy=self._opening)
        return self._planned(self.plan.merged(self._of_same_engine(other).plan))

    def with_max_parallelism(
        self,
        max_parallelism: int,
        *,
        operators: Collection[OperatorRef] | None = None,
        key_hashes: Mapping[str, R] | None = None,
    ) -> Self:
        """Change the max parallelism: keyed state and timers are assigned to new key groups.

        Only keys are decoded, to compute their Java hashes. All operators of one task need the same max parallelism. If
        they differ, Flink takes one of them for all, and cuts the key groups of the others at wrong places. So name all
        operators that are chained, also those without keyed state. ``sp.job(plan).check_restore()`` finds operators
        that disagree.

        Args:
            max_parallelism: The new number of key groups, 1 to 32768.
            operators: The operators that get it. By default all, and those that are added later.
            key_hashes: The hashes of keys that only the job's code can compute, by uid: rows with column ``key``
                as it is read, and ``hash_code``.

        Returns:
            The savepoint with the new max parallelism. Nothing is written yet.

        Raises:
            OptionError: If no operator is named, or ``max_parallelism`` is out of range or below a parallelism.
            OperatorNotFoundError: If the savepoint has no such operator.
            UnsupportedStateError: If an operator has in-flight records, or raw keyed state other than timers.
            UndecodableStateError: If a hash is missing that only the job's code can compute.

        Example::

            sp.with_max_parallelism(512).write("/savepoints/wide")
            sp.with_max_parallelism(512, operators=["accounts", "audit"]).write("/savepoints/two-wide")

        """
        if isinstance(operators, str):
            raise OptionError(
                "operators are given as a list", found=repr(operators), remedy=f"operators=[{operators!r}]"
            )
        if operators is not None and not operators:
            raise OptionError("no operator is named", remedy="leave operators out, and all get the max parallelism")
        plan = self.plan.with_max_parallelism(self._engine, max_parallelism, key_hashes or {}, operators)
        return self._planned(plan)

    def assign_uid(self, operator: OperatorRef, uid: str) -> Self:
        """Give a uid to an operator that had none and was identified by its hash.

        Args:
            operator: The operator.
            uid: Its uid from now on.

        Returns:
            The savepoint with the uid. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.assign_uid("5af9c1d8a9b8e2f06e0f0a3c1d2e4b77", "accounts").write("/savepoints/with-uids")

        """
        return self.assign_uids({str(identifier_of(operator).operator_id): uid})

    @own_arguments
    def assign_uids(self, uids: Mapping[str, str] | StreamGraph) -> Self:
        """Give uids to operators that had none.

        Args:
            uids: Uids by uid hash. Or the stream graph of the job as it was when it took the snapshot, with the uids
                that the job sets now.

        Returns:
            The savepoint with the uids. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.assign_uids({"5af9c1d8a9b8e2f06e0f0a3c1d2e4b77": "accounts"})

        """
        from pyspark_savepoint.insight.restore import changed_uids

        changed = self
        for old, new in changed_uids(self._snapshot, uids).items():
            changed = changed.change_operator_identifier(old, new)
        return changed


def _refuse_arguments(uid: OperatorRef, arguments: Mapping[str, Any], why: str) -> None:
    """Raise OptionError for arguments that cannot apply to the source of an operator's state."""
    for name, value in arguments.items():
        if value is not None:
            raise OptionError(
                f"{name!r} cannot apply to this operator: {why}",
                operator=identifier_of(uid).uid,
                found=repr(value),
                remedy="leave it out",
            )
