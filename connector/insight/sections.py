"""What the report says about a snapshot, and the snapshots of its folder: a section for each question.

Each section is made of what is read once (:class:`Surveys`). A section whose state cannot be read says so, and the
others are there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields

from pyspark_savepoint.formats.errors import MISSING, OptionError, SavepointError, UnsafePathError
from pyspark_savepoint.formats.flink_releases import releases_with_metadata
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.metadata import SnapshotKind
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.snapshot.as_of import history_up_to
from pyspark_savepoint.formats.snapshot.finished import finished_subtasks
from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
from pyspark_savepoint.formats.snapshot.leftovers import entries_of
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight import charts
from pyspark_savepoint.insight.budgets import Budgets
from pyspark_savepoint.insight.change_sections import changes_section, growth_section, since_section, sources_section
from pyspark_savepoint.insight.doctor import Severity, examined
from pyspark_savepoint.insight.page import Section, code, html, moment, named, size_of, span, table
from pyspark_savepoint.insight.restore_sections import evolution_section, evolved_of, migration_section, restore_section
from pyspark_savepoint.insight.section_parts import MAX_LISTED, MOST_OPEN, ReportRequest, damage_note
from pyspark_savepoint.insight.state_sections import heaviest_section, sizes_section, skew_section
from pyspark_savepoint.insight.surveys import Examined, Surveys, label_of
from pyspark_savepoint.insight.time_sections import ages_section, is_a_time, timers_section
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.statebackends.surveys.ttl_ages import snapshot_time_of
from pyspark_savepoint.text import progress
from pyspark_savepoint.text.texts import numbered, readable_size


def history_of(snapshot: Snapshot, folder: str, options: Mapping[str, str], last: int) -> Sequence[SnapshotInfo]:
    """Return the newest snapshots of the history of a snapshot in a folder, oldest first."""
    if last < 2:
        raise OptionError("argument 'last' must be at least 2: growth is between snapshots", found=last)
    history = history_up_to(reached(folder, options), snapshot.path)
    if not history:
        raise OptionError(
            "the folder does not have the snapshot",
            path=folder,
            expected=snapshot.path,
            remedy="name a folder above it",
        )
    return history[-last:]


def page_of(savepoint: Examined, request: ReportRequest) -> str:
    """Return the page about a snapshot.

    Raises:
        OptionError: If the packages of the extra ``report`` are not installed, or an argument is invalid.

    """
    charts.needed()
    surveys = Surveys(savepoint, request.show_keys)
    past = [surveys.at(info.path) for info in request.history[:-1]]
    older = None if request.since is None else Surveys(request.since, request.show_keys)
    planned: list[tuple[str, str, Callable[[Section], None]]] = [
        ("what", "What it is", lambda to: _what(to, surveys, request)),
        ("findings", "Findings", lambda to: _findings(to, surveys, older, request)),
        ("sizes", "Operators and states", lambda to: sizes_section(to, surveys)),
        ("skew", "Key groups and subtasks", lambda to: skew_section(to, surveys)),
        ("heaviest", "Heaviest keys", lambda to: heaviest_section(to, surveys)),
        ("ttl", "Ages of state with a time to live", lambda to: ages_section(to, surveys)),
        ("timers", "Timers", lambda to: timers_section(to, surveys)),
        ("sources", "Sources", lambda to: sources_section(to, surveys, past[-1] if past else older)),
        ("types", "Types", lambda to: _types(to, surveys)),
    ]
    if len(request.history) > 1:
        planned.append(("growth", "Growth over checkpoints", lambda to: growth_section(to, [*past, surveys], request)))
        planned.append(("changes", "Changes per checkpoint", lambda to: changes_section(to, [*past, surveys], request)))
    job, flink = request.job, request.flink
    if older is not None:
        planned.append(("since", "What differs from the older snapshot", lambda to: since_section(to, surveys, older)))
    if job is not None:
        planned.append(
            ("restore", "Would the job restore it?", lambda to: restore_section(to, surveys.snapshot, job, flink))
        )
    if flink is not None:
        planned.append(("migration", f"Migration to Flink {flink}", lambda to: migration_section(to, surveys, flink)))
    evolved = evolved_of(savepoint, surveys, request.evolution)
    if evolved is not None:
        title = "What became of the old query's state" if evolved.after else "What becomes of it under the new query"
        planned.insert(1, ("evolution", title, lambda to: evolution_section(to, evolved)))
    sections = []
    for name, title, fill in planned:
        section = Section(name, title)
        progress.detail(title)
        try:
            fill(section)
        except SavepointError as error:
            section.notes.append(f"This cannot be shown: {error}")
        sections.append(section)
    return html(surveys.path or "", sections)


def _what(to: Section, surveys: Surveys, request: ReportRequest) -> None:
    snapshot = surveys.snapshot
    with_state = sum(one.state_size > 0 for one in snapshot.operators)
    filled = sum(size.entries > 0 for size in surveys.sizes)
    taken = snapshot_time_of(snapshot) / 1e6
    to.facts = [
        ("path", snapshot.path),
        ("kind", ", ".join(_kinds(snapshot))),
        ("checkpoint id", f"{snapshot.metadata.checkpoint_id:,}"),
        ("taken", f"{moment(taken)} (the modification time of _metadata)"),
        ("job", _job_id(snapshot.path) or "not recorded"),
        ("Flink", _releases(snapshot.metadata.version)),
        ("state backend", ", ".join(_backends(snapshot)) or "no keyed state"),
        ("operators", f"{len(snapshot.operators):,}, {with_state:,} with state"),
        ("states", f"{len(surveys.states):,}, {filled:,} with entries: {sum(one.entries for one in surveys.sizes):,}"),
    ]
    to.notes += [f"{hole}See {code('Operators and states')}." for hole in filter(None, [damage_note(surveys)])]
    _files(to, snapshot)
    to.facts.append(("in flight", _in_flight(snapshot)))
    if len(request.history) > 1:
        first, last = request.history[0], request.history[-1]
        oldest = f"the oldest is {first.checkpoint_id}, {moment(first.modified or 0)}"
        snapshots = numbered(len(request.history), "snapshot")
        to.facts.append(("folder", f"{snapshots}, checkpoints {first.checkpoint_id} to {last.checkpoint_id}; {oldest}"))
    if not is_a_time(taken):
        to.notes.append(
            f"The snapshot was not taken at {moment(taken)}: its files were unpacked or copied without their times. "
            "Ages, rates, and how far timers are away, are wrong by as much."
        )
    if request.job is None and request.flink is None:
        to.hints.append(
            f"{code('--job JOB')} and {code('--flink RELEASE')} say whether a job, or another release, restores it."
        )
    if snapshot.operators and not any(operator.uid for operator in snapshot.operators):
        to.hints.append(
            "Operators are named by hashes of their uids, as Flink before 2.0 does not record uids. "
            f"{code('--option uids=UID,UID')} takes the uids of the job's code, and names their operators."
        )
    rows = [
        (
            *(one.uid or str(one.operator_id), one.name, one.parallelism, len(finished_subtasks(one))),
            *(one.max_parallelism, size_of(one.state_size)),
        )
        for one in sorted(snapshot.operators, key=lambda one: -one.state_size)
    ]
    columns = "uid, or its hash | name | parallelism# | finished# | max parallelism# | bytes in files#"
    to.tables.append(table("Operators", columns, rows, folded=len(rows) > MOST_OPEN))


def _kinds(snapshot: Snapshot) -> Iterator[str]:
    """Yield what kind of snapshot it is."""
    yield snapshot.kind.value
    if snapshot.kind is SnapshotKind.CHECKPOINT and any(
        isinstance(part, IncrementalRemoteKeyedStateHandle) and part.shared_state for part in _keyed_parts(snapshot)
    ):
        yield "incremental"
    if _channels(snapshot):
        yield "unaligned"


def _files(to: Section, snapshot: Snapshot) -> None:
    """Say of which files the snapshot is, and which are outside of its folder."""
    folder, sizes = snapshot.location.directory.rstrip("/") + "/", dict[tuple[str, bool], int]()
    for operator in snapshot.operators:
        for handle in streams_of(operator):
            try:
                place = snapshot.resolve(handle, operator)
            except UnsafePathError as error:
                file = str(error.facts.get("path")), False
            else:
                if not isinstance(place, FileLocation):
                    continue  # in _metadata
                file = place.path.removeprefix(folder), place.path.startswith(folder)
            sizes[file] = sizes.get(file, 0) + handle.state_size
    missing = _missing(snapshot, [path for path, is_inside in sizes if is_inside])
    if missing:
        to.notes.append(
            f"{numbered(len(missing), 'file is', 'files are')} not in its folder: {', '.join(missing[:MAX_LISTED])}"
            f"{' ...' if len(missing) > MAX_LISTED else ''}. {MISSING[0].upper()}{MISSING[1:]}."
        )
    outside = [size for (_, is_inside), size in sizes.items() if not is_inside]
    whole = f"{readable_size(sum(one.state_size for one in snapshot.operators))} in {numbered(len(sizes), 'file')}"
    if outside:
        to.facts.append(("files", (
            f"{whole} and _metadata; {len(outside):,} of them ({readable_size(sum(outside))}) outside of its folder, "
            f"which other checkpoints may share: {code('pyspark-savepoint cp')} copies it with all files"
        )))  # fmt: skip
    elif missing:
        to.facts.append(("files", f"{whole} and _metadata; {len(missing):,} of them missing"))
    else:
        to.facts.append(("files", f"{whole} and _metadata, all in its folder: it can be moved and copied as it is"))
    absent = frozenset(missing)
    rows = [
        (path, size_of(size), "missing" if path in absent else "in its folder" if is_inside else "outside")
        for (path, is_inside), size in sorted(sizes.items(), key=lambda one: (one[0][1], -one[1]))
    ]
    to.tables.append(table("Files", "file | bytes# | where", rows, folded=True))


def _missing(snapshot: Snapshot, names: Sequence[str]) -> list[str]:
    """Return the files of a snapshot's folder that are not in it. None if the folder cannot be listed."""
    try:
        found = {entry.name for entry in entries_of(snapshot.location.filesystem, snapshot.location.directory)}
    except (SavepointError, OSError):
        return []
    return [name for name in names if "/" not in name and name not in found]


