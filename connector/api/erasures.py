"""Verbs that erase keys from all state of a snapshot, and prove it."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.api.writes import Writes
from pyspark_savepoint.engines.face import R, T, at_path, engine_of, path_of
from pyspark_savepoint.erasure.tables import COUNTS, exact, place_of, unknown_place
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    StateNotFoundError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.filesystems.storage_options import OPTION, StoragePath
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.insight.comparisons import changed_rows, overview
from pyspark_savepoint.options.option_values import to_options

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_savepoint.erasure.elements import Elements
    from pyspark_savepoint.erasure.erasing import Erasing
    from pyspark_savepoint.erasure.report import ErasureReport


class Erasures(Writes[R, T]):
    """Erasure of keys, and its proof."""

    def erase(
        self,
        keys: R | Collection[Any] | None = None,
        *,
        to: str | PathLike[str] | None = None,
        where: Mapping[str, Any] | None = None,
        by: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        strict: bool = False,
        accept: Collection[str] = (),
        salt: str | None = None,
        record_types: Mapping[str, str] | None = None,
        below: str | PathLike[str] | None = None,
        flink_version: str | None = None,
        portable: bool = False,
        checkpoint_id: int | None = None,
    ) -> ErasureReport:
        """Erase keys from all state of the snapshot into a new savepoint, and say what cannot be looked into.

        Removes the keys from keyed state, windows and timers of every operator whose key type can hold them, and
        what conditions name. 1 is not "1": an operator of text keys cannot hold a number. Searches all other state, and
        all files, for the keys. This process reads the state, with Spark too.

        Args:
            keys: The keys: a list of values, or rows with column ``key`` or others that ``by`` names. They are held
                in memory.
            to: The folder of the new savepoint. Needed unless ``dry_run``.
            where: Conditions, as texts (``buyer = 1042``), expressions of ``pyarrow.compute`` or, with Spark, columns
                (``F.col("buyer") == 1042``, without functions), on what else is removed:

                - ``UID``: the keys of matching rows of the operator's first table of keys
                - ``UID.STATE`` of operator state: elements (columns ``value``, or ``key`` and ``value``)
                - ``UID.STATE`` of a list state: elements (``key``, ``list_index``, ``list_value``)
                - ``UID.STATE`` of a map state: entries (``key``, ``map_key``, ``map_value``)
                - ``UID.STATE`` of another state: values (``key``, and the state)
                - ``UID.splits``, ``UID.source_coordinator``, ``UID.committables``: rows of these tables
                - ``UID.in_flight``, or ``UID.input 0`` and so on: records of table ``in_flight``

                States with a time to live also have column ``last_access``.

            by: For operators by uid: the column of ``keys`` that has its keys, or which fields of its composite key
                have the values of which columns. In place of a column, an expression of ``pyarrow.compute`` on those of
                ``keys`` or, with Spark, a column: ``{"orders": F.concat(F.lit("user-"), F.col("id"))}``.
            dry_run: Count only, and write nothing.
            strict: Refuse to write if there is state that cannot be looked into, or from which keys that stand there
                cannot be removed.
            accept: With ``strict``: places that are accepted, by their names in the refusal. ``UID.STATE`` or
                ``UID.TABLE`` is state that cannot be looked into, such as that of one's own source
                (``orders.coordinator_state``). ``UID.STATE.COLUMN`` is a column where keys stand. The report has them.
            salt: The secret by which the report hashes keys and conditions. By default a random one. It is not in the
                report, where everybody could try all keys with it: ``report.salt`` has it, to be kept apart. The
                proof of the erasure needs the salt and the keys.
            record_types: Types of records in flight that the snapshot does not have, by part: ``{"UID.input 0":
                "TUPLE<LONG, STRING>"}``.
            below: A folder whose snapshots are named in the report if they have the keys too, or what conditions name.
                By default that of the job's checkpoints, or the one that the savepoint is in. It is read as a whole.
                By default, no folder is searched for a savepoint in a store, and the report says so.
            flink_version: As in :meth:`write`.
            portable: As in :meth:`write`.
            checkpoint_id: As in :meth:`write`.

        Returns:
            The report.

        Raises:
            OptionError: If no operator can have any of the keys, or an argument is invalid.
            StateNotFoundError: If ``where`` names no operator or state, or ``by`` no operator with keyed state.
            UnsupportedStateError: If ``strict``, and some state cannot be searched or changed. If a condition names
                rows that cannot be removed. If an operator that has the keys has raw keyed state other than timers.

        Example::

            sp.erase(keys=[1042], where={"warehouse-export.pending_orders": "value.accountId = 1042"}, dry_run=True)
            report = sp.erase(keys=[1042], to="/savepoints/erased")

        """
        if to is None and not dry_run:
            raise OptionError(
                "there is no folder for the new savepoint", remedy="to='/savepoints/erased', or dry_run=True"
            )
        if keys is None and not where:
            raise OptionError(
                "there is nothing to erase", remedy="give argument 'keys', or conditions in argument 'where'"
            )
        erasing = self._erasing(keys, where or {}, by or {}, record_types or {})
        if accept and not strict:
            raise OptionError(
                "'accept' names places for 'strict', which is not set", remedy="strict=True, or leave 'accept' out"
            )
        options: dict[str, Any] = {"flink_version": flink_version, "portable": portable, "checkpoint_id": checkpoint_id}
        return self._erase(erasing, to, dry_run, strict, salt, below, accept=accept, **options)

    def _erase(
        self,
        erasing: Erasing,
        to: str | PathLike[str] | None,
        dry_run: bool,
        strict: bool,
        salt: str | None,
        below: str | PathLike[str] | None,
        *,
        accept: Collection[str] = (),
        others: bool = True,
        **options: Any,
    ) -> ErasureReport:
        """Erase what is sought. Arguments as of :meth:`erase`, which checked them.

        ``others``: search the other snapshots of the job, too.
        """
        from pyspark_savepoint.erasure.findings import Findings, files_of
        from pyspark_savepoint.erasure.report import ErasureReport

        erasing.examine()
        secret = new_salt() if salt is None else salt
        content = Findings(erasing).report(secret.encode(), strict, tuple(accept), dry_run)
        content["below"] = self._below(erasing, below) if others else None
        content["others"] = list(self._others(erasing, content["below"]))
        if strict:
            self._refuse_unknown(content, accept, dry_run, erasing.may_be_gone)
        if dry_run or to is None:
            return ErasureReport(content, secret)
        new = self._planned(erasing.planned()).write(to, **options)
        after = new._erasing(None, {}, {}, {})
        after.search_files(erasing.search)
        content["after"] = {"path": new.path, "files": files_of(after.files)}
        content["differences"] = _rows(overview(self, new))
        return ErasureReport(content, secret)

    def _refuse_unknown(
        self, content: Mapping[str, Any], accept: Collection[str], dry_run: bool, lenient: bool
    ) -> None:
        """Raise UnsupportedStateError if a report lists state that is not known, or keys that cannot be removed."""
        unknown = [unknown_place(one) for one in content["not_looked_into"]]
        stays = [
            place_of(one)
            for one in content["standing"]
            if unknown_place(one) not in unknown
            and not one["removable"]
            and (one["equal"] or any(hit["certain"] for hit in one["inside"]))
        ]
        accepted_places = {*unknown, *(place_of(one) for one in content["standing"])}
        for accepted in accept:
            if accepted not in accepted_places and not lenient:
                raise OptionError(
                    f"accept names {accepted!r}, where nothing is unknown, and no key was found",
                    path=self.path,
                    expected="UID.STATE, UID.TABLE or UID.STATE.COLUMN",
                    remedy=did_you_mean(accepted, sorted(accepted_places)),
                )
        for places, what in (
            (unknown, "there is state that cannot be looked into"),
            (stays, "keys stand in state from which they cannot be removed"),
        ):
            left = sorted(set(places).difference(accept))
            if left and not dry_run:
                raise UnsupportedStateError(
                    f"{what}, and 'strict' is set: nothing was written",
                    path=self.path,
                    found=", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else ""),
                    remedy="erase(..., dry_run=True) lists it with the hits of byte patterns in it; "
                    f"accept=[{left[0]!r}] accepts a place",
                )

    def verify_erasure(
        self,
        report: ErasureReport | str,
        keys: R | Collection[Any] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        by: Mapping[str, Any] | None = None,
        salt: str | None = None,
        old: Erasures[R, T] | str | PathLike[str] | None = None,
        accept: Collection[str] = (),
    ) -> list[dict[str, Any]]:
        """Prove an erasure: this is the new savepoint, and nothing of the keys is left in it.

        Compares the SHA-256 of all files of both snapshots with the report, searches all tables and all files below the
        folder again, and compares both snapshots: only rows of the keys, and what conditions name, may be missing.

        Args:
            report: The report, or its JSON text.
            keys: The keys that were erased. A number and its text are taken for one another, as the report has them.
            where: The conditions, as they were given.
            by: Needed again if it had expressions: the report has names of columns only.
            salt: The secret of the report. Needed if it is given as a text.
            old: The older snapshot, if it is not where it was.
            accept: Places where the keys may stand, as the report names them. ``UID.STATE.COLUMN`` has values that are
                equal by chance. ``UID.STATE`` and ``UID.TABLE`` were not searched. A file of the folder is one that
                ``_metadata`` does not name. Types of records in flight are those of the report.

        Returns:
            Findings: ``check``, ``severity`` (``error`` or ``note``), ``evidence``. The erasure is proved if none is an
            ``error``.

        Raises:
            OptionError: If the text is not a report, the salt is missing, ``accept`` names no place, or an argument is
                invalid.

        Example::

            findings = pyspark_savepoint.open("/savepoints/erased").verify_erasure(report, [1042])
            assert not any(one["severity"] == "error" for one in findings)

        """
        from pyspark_savepoint.erasure.kept import compared
        from pyspark_savepoint.erasure.proof import places_of, verified
        from pyspark_savepoint.erasure.report import ErasureReport, conditions_hashed

        if isinstance(report, str):
            report = ErasureReport.read(report)
        erase_arguments = report.content["arguments"]
        if salt is not None and report.salt not in (None, salt):
            raise OptionError("the salt is not that of the report", remedy="leave 'salt' out: the report has its own")
        # Reports of earlier versions hold theirs, in hexadecimal digits.
        salt_of_report = bytes.fromhex(erase_arguments["salt"]) if erase_arguments.get("salt") else None
        actual_salt = salt if salt is not None else report.salt
        if actual_salt is None and salt_of_report is None:
            raise OptionError(
                "the keys of a report can be recognised by its salt alone, which is kept apart from it",
                remedy="give argument 'salt', as it was given to the erasure, or as its report had it then",
            )
        secret = actual_salt.encode() if actual_salt is not None else salt_of_report
        assert secret is not None
        arguments = (
            keys,
            where or {},
            erase_arguments["by"] if by is None else by,
            erase_arguments.get("record_types") or {},
        )

        def searching(savepoint: Erasures[Any, Any]) -> Erasing:
            erasing = savepoint._erasing(*arguments)
            erasing.searched = erasing.searched.as_hashed(erase_arguments["keys"], secret)
            return erasing

        older: Any = None
        before: Erasing | None = None
        try:
            older = self._other(old if old is not None else report.content["before"]["path"])
            before = searching(older)
            before.uids |= report.uids
            # What the report names may never have been there: --all-below erases in snapshots without it, too.
            before.may_be_gone = arguments[1].keys() == erase_arguments["where"].keys()
            before.examine()
        except (OptionError, StateNotFoundError):
            raise
        except SavepointError:
            before = None
        new = searching(self)
        new.uids |= report.uids
        if before is not None:
            new.patterns.include(before.patterns)
            new.may_be_gone = True
        new.examine()
        places = places_of(report, new, *([] if before is None else [before]))
        for accepted in accept:
            if accepted not in places:
                raise OptionError(
                    f"accept names {accepted!r}, which is not a place in the snapshot",
                    expected="UID.STATE.COLUMN, as the report names places where keys still stand, UID.STATE or "
                    "UID.TABLE of what it did not look into, or a file of the folder that _metadata does not name",
                    remedy=did_you_mean(accepted, sorted(places)),
                )
        differences = _rows(overview(older, self)) if before is not None else []
        missing = _beside(older, self, before, differences) if before is not None else ()
        hashes = new.searched.hashes(secret), conditions_hashed(new.where, secret)
        sides = partial(_changed, older, self)
        conditions = {} if before is None else dict(compared(before, new, sides))
        return list(verified(report, new, before, hashes, differences, missing, conditions, accept))

    def _erasing(
        self, keys: Any, where: Mapping[str, Any], by: Mapping[str, Any], record_types: Mapping[str, str]
    ) -> Erasing:
        from pyspark_savepoint.erasure.erasing import Erasing
        from pyspark_savepoint.erasure.sought import SearchedKeys

        path = self._read_path()
        conditions = {name: self._engine.worded(condition) for name, condition in where.items()}
        searched_keys, columns = SearchedKeys.with_expressions(self._engine, keys, by)
        return Erasing(self._engine, self.plan, path, self.options, searched_keys, columns, conditions, record_types)

    def _below(self, erasing: Erasing, below: str | PathLike[str] | None) -> str | None:
        """Return the folder that may have other snapshots of the job, or None if none is given, and none is known."""
        if below is not None:
            return self._engine.located(below)
        here = erasing.snapshot.path
        return posixpath.dirname(here) if posixpath.basename(here).startswith("chk-") or "://" not in here else None

    def _others(self, erasing: Erasing, folder: str | None) -> Iterator[dict[str, Any]]:
        """Yield the other snapshots of a folder that have any of the keys, or what conditions name, and how often."""
        if folder is None:
            return
        for info in find_snapshots(str(StoragePath.of(folder, self.options.get(OPTION)))):
            if info.path == erasing.snapshot.path:
                continue
            row: dict[str, Any] = {"path": info.path, "checkpoint_id": info.checkpoint_id, "keys": None, "note": None}
            try:
                other = self._at(info.path, self.options)
                one = other._erasing(None, erasing.where, erasing.by, erasing.record_types)
                one.searched, one.may_be_gone, one.shared_files = erasing.searched, True, erasing.shared_files
                one.examine()
                row |= one.held_counts()
            except SavepointError as error:
                row["note"] = str(error)
            if row["note"] is not None or any(row[name] for name in COUNTS):
                yield row


def new_salt() -> str:
    """Return a random salt."""
    return secrets.token_hex(16)


def erase_if_there(
    savepoint: Erasures[Any, Any], keys: Any, where: Any, by: Any, record_types: Any, to: str, **options: Any
) -> ErasureReport | None:
    """Erase as :meth:`Erasures.erase` does in one of several snapshots, which may have none of the keys.

    The other snapshots are not searched: the report of the first one names them. None, and nothing is written, if some
    of its files are in folders of other checkpoints.
    """
    from pyspark_savepoint.erasure.erasing import is_self_contained

    if not is_self_contained(savepoint.plan):
        return None
    erasing = savepoint._erasing(keys, where, by, record_types)
    erasing.may_be_gone = True
    return savepoint._erase(erasing, to, below=None, others=False, **options)


def _rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a small table of either face."""
    if hasattr(table, "rows"):
        return list(table.rows())
    return [row.asDict(recursive=True) for row in table.collect()]


