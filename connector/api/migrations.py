"""Verbs that carry a savepoint over to another release of Flink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from pyspark_savepoint.engines.face import Face, R, T, at_path, engine_of, snapshot_of
from pyspark_savepoint.options.paths import reached, snapshot_path
from pyspark_savepoint.plan.engine import Pieces

if TYPE_CHECKING:
    from pyspark_savepoint.engines.migrating import Migration
    from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationCheck

S = TypeVar("S", bound=Face[Any, Any])


@dataclass(frozen=True, repr=False)
class SavepointMigration(Generic[S, T]):
    """A migration that is not written yet. ``migrate`` makes it."""

    savepoint: S
    migration: Migration
    parallelism: int | None = None

    def __repr__(self) -> str:
        """Return one line: the savepoint, the release, and what can be done."""
        release = ".".join(map(str, self.migration.knowledge.release.version))
        return f"<migration to Flink {release}: check(), write(path), of {self.savepoint!r}>"

    def check(self) -> T:
        """Return the verdicts about all parts of the state, the worst first."""
        verdicts: T = engine_of(self.savepoint).shown(self.verdicts().to_arrow())
        return verdicts

    def write(self, path: str | PathLike[str], *, checkpoint_id: int | None = None) -> S:
        """Write the migrated savepoint to a new path, and load it from there.

        All values that Kryo wrote are read, and then one file per subtask is written: by Spark's tasks, of which
        ``show_progress`` shows how far they are, or in this process. ``_metadata`` is written last: before, nothing is
        visible.

        Args:
            path: The folder of the new savepoint.
            checkpoint_id: The number of the new savepoint, as in :meth:`Savepoint.write`.

        Returns:
            The new savepoint.

        Raises:
            UnsupportedStateError: If information that a part of the state needs is missing. Nothing is written then.
            StateExistsError: If there is a savepoint at the path.

        Example::

            sp.migrate("2.3", classes=["job.jar"]).write("/savepoints/for-2.3")

        """
        engine, options = engine_of(self.savepoint), self.savepoint.options
        target = engine.located(snapshot_path(path))
        self.publish(reached(target, options), checkpoint_id=checkpoint_id)
        return at_path(self.savepoint, target, options)

    @property
    def named(self) -> frozenset[str]:
        """The states that are left out, or keep their bytes."""
        return self.migration.drop | self.migration.as_is

    def verdicts(self) -> MigrationCheck:
        """Internal: what :meth:`check` shows."""
        with engine_of(self.savepoint).showing("checking"):
            return self.migration.check(self._run)

    def publish(self, path: str, *, checkpoint_id: int | None, dry_run: bool = False) -> MigrationCheck:
        """Internal: write to an absolute path, unless ``dry_run``, and return the verdicts about what is written."""
        engine = engine_of(self.savepoint)
        with engine.explaining(), engine.showing("migrating"):
            return self.migration.write(path, self._run, checkpoint_id, dry_run=dry_run)

    def _run(self, work: Pieces) -> Mapping[int, bytes]:
        return engine_of(self.savepoint).run(work, self.parallelism)


class Migrations(Face[R, T]):
    """Migration to another release."""

    def check_migration(
        self,
        flink_version: str,
        *,
        classes: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
        types: Mapping[str, str] | None = None,
        types_from: Face[R, T] | str | PathLike[str] | None = None,
        kryo_types: str | None = None,
        parallelism: int | None = None,
    ) -> T:
        """Check what the state needs so that another release of Flink restores it with equal values.

        Flink 2 reads some values that Kryo wrote in Flink 1 as other values, without an error, and has serializers of
        its own for lists, maps and sets. All values that Kryo wrote are read, by Spark's tasks or in this process.

        Args:
            flink_version: The release to migrate to, such as ``2.3``.
            classes: Jars and folders of the new job's class files, which are parsed, not loaded. Every task reads them.
            types: Types in words by state, ``{"accounts.tags": "LIST<STRING>"}``.
            types_from: A savepoint that the new job has taken, or its path.
            kryo_types: Classes that Kryo wrote, in words, as in option ``kryoTypes`` of a read.
            parallelism: Without Spark the number of processes that read and write. By default as many as processors,
                once the work takes longer than some seconds. With Spark its tasks do the work.

        Returns:
            One row per part of a state, the worst verdict first: ``as is``, ``rewritten``, ``is lost``, ``needs``,
            ``impossible``. Columns ``hashmap`` and ``rocksdb`` show what Flink does without a migration.

        Raises:
            OptionError: If the savepoint is not written yet, or the release is not known.

        Example::

            sp.check_migration("2.3", classes=["job.jar"])

        """
        migration = self.migrate(
            flink_version,
            classes=classes,
            types=types,
            types_from=types_from,
            kryo_types=kryo_types,
            parallelism=parallelism,
        )
        return migration.check()

    def migrate(
        self,
        flink_version: str,
        *,
        classes: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
        types: Mapping[str, str] | None = None,
        types_from: Face[R, T] | str | PathLike[str] | None = None,
        kryo_types: str | None = None,
        drop: Sequence[str] | None = None,
        as_is: Sequence[str] | None = None,
        parallelism: int | None = None,
    ) -> SavepointMigration[Self, T]:
        """Plan a savepoint that another release of Flink restores with equal values. Its ``write`` writes it.

        Values and serializer snapshots that must change are rewritten. All else is copied as bytes.

        Args:
            flink_version: The release to migrate to, such as ``2.3``.
            classes: Jars and folders of the new job's class files, which are parsed, not loaded. Every task reads them.
            types: Types in words by state, ``{"accounts.tags": "LIST<STRING>"}``.
            types_from: A savepoint that the new job has taken, or its path.
            kryo_types: Classes that Kryo wrote, in words, as in option ``kryoTypes`` of a read.
            drop: States to leave out: ``uid.state``, ``state`` or ``uid``.
            as_is: States whose bytes are kept unchanged.
            parallelism: Without Spark the number of processes that read and write. By default as many as processors,
                once the work takes longer than some seconds. With Spark its tasks do the work.

        Returns:
            The migration. Nothing is written yet.

        Raises:
            OptionError: If the savepoint is not written yet, or an argument is invalid.

        Example::

            sp.migrate("2.3", classes=["job.jar"]).write("/savepoints/for-2.3")

        """
        from pyspark_savepoint.engines.migrating import migration_of
        from pyspark_savepoint.formats.snapshot.savepoint import IGNORE

        migration = migration_of(
            self._snapshot(),
            flink_version,
            classes=classes,
            types=types,
            types_from=None if types_from is None else snapshot_of(self._other(types_from)),
            kryo_types=kryo_types,
            drop=drop,
            as_is=as_is,
            verifies=self.options.get("checksums") != IGNORE,
        )
        return SavepointMigration(self, migration, parallelism)
