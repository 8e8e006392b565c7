"""Verbs that write a savepoint, hold one, and delete what failed writes left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, Unpack

from pyspark_savepoint.engines.display import html_tree, line, text_tree
from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import path_text, reached, snapshot_path

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.vacuum import Leftover
    from pyspark_savepoint.options.keywords import StoreOptions


class Writes(Face[R, T]):
    """The plan is shown, and written."""

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
        from pyspark_savepoint.formats.flink_releases import parse_release
        from pyspark_savepoint.write.savepoint_writer import SavepointWriter

        path = self._engine.located(snapshot_path(path))
        if not self.plan.operators:
            raise OptionError(
                "the savepoint has no operators, so there is nothing to write",
                path=path,
                remedy="add one: with_operator(uid, ...)",
            )
        self.plan.refuse_same_ids()
        version = None if flink_version is None else parse_release(flink_version)
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

    def __repr__(self) -> str:
        return line(self.plan, self.path)

    def __str__(self) -> str:
        return text_tree(self.plan, self.path)

    def _repr_html_(self) -> str:
        return html_tree(self.plan, self.path, self.options)