def _channels(snapshot: Snapshot) -> list[tuple[OperatorID, int]]:
    """Return the operators that have records in flight, and their bytes, a pair for each channel."""
    return [
        (operator.operator_id, handle.state_size)
        for operator in snapshot.operators
        for subtask in operator.subtasks.values()
        for handle in (*subtask.input_channel_state, *subtask.result_subpartition_state)
    ]


def _in_flight(snapshot: Snapshot) -> str:
    """Return what an unaligned checkpoint has of records between operators."""
    channels = _channels(snapshot)
    if not channels:
        return "no records"
    size = readable_size(sum(size for _, size in channels))
    operators = numbered(len({operator for operator, _ in channels}), "operator")
    return f"{size} of records, in {numbered(len(channels), 'channel')} of {operators}: an unaligned checkpoint"


def _job_id(path: str) -> str | None:
    match = re.search(r"/([0-9a-f]{32})/chk-\d+", path)
    return match[1] if match else None


def _releases(version: int) -> str:
    return f"{releases_with_metadata(version)} (metadata version {version})"


def _keyed_parts(snapshot: Snapshot) -> Iterator[KeyedStateHandle]:
    """Yield the handles of keyed state. That of a changelog comes before those of what it materialized."""
    for operator in snapshot.operators:
        for subtask in operator.subtasks.values():
            handle = subtask.managed_keyed_state
            if handle is not None:
                yield handle
            if isinstance(handle, ChangelogStateBackendHandle):
                yield from handle.materialized


