"""Reads of one table, from options to partitions: the same for Spark's data source and for reads in this process.

Rows with half of a surrogate pair, which option ``text`` escaped or replaced, are warned of. They are searched only
where a serializer counted such a string, so that other tables cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.errors import (
    FileReplacedError,
    SnapshotGoneError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
)
from pyspark_savepoint.formats.io.one_verb import look_again, one_verb
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.formats.serializers.basic.strings import ESCAPE, ESCAPED_TEXTS
from pyspark_savepoint.formats.snapshot.as_of import explained
from pyspark_savepoint.options.operators import with_requested_uid
from pyspark_savepoint.options.options import ATTEMPTS, SavepointReadOptions
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import Table, TablePartition

T = TypeVar("T")
#: Target size of a partition, that of Spark's file sources (``spark.sql.files.maxPartitionBytes``).
BYTES_PER_PARTITION = 128 << 20
#: Below this, starting a task costs more than reading its bytes.
MIN_BYTES_PER_PARTITION = 1 << 20


def table_of(options: SavepointReadOptions) -> tuple[SavepointReadOptions, Table]:
    """Return the table that the options select; errors name the existing tables, operators and states.

    The options are returned, too: of the newest snapshot, if the one that was so was deleted meanwhile.
    """
    return _retried(options, lambda tried: open_table(tried.request()), planned=False)


def partitions_of(
    options: SavepointReadOptions, columns: Callable[[pa.Schema], list[str]], workers: int, *, for_tasks: bool = False
) -> tuple[SavepointReadOptions, Table, list[TablePartition]]:
    """Return the table restricted to some columns, and its partitions for a number of workers.

    ``columns`` names columns of a schema, and raises an error if the table is not the one that was planned. The options
    are returned, too, as :func:`table_of` does. ``for_tasks``: other processes read the partitions, so that these have
    the catalogs of databases.
    """

    def plan(tried: SavepointReadOptions) -> tuple[Table, list[TablePartition]]:
        table = open_table(tried.request())
        chosen = table.select(columns(table.schema))
        count = tried.parallelism or default_parallelism(chosen.state_bytes, chosen.max_parallelism, workers)
        return chosen, chosen.partitions(count)

    def plan_for_tasks(tried: SavepointReadOptions) -> tuple[Table, list[TablePartition]]:
        from pyspark_savepoint.statebackends.sources.open_operator import proved_meanwhile

        with proved_meanwhile():
            table, partitions = plan(tried)
            return table, _with_catalogs(partitions)

    effective_options, (table, partitions) = _retried(options, plan_for_tasks if for_tasks else plan, planned=True)
    return effective_options, table, partitions


def _with_catalogs(partitions: list[TablePartition]) -> list[TablePartition]:
    from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSplit, with_catalogs

    found = {i: getattr(partition, "split", None) for i, partition in enumerate(partitions)}
    splits = {i: split for i, split in found.items() if isinstance(split, KeyedSplit)}
    known = dict(zip(splits, with_catalogs([*splits.values()]), strict=True))
    whole: list[Any] = partitions
    return [replace(one, split=known[i]) if i in known else one for i, one in enumerate(whole)]


def _retried(
    options: SavepointReadOptions, run: Callable[[SavepointReadOptions], T], planned: bool
) -> tuple[SavepointReadOptions, T]:
    """Run something with options, again with the newest snapshot if that is wanted and the one before was deleted.

    ``planned``: a table of the snapshots was opened before, so that its versions stay, and they have been there.
    """
    existed = planned or bool(options.chosen_of or options.versions)
    for _ in range(ATTEMPTS):
        try:
            with with_requested_uid(options.uid), one_verb():
                return options, of_one_version(partial(run, options))
        except (StateFileNotFoundError, SnapshotNotFoundError) as error:
            is_gone = existed or isinstance(error, StateFileNotFoundError)
            failure = explained(error, options.snapshots, options.chosen_of, there=is_gone)
            again = options.chosen_newest or (bool(options.versions) and not planned)
            if not (again and isinstance(failure, SnapshotGoneError)):
                raise failure from None
            look_again()
            options = options.again()
    return options, run(options)


@contextmanager
def explaining_missing_files(options: SavepointReadOptions) -> Iterator[None]:
    """Raise errors of missing files as SnapshotGoneError if a snapshot was deleted while it is read."""
    try:
        with with_requested_uid(options.uid):
            yield
    except (StateFileNotFoundError, SnapshotNotFoundError) as error:
        raise explained(error, options.snapshots, options.chosen_of) from None


def default_parallelism(state_bytes: int, max_parallelism: int | None, workers: int) -> int:
    """Return the number of partitions of a read without option ``parallelism``.

    One partition per worker; more if that would exceed :data:`BYTES_PER_PARTITION` each, fewer if each would have less
    than :data:`MIN_BYTES_PER_PARTITION`.
    """
    by_workers = min(workers, -(-state_bytes // MIN_BYTES_PER_PARTITION))
    partition_count = max(1, by_workers, -(-state_bytes // BYTES_PER_PARTITION))
    return min(partition_count, max_parallelism or UPPER_BOUND_MAX_PARALLELISM)


def of_one_version(plan: Callable[[], T]) -> T:
    """Plan a query; plan it again if files of the snapshot were replaced meanwhile, so that all are of one version."""
    try:
        return plan()
    except (StateFileNotFoundError, FileReplacedError):
        look_again()
        return plan()


#: What is before the keys that a warning names at its end, how many, and the length of each.
KEYS = "; keys: "
MAX_KEYS, MAX_KEY = 10, 40
SIGNS = {"escape": ESCAPE, "replace": "\ufffd"}


def warning_of_escaped_texts(
    batches: Iterable[pa.RecordBatch], form: str, warn: Callable[[str], object], operator: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; at the end, warn of rows whose strings had half of a surrogate pair.

    Args:
        batches: Rows of a table.
        form: Option ``text``.
        warn: A function that is called with the warning, at most once.
        operator: The name of the operator, if it is known.

    Yields:
        The same batches.

    """
    count, rows, keys, columns = ESCAPED_TEXTS.count, 0, list[str](), dict[str, None]()
    try:
        for batch in batches:
            if ESCAPED_TEXTS.count != count:
                count = ESCAPED_TEXTS.count
                for row in batch.to_pylist():
                    affected = [name for name, value in row.items() if _has(value, SIGNS.get(form, ESCAPE))]
                    rows += bool(affected)
                    columns |= dict.fromkeys(affected)
                    if affected and "key" in row and len(keys) < MAX_KEYS:
                        keys.append(elide(ascii(row["key"]), MAX_KEY))
            yield batch
    finally:
        if rows:
            warn(_warning(rows, keys, columns, form, operator))


