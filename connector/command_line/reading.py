"""Commands that show tables: ls, show, sizes, heaviest, offsets, verify; and export, into a file batch by batch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from warnings import catch_warnings

import pyarrow as pa

from pyspark_savepoint.api.local_tables import LocalTable, SnapshotTable, same_table, table_at
from pyspark_savepoint.command_line.commands import Changes, Export, Heaviest, Ls, Offsets, Show, Sizes, Verify
from pyspark_savepoint.command_line.following import following
from pyspark_savepoint.command_line.output import Output, Row, csv_line, finite
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.shared_arguments import AtPath, OfSnapshot
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    SnapshotNotFoundError,
    StateExistsError,
    StateFileNotFoundError,
    StateNotFoundError,
)
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.flink_releases import releases_with_metadata
from pyspark_savepoint.formats.io.run_ahead import read_to_the_end
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.snapshot.as_of import LATEST, explained
from pyspark_savepoint.formats.snapshot.finished import finished_subtasks
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import operator_options
from pyspark_savepoint.options.option_values import is_version, to_options
from pyspark_savepoint.options.options import opened_at
from pyspark_savepoint.options.paths import reached, snapshot_path
from pyspark_savepoint.statebackends.requests.applicability import TIMERS
from pyspark_savepoint.statebackends.rows.json_values import kinds_of, row_to_json
from pyspark_savepoint.text.texts import numbered, readable_size, replacing, writable

DONE, FOUND = 0, 1
#: The arguments of a command.
A = TypeVar("A", bound=OfSnapshot)
#: Rows of a feed that are shown unless the user says how many.
FEW_CHANGES = 20
OF_STATE = ("operator_uid", "operator_uid_hash", "table", "state")
#: What arguments of commands choose, and ``--option`` does not.
SELECTED = ("table", "state")


def table_of(arguments: AtPath, output: Output, **options: Any) -> SnapshotTable:
    """Open the table that the arguments name; warnings are remarks."""
    texts = to_options({**read_options(arguments, *options), **options})
    table = table_at(arguments.path, texts)
    for warning in table.warnings:
        output.remark(f"warning: {warning}")
    return table


def version_option(text: str) -> dict[str, str]:
    """Return the option that chooses a version, which is an id, ``latest`` or a time.

    >>> version_option(" 42 ")
    {'versionAsOf': '42'}
    """
    version = str(text).strip()
    return {"versionAsOf" if is_version(version) else "timestampAsOf": version}


def at_version(version: str, arguments: A, output: Output, run: Callable[[A, Output], int]) -> int:
    """Run a command on the snapshot that ``--as-of`` chooses of a folder; on the next, if that is deleted meanwhile."""
    if getattr(arguments, "history", False):
        raise UsageError("--history shows all versions, --as-of chooses one", remedy="leave one of them out")
    texts = to_options({**read_options(arguments), **version_option(version)})

    folder, failed = absolute(snapshot_path(arguments.path)), list[SavepointError]()

    def on(chosen: dict[str, str]) -> int:
        try:
            arguments.path = chosen["path"]
            return run(arguments, output)
        except (SnapshotNotFoundError, StateFileNotFoundError) as error:
            if not output.begun:
                raise
            # What was printed is of this snapshot: it is not followed by another one.
            failed.append(explained(error, [reached(chosen["path"], texts)], reached(folder, texts)))
            return FOUND

    code = opened_at({**texts, "path": folder}, on)
    if failed:
        raise failed[0]
    return code


def ls(arguments: Ls, output: Output) -> int:
    """List states, or snapshots."""
    table = table_of(arguments, output)
    if "operator_uid" not in table.schema.names:
        columns = ("path", "kind", "checkpoint_id", "time", "size_in_bytes", "problem")
        output.table(columns, table.rows())
        return DONE
    snapshot = Snapshot.open(table.options.located, allow_outside=table.options.allow_outside)
    size = readable_size(sum(operator.state_size for operator in snapshot.operators))
    version = snapshot.metadata.version
    output.say(
        f"{snapshot.path}: {snapshot.kind.value} {snapshot.metadata.checkpoint_id}, "
        f"{numbered(len(snapshot.operators), 'operator')}, {size}, Flink {releases_with_metadata(version)} "
        f"(metadata version {version})"
    )
    finished = [operator for operator in snapshot.operators if finished_subtasks(operator)]
    if finished:
        labels = ", ".join(operator.label for operator in finished[:5]) + ", ..." * (len(finished) > 5)
        count = sum(len(finished_subtasks(operator)) for operator in finished)
        output.say(f"{numbered(count, 'subtask')} had finished, of {labels}; table metadata has the number of each")
    output.table(
        ("operator", "table", "state", "kind", "ttl", "key_type", "value_type", "note"),
        (_listed(row, output) for row in table.rows()),
    )
    return DONE


def _listed(row: Row, output: Output) -> Row:
    """Return a row of table ``states`` as it is shown."""
    plain = {**row, "options": dict(row["options"] or ())}
    if output.as_json:
        return plain
    return plain | {"operator": row["operator_uid"] or row["operator_uid_hash"], "ttl": "TTL" if row["ttl"] else None}


def show(arguments: Show, output: Output) -> int:
    """Show rows of a table of an operator, or where keys have state in any."""
    if arguments.uid is None and (arguments.table is None or arguments.keys):
        return _show_keys(arguments, output)
    if arguments.uid is None and arguments.table == TIMERS:
        return _show_timers(arguments, output)
    table = (
        rows_table(arguments, output) if arguments.where is None else _chosen_rows(arguments, arguments.where, output)
    )
    keys = dict[str, Any]()
    with read_to_the_end(not arguments.limit):
        rows = _rows(table, output, keys if arguments.keys else None)
        count = output.table(table.schema.names, rows, True, arguments.limit, "--limit 0 shows all", lines=1)
    if arguments.keys and isinstance(table, SnapshotTable):
        is_all = "key" in table.schema.names and (not arguments.limit or count < arguments.limit)
        return _report_absent_keys(arguments, output, table, [*keys.values()], is_all)
    return DONE


def _report_absent_keys(
    arguments: Show, output: Output, table: SnapshotTable, shown: Sequence[Any], is_all: bool
) -> int:
    """Tell the keys that have no row; with exit code 1 if none has.

    ``shown``: keys of rows that were shown; ``is_all``: of all rows.
    """
    from pyspark_savepoint.statebackends.rows.absent_keys import absent, named

    only = same_table(table).select("key")
    kind = only.schema.field("key").type
    texts = list(dict.fromkeys(arguments.keys or ()))
    keys = {text: key_of_text(text, kind) for text in texts}
    missed = absent([*keys.values()], kind, shown)
    if missed and not is_all:
        read = (key for batch in only.batches() for key in batch.column("key").to_pylist())
        missed = absent([*keys.values()], kind, read)
    left = {json.dumps(key) for key in missed}
    absent_keys = [text for text in texts if json.dumps(keys[text]) in left]
    if absent_keys:
        quoted = pa.types.is_string(kind) and any(text[:1] == text[-1:] and text[:1] in "\"'" for text in absent_keys)
        what = "this key has no row" if len(absent_keys) == 1 else f"these {len(absent_keys)} keys have no row"
        output.remark(
            f"{what}: {named(absent_keys)}; keys are of type {kind}{', given without quotes' if quoted else ''}"
        )
    return FOUND if len(absent_keys) == len(texts) else DONE


#: Of timers of all operators.
TIMER_COLUMNS = ("operator", "service", "domain", "timestamp", "key", "namespace", "note")
#: How ``show`` names what was found of keys: the operator by its uid, or uid hash.
KEY_SEARCH_COLUMNS = ("operator", "table", "state", "key", "window", "value", "note")


def _show_keys(arguments: Show, output: Output) -> int:
    """Show where keys have state, in all operators; words are texts, and numbers or composite keys too."""
    from pyspark_savepoint.api.local_savepoint import open_savepoint

    exclusive = {"table": arguments.table, "where": arguments.where, "columns": arguments.columns}
    others = [name for name, value in exclusive.items() if value is not None]
    if not arguments.keys or others:
        raise UsageError(
            f"--{others[0]} is for one operator" if others else "name the operator, or give --keys",
            remedy="pyspark-savepoint ls PATH lists the operators; show PATH --keys 1042 looks into all of them",
        )
    sp = open_savepoint(arguments.path, **read_options(arguments))
    rows = sp.find_keys([key for word in arguments.keys for key in keys_of_word(word)]).rows()
    listed = ({**row, "operator": row["operator_uid"] or row["operator_uid_hash"]} for row in rows)
    if not output.table(KEY_SEARCH_COLUMNS, listed, True, arguments.limit, "--limit 0 shows all", lines=1):
        output.say("no operator has the keys")
    return DONE


def _show_timers(arguments: Show, output: Output) -> int:
    """Show the timers of all operators, as far as they are shown."""
    from pyspark_savepoint.api.local_savepoint import open_savepoint

    exclusive = {"where": arguments.where, "columns": arguments.columns}
    others = [name for name, value in exclusive.items() if value is not None]
    if others:
        raise UsageError(
            f"--{others[0]} is for the timers of one operator",
            remedy="name it with UID; pyspark-savepoint ls lists all operators",
        )
    if arguments.limit < 0:
        raise OptionError("--limit must be 0 or more", found=arguments.limit)
    sp = open_savepoint(arguments.path, **read_options(arguments))
    rows = map(_with_operator_column, sp.timers().rows())
    if not output.table(TIMER_COLUMNS, rows, True, arguments.limit, "--limit 0 shows all", lines=1):
        output.say("no operator has timers")
    return DONE


def keys_of_word(word: str) -> list[Any]:
    """Return the keys that a word may be: a text, a whole number if it looks like one, a composite key of JSON.

    >>> keys_of_word("1042"), keys_of_word("01042"), keys_of_word('["a", 1]')
    (['1042', 1042], ['01042'], ['["a", 1]', ['a', 1]])
    """
    try:
        parsed = parse_json(word)
    except ValueError:
        return [word]
    is_key = isinstance(parsed, dict | list) or (type(parsed) is int and str(parsed) == word)
    return [word, parsed] if is_key else [word]


def changes(arguments: Changes, output: Output) -> int:
    """Show the rows that changed from snapshot to snapshot; with exit code 1 if any did."""
    limit = arguments.limit
    if limit is None:
        limit = 0 if arguments.follow else FEW_CHANGES
    if limit < 0:
        raise OptionError("--limit must be 0 or more", found=limit)
    if arguments.follow and not (output.as_json and arguments.end == LATEST and not arguments.net):
        raise UsageError("--follow prints changes as they come", remedy="add --json, and leave out --end and --net")
    table = _changes(arguments, output, arguments.start)
    if table.description:
        output.remark(table.description)
    rows = following(table, output) if arguments.follow else _rows(table, output)
    row_count = output.table(table.schema.names, rows, True, limit, "--limit 0 shows all", lines=1)
    if not row_count:
        output.say("no changes")
    return FOUND if row_count else DONE


def _changes(arguments: Changes, output: Output, start: int | str) -> SnapshotTable:
    """Open the changes from a version on; warnings are remarks."""
    from pyspark_savepoint.api.local_history import open_changes

    with catch_warnings(record=True) as remarks:
        table = open_changes(
            arguments.path, arguments.uid, start=start, end=arguments.end,
            deduplication_mode="netChanges" if arguments.net else "dropCarryovers",
            **{**read_options(arguments, *SELECTED), "table": arguments.table, "state": arguments.state},
        )  # fmt: skip
    for remark in remarks:
        output.remark(f"warning: {remark.message}")
    return table


def _rows(table: LocalTable, output: Output, keys: dict[str, Any] | None = None) -> Iterator[Row]:
    """Yield the rows as they are shown; a column of JSON is a value of JSON output, and else its text.

    ``keys`` gets their keys.
    """
    kinds = kinds_of(table.schema, parsed=output.as_json)
    for row in table.rows():
        if keys is not None and "key" in row:
            keys.setdefault(repr(row["key"]), row["key"])
        yield row_to_json(row, kinds)


def rows_table(arguments: Show | Export, output: Output) -> SnapshotTable:
    """Return the table of an operator, with the columns that the arguments select."""
    table = _all_columns(arguments, output)
    return table if arguments.columns is None else table.select(*_columns(arguments.columns))


def _columns(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _chosen_rows(arguments: Show, where: str, output: Output) -> LocalTable:
    """Return the rows for which a condition is true; only what is shown, and what it needs, is decoded."""
    from pyspark_savepoint.text.conditions import parse_condition

    table = _all_columns(arguments, output)
    names = table.schema.names if arguments.columns is None else _columns(arguments.columns)
    columns = parse_condition(where, table.schema).columns
    return table.select(*dict.fromkeys((*names, *columns))).where(where).select(*names)


def _all_columns(arguments: Show | Export, output: Output) -> SnapshotTable:
    """Return the table of an operator."""
    limit = getattr(arguments, "limit", 0)
    if limit < 0:
        raise OptionError("--limit must be 0 or more", found=limit)
    options = {**operator_options(arguments.uid), "table": arguments.table, "state": arguments.state}
    table = table_of(arguments, output, **options)
    keys = getattr(arguments, "keys", None)
    if keys:
        index = table.schema.get_field_index("key")
        if index < 0:
            raise StateNotFoundError("the table has no keys", path=arguments.path, operator=arguments.uid)
        kind = pa.binary() if "key" in table.options.raw else table.schema.field(index).type
        table = table_of(arguments, output, **options, keys=[key_of_text(text, kind) for text in keys])
    return table


def key_of_text(text: str, kind: pa.DataType) -> Any:
    """Return a key as option ``keys`` takes it: text as it is, anything else as JSON."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_temporal(kind):
        return text
    try:
        key = parse_json(text, constants=True)
    except ValueError:
        key = text  # the error that this text causes names the type of the key
    if not pa.types.is_nested(kind) and (isinstance(key, list) or (key is text and "," in text)):
        raise UsageError("--keys takes keys separated by spaces", found=text, remedy="such as --keys 1042 1043")
    return key


