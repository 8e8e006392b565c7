"""Verbs that change a savepoint, and write it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, Unpack

from pyspark_savepoint.engines.display import html_tree, line, text_tree
from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import (
    OptionError,
    type_name,
)
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.options.operators import OperatorRef, identifier_of
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import path_text, reached, snapshot_path
from pyspark_savepoint.plan.consents import with_consent
from pyspark_savepoint.plan.engine import expect_same_engine
from pyspark_savepoint.plan.keyed_edits import with_keys_deleted, with_states
from pyspark_savepoint.plan.merged_operators import merged_operator
from pyspark_savepoint.plan.operator_plan import OperatorPlan, OperatorRows
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.plan.several_states import add_states
from pyspark_savepoint.plan.state_inputs import (
    add_operator_state,
    add_rows,
    add_table,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    BROADCAST,
    KEYED_STATE,
    LIST,
    TIMERS,
    UNION,
    WINDOW_STATE,
)
from pyspark_savepoint.text.helpful_names import own_arguments

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.vacuum import Leftover
    from pyspark_savepoint.options.keywords import (
        KeyedStateOptions,
        NewKeyOptions,
        OperatorStateOptions,
        ReplacedStateOptions,
        StoreOptions,
        UpdatedStateOptions,
    )
    from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph


class Edits(Face[R, T]):
    """Changes of the plan, and its writing."""

    # -- operators ----------------------------------------------------------------------------------------

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
        given = {"key": key, **options}
        if isinstance(source, Face):
            _refuse_arguments(uid, {"name": name, **given}, "the operator is copied as it is")
            return self._planned(self.plan.taken(self._of_same_engine(source).plan, uid))
        new = self.plan.new_operator(identifier_of(uid), name)
        plan = self.plan.with_new(new)
        if source is None:
            _refuse_arguments(uid, given, "no state is given, and the calls that add it have options")
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

    def relocate(self, old: str | PathLike[str], new: str | PathLike[str]) -> Self:
        """Replace a prefix of the absolute paths of files, for snapshots whose shared files were moved.

        Args:
            old: The prefix in the snapshot.
            new: The prefix of the files now.

        Returns:
            The savepoint with the new paths. Nothing is written yet.

        Raises:
            OptionError: If no path of the savepoint has the prefix.

        Example::

            sp.relocate("hdfs://old/checkpoints", "s3://bucket/checkpoints")

        """
        return self._planned(self.plan.relocated(path_text(old), path_text(new)))

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

    # -- states of an operator ----------------------------------------------------------------------------

    def with_window_state(
        self,
        uid: OperatorRef,
        rows: R,
        *,
        key: str | Sequence[str] | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> Self:
        """Add window state to an operator.

        Timers emit windows: add them with :meth:`with_timers`. Session windows also need the state that names them
        (Flink: ``MergingWindowSet``). This method writes it when it knows that the windows are sessions. It knows that
        from column ``state_window``, from rows of :meth:`window_state` of an operator of sessions, and from a
        ``types_from`` that names such an operator.

        Args:
            uid: The operator.
            rows: One row per key and window: the key, ``window``, and a column for each state. For sessions,
                ``state_window`` is the window under which Flink keeps the contents. Without it that is ``window``.
            key: The column of the key, or several of a composite key. By default ``key``.
            **options: Options of a write, such as ``states``, ``types``, ``ttl``.

        Returns:
            The savepoint with the states. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of one of these names. :meth:`write` raises OptionError if the
                operator has no timers of service ``window-timers``.

        Example::

            windows, timers = sp.window_state("orders-per-minute"), sp.timers("orders-per-minute")
            copied = sp.with_operator("copy").with_window_state("copy", windows).with_timers("copy", timers)

        """
        return self._changed(
            uid, lambda plan: add_table(self._engine, plan, rows, WINDOW_STATE, {"key": key, **options})
        )

    def with_timers(
        self,
        uid: OperatorRef,
        rows: R,
        *,
        key: str | Sequence[str] | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> Self:
        """Add timers to an operator.

        Args:
            uid: The operator.
            rows: One row per timer: the key, ``timestamp`` (a long of milliseconds, or a TIMESTAMP), ``domain``
                (``event`` or ``processing``), optionally ``service``, and for timers of windows ``namespace``.
            key: The column of the key, or several of a composite key. By default ``key``.
            **options: Options of a write. ``state`` lists the timer services, by default ``user-timers``.

        Returns:
            The savepoint with the timers. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has timers of one of these services.

        Example::

            columns = "id", "unix_millis(ts) AS timestamp", "'event' AS domain", "'user-timers' AS service"
            sp.with_timers("accounts", df.selectExpr(*columns), key="id")

        """
        return self._changed(uid, lambda plan: add_table(self._engine, plan, rows, TIMERS, {"key": key, **options}))

    def with_list_state(self, uid: OperatorRef, state: str, rows: R, **options: Unpack[OperatorStateOptions]) -> Self:
        """Add a list state to an operator. A job splits its elements over the subtasks.

        Args:
            uid: The operator.
            state: The name of the state.
            rows: Column ``value``, one row per element.
            **options: Options of a write, such as ``types``.

        Returns:
            The savepoint with the state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of this name.

        Example::

            sp.with_list_state("warehouse-export", "sent_orders", df, types={"value": "LONG"})

        """
        return self._changed(uid, lambda plan: add_operator_state(self._engine, plan, LIST, state, rows, options))

    def with_union_state(self, uid: OperatorRef, state: str, rows: R, **options: Unpack[OperatorStateOptions]) -> Self:
        """Add a union list state to an operator. A job gives all elements to every subtask.

        Args:
            uid: The operator.
            state: The name of the state.
            rows: Column ``value``, one row per element.
            **options: Options of a write, such as ``types``.

        Returns:
            The savepoint with the state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of this name.

        Example::

            sp.with_union_state("orders-source", "positions", df, types={"value": "TUPLE<STRING, LONG>"})

        """
        return self._changed(uid, lambda plan: add_operator_state(self._engine, plan, UNION, state, rows, options))

    def with_broadcast_state(
        self, uid: OperatorRef, state: str, rows: R, **options: Unpack[OperatorStateOptions]
    ) -> Self:
        """Add a broadcast state to an operator.

        Args:
            uid: The operator.
            state: The name of the state.
            rows: Columns ``key`` and ``value``, one row per entry.
            **options: Options of a write, such as ``types``.

        Returns:
            The savepoint with the state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of this name.

        Example::

            sp.with_broadcast_state("currency-converter", "rates", rates, types={"key": "STRING", "value": "DOUBLE"})

        """
        return self._changed(uid, lambda plan: add_operator_state(self._engine, plan, BROADCAST, state, rows, options))

    def with_state(
        self,
        uid: OperatorRef,
        state: str | Sequence[str],
        rows: R,
        *,
        replace: bool = False,
        **options: Unpack[ReplacedStateOptions],
    ) -> Self:
        """Replace states of an operator, or add them. Other states and timers stay byte for byte.

        ``rows`` must have every key of a replaced state. The write compares the keys before it begins. To change some
        keys, use :meth:`update_state`. A replaced state keeps its type unless option ``types`` changes it. Operator
        state is replaced by its name, too.

        Args:
            uid: The operator.
            state: The name of the state, or a list of several.
            rows: The key and the state as they are read. The state's column has its name, or is the only one beside the
                key. Several states have a column each, which is NULL where a key has no such state.
            replace: Keys that no row has lose the state. The write does not compare the keys, which saves a pass over
                the state and the rows. Rows that can be read once, such as a RecordBatchReader, need it.
            **options: Options of a write, such as ``types``, ``states``, ``ttl``.

        Returns:
            The savepoint with the new state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            OptionError: If the columns or options do not fit the state. By :meth:`write`: if no row has some of its
                keys. The error says how many would go.

        Example::

            fixed = sp.keyed_state("accounts").selectExpr("key", "greatest(total, 0L) AS total")
            sp.with_state("accounts", "total", fixed).write("/savepoints/fixed")

        """

        def replaced(plan: OperatorPlan) -> OperatorPlan:
            after = add_states(self._engine, plan, state, rows, options)
            names = [state] if isinstance(state, str) else state
            return with_consent(self._engine, plan, after, names, replace_all=replace)

        return self._changed(uid, replaced)

    def update_state(
        self, uid: OperatorRef, state: str | Sequence[str], rows: R, **options: Unpack[UpdatedStateOptions]
    ) -> Self:
        """Update states of an operator by rows. Other keys keep what they have, byte for byte.

        A row replaces the state of its key, and NULL removes it. A row replaces the whole list or map of its key. For
        window state it replaces that of its key and window. Rows of broadcast state are matched by ``key``. The state
        keeps its kind, type and time to live. A row without a time of last access gets the time of the write.

        Args:
            uid: The operator.
            state: The name of a keyed or broadcast state, or a list of several.
            rows: The key and the state as they are read, with a row for each key that changes. The state's column has
                its name, or is the only one beside the key. Several states have a column each.
            **options: Options of a write: ``key``, ``keyGroup``, ``sortMemory``, ``classes``, ``kryoTypes``.

        Returns:
            The savepoint with the changed state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no such state. :meth:`with_state` adds one.
            OptionError: If the columns do not fit the state, or an option would change its type.
            UnsupportedStateError: If it is list or union state, whose elements have no keys.

        Example::

            fixed = sp.keyed_state("accounts", keys=[1042, 1043]).selectExpr("key", "0L AS total")
            sp.update_state("accounts", "total", fixed).write("/savepoints/fixed")

        """
        return self._changed(uid, lambda plan: add_states(self._engine, plan, state, rows, options, updates=True))

    def remove_state(self, uid: OperatorRef, state: str) -> Self:
        """Remove one state of an operator, or the timers of one timer service.

        Args:
            uid: The operator.
            state: The name of the state or timer service.

        Returns:
            The savepoint without the state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no such state.

        Example::

            sp.remove_state("accounts", "profile").write("/savepoints/without-profiles")

        """
        return self._changed(uid, lambda plan: with_states(plan).without_state(state))

    def rename_state(self, uid: OperatorRef, old: str, new: str) -> Self:
        """Rename one state, or one timer service, of an operator.

        Args:
            uid: The operator.
            old: The name of the state or timer service.
            new: Its new name.

        Returns:
            The savepoint with the renamed state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no state ``old``.
            StateExistsError: If it has a state ``new``.

        Example::

            sp.rename_state("accounts", "total", "sum").write("/savepoints/renamed")

        """
        return self._changed(uid, lambda plan: with_states(plan).with_renamed_state(old, new))

    @own_arguments
    def rename_class(self, old: str, new: str, *, operators: Collection[OperatorRef] | None = None) -> Self:
        """Give a class of the job another name, as when it moved to another package. Values are not decoded.

        Serializer snapshots name the class: as POJO, its subclass or the declaring class of a field, as type or
        registered class of Kryo, in Avro's schema, as enum, case class or tuple, and as serializer of the job. They are
        written with the new name, also for the classes inside of it. Values stay byte for byte.

        Some values contain class names: those of classes that are not registered with Kryo or a POJO, and Java's object
        streams. Before an operator is written, its values are searched for the name, and finding it is an error. Raw
        state and states of coordinators are not searched. The class must have the same fields and the same
        ``hashCode``.

        Args:
            old: The name of the class, such as ``com.shop.Order``.
            new: Its name in the new job.
            operators: The operators in which it is renamed. By default all.

        Returns:
            The savepoint with the new name. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            OptionError: If no operator names the class, or the state that does is not written yet.
            UnsupportedStateError: If only the job's code reads the part that names it. If a value does, :meth:`write`
                raises it, with state and key.

        Example::

            sp.rename_class("oracle.Profile", "com.shop.Profile").write("/savepoints/moved-class")

        """
        from pyspark_savepoint.plan.renamed_classes import with_renamed_class

        return self._planned(with_renamed_class(self._engine, self.plan, old, new, operators))

    def remove_keys(self, uid: OperatorRef, keys: R | Collection[Any]) -> Self:
        """Remove keys from all keyed states, windows and timers of an operator.

        Keys of a list that have no state are named in a warning.

        Args:
            uid: The operator.
            keys: A list of keys, as option ``keys`` of a read takes them. Or rows with column ``key`` as it is read, a
                single column, or the fields of a composite key. Other columns are left out.

        Returns:
            The savepoint without the keys. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no keyed state.
            OptionError: If the keys do not fit the operator's key type.
            UnsupportedStateError: If the operator has raw keyed state other than timers.

        Example::

            sp.remove_keys("accounts", sp.keyed_state("accounts").where("total < 0").select("key"))

        """
        removed = self._changed(uid, lambda plan: with_keys_deleted(self._engine, plan, keys))
        if isinstance(keys, list | tuple | set | frozenset | range):
            from pyspark_savepoint.write.absent_keys import warn_of_absent_keys

            warn_of_absent_keys(self.plan.operator(uid), keys)
        return removed

    def rekey(self, uid: OperatorRef, keys: Any = None, **options: Unpack[NewKeyOptions]) -> Self:
        """Change the keys of an operator: all of its keyed state, windows and timers move to the new keys.

        Values, times of last access and operator state stay byte for byte. Keys get the key groups of their new hashes,
        and keep their type unless an option gives another. :meth:`write` refuses two keys that become one, a NULL, and
        a value that the new type does not hold exactly. To find them, it reads and sorts the keys once more.

        Args:
            uid: The operator.
            keys: What each key becomes. None converts each key to the type that is given. Rows have columns ``key``, as
                it is read, and ``new_key``. Keys that the rows lack stay, if the type stays. Without Spark these rows
                are held in memory. An expression makes the new key from column ``key``. With Spark it is a column or
                SQL text, else a function of an Arrow batch that returns an array. A mapping has such an expression for
                each state. It makes the key of each entry from ``key`` and ``value``, or ``map_key`` and ``map_value``,
                as for the sides of a join in SQL. Then one key may become several.
            **options: ``types`` with the type of ``key``, such as ``{"key": "LONG"}``, or ``types_from``, an operator
                of another savepoint that has the type. Also the options that these need.

        Returns:
            The savepoint with the new keys. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no keyed state.
            OptionError: If neither keys nor a type are given, or the new keys do not fit the type. If two keys become
                one, :meth:`write` raises DuplicateKeyError, which names both.
            UndecodableStateError: If only the job's code computes the hash of the new keys.
            UnsupportedStateError: If the operator has raw keyed state other than timers or records in flight, or is of
                PyFlink.

        Example::

            sp.rekey("accounts", types={"key": "STRING"}).write("/savepoints/by-text")
            sp.rekey("accounts", "concat('DE-', key)", types={"key": "STRING"})
            sp.rekey("accounts", spark.createDataFrame([(1042, 2042)], "key LONG, new_key LONG"))
            sp.rekey(join, {"left-records": "map_key.f1", "right-records": "map_key.f0"})

        """
        from pyspark_savepoint.plan.rekeyed_operator import rekeyed

        return self._changed(uid, lambda plan: rekeyed(self._engine, plan, keys, options))

    @own_arguments
    def with_coordinator_state(self, uid: OperatorRef, data: bytes | None) -> Self:
        """Replace the state of an operator's coordinator, or remove it, with a warning of what that does.

        Args:
            uid: The operator.
            data: The bytes, as table ``coordinator_state`` has them. None removes the state.

        Returns:
            The savepoint with the state. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.with_coordinator_state("orders-source", None)

        """
        from pyspark_savepoint.plan.connector_changes import with_coordinator

        return self._changed(uid, lambda plan: with_coordinator(plan, data))

    # -- uids -------------------------------------------------------------------------------------------

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

    # -- writing ------------------------------------------------------------------------------------------

    @property
    def is_portable(self) -> bool:
        """Whether every state backend can restore the savepoint: all keyed state is in the canonical format."""
        from pyspark_savepoint.write.savepoint_writer import is_portable

        return all(is_portable(operator) for operator in self.plan.operators)

    def write(
        self,
        path: str | PathLike[str],
        *,
        flink_version: str | None = None,
        files: str = "copy",
        portable: bool = False,
        checkpoint_id: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> Self:
        """Write the savepoint to a new path, and load it from there.

        The snapshots that it is derived from never change. ``_metadata`` is written last. Before that, no reader sees a
        savepoint. Flink: ``SavepointWriter#write``.

        Args:
            path: The folder of the new savepoint.
            flink_version: The oldest Flink that must restore it, such as ``1.20``. It decides the version of the
                metadata: 4 for Flink 1, 5 for 2.0, 6 from 2.1 on. Untouched state in a newer form is rewritten. State
                for which that release has no class is refused. By default the version of the base stays.
                :meth:`create` uses 4, which all releases from 1.16 on read. Flink records uids and names of operators
                only from version 5 on. With 4, jobs find an operator by the hash of its uid. This package appends the
                uids after the part that Flink reads, for its own listings.
            files: ``copy`` copies untouched files, so that the savepoint can be moved. ``reference`` refers to them
                where they are.
            portable: Write untouched keyed state in the canonical format too, which every state backend restores. By
                default files of RocksDB stay as they are, and only RocksDB restores them (:attr:`is_portable`).
            checkpoint_id: The number of the savepoint. By default it is the greatest of the bases. The job continues to
                count from it. Iceberg's sink and Kafka's transactional ids compare it with what they have committed.
            storage_options: How the path's store is reached, if not as in :meth:`load`.
            dry_run: Check the plan, the release and the path, and write nothing. Rows are not read.

        Returns:
            The new savepoint, loaded from ``path``. This one if nothing is written.

        Raises:
            StateExistsError: If the path contains a savepoint, or two operators would have the same identifier.
            OptionError: If there is no operator to write, or an argument is invalid.
            UnsupportedVersionError: If ``flink_version`` cannot restore some state. The error names all such state.
            PySparkException: If rows are invalid, such as a key that is repeated.

        Example::

            sp.rename_state("accounts", "total", "sum").write("/savepoints/renamed", flink_version="1.20")

        """
        from pyspark_savepoint.options.write_options import expect_release_text, parse_flink_version
        from pyspark_savepoint.write.savepoint_writer import SavepointWriter

        path = self._engine.located(snapshot_path(path))
        if not self.plan.operators:
            raise OptionError(
                "the savepoint has no operators, so there is nothing to write",
                path=path,
                remedy="add one: with_operator(uid, ...)",
            )
        self.plan.refuse_same_ids()
        version = None if flink_version is None else parse_flink_version(expect_release_text(flink_version))
        options = {OPTION: self.options[OPTION]} if OPTION in self.options else {}
        options |= to_options({OPTION: storage_options})
        target = reached(path, options)
        with self._engine.explaining(), self._engine.showing("writing"):
            writer = SavepointWriter.to(self._engine, self.plan, target, files, version, portable, checkpoint_id)
            if dry_run:
                return self
            writer.run()
        options |= {"allowOutside": "true"} if files == "reference" else {}
        written = self._at(path, {**self.options, **options})
        if self.plan.evolved is not None:
            written.plan = replace(written.plan, evolved=self.plan.evolved.as_written())
        return written

    def pin(
        self,
        path: str | PathLike[str],
        *,
        checkpoint_id: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Hold this snapshot at a new path, so that it can be read after its job has deleted it.

        On one local file system files are hard links. In one object store the store copies them itself, and no byte
        passes this process. Parts of larger files, and files that the store cannot copy, are read and written. The
        result is an ordinary, self-contained savepoint. It has the checkpoint id and the time of this snapshot, so that
        below one folder both are one version. Flink and ``rm`` delete it like any other.

        Args:
            path: The folder of the new savepoint.
            checkpoint_id: The number of the new savepoint. By default that of this one.
            storage_options: How the path's store is reached, if not as in :meth:`load`.

        Returns:
            The new savepoint, loaded from ``path``.

        Raises:
            OptionError: If this savepoint is not written yet.
            StateExistsError: If the path contains a savepoint.
            SnapshotGoneError: If the job deletes the snapshot before it is held. The error names the newest one.

        Example::

            held = Savepoint.load(spark, "/checkpoints/7d2e", version_as_of="latest").pin("/savepoints/held")

        """
        from pyspark_savepoint.api.copies import hold

        target = self._engine.located(snapshot_path(path))
        options = {**self.options, **to_options({OPTION: storage_options})}
        hold(self, reached(target, options), checkpoint_id)
        return self._at(target, options)

    @staticmethod
    def vacuum(
        path: str | PathLike[str],
        older_than: timedelta = timedelta(days=1),
        *,
        dry_run: bool = False,
        **options: Unpack[StoreOptions],
    ) -> list[Leftover]:
        """Delete leftovers of failed writes in a savepoint's folder, and files that overwrites replaced.

        Deletes only files that this package has named, that ``_metadata`` does not refer to, that are older than
        ``older_than`` (which must be longer than any write takes), and, if replaced, whose ``retention`` has passed.
        Parts of incomplete uploads to object stores are not listed by the clients used here: a lifecycle rule of the
        bucket removes those (``AbortIncompleteMultipartUpload``).

        Args:
            path: The savepoint's folder, absolute or relative to the working directory of this process.
            older_than: The smallest age of files that are deleted.
            dry_run: Only list the files, and delete nothing.
            **options: ``storageOptions``, as for :meth:`load`.

        Returns:
            Path, kind, size in bytes and time of each file that was deleted, or would be.

        Raises:
            OptionError: If ``older_than`` is negative, or an option is invalid.
            SnapshotNotFoundError: If there is no folder at the path.

        Example::

            Savepoint.vacuum("s3://bucket/sp", timedelta(hours=6), dry_run=True)

        """
        from pyspark_savepoint.formats.snapshot.vacuum import vacuum

        return vacuum(reached(absolute(path_text(path)), to_options(options)), older_than.total_seconds(), dry_run)

    # -- display ------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return line(self.plan, self.path)

    def __str__(self) -> str:
        return text_tree(self.plan, self.path)

    def _repr_html_(self) -> str:
        return html_tree(self.plan, self.path, self.options)


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
