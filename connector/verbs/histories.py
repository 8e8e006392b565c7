"""One table of all snapshots below a folder, or the numbers of their differences, with and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from pyspark_savepoint.formats.errors import OperatorNotFoundError, OptionError, did_you_mean
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.snapshot.as_of import readable_snapshots
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.verbs.face import T
from pyspark_savepoint.verbs.summaries import Summaries


def history_of(
    engine: Engine,
    opened: Callable[[str], Summaries[Any, T]],
    at: str,
    folder: str,
    uid: OperatorRef | None,
    last: int | None,
    changes: bool,
    options: Mapping[str, str],
) -> T:
    """Return one table of snapshots, oldest first.

    ``at`` is the absolute path of the folder, ``folder`` what the user gave; ``opened`` opens a snapshot by its path.
    """
    expect_last(last)
    given = [name for name in options if name != OPTION]
    if changes and given:
        raise OptionError(
            "changes are counted of all states, without options",
            found=", ".join(given),
            remedy="rows that differ between two snapshots: diff(other, uid, table=..., state=...)",
        )
    found = [(each.checkpoint_id or 0, each.path) for each in readable_snapshots(reached(at, options))]
    chosen: list[tuple[int, str, str | None]] = []
    known: set[str] = set()
    for number, path in reversed(found):
        operator = None
        if uid is not None:
            plan = opened(path).plan
            there = plan.find(uid)
            if there is None:
                known |= {each.label for each in plan.operators}
                continue
            operator = there.identifier.operator_id.hex
        chosen.insert(0, (number, path, operator))
        if len(chosen) == last:
            break
    if not chosen:
        raise OperatorNotFoundError(
            f"none of {len(found)} snapshots has such an operator",
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
    joined: T = engine.joined(parts)
    return joined


def expect_last(last: int | None) -> None:
    """Raise OptionError unless the number of newest snapshots is at least 1."""
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise OptionError(
            "argument 'last' must be at least 1: it is the number of newest snapshots to read", found=repr(last)
        )
