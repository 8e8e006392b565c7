"""Verbs that sum up a savepoint: sizes, the heaviest keys, ages, errors, findings, and one table of many snapshots.

Tasks read the parts of a table. What they yield is a few rows, which one process puts together as Arrow. A history is
one table of all snapshots below a folder, or the numbers of their differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.api.tables import Tables
from pyspark_savepoint.engines.face import Face, R, T, own_arguments, snapshot_of
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    ValueRangeError,
    did_you_mean,
    type_name,
)
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.snapshot.as_of import newest_of, readable_snapshots
from pyspark_savepoint.insight.comparisons import changed_rows, overview
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import path_text, reached
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.statebackends.model.table_options import DEFAULT_TOP
from pyspark_savepoint.text.texts import replacing, writable

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
    from pyspark_savepoint.insight.plots import Plots
    from pyspark_savepoint.options.keywords import StateOptions
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job

#: How rows of summaries name the state that they are about.
OPERATOR = ("operator_uid", "operator_uid_hash", "operator_name")
STATE = (*OPERATOR, "table", "state")
ORDER = ("operator_uid", "operator_uid_hash", "table", "state")
#: The newest snapshots of a folder whose growth a report shows.
MOST_SNAPSHOTS = 50
#: The status of a verification, the worst first.
STATUSES = ("error", "warning")
Tabular = Callable[[pa.Table], pa.Table]


class Summaries(Tables[R, T]):
    """Numbers about the state, and what is wrong with it."""

    def sizes(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> T:
        """Return the entries and bytes of every state in every key group. No value is decoded.

        Args:
            uid: The operator. None for all operators.
            **options: Options of a read.

        Returns:
            One row per state and key group: kind, subtask, entries, bytes, largest entry.

        Example::

            sp.sizes("accounts").groupBy("state").sum("bytes").show()

        """
        return self._of("sizes", uid, options)

    def heaviest_keys(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> T:
        """Return the keys (and windows) of every state that take the most bytes, largest first.

        Args:
            uid: The operator. None for all operators.
            **options: Options of a read. ``top`` is the number of keys per state, 20 by default.

        Returns:
            One row per state and key (and window): the key as JSON that option ``keys`` takes, entries, bytes, rank.

        Example::

            sp.heaviest_keys("accounts", top=5)

        """
        keys = self._of("heaviest_keys", uid, options)
        top = int({**self.options, **to_options(options)}.get("top", DEFAULT_TOP))
        ranked = self._engine.schema(keys).append(pa.field("rank", pa.int32()))
        return self._summed(keys, lambda table: _heaviest(table, top), ranked)

    def verify(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> T:
        """Read every byte of every state and report errors: one row per state and subtask, errors first.

        Errors of the snapshot are rows, not exceptions.

        Args:
            uid: The operator. None for all operators.
            **options: Options of a read.

        Returns:
            ``status`` (``ok``, ``warning`` or ``error``), entries, bytes, and ``note``: the finding, or the parts that
            only the user's code can check.

        Example::

            sp.verify().where("status <> 'ok'").show(truncate=False)  # without Spark: sp.verify().to_pandas()

        """
        table = self._of("verification", uid, options)
        return self._summed(table, _worst_first, self._engine.schema(table))

    def ttl_ages(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> T:
        """Return a histogram of the times since last access, before the snapshot, of states with a time to live.

        Args:
            uid: The operator. None for all operators.
            **options: Options of a read.

        Returns:
            One row per state and range of ages (``from_seconds``, ``to_seconds``): units, oldest, newest.

        Example::

            sp.ttl_ages("accounts")

        """
        table = self._of("ttl_ages", uid, options)
        schema = self._engine.schema(table)
        columns = [*STATE, "from_seconds", "to_seconds", "units", "oldest", "newest", "snapshot_time", "note"]
        return self._summed(table, _ages, pa.schema([schema.field(name) for name in columns]))

    def _summed(self, table: T, function: Tabular, schema: pa.Schema) -> T:
        """Return what a function makes of all rows of a table, in one process."""

        def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            given = list(batches)
            if given:
                yield from function(pa.Table.from_batches(given)).select(schema.names).cast(schema).to_batches()

        summary: T = self._engine.summed(table, summed, schema)
        return summary

    def diff(
        self,
        newer: Face[R, T] | str | PathLike[str],
        uid: str | None = None,
        *,
        table: str | None = None,
        state: str | None = None,
    ) -> T:
        """Return the differences between this snapshot and a newer one: counts of all operators, or the rows of one.

        Args:
            newer: The newer savepoint, or the path of one, which is loaded with the options of this one.
            uid: The operator to compare row by row. None to count the differences of all operators.
            table: The table to compare, as in :func:`pyspark_savepoint.diff`.
            state: The state to compare, as in :func:`pyspark_savepoint.diff`.

        Returns:
            The differences, as in :func:`pyspark_savepoint.diff`.

        Raises:
            OperatorNotFoundError: If neither snapshot has the operator.
            StateNotFoundError: If neither operator has the state.

        Example::

            sp.diff("/savepoints/fixed", "accounts")

        """
        other = self._other(newer)
        if uid is None:
            return overview(self, other)
        return changed_rows(self, other, uid, table, state)

    def doctor(
        self,
        budgets: str | Mapping[str, str | float] | None = None,
        *,
        since: Face[R, T] | str | PathLike[str] | None = None,
        job: Job | None = None,
    ) -> T:
        """Return what may go wrong with the snapshot, the worst finding first, as ``pyspark-savepoint doctor`` does.

        Tasks of Spark read the state, or this process without Spark. The driver gets what they count.

        Args:
            budgets: Limits, such as ``size=20GB,skew=4,key=8MB,ttl-age=30d``, or a mapping of these names:
                ``{"size": "20GB", "skew": 4}``.
            since: An older snapshot of the job, or its path: states that only grow are findings too.
            job: The new job, as in :meth:`check_restore`: operators that it does not restore are findings too.

        Returns:
            A row per finding: ``check``, ``severity`` (``error``, ``warning`` or ``note``), ``evidence``, ``remedy``,
            ``operator`` and ``state``.

        Raises:
            OptionError: If a budget is invalid, or the savepoint is not written yet.

        Example::

            sp.doctor("size=20GB", since="/savepoints/of-yesterday")

        """
        from pyspark_savepoint.insight.doctor import Budgets, examine, findings_table

        older = None if since is None else self._other(since)
        with self._engine.showing("examining"):
            findings = examine(self, Budgets.parse(budgets), older, job)
        return self._shown(findings_table(findings))

    def report(
        self,
        path: str | PathLike[str],
        *,
        folder: str | PathLike[str] | None = None,
        last: int | None = None,
        since: Face[R, T] | str | PathLike[str] | None = None,
        job: Job | Face[R, T] | None = None,
        flink_version: str | None = None,
        budgets: str | Mapping[str, str | float] | None = None,
        show_keys: bool = False,
    ) -> str:
        """Write a report about the snapshot: one HTML file, which a browser opens offline.

        It needs the packages of the extra ``report``. Tasks of Spark read the state, or this process without Spark. The
        driver gets what they count: a row per state and key group, five keys of each state.

        Args:
            path: The local file to write. One that exists is replaced.
            folder: The folder that has the snapshots of the job, whose growth and changes up to this one are shown. The
                sizes of each are read, and the newest 20 are compared with the one before.
            last: How many of these snapshots, 2 or more. The newest 50 by default.
            since: An older snapshot of the job, or its path: what differs is shown.
            job: The new job, as in :meth:`check_restore`: whether it would restore the snapshot is shown.
            flink_version: A release of Flink, such as ``2.3``: what a migration to it does is shown.
            budgets: Limits of the findings, as in :meth:`doctor`.
            show_keys: Whether values of keys are shown.

        Returns:
            The path of the file.

        Raises:
            OptionError: If the packages are not installed, an argument is invalid, or the savepoint is not written yet.
            OutputError: If the file cannot be written.

        Example::

            sp.report("report.html", folder="/checkpoints/7d2e", flink_version="2.3")

        """
        from pyspark_savepoint.engines.migrating import migration_of
        from pyspark_savepoint.insight.doctor import Budgets
        from pyspark_savepoint.insight.sections import Asked, history_of, page_of

        if folder is None and last is not None:
            raise OptionError(
                "argument 'last' is for the snapshots of a folder", remedy="give 'folder', or leave it out"
            )
        snapshot = self._snapshot()
        if flink_version is not None:
            migration_of(snapshot, flink_version)  # refuses a release that is not known
        older = None if since is None else self._other(since)
        history: Sequence[SnapshotInfo] = ()
        if folder is not None:
            newest = MOST_SNAPSHOTS if last is None else last
            history = history_of(snapshot, self._engine.located(folder), self.options, newest)
        described = snapshot_of(job) if isinstance(job, Face) else job
        asked = Asked(history, older, described, flink_version, Budgets.parse(budgets), show_keys)
        target = writable(Path(path_text(path)).expanduser())
        with self._engine.showing("reporting"):
            page = page_of(self, asked)
        with replacing(target) as pending:
            pending.write_text(page, encoding="utf-8")
        return str(target)

    @property
    def plot(self) -> Plots:
        """Figures of Matplotlib: ``sizes()``, ``skew(uid)``, ``growth(folder)``, ``timers(uid)`` and ``ttl()``.

        They need the packages of the extra ``plot``. Tasks of Spark read the state, or this process without Spark.

        Example::

            sp.plot.sizes()  # in a notebook. Elsewhere: sp.plot.sizes().savefig("sizes.png")
            sp.plot.skew("accounts")
            sp.plot.growth("/checkpoints/7d2e")

        """
        from pyspark_savepoint.insight.plots import Plots

        return Plots(self, self._engine.located)

    def check_hash_code(self, uid: OperatorRef, hash_code: Callable[[Any], int]) -> None:
        """Test a function that computes the Java hash of keys on the keyed state of an operator.

        Flink puts every key into the key group of its hash, so a correct function leads to the same key groups.

        Args:
            uid: The operator.
            hash_code: A function of a key as it is read that returns its ``hashCode()`` in Java.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            ValueRangeError: If the function leads to another key group for a key. The error names the key.

        Example::

            sp.check_hash_code("accounts", lambda key: key.region * 31 + key.number)

        """
        from pyspark_savepoint.plan.key_hashes import wrong_key_groups

        limit = self.plan.operator(uid).max_parallelism
        keys = self._engine.rows(self.keyed_state(uid, include_key_group=True))
        assert keys is not None
        wrong = wrong_key_groups(keys, hash_code, limit).first()
        if wrong is not None:
            raise ValueRangeError(
                "the function does not compute the hash that the job computed",
                path=self.path,
                operator=str(uid),
                key=wrong["key"],
                expected=f"key group {wrong['stored']}, where Flink has the key, at max parallelism {limit}",
                found=f"key group {wrong['computed']}",
                remedy="compute hashCode() as the class of the key does in Java, in 32 bits",
            )


@own_arguments
def diff(
    old: Summaries[R, T],
    new: Summaries[R, T] | str | PathLike[str],
    uid: str | None = None,
    *,
    table: str | None = None,
    state: str | None = None,
) -> T:
    """Return the differences between two snapshots: counts of all operators, or the rows of one operator that differ.

    Args:
        old: The older snapshot, with or without Spark.
        new: The newer snapshot, or the path of one, which is loaded with the options of ``old``.
        uid: The operator to compare row by row. None to count the differences of all operators.
        table: ``keyed_state``, ``window_state``, ``timers`` or ``operator_state``. By default the first of these that
            the operator has.
        state: The state to compare. All keyed states by default, required if the operator has several operator states.

    Returns:
        Without ``uid`` one row per operator, table and state: entries before, after, added, removed, changed. With
        ``uid`` one row per difference: ``change`` (``added``, ``removed``, ``changed``), the key or element, and the
        state before and after. ``window`` of a session is the window under which Flink keeps its contents, which stays
        the same while the session grows.

    Raises:
        OperatorNotFoundError: If neither snapshot has the operator. The error names the nearest.
        StateNotFoundError: If neither operator has the state. The error names the nearest.
        UnsupportedStateError: If the type of the keys differs.
        OptionError: If ``table`` cannot be compared, or ``state`` is required.

    Example::

        old, new = Savepoint.load(spark, "/savepoints/a"), Savepoint.load(spark, "/savepoints/b")
        pyspark_savepoint.diff(old, new).show()
        pyspark_savepoint.diff(old, new, "accounts", state="total").show()

    """
    if not isinstance(old, Summaries):
        raise OptionError(
            "the older snapshot must be a Savepoint",
            found=type_name(old),
            remedy="Savepoint.load(spark, path) gives it; without Spark: pyspark_savepoint.open(path)",
        )
    return old.diff(new, uid, table=table, state=state)


def _sorted(table: pa.Table, keys: Sequence[tuple[str, str]]) -> pa.Table:
    """Return a table in order. NULL is less than any value, as in Spark."""
    columns: dict[str, pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for name, direction in keys:
        is_set = f"{name} is set"
        columns |= {is_set: table.column(name).is_valid(), name: table.column(name)}
        order += [(is_set, direction), (name, direction)]
    return table.take(pc.sort_indices(pa.table(columns), sort_keys=order))


def _heaviest(table: pa.Table, top: int) -> pa.Table:
    """Return the heaviest keys of each state of all parts, with their ranks."""
    state = [(name, "ascending") for name in ORDER]
    order = [*state, ("bytes", "descending"), ("key", "ascending"), ("window", "ascending")]
    table = _sorted(table, order)
    # A row begins a state if it differs from the one before; its rank is the distance from there.
    begins = np.zeros(len(table), bool)
    begins[:1] = True
    for name in ORDER:
        codes = table.column(name).combine_chunks().dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
        begins[1:] |= codes[1:] != codes[:-1]
    starts = np.flatnonzero(begins)
    ranks = np.arange(len(table)) - np.repeat(starts, np.diff(np.append(starts, len(table)))) + 1
    return table.append_column("rank", pa.array(ranks, pa.int32())).filter(pa.array(ranks <= top))


def _worst_first(table: pa.Table) -> pa.Table:
    """Return the rows, errors first. One file of several subtasks that cannot be read is one row."""
    table = one_row_per_error(table)
    rank = pc.fill_null(pc.index_in(table.column("status"), pa.array(STATUSES)), len(STATUSES))
    names = ("rank", *ORDER, "subtask", "first_key_group")
    return _sorted(table.append_column("rank", rank), [(name, "ascending") for name in names]).drop_columns("rank")


def one_row_per_error(table: pa.Table) -> pa.Table:
    """Return a verification in which errors about one file as a whole are one row, which names the subtasks."""
    rows, errors = [], dict[tuple[Any, ...], dict[str, Any]]()
    for row in table.to_pylist():
        lines = (row["note"] or "").split("\n")
        whole = lines[:2] if len(lines) > 1 and not any(line.startswith("  at byte:") for line in lines) else lines
        same = (*(row[name] for name in OPERATOR), *whole)
        first = errors.get(same) if row["status"] == "error" else None
        if first is None:
            rows.append({**row, "subtasks": [row["subtask"]]})
            if row["status"] == "error":
                errors[same] = rows[-1]
            continue
        first["subtasks"].append(row["subtask"])
        for name, function in (("first_key_group", min), ("last_key_group", max)):
            bounds = [value for value in (first[name], row[name]) if value is not None]
            first[name] = function(bounds) if bounds else None
        if first["table"] == "files":
            first.update({name: row[name] for name in ("table", "state", "kind", "subtask", "note")})
    for row in rows:
        subtasks = sorted({one for one in row.pop("subtasks") if one is not None})
        if len(subtasks) > 1:
            row["subtask"] = None
            row["note"] = f"{row['note']}\n  subtasks: {', '.join(map(str, subtasks))}"
    return pa.Table.from_pylist([{name: row[name] for name in table.column_names} for row in rows], table.schema)


def _ages(table: pa.Table) -> pa.Table:
    """Return the histogram of all key groups."""
    same = [*STATE, "from_seconds", "to_seconds", "snapshot_time", "note"]
    grouped = table.group_by(same, use_threads=False).aggregate(
        [("units", "sum"), ("oldest", "min"), ("newest", "max")]
    )
    names = {"units_sum": "units", "oldest_min": "oldest", "newest_max": "newest"}
    grouped = grouped.rename_columns([names.get(name, name) for name in grouped.column_names])
    return _sorted(grouped, [(name, "ascending") for name in (*ORDER, "from_seconds")])


def history_of(
    engine: Engine,
    opened: Callable[[str], Summaries[Any, T]],
    at: str,
    folder: str,
    uid: OperatorRef | None,
    last: int | None,
    changes: bool,
    options: Mapping[str, str],
) -> Any:
    """Return one table of snapshots as the engine has such, oldest first.

    ``at`` is the absolute path of the folder, ``folder`` what the user gave. ``opened`` opens a snapshot by its path.
    """
    expect_last(last)
    given = [name for name in options if name != OPTION]
    if changes and given:
        raise OptionError(
            "changes are counted of all states, without options",
            found=", ".join(given),
            remedy="rows that differ between two snapshots: diff(other, uid, table=..., state=...)",
        )
    located = reached(at, options)
    # Differences are those within one history; a table is of all snapshots.
    found = newest_of(located).history if changes else readable_snapshots(located)
    snapshots = [(candidate.number, candidate.path) for candidate in found]
    chosen: list[tuple[int, str, str | None]] = []
    known: set[str] = set()
    for number, path in reversed(snapshots):
        operator = None
        if uid is not None:
            plan = opened(path).plan
            found_operator = plan.find(uid)
            if found_operator is None:
                known |= {candidate.label for candidate in plan.operators}
                continue
            operator = found_operator.identifier.operator_id.hex
        chosen.insert(0, (number, path, operator))
        if len(chosen) == last:
            break
    if not chosen:
        raise OperatorNotFoundError(
            f"none of {len(snapshots)} snapshots has such an operator",
            path=folder,
            operator=str(uid),
            remedy=did_you_mean(str(uid), sorted(known)),
        )
    parts = []
    if changes:
        # One snapshot has no changes; its columns are those of a comparison with itself.
        for (_, before, _), (number, path, operator) in list(pairwise(chosen)) or [(chosen[0], chosen[0])]:
            counts = opened(before).diff(opened(path))
            wanted = operator if len(chosen) > 1 else ""
            parts.append(
                (number, path, counts if wanted is None else engine.where(counts, "operator_uid_hash", wanted))
            )
    else:
        texts = dict(options) if uid is not None else {"table": "metadata", **options}
        for number, path, operator in chosen:
            own = {} if operator is None else {"uidHash": operator}
            parts.append((number, path, engine.opened({**texts, **own, "path": path})))
    return engine.joined(parts)


def expect_last(last: int | None) -> None:
    """Raise OptionError unless the number of newest snapshots is at least 1."""
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise OptionError(
            "argument 'last' must be at least 1: it is the number of newest snapshots to read", found=repr(last)
        )
