"""Copies of a whole snapshot as it is: with its files, held by other names of them, or with the files where they are.

A command calls these functions. They do not change state, so that no engine is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark_savepoint.engines.face import Face, engine_of, path_of, snapshot_of
from pyspark_savepoint.formats.errors import SnapshotNotFoundError, StateFileNotFoundError
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import FileCopy, Relocation, referenced, with_prefix
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.write_folder import to_free_path
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.write.copying import copied, like, pin_snapshot, publish


def hold(savepoint: Face[Any, Any], path: str, checkpoint_id: int | None = None) -> tuple[int, int]:
    """Hold the snapshot of a savepoint at a free path that is reached, as ``pin`` does.

    Returns:
        How many files were held without their bytes passing this process, and how many were copied.

    """
    from pyspark_savepoint.formats.snapshot.as_of import explained

    engine, source = engine_of(savepoint), path_of(savepoint)

    def copy(copies: Sequence[FileCopy], staging: Staging) -> Mapping[str, int]:
        return engine.copy(copies, staging, shared=False)

    try:
        return pin_snapshot(snapshot_of(savepoint), path, copy, checkpoint_id)
    except (SnapshotNotFoundError, StateFileNotFoundError) as error:
        raise explained(error, [reached(source, savepoint.options)]) from None


def copy_snapshot(source: Snapshot, target: str, checkpoint_id: int | None = None) -> None:
    """Copy a snapshot to a free path, with all of its files: a savepoint that can be moved."""
    staging = to_free_path(target, checkpoint_id)
    relocation = Relocation(f"{staging.token}-copy")
    publish(staging, lambda _: copied(source, relocation), relocation)


def planned_copies(source: Snapshot, target: str, checkpoint_id: int | None = None) -> Sequence[FileCopy]:
    """Return what :func:`copy_snapshot` and :func:`hold` would copy to a free path; write nothing."""
    relocation = Relocation(f"{to_free_path(target, checkpoint_id).token}-copy")
    copied(source, relocation)
    return list(relocation.copies.values())


def relocate_snapshot(
    source: Snapshot,
    written_path: str,
    target: str,
    old: str,
    new: str,
    checkpoint_id: int | None = None,
    *,
    dry_run: bool = False,
) -> None:
    """Write a savepoint to a free path whose files are those of a snapshot, at another prefix; copy none.

    ``written_path`` is the snapshot's path as the user wrote it. With ``dry_run`` all is checked, and nothing written.
    """
    staging = to_free_path(target, checkpoint_id)
    moved = with_prefix(source.operators, old, new)
    operators = [referenced(source, operator, written_path) for operator in moved]
    if not dry_run:
        publish(staging, lambda _: like(source, operators), Relocation(f"{staging.token}-copy"))