def sizes(arguments: Sizes, output: Output) -> int:
    """Show the sizes of states, added up over key groups."""
    from pyspark_savepoint.api.inspection import AMOUNTS, GROUPING, sizes_by

    table = table_of(arguments, output, table="sizes", **operator_options(arguments.uid))
    rows = sizes_by(table.to_arrow(), arguments.by).to_pylist()
    columns = ("operator", "table", "state", "kind", *GROUPING[arguments.by], *AMOUNTS, "note")
    output.table(columns, map(_with_operator_column, rows))
    output.say(f"in all {readable_size(sum(row['bytes'] or 0 for row in rows))}")
    return DONE


def _with_operator_column(row: Row) -> Row:
    """Return a row with one column for the operator."""
    return {"operator": row["operator_uid"] or row["operator_uid_hash"], **row}


def heaviest(arguments: Heaviest, output: Output) -> int:
    """Show the heaviest keys of every state."""
    table = table_of(arguments, output, table="heaviest_keys", top=arguments.top, **operator_options(arguments.uid))
    output.table(
        ("operator", "table", "state", "rank", "key", "window", "subtask", "entries", "bytes", "note"),
        ranked(list(table.rows()), arguments.top),
    )
    return DONE


def offsets(arguments: Offsets, output: Output) -> int:
    """Show the positions at which sources continue, by stream and partition; with ``--history`` of each snapshot."""
    from pyspark_savepoint.api.local_history import history_here

    columns: tuple[str, ...] = ("operator", "connector", "stream", "partition", "position", "subtask")
    if arguments.history:
        options = to_options({**read_options(arguments), "table": "offsets"})
        history = history_here(absolute(arguments.path), arguments.uid, arguments.last, False, options)
        for warning in history.warnings:
            output.remark(f"warning: {warning}")
        rows = list(history.rows())
        place = {path: index for index, path in enumerate(dict.fromkeys(row["snapshot"] for row in rows))}
        rows.sort(key=lambda row: (place[row["snapshot"]], _by_partition(row)))
        columns = ("checkpoint_id", *columns)
    elif arguments.last is not None:
        raise UsageError("--last takes the newest snapshots of a folder", remedy="add --history")
    else:
        rows = sorted(
            table_of(arguments, output, table="offsets", **operator_options(arguments.uid)).rows(), key=_by_partition
        )
    output.table(columns, map(_with_operator_column, rows), all_columns=True)
    if not rows:
        output.say("no source of a known kind has splits")
    return DONE


