"""Verbs that sum up a savepoint: sizes, the heaviest keys, ages, errors, findings, the report and figures.

Tasks read the parts of a table. What they yield is a few rows, which one process puts together as Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.api.families import Family, S
from pyspark_savepoint.engines.face import Face, R, T, other_of, snapshot_of
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import path_text
from pyspark_savepoint.statebackends.requests.table_options import DEFAULT_TOP
from pyspark_savepoint.text.texts import replacing, writable

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
    from pyspark_savepoint.insight.plots import Plots
    from pyspark_savepoint.options.keywords import Names, TableOptions
    from pyspark_savepoint.statebackends.evolution.plans import PlanLike
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job

#: How rows of summaries name the state that they are about.
OPERATOR = ("operator_uid", "operator_uid_hash", "operator_name")
STATE = (*OPERATOR, "table", "state")
ORDER = ("operator_uid", "operator_uid_hash", "table", "state")
#: The newest snapshots of a folder whose growth a report shows.
MOST_SNAPSHOTS = 50
#: The status of a verification, the worst first.
STATUSES = ("error", "warning")
By = Literal["state", "subtask", "key-group"]
#: What tells apart the rows of sizes, beside the state.
GROUPING: Mapping[str, tuple[str, ...]] = {"state": (), "subtask": ("subtask",), "key-group": ("subtask", "key_group")}
AMOUNTS = ("entries", "bytes", "largest")
Tabular = Callable[[pa.Table], pa.Table]


class Inspection(Family[S, R, T]):
    """Numbers about the state of a savepoint, and what is wrong with it.

    Example::

        sp.inspect.sizes()
        sp.inspect.doctor()

    """

    _called = "sp.inspect"

    def sizes(
        self,
        uid: OperatorRef | None = None,
        state: Names | None = None,
        *,
        by: By = "state",
        **options: Unpack[TableOptions],
    ) -> T:
        """Return the entries and bytes of every state, the largest first. No value is decoded.

        Args:
            uid: The operator. None for all operators.
            state: The name of a state, or a list of several, of the operator. By default all.
            by: What has a row: a ``state``, each ``subtask`` of a state, or each ``key-group`` of a state.
            **options: Options of a read.

        Returns:
            One row per state, with subtask and key group if asked for: kind, entries, bytes, largest entry.

        Raises:
            OptionError: If ``by`` is none of these.

        Example::

            sp.inspect.sizes().show()  # the largest state first. Without Spark: .to_pandas()
            sp.inspect.sizes("accounts", by="subtask").show()

        """
        if by not in GROUPING:
            raise OptionError("argument 'by' is not known", expected=f"one of {', '.join(GROUPING)}", found=repr(by))
        table = self._of("sizes", uid, options, state)
        schema = self._engine.schema(table)
        columns = [*STATE, "kind", *GROUPING[by], *AMOUNTS, "note"]
        return self._summed(table, lambda rows: sizes_by(rows, by), pa.schema([schema.field(name) for name in columns]))

    def heaviest_keys(
        self, uid: OperatorRef | None = None, state: Names | None = None, **options: Unpack[TableOptions]
    ) -> T:
        """Return the keys (and windows) of every state that take the most bytes, largest first.

        Args:
            uid: The operator. None for all operators.
            state: The name of a state, or a list of several, of the operator. By default all.
            **options: Options of a read. ``top`` is the number of keys per state, 20 by default.

        Returns:
            One row per state and key (and window): the key as JSON that option ``keys`` takes, entries, bytes, rank.

        Example::

            sp.inspect.heaviest_keys("accounts", top=5)

        """
        keys = self._of("heaviest_keys", uid, options, state)
        top = int({**self._savepoint.options, **to_options(options)}.get("top", DEFAULT_TOP))
        ranked = self._engine.schema(keys).append(pa.field("rank", pa.int32()))
        return self._summed(keys, lambda table: _heaviest(table, top), ranked)

    def ttl_ages(
        self, uid: OperatorRef | None = None, state: Names | None = None, **options: Unpack[TableOptions]
    ) -> T:
        """Return a histogram of the times since last access, before the snapshot, of states with a time to live.

        Args:
            uid: The operator. None for all operators.
            state: The name of a state, or a list of several, of the operator. By default all.
            **options: Options of a read.

        Returns:
            One row per state and range of ages (``from_seconds``, ``to_seconds``): units, oldest, newest.

        Example::

            sp.inspect.ttl_ages("accounts")

        """
        table = self._of("ttl_ages", uid, options, state)
        schema = self._engine.schema(table)
        columns = [*STATE, "from_seconds", "to_seconds", "units", "oldest", "newest", "snapshot_time", "note"]
        return self._summed(table, _ages, pa.schema([schema.field(name) for name in columns]))

    def verify(self, uid: OperatorRef | None = None, state: Names | None = None, **options: Unpack[TableOptions]) -> T:
        """Read every byte of every state and report errors: one row per state and subtask, errors first.

        Errors of the snapshot are rows, not exceptions.

        Args:
            uid: The operator. None for all operators.
            state: The name of a state, or a list of several, of the operator. By default all.
            **options: Options of a read.

        Returns:
            ``status`` (``ok``, ``warning`` or ``error``), entries, bytes, and ``note``: the finding, or the parts that
            only the user's code can check.

        Example::

            sp.inspect.verify().where("status <> 'ok'").show(truncate=False)
            sp.inspect.verify().to_pandas()  # without Spark

        """
        table = self._of("verification", uid, options, state)
        return self._summed(table, _worst_first, self._engine.schema(table))

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
            job: The new job, as in :meth:`~pyspark_savepoint.Savepoint.job`. Operators that it does not restore are
                findings, too.

        Returns:
            A row per finding: ``check``, ``severity`` (``error``, ``warning`` or ``note``), ``evidence``, ``remedy``,
            ``operator`` and ``state``.

        Raises:
            OptionError: If a budget is invalid, or the savepoint is not written yet.

        Example::

            sp.inspect.doctor("size=20GB", since="/savepoints/of-yesterday")

        """
        from pyspark_savepoint.insight.budgets import Budgets
        from pyspark_savepoint.insight.doctor import examine, findings_table

        older = None if since is None else other_of(self._savepoint, since)
        with self._engine.showing("examining"):
            findings = examine(self._savepoint, Budgets.parse(budgets), older, job)
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
        old_plan: PlanLike | None = None,
        new_plan: PlanLike | None = None,
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
            job: The new job, as in :meth:`~pyspark_savepoint.Savepoint.job`. Whether it would restore the snapshot is
                shown.
            flink_version: A release of Flink, such as ``2.3``: what a migration to it does is shown.
            budgets: Limits of the findings, as in :meth:`doctor`.
            show_keys: Whether values of keys are shown.
            old_plan: The compiled plan of the SQL job, as in :meth:`~pyspark_savepoint.Savepoint.check_evolution`. What
                becomes of its state under ``new_plan`` is shown. If ``evolve`` made the savepoint, what was done is
                shown without them.
            new_plan: The plan of the new query.

        Returns:
            The path of the file.

        Raises:
            OptionError: If the packages are not installed, an argument is invalid, or the savepoint is not written yet.
            OutputError: If the file cannot be written.

        Example::

            sp.inspect.report("report.html", folder="/checkpoints/7d2e", flink_version="2.3")

        """
        from pyspark_savepoint.engines.migrating import migration_of
        from pyspark_savepoint.insight.budgets import Budgets
        from pyspark_savepoint.insight.section_parts import ReportRequest
        from pyspark_savepoint.insight.sections import history_of, page_of
        from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of

        if folder is None and last is not None:
            raise OptionError(
                "argument 'last' is for the snapshots of a folder", remedy="give 'folder', or leave it out"
            )
        if (old_plan is None) != (new_plan is None):
            raise OptionError(
                "a changed query has two plans",
                found="argument 'old_plan' alone" if new_plan is None else "argument 'new_plan' alone",
                remedy="give argument 'old_plan' and argument 'new_plan'",
            )
        snapshot = snapshot_of(self._savepoint)
        evolution = None
        if old_plan is not None and new_plan is not None:
            evolution = evolution_of(old_plan, new_plan, check_options(), snapshot)
        if flink_version is not None:
            migration_of(snapshot, flink_version)  # refuses a release that is not known
        older = None if since is None else other_of(self._savepoint, since)
        history: Sequence[SnapshotInfo] = ()
        if folder is not None:
            newest = MOST_SNAPSHOTS if last is None else last
            history = history_of(snapshot, self._engine.located(folder), self._savepoint.options, newest)
        described = snapshot_of(job) if isinstance(job, Face) else job
        report_request = ReportRequest(
            history, older, described, flink_version, Budgets.parse(budgets), show_keys, evolution
        )
        target = writable(Path(path_text(path)).expanduser())
        with self._engine.showing("reporting"):
            page = page_of(self._savepoint, report_request)
        with replacing(target) as pending:
            pending.write_text(page, encoding="utf-8")
        return str(target)

    @property
    def plot(self) -> Plots:
        """Figures of Matplotlib: ``sizes()``, ``skew(uid)``, ``growth(folder)``, ``timers(uid)`` and ``ttl()``.

        They need the packages of the extra ``plot``. Tasks of Spark read the state, or this process without Spark.

        Example::

            sp.inspect.plot.sizes()  # in a notebook. Elsewhere: sp.inspect.plot.sizes().savefig("sizes.png")
            sp.inspect.plot.skew("accounts")
            sp.inspect.plot.growth("/checkpoints/7d2e")

        """
        from pyspark_savepoint.insight.plots import Plots

        return Plots(self._savepoint, self._engine.located)

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

            sp.inspect.check_hash_code("accounts", lambda key: key.region * 31 + key.number)

        """
        from pyspark_savepoint.plan.key_hashes import wrong_key_groups

        limit = self._plan.operator(uid).max_parallelism
        keys = self._engine.rows(self._of("keyed_state", uid, {"include_key_group": True}))
        assert keys is not None
        wrong = wrong_key_groups(keys, hash_code, limit).first()
        if wrong is not None:
            raise ValueRangeError(
                "the function does not compute the hash that the job computed",
                path=self._savepoint.path,
                operator=str(uid),
                key=wrong["key"],
                expected=f"key group {wrong['stored']}, where Flink has the key, at max parallelism {limit}",
                found=f"key group {wrong['computed']}",
                remedy="compute hashCode() as the class of the key does in Java, in 32 bits",
            )

    def _summed(self, table: T, function: Tabular, schema: pa.Schema) -> T:
        """Return what a function makes of all rows of a table, in one process."""

        def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            all_batches = list(batches)
            if all_batches:
                yield from function(pa.Table.from_batches(all_batches)).select(schema.names).cast(schema).to_batches()

        summary: T = self._engine.summed(table, summed, schema)
        return summary


def _sorted(table: pa.Table, keys: Sequence[tuple[str, str]]) -> pa.Table:
    """Return a table in order. NULL is less than any value, as in Spark."""
    columns: dict[str, pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for name, direction in keys:
        is_set = f"{name} is set"
        columns |= {is_set: table.column(name).is_valid(), name: table.column(name)}
        order += [(is_set, direction), (name, direction)]
    return table.take(pc.sort_indices(pa.table(columns), sort_keys=order))


def sizes_by(table: pa.Table, by: str) -> pa.Table:
    """Return the table ``sizes`` added up, the largest first. What cannot be read has its reason in ``note``."""
    same = [*STATE, "kind", *GROUPING[by], "note"]
    sums = [(name, "max" if name == "largest" else "sum") for name in AMOUNTS]
    grouped = table.group_by(same, use_threads=False).aggregate(sums)
    names = {f"{name}_{function}": name for name, function in sums}
    grouped = grouped.rename_columns([names.get(name, name) for name in grouped.column_names])
    places = [(name, "ascending") for name in (*ORDER, *GROUPING[by])]
    return _sorted(grouped, [("bytes", "descending"), *places])


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
