"""Verbs for a damaged savepoint: what is lost, and what can be kept."""

from __future__ import annotations

import warnings
from typing import Self

import pyarrow as pa

from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import OptionError, SavepointWarning
from pyspark_savepoint.text.texts import numbered

#: Losses that a warning names.
MAX_LOSSES = 5


class Salvages(Face[R, T]):
    """What of a damaged snapshot can be kept."""

    def losses(self) -> T:
        """Return what of a damaged snapshot cannot be read: one row per loss. None if nothing is damaged.

        All state is read, by this process with Spark too.

        Returns:
            The operator, ``table``, ``state`` (NULL: all states), ``subtask``, the key groups from ``first_key_group``
            to ``last_key_group``. For a table file of RocksDB its smallest and largest key (serialized, without the
            key group) as its manifest has them. ``note`` says why.

        Raises:
            OptionError: If the savepoint has changes that are not written yet.

        Example::

            sp.losses()

        """
        from pyspark_savepoint.plan.salvage import damages, losses_of

        self._expect_unchanged("losses")
        return self._shown(losses_of(damages(self.plan)))

    def salvage(self) -> Self:
        """Keep what can be read of a damaged snapshot, such as one with missing or damaged files.

        Handles, key groups and states that cannot be read are left out. :meth:`losses` lists them. If a table file of
        RocksDB is missing, all entries of its state between its smallest and its largest key are left out, because
        other files may have older values of them. A job that restores the savepoint begins with no state for what is
        lost. A warning says what is.

        Returns:
            The savepoint with what is left. Nothing is written yet.

        Raises:
            OptionError: If nothing is damaged, or the savepoint has changes that are not written yet.
            UnsafePathError: If files lie outside of the snapshot, and option ``allow_outside`` is not set.
            StorageError: If a store cannot be reached: what it has is not lost.

        Example::

            sp.salvage().write("/savepoints/salvaged")

        """
        from pyspark_savepoint.plan.salvage import damages, losses_of, salvaged

        self._expect_unchanged("salvage")
        all_damages = damages(self.plan)
        plan = salvaged(self.plan, all_damages)
        warnings.warn(_sentence(losses_of(all_damages)), SavepointWarning, stacklevel=3)
        return self._planned(plan)

    def _expect_unchanged(self, verb: str) -> None:
        if self.path is None:
            raise OptionError(
                f"{verb} is for a snapshot as it is, and this savepoint has changes that are not written yet",
                remedy=f"call {verb}() first",
            )


def _sentence(losses: pa.Table) -> str:
    """Return the losses as a sentence."""
    texts = []
    for row in losses.slice(0, MAX_LOSSES).to_pylist():
        operator = row["operator_uid"] or row["operator_name"] or row["operator_uid_hash"]
        what = row["state"] or row["table"]
        groups = f", key groups {row['first_key_group']} to {row['last_key_group']}"
        texts.append(
            f"{operator}: {what} of subtask {row['subtask']}{groups if row['first_key_group'] is not None else ''}"
        )
    more = f"; and {len(losses) - MAX_LOSSES} more" if len(losses) > MAX_LOSSES else ""
    return f"{numbered(len(losses), 'part')} of the state cannot be kept: {'; '.join(texts)}{more}. losses() lists all"