def _by_partition(row: Row) -> tuple[str, str, int, str]:
    """Return the sort key of a row: shorter partitions first, so that numbers of any length are in order."""
    partition = row["partition"] or ""
    return row["operator_uid_hash"], row["stream"] or "", len(partition), partition


def ranked(rows: Sequence[Row], top: int) -> Iterator[Row]:
    """Yield the heaviest keys of each state with their ranks, merged from those of all partitions."""
    states: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        states.setdefault(tuple(row[name] or "" for name in OF_STATE), []).append(row)
    for state in sorted(states):
        order = sorted(states[state], key=lambda row: (-(row["bytes"] or 0), row["key"] or "", row["window"] or ""))
        for rank, row in enumerate(order[:top], 1):
            yield {**_with_operator_column(row), "rank": rank}


def verify(arguments: Verify, output: Output) -> int:
    """Read every byte, and show errors and warnings."""
    from pyspark_savepoint.api.inspection import one_row_per_error

    table = table_of(arguments, output, table="verification", **operator_options(arguments.uid))
    rows = sorted(
        one_row_per_error(table.to_arrow()).to_pylist(), key=lambda row: ("error", "warning", "ok").index(row["status"])
    )
    counts = {status: sum(row["status"] == status for row in rows) for status in ("error", "warning", "ok")}
    printed_rows = rows if arguments.all or not output.is_text else [row for row in rows if row["status"] != "ok"]
    output.table(
        ("status", "operator", "table", "state", "subtask", "entries", "bytes", "note"),
        (_with_operator_column(row) for row in printed_rows),
    )
    output.say(
        f"{numbered(counts['error'], 'error')}, {numbered(counts['warning'], 'warning')}, "
        f"{numbered(counts['ok'], 'part')} in order, "
        f"{readable_size(sum(row['bytes'] or 0 for row in rows))} read"
    )
    return FOUND if counts["error"] else DONE


