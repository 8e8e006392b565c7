"""A savepoint without Spark: tables are Arrow, edits run in this process. What ``pyspark_savepoint.open`` returns.

::

    sp = pyspark_savepoint.open("/savepoints/savepoint-2f1a3c")
    sp.states().to_arrow()
    sp.keyed_state("accounts", keys=[1042]).to_pandas()
    sp.table("timers", uid="accounts").batches()
    sp.remove_operator("audit").write("/savepoints/new")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Literal, Self, Unpack

from pyspark_savepoint.api.verbs import SavepointVerbs
from pyspark_savepoint.engines.arrow.local_engine import ArrowStream, LocalEngine
from pyspark_savepoint.engines.arrow.local_table import LocalTable
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.options import opened_at
from pyspark_savepoint.options.paths import snapshot_path
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan, expect_backend
from pyspark_savepoint.plan.state_inputs import refuse_to_choose
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.text.doors import of_open
from pyspark_savepoint.text.helpful_names import own_arguments

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import OpenOptions


def open_savepoint(
    path: str | PathLike[str],
    *,
    state_backend: Literal["hashmap", "rocksdb"] | None = None,
    **options: Unpack[OpenOptions],
) -> LocalSavepoint:
    """Open a snapshot without Spark and Java: its tables are Arrow tables of this process, which edits it too.

    Args:
        path: The folder of a savepoint or of a retained checkpoint, or its ``_metadata`` file. Relative paths are
            relative to the working directory. With ``version_as_of`` (a checkpoint id, or ``latest``) or
            ``timestamp_as_of`` (a time) a folder of several.
        state_backend: The state backend of the job that restores the written savepoint, as in
            :meth:`Savepoint.create`.
        **options: Options of the data source, in snake case or camel case, which apply to all tables.

    Returns:
        The snapshot.

    Raises:
        SnapshotNotFoundError: If there is no snapshot at the path. The error names those in folders below.
        CorruptStateError: If ``_metadata`` is damaged.
        OptionError: If an option is invalid.

    Example::

        pyspark_savepoint.open("/savepoints/savepoint-2f1a3c").keyed_state("accounts").to_arrow()
        pyspark_savepoint.open("/checkpoints/7d2e", version_as_of="latest").states().to_arrow()

    """
    expect_backend(state_backend)
    refuse_to_choose(to_options(options))
    opened = opened_at(
        {**to_options(options), "path": absolute(snapshot_path(path))},
        lambda texts: LocalSavepoint(texts.pop("path"), texts),
    )
    return LocalSavepoint(opened.path, opened.options, replace(opened.plan, state_backend=state_backend))


@own_arguments
def create_savepoint(
    *,
    max_parallelism: int = DEFAULT_MAX_PARALLELISM,
    state_backend: Literal["hashmap", "rocksdb"] | None = None,
) -> LocalSavepoint:
    """Return a new savepoint without operators, which is not written yet, without Spark and Java.

    Args:
        max_parallelism: The number of key groups of the operators that will be added, 1 to 32768.
        state_backend: The state backend of the job that restores it, as in :meth:`Savepoint.create`.

    Returns:
        The savepoint.

    Raises:
        OptionError: If ``max_parallelism`` is out of range, or the state backend restores no canonical savepoint.

    Example::

        rows = pyarrow.table({"id": [1, 2], "total": [10, 20]})
        pyspark_savepoint.create().with_operator("totals", rows, key="id").write("/savepoints/new")

    """
    check_parallelism(max_parallelism, 1)
    expect_backend(state_backend)
    plan = SavepointPlan(max_parallelism=max_parallelism, state_backend=state_backend)
    return LocalSavepoint(None, {}, plan)


class LocalSavepoint(SavepointVerbs[ArrowStream, LocalTable]):
    """A savepoint or checkpoint without Spark, made by ``pyspark_savepoint.open`` and ``pyspark_savepoint.create``.

    Immutable: every change returns a new savepoint, which :meth:`write` writes, in bounded memory. Rows are given as a
    ``pyarrow.Table``, a ``RecordBatchReader``, a DataFrame of pandas or Polars, or a table of a snapshot. A
    ``pyarrow.dataset`` of files is read a batch at a time.

    An operator is named by its uid, its uid hash (32 hex digits), or an :class:`OperatorIdentifier`. Options are those
    of the data source. One that a table cannot honour is refused.

    Args:
        path: The folder of the snapshot, or its ``_metadata`` file. None if it is not written yet.
        options: Options of a read by name, which apply to all tables.
        plan: Internal: the edits that are not written yet.

    Example::

        sp = pyspark_savepoint.open("/savepoints/savepoint-2f1a3c")
        sp.states().to_arrow()
        sp.keyed_state("accounts", keys=[1042]).to_pandas()
        sp.remove_keys("accounts", [1042]).write("/savepoints/new")

    """

    _opening = "pyspark_savepoint.open(path)"
    _looking = "to_arrow()"
    _worded = staticmethod(of_open)

    def __init__(self, path: str | None, options: Mapping[str, str], plan: SavepointPlan | None = None) -> None:
        self.path = path
        self.options = options
        self._engine = LocalEngine()
        self.plan = plan if plan is not None else SavepointPlan.of(self._snapshot(), self._read_path(), options)

    def __deepcopy__(self, memo: object) -> Self:
        """Return this savepoint, which never changes."""
        return self

    def _planned(self, plan: SavepointPlan) -> LocalSavepoint:
        return LocalSavepoint(None, self.options, plan)

    def _at(self, path: str, options: Mapping[str, str]) -> LocalSavepoint:
        return LocalSavepoint(path, options)


#: The names that the package exports.
open = open_savepoint  # noqa: A001
create = create_savepoint
