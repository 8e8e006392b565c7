"""Verbs that change states of an operator."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.plan.consents import with_consent
from pyspark_savepoint.plan.keyed_edits import with_keys_deleted, with_states
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.plan.several_states import add_states
from pyspark_savepoint.plan.state_inputs import add_operator_state, add_table
from pyspark_savepoint.statebackends.writing.planning.write_request import BROADCAST, LIST, TIMERS, UNION, WINDOW_STATE
from pyspark_savepoint.text.helpful_names import own_arguments

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import (
        KeyedStateOptions,
        NewKeyOptions,
        OperatorStateOptions,
        ReplacedStateOptions,
        UpdatedStateOptions,
    )


class StateEdits(Face[R, T]):
    """Changes of keyed state, windows, timers, operator state and keys."""

    def with_window_state(
        self, uid: OperatorRef, rows: R, *, key: str | Sequence[str] | None = None, **options: Unpack[KeyedStateOptions]
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
        self, uid: OperatorRef, rows: R, *, key: str | Sequence[str] | None = None, **options: Unpack[KeyedStateOptions]
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