SUFFIXES = {"parquet": "parquet", "arrow": "arrow", "json": "jsonl", "csv": "csv"}


def export_form(file: str | None, requested: str | None) -> str:
    """Return the format of an export: that of ``--to``, which the ending of the file must not contradict, or its own.

    Args:
        file: The file, None for the default name.
        requested: The format that was given.

    Returns:
        The format; Parquet if neither says one.

    Raises:
        UsageError: If they contradict each other, or the ending is not known and no format is given.

    >>> export_form("total.csv", None), export_form("rows", "json"), export_form(None, None)
    ('csv', 'json', 'parquet')

    """
    from pyspark_savepoint.command_line.row_files import FORMATS

    endings = {ending: form for ending, form in FORMATS.items() if form in SUFFIXES}
    ending = Path(file or "").suffix
    form = endings.get(ending.casefold())
    if requested is None and ending and form is None:
        raise UsageError(
            "the ending of the file does not say its format",
            expected=f"one of {', '.join(endings)}",
            found=file,
            remedy=f"name it so, or give the format: --format {', '.join(SUFFIXES)}",
        )
    if requested is not None and form is not None and form != requested:
        raise UsageError(
            f"--format {requested} contradicts the ending of the file",
            found=file,
            remedy=f"leave --format out for {form}, or name the file {Path(file or '').stem}.{SUFFIXES[requested]}",
        )
    return requested or form or "parquet"