def without_keys(warning: str) -> str:
    """Return a warning of :func:`warning_of_escaped_texts` without the keys that it names; any other as it is."""
    sentence, mark, _ = warning.partition(KEYS)
    return f"{sentence})" if mark else warning


def _has(value: Any, sign: str) -> bool:
    if isinstance(value, str):
        return sign in value
    if isinstance(value, dict):
        return any(_has(part, sign) for part in value.values())
    if isinstance(value, list | tuple):
        return any(_has(part, sign) for part in value)
    return isinstance(value, bytes) and sign.encode() in value


def _warning(rows: int, keys: list[str], columns: Iterable[str], form: str, operator: str | None) -> str:
    where = f" of operator {operator!r}" if operator else ""
    how = (
        "shown as U+FFFD, which writes do not turn back: option('text', 'escape') keeps it"
        if form == "replace"
        else "shown as U+10FFFF and its four hex digits, which writes turn back"
    )
    key_list = f"{KEYS}{', '.join(keys)}{' ...' if rows > len(keys) else ''}" if keys else ""
    return (
        f"{rows} row{'s' if rows > 1 else ''}{where} with half of a surrogate pair, {how} "
        f"(column{'s' if len(list(columns)) > 1 else ''} {', '.join(map(repr, columns))}{key_list})"
    )