def _beside(
    older: Erasures[R, T], newer: Erasures[R, T], before: Erasing, differences: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield which rows are missing that have none of the keys."""
    tables = {
        (row["operator_uid_hash"], row["table"]): row["operator_uid"] or row["operator_uid_hash"]
        for row in differences
        if row["removed"] and row["table"] in ("keyed_state", "window_state", "timers")
    }
    for (own, table), uid in tables.items():
        names = [row["state"] for row in before.states if (row["operator_uid_hash"], row["table"]) == (own, table)]
        count = 0
        try:
            try:
                count = _unexplained(older, newer, before, (own, uid, table), {})
            except SavepointError:  # some values have no columns: all are compared as bytes
                count = _unexplained(older, newer, before, (own, uid, table), to_options({"raw": names}))
        except SavepointError as error:
            yield f"{uid} {table}: cannot be compared: {error}"
        if count:
            yield f"{uid} {table}: {count} rows differ that have none of the keys"


def _changed(older: Erasures[R, T], newer: Erasures[R, T], own: str, one: Elements) -> pa.Table:
    """Return the rows of a state of keys that differ."""
    return engine_of(older).gathered(lambda: changed_rows(older, newer, own, one.table, one.state))


def _unexplained(
    older: Erasures[R, T], newer: Erasures[R, T], before: Erasing, place: tuple[str, str, str], texts: Mapping[str, str]
) -> int:
    """Return how many rows of a table of an operator differ that have none of the keys."""
    own, uid, table = place
    sides = [at_path(one, path_of(one), exact({**one.options, **texts})) for one in (older, newer)]
    edited = {one.state for one in before.elements.get(own, ())}
    count = 0
    for state in before.compared_alone(own, table):
        rows = engine_of(older).rows(changed_rows(sides[0], sides[1], uid, table, state))
        assert rows is not None
        names = [name for name in ("key", "change", "changed_states") if name in rows.schema.names]
        unexplained = []
        for row in rows.select(*names).collected():
            changed = set(row.get("changed_states") or ())
            if row["change"] == "removed" or not changed or not changed <= edited:
                unexplained.append(row["key"])
        count += before.unexplained(own, table, state, unexplained, rows.schema.field("key").type)
    return count