def export(arguments: Export, output: Output) -> int:
    """Write a table of an operator to a file."""
    if arguments.file in ("-", ""):
        raise UsageError(
            "--file needs the name of a file", found=repr(arguments.file), remedy="to print rows: show --json --limit 0"
        )
    form = export_form(arguments.file, arguments.format)
    try:
        table = rows_table(arguments, output)
    except StateNotFoundError:
        if Path(arguments.state or "").suffix:
            raise UsageError(
                "the operator has no state of this name", found=arguments.state, remedy="--file names the file"
            ) from None
        raise
    name = re.sub(r"[^\w.-]+", "_", "-".join(filter(None, (arguments.uid, arguments.table, arguments.state))))
    target = Path(arguments.file or f"{name}.{SUFFIXES[form]}").expanduser()
    if target.exists() and not arguments.force:
        raise StateExistsError(
            "the file exists already", path=str(target), remedy="--force replaces it, --file names another"
        )
    if arguments.safe_csv and form != "csv":
        raise UsageError("--safe-csv is for CSV", found=f"format {form}", remedy="add --format csv")
    writable(target)
    rows = 0
    with (
        replacing(target) as pending,
        _writer(form, pending, table, arguments.safe_csv) as write,
        read_to_the_end(),
    ):
        for batch in table.batches():
            write(batch)
            rows += len(batch)
    size = target.stat().st_size
    output.say(f"{target}: {rows} rows, {readable_size(size)}")
    output.record({"file": str(target), "rows": rows, "bytes": size})
    return DONE


@contextmanager
def _writer(form: str, path: Path, table: SnapshotTable, safe: bool) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yield a function that writes a batch."""
    if form == "parquet":
        from pyarrow import parquet

        with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
            yield writer.write_batch
    elif form == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as sink:
            yield sink.write_batch
    else:
        kinds = kinds_of(table.schema, parsed=form == "json")
        with path.open("w", encoding="utf-8", newline="\n") as lines:
            if form == "csv":
                lines.write(csv_line(kinds, safe) + "\n")

            def line(row: dict[str, Any]) -> str:
                values = row_to_json(row, kinds)
                return csv_line(values.values(), safe) if form == "csv" else json.dumps(finite(values))

            yield lambda batch: lines.writelines(line(row) + "\n" for row in batch.to_pylist())