def _backends(snapshot: Snapshot) -> list[str]:
    backends: dict[str, None] = {}
    for part in _keyed_parts(snapshot):
        if isinstance(part, ChangelogStateBackendHandle):
            backends["changelog"] = None
        elif isinstance(part, KeyGroupsSavepointStateHandle):
            backends["any (canonical format)"] = None
        elif isinstance(part, IncrementalRemoteKeyedStateHandle):
            backends["RocksDB or ForSt (its own files)"] = None
        else:
            backends["hashmap, or RocksDB (full)"] = None
    return list(backends)


def _findings(to: Section, surveys: Surveys, older: Surveys | None, request: ReportRequest) -> None:
    findings = examined(surveys, request.budgets, older, request.job)
    counts = [(severity, sum(one.severity is severity for one in findings)) for severity in Severity]
    counted = ", ".join(numbered(number, severity.value) for severity, number in counts)
    by, changes = code("pyspark-savepoint doctor"), code("--budget")
    to.about = f"{counted}, as {by} finds them. What is within the limits, which {changes} changes, is not a finding."
    rows = [(one.severity.value, one.check, one.operator, one.state, one.evidence, one.remedy) for one in findings]
    to.short = "nothing above the limits was found"
    if rows:
        subject = findings[0].operator and named(findings[0].operator, findings[0].state)
        to.short = f"{counted}; the first is {findings[0].check}{subject and f' of {subject}'}"
        columns = "severity | check | operator | state | what was found | what to do."
        to.tables.append(table("Findings, the worst first", columns, rows, choices=0))
    to.tables.append(table("Limits", "limit | is | of", list(_limits(request.budgets)), folded=True))


def _limits(budgets: Budgets) -> Iterator[tuple[str, str, str]]:
    """Yield the limits as ``--budget`` takes their names."""
    for each, limit in zip(fields(budgets), astuple(budgets), strict=True):
        said = {"bytes": readable_size, "seconds": span}.get(each.metadata["unit"], "{:g}".format)
        yield each.name.replace("_", "-"), "none" if limit is None else said(limit), each.metadata["doc"]


def _types(to: Section, surveys: Surveys) -> None:
    to.about = "Types as the savepoint records them, and as Spark reads them."
    rows = [
        (
            label_of(row), row["state"], (row["kind"] or "").lower() + (", TTL" if row["ttl"] else ""),
            row["key_type"], row["value_type"], row["spark_value_type"], row["table"],
        )
        for row in surveys.states
    ]  # fmt: skip
    notes = [(label_of(row), row["state"] or row["table"], row["note"]) for row in surveys.states if row["note"]]
    by_kryo = [row for row in rows if "KRYO" in f"{row[3]} {row[4]}"]
    to.short = f"{numbered(len(rows), 'state')}, none with Kryo"
    if by_kryo:
        operators = numbered(len({row[0] for row in by_kryo}), "operator")
        first = named(by_kryo[0][0], by_kryo[0][1])
        to.short = f"Kryo is in {len(by_kryo)} of {numbered(len(rows), 'state')}, of {operators}, such as {first}"
    columns = "operator | state | kind | key type | value type | type in Spark | table"
    to.tables.append(table("Types of states", columns, rows))
    if notes:
        columns = "operator | state | note, with options of a read in Spark"
        to.tables.append(table("Notes about states", columns, notes, folded=True))
