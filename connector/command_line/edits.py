"""Commands that write an edited savepoint, each by verbs of ``LocalSavepoint``, and show a table of what changes.

With ``--dry-run`` everything is checked and nothing written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.api.local_savepoint import LocalSavepoint, create_savepoint, open_savepoint
from pyspark_savepoint.api.local_tables import LocalTable
from pyspark_savepoint.command_line.commands import (
    CopyOperator,
    Cp,
    Create,
    Merge,
    Put,
    Remove,
    RemoveKeys,
    Rename,
    SetMaxParallelism,
    Split,
)
from pyspark_savepoint.command_line.declarations import Arguments
from pyspark_savepoint.command_line.files import free_target, written
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.reading import key_of_text
from pyspark_savepoint.command_line.row_counts import RowCounts
from pyspark_savepoint.command_line.row_files import RowsOfFile, expect_columns, file_form, rows_of_file, text_of_file
from pyspark_savepoint.command_line.shared_arguments import Writes
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    StateNotFoundError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.flink_releases import parse_release
from pyspark_savepoint.formats.name_lists import split_names
from pyspark_savepoint.options.keywords import Table
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.operator_plan import OPERATOR, OperatorPlan, PlannedState
from pyspark_savepoint.plan.operator_plan import TIMERS as TIMER_QUEUES
from pyspark_savepoint.statebackends.rows.json_values import from_json
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.sources.keyed_plan import is_namespaced
from pyspark_savepoint.statebackends.writing.planning.flink_types import type_of
from pyspark_savepoint.statebackends.writing.planning.kept_states import KINDS
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    BROADCAST,
    DEFAULT_FLINK_VERSION,
    KEYED_STATE,
    LIST,
    TIMERS,
    UNION,
    WINDOW_STATE,
    is_type_of,
)
from pyspark_savepoint.text.conditions import Condition, parse_condition
from pyspark_savepoint.text.texts import numbered

DONE = 0
COLUMNS = (
    "change", "operator", "state", "to", "key_type", "type", "entries", "bytes", "before", "rows", "after", "keys",
    "note",
)  # fmt: skip
OF_OPERATOR = (LIST, UNION, BROADCAST)
#: Columns of tables that are no state.
OF_WINDOWS = ("window", "state_window")
OPENING = frozenset({"storageOptions", "allowOutside", "checksums"})
#: Options from which the meaning of types follows.
OF_CLASSES = ("classes", "inferredBy", "kryoTypes")

Change = dict[str, Any]


# -- a savepoint, and where it is written -------------------------------------------------------------------


def opened(arguments: Arguments, path: str) -> LocalSavepoint:
    """Open a snapshot that a command changes."""
    return open_savepoint(path, **_opening_options(arguments))


def _opening_options(arguments: Arguments) -> dict[str, Any]:
    """Return the options with which savepoints are opened: of the store, of files outside, of checksums."""
    return {name: value for name, value in read_options(arguments).items() if name in OPENING}


def more_options(arguments: Arguments) -> dict[str, Any]:
    """Return the other options that the arguments give: of the read or the write."""
    # Where no snapshot is opened, files outside may be those of option typesFrom.
    opening = OPENING if hasattr(arguments, "path") else OPENING - {"allowOutside"}
    return {name: value for name, value in read_options(arguments).items() if name not in opening}


def finished(
    arguments: Writes | Cp, target: str, output: Output, savepoint: LocalSavepoint, changes: Iterable[Change]
) -> int:
    """Write the savepoint, and show what changed; with ``--dry-run`` only check that it can be written."""
    free_target(arguments, target)
    changes = list(changes)
    savepoint.write(
        target,
        flink_version=getattr(arguments, "flink", None),  # cp has none
        portable=arguments.portable,
        checkpoint_id=arguments.checkpoint_id,
        storage_options=read_options(arguments).get("storageOptions"),
        dry_run=arguments.dry_run,
    )
    output.table(COLUMNS, changes)
    if arguments.dry_run:
        count = len(savepoint.plan.operators)
        output.say(f"nothing was written: {absolute(target)} would have {numbered(count, 'operator')}")
        output.record({"path": absolute(target), "operators": count, "dry_run": True})
        return DONE
    return written(arguments, target, output)


@dataclass(frozen=True)
class Sizes:
    """Entries and bytes of each state of an operator, or of each timer service; ``problem`` is why some are unknown."""

    by_state: Mapping[str, tuple[int, int]]
    problem: str | None = None

    def of(self, names: Sequence[str] | None = None) -> Change:
        """Return the columns for some states, by default all; without numbers where they are unknown."""
        if self.problem is not None:
            return {"note": f"the number of entries is unknown: {self.problem}"}
        sizes = [size for name, size in self.by_state.items() if names is None or name in names]
        return {"entries": sum(entries for entries, _ in sizes), "bytes": sum(size for _, size in sizes)}


def sizes_of(savepoint: LocalSavepoint, operator: OperatorPlan) -> Sizes:
    """Return the sizes of an operator's states; no value is decoded, and state that cannot be read is not an error."""
    sizes: dict[str, tuple[int, int]] = {}
    try:
        for row in savepoint.table("sizes", operator.identifier).rows():
            if row["bytes"] is None and row["note"]:
                return Sizes(sizes, row["note"])
            name = row["state"] or ""
            entries, size = sizes.get(name, (0, 0))
            sizes[name] = (entries + (row["entries"] or 0), size + (row["bytes"] or 0))
    except SavepointError as error:
        return Sizes(sizes, error.message)
    return Sizes(sizes)


# -- names: UID, or UID.STATE -------------------------------------------------------------------------------


@dataclass(frozen=True)
class NameTarget:
    """What a name of a command line names: an operator, or a state of it, or a timer service."""

    operator: OperatorPlan
    state: str | None

    @property
    def names(self) -> list[str]:
        """The names of the state in listings: a timer service has two queues."""
        states = with_states(self.operator).states or ()
        return [one.name for one in states if self.state is None or self.state in (one.name, one.service)]


def named(savepoint: LocalSavepoint, text: str) -> NameTarget:
    """Find ``UID`` or ``UID.STATE``; uids and states may have dots. Raise an error for nothing, or for two things."""
    matches: list[NameTarget] = []
    operator = savepoint.plan.find(text) if text.strip() else None
    if operator is not None:
        matches.append(NameTarget(operator, None))
    for dot in (position for position, sign in enumerate(text) if sign == "."):
        uid, state = text[:dot], text[dot + 1 :]
        operator = savepoint.plan.find(uid) if uid.strip() and state else None
        if operator is not None and any(state in (one.name, one.service) for one in with_states(operator).states or ()):
            matches.append(NameTarget(operator, state))
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"{text!r} names {numbered(len(matches), 'thing')}",
            found=", ".join(f"{one.operator.label}: {one.state or 'the operator'}" for one in matches),
            remedy="name the operator by its uid hash",
        )
    uid, mark, state = text.partition(".")
    operator = savepoint.plan.find(uid) if mark and uid.strip() else None
    if operator is not None:
        with_states(operator).without_state(state)  # raises the error that names the nearest state
    return NameTarget(savepoint.plan.operator(text), None)


def _pair(text: str, savepoint: LocalSavepoint) -> tuple[NameTarget, str]:
    """Split ``NAME=NEW``; names may contain the mark, as long as what stands before it exists."""
    places = [position for position, sign in enumerate(text) if sign == "="]
    if not places or not text[places[0] + 1 :].strip() or places[0] == 0:
        raise UsageError("a name takes the form NAME=NEW", expected="such as accounts=customers", found=repr(text))
    for position in places[1:]:
        try:
            return named(savepoint, text[:position]), text[position + 1 :]
        except SavepointError:
            continue
    return named(savepoint, text[: places[0]]), text[places[0] + 1 :]


# -- operators and states -----------------------------------------------------------------------------------


def rename(arguments: Rename, output: Output) -> int:
    """Rename operators and states; all names are those of before."""
    base = opened(arguments, arguments.path)
    pairs = [_pair(text, base) for text in arguments.names]
    _refuse_ambiguous(pairs)
    savepoint, changes = base, []
    states = [(one, new) for one, new in pairs if one.state is not None]
    operators = [(one, new) for one, new in pairs if one.state is None]
    for one, new in states:
        savepoint = savepoint.rename_state(one.operator.identifier, str(one.state), new)
        changes.append({"change": "renamed", "operator": one.operator.label, "state": one.state, "to": new})
    for one, new in operators:
        savepoint = savepoint.change_operator_identifier(one.operator.identifier, new)
        changes.append({"change": "renamed", "operator": one.operator.label, "to": new})
    return finished(arguments, arguments.target, output, savepoint, changes)


def _refuse_ambiguous(pairs: Sequence[tuple[NameTarget, str]]) -> None:
    """Raise UsageError for two new names of one thing, and for a new name of a state that begins with its operator."""
    earlier: set[tuple[str, str | None]] = set()
    for one, new in pairs:
        label, thing = one.operator.label, (one.operator.identifier.operator_id.hex, one.state)
        if thing in earlier:
            raise UsageError(
                f"{label if one.state is None else f'{label}.{one.state}'!r} is given two new names",
                found=new,
                remedy="name it once; copy-operator makes copies",
            )
        earlier.add(thing)
        if one.state is not None and new.startswith(f"{label}."):
            raise UsageError(
                "the new name of a state takes no operator",
                found=new,
                remedy=f"{label}.{one.state}={new.removeprefix(f'{label}.')}",
            )


def copy_operator(arguments: CopyOperator, output: Output) -> int:
    """Copy an operator under other uids."""
    base = opened(arguments, arguments.path)
    operator = base.plan.operator(arguments.uid)
    savepoint, changes = base, []
    for new in arguments.copies:
        savepoint = savepoint.copy_operator(operator.identifier, new)
        changes.append({"change": "copied", "operator": operator.label, "to": new})
    return finished(arguments, arguments.target, output, savepoint, changes)


def remove(arguments: Remove, output: Output) -> int:
    """Remove operators and states."""
    base = opened(arguments, arguments.path)
    savepoint, changes = base, []
    for one in [named(base, text) for text in dict.fromkeys(arguments.names)]:
        sizes = sizes_of(base, one.operator)
        if one.state is None:
            savepoint = savepoint.remove_operator(one.operator.identifier)
            change = sizes.of()
        else:
            savepoint = savepoint.remove_state(one.operator.identifier, one.state)
            change = sizes.of(one.names)
        changes.append({"change": "removed", "operator": one.operator.label, "state": one.state} | change)
    return finished(arguments, arguments.target, output, savepoint, changes)


def set_max_parallelism(arguments: SetMaxParallelism, output: Output) -> int:
    """Assign keyed state and timers to another number of key groups."""
    base = opened(arguments, arguments.path)
    savepoint = base.with_max_parallelism(arguments.number, operators=arguments.operators)
    changes = [
        {
            "change": "max parallelism",
            "operator": old.label,
            "to": f"{new.max_parallelism}, from {old.max_parallelism}",
            "note": "keys get new key groups" if new.rehashes else None,
        }
        for old, new in zip(base.plan.operators, savepoint.plan.operators, strict=True)
        if arguments.operators is None or new is not old
    ]
    return finished(arguments, arguments.target, output, savepoint, changes)


def merge(arguments: Merge, output: Output) -> int:
    """Write the operators of several savepoints as one."""
    parts = [opened(arguments, path) for path in (arguments.path, *arguments.others)]
    savepoint = parts[0]
    for part in parts[1:]:
        savepoint = savepoint.merge(part)
    changes = [
        {"change": "taken", "operator": operator.label, "note": f"from {part.path}"}
        for part in parts
        for operator in part.plan.operators
    ]
    return finished(arguments, arguments.target, output, savepoint, changes)


def split(arguments: Split, output: Output) -> int:
    """Write the operators of a savepoint as several savepoints, each with some of them."""
    base = opened(arguments, arguments.path)
    operators_by_folder: dict[str, list[OperatorPlan]] = {}
    folder_of: dict[str, str] = {}
    for words in arguments.to:
        folder, *uids = words
        if folder in operators_by_folder:
            raise UsageError(f"--to names {folder!r} twice")
        if not uids:
            raise UsageError("--to takes a folder and operators", expected="--to FOLDER UID [UID ...]", found=folder)
        operators_by_folder[folder] = [base.plan.operator(uid) for uid in dict.fromkeys(uids)]
        for operator in operators_by_folder[folder]:
            if operator.label in folder_of:
                raise UsageError(f"operator {operator.label!r} goes to {folder_of[operator.label]!r} and {folder!r}")
            folder_of[operator.label] = folder
    rest = [operator for operator in base.plan.operators if operator.label not in folder_of]
    if arguments.rest is not None:
        if arguments.rest in operators_by_folder or not rest:
            raise UsageError("--rest takes a folder of its own, for operators that no --to names")
        operators_by_folder[arguments.rest] = rest
    elif rest:
        raise UsageError(
            f"{numbered(len(rest), 'operator')} would be in no savepoint",
            found=", ".join(operator.label for operator in rest),
            remedy="--to names them, --rest FOLDER takes all others; remove leaves operators out",
        )
    for folder in operators_by_folder:
        free_target(arguments, folder)
    for folder, operators in operators_by_folder.items():
        here = {operator.identifier for operator in operators}
        part = base
        for operator in base.plan.operators:
            part = part if operator.identifier in here else part.remove_operator(operator.identifier)
        changes = [
            {"change": "taken", "operator": operator.label} | sizes_of(base, operator).of() for operator in operators
        ]
        finished(arguments, folder, output, part, changes)
    return DONE


# -- keys ---------------------------------------------------------------------------------------------------


def remove_keys(arguments: RemoveKeys, output: Output) -> int:
    """Remove keys from all keyed states and timers of an operator."""
    ways = (arguments.keys, arguments.keys_file, arguments.where)
    if sum(one is not None for one in ways) != 1:
        raise UsageError(
            "give --keys, --keys-file or --where: one of them", remedy="pyspark-savepoint remove-keys --help"
        )
    base = opened(arguments, arguments.path)
    operator = base.plan.operator(arguments.uid)
    if arguments.table is not None and arguments.where is None:
        raise UsageError("--table is the one whose columns --where names")
    if arguments.where is not None:
        table_name: Any = arguments.table
        table = base.table(table_name, operator.identifier, **more_options(arguments))
        keys: Any = matching(table, arguments.where)
        count = keys.count
        if not count:
            raise StateNotFoundError(
                "no row matches --where: nothing would be removed", operator=operator.label, found=arguments.where
            )
        unit = "rows" if arguments.table not in (None, KEYED_STATE) or "window" in table.schema.names else "keys"
    else:
        keys, count = _keys_to_remove(arguments, base, operator, output)
        unit = "keys"
    savepoint = base.remove_keys(operator.identifier, keys)
    change = {"change": "keys removed", "operator": operator.label, unit: count}
    return finished(arguments, arguments.target, output, savepoint, [change])


@dataclass(frozen=True)
class MatchingKeys(RowsOfFile):
    """The keys of the rows of a table for which a condition is true."""

    table: LocalTable
    condition: Condition

    @property
    def schema(self) -> pa.Schema:  # type: ignore[override]
        """Column ``key``."""
        return pa.schema([self.table.schema.field("key")])

    @cached_property
    def count(self) -> int:
        """The number of rows, which are read for it."""
        return sum(len(batch) for batch in self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the keys of each batch."""
        return (self.condition.kept(batch).select(["key"]) for batch in self.table.batches())


def matching(table: LocalTable, text: str) -> MatchingKeys:
    """Return the keys of the rows of a table that a condition selects; only the columns that it needs are decoded."""
    if "key" not in table.schema.names:
        raise StateNotFoundError("the table has no keys", found=", ".join(table.schema.names))
    condition = parse_condition(text, table.schema)
    return MatchingKeys(table.select(*dict.fromkeys(("key", *condition.columns))), condition)


def _keys_to_remove(
    arguments: RemoveKeys, base: LocalSavepoint, operator: OperatorPlan, output: Output
) -> tuple[Any, int]:
    """Return keys of the command line or of a file, and their number; keys without state are remarks."""
    name, table = keyed_table(base, operator)
    kind = table.schema.field("key").type
    texts: Sequence[str] = arguments.keys or ()
    if arguments.keys_file is not None:
        path = Path(arguments.keys_file).expanduser()
        form = file_form(path, arguments.format)
        if form != "text":
            rows = rows_of_file(path, form, {"key": kind})
            if "key" not in rows.schema.names and len(rows.schema.names) == 1:
                rows = rows_of_file(path, form, {rows.schema.names[0]: kind})
            return rows, rows.count
        texts = [line for line in text_of_file(path).splitlines() if line.strip()]
        if not texts:
            raise OptionError("the file has no keys", path=str(path))
    texts = list(dict.fromkeys(texts))
    keys = [key_of_text(text, kind) for text in texts]
    stored = base.table(name, operator.identifier, keys=json.dumps(keys)).select("key")
    key_count = len({repr(key) for batch in stored.batches() for key in batch.column("key").to_pylist()})
    if key_count == 0:
        raise StateNotFoundError(
            f"the operator has none of these keys in table {name}: nothing would be removed",
            operator=operator.label,
            found=", ".join(texts[:5]),
        )
    if key_count < len(texts):
        output.remark(f"warning: {key_count} of {numbered(len(texts), 'key')} found in table {name}")
    return pa.table({"key": pa.array([from_json(key, kind, "the key") for key in keys], kind)}), key_count


def keyed_table(savepoint: LocalSavepoint, operator: OperatorPlan) -> tuple[Table, LocalTable]:
    """Return the first table of an operator that has keys; raise StateNotFoundError if none has."""
    problem: StateNotFoundError | None = None
    table: Table
    for table in ("keyed_state", "window_state", "timers"):
        try:
            return table, savepoint.table(table, operator.identifier)
        except StateNotFoundError as error:
            problem = problem or error
    assert problem is not None
    raise problem


# -- tables of files ----------------------------------------------------------------------------------------


def create(arguments: Create, output: Output) -> int:
    """Write a new savepoint with one operator, whose state is a file."""
    backend: Any = arguments.state_backend  # one of its choices
    savepoint = create_savepoint(max_parallelism=arguments.max_parallelism, state_backend=backend)
    return _put(arguments, output, savepoint)


def put(arguments: Put, output: Output) -> int:
    """Write a savepoint with the state of a file: a new operator, or states replaced or added."""
    return _put(arguments, output, opened(arguments, arguments.path))


def _put(arguments: Create | Put, output: Output, base: LocalSavepoint) -> int:
    operator = base.plan.find(arguments.uid)
    if operator is not None and arguments.name is not None:
        raise UsageError("--name is that of a new operator", found=f"{operator.label!r} exists")
    if operator is None:
        _refuse_name_of_a_state(base, arguments.uid)
    if operator is None and (getattr(arguments, "upsert", False) or getattr(arguments, "replace", False)):
        base.plan.operator(arguments.uid)  # raises the error that names the nearest operator
    rows_file = _RowsFile.of(arguments, base, operator)
    savepoint = rows_file.written(base, is_new=operator is None)
    if operator is not None:
        rows_file = replace(rows_file, counts=rows_file.counted(base, operator))
        rows_file.expect_consent()
    if arguments.dry_run:
        rows_file.rows.check()
    return finished(arguments, arguments.target, output, savepoint, rows_file.changes(savepoint))


def _refuse_name_of_a_state(base: LocalSavepoint, uid: str) -> None:
    """Raise UsageError for ``UID.STATE`` of an existing state, as uid of a new operator."""
    for dot in (position for position, sign in enumerate(uid) if sign == "."):
        operator = base.plan.find(uid[:dot]) if uid[:dot].strip() else None
        state = uid[dot + 1 :]
        if operator is not None and any(state == one.name for one in with_states(operator).states or ()):
            raise UsageError(
                f"{uid!r} is the name of a state: operator and state are two arguments",
                remedy=f"put OLD NEW {uid[:dot]} FILE {state}",
            )


@dataclass(frozen=True)
class _RowsFile:
    """A file that is written as state, and how."""

    arguments: Create | Put
    rows: RowsOfFile
    table: str
    key: tuple[str, ...]
    #: States of the operator that are replaced.
    replaced: frozenset[str]
    #: What the states that exist have, by their names.
    counts: Mapping[str, RowCounts] = field(default_factory=dict)

    @classmethod
    def of(cls, arguments: Create | Put, base: LocalSavepoint, operator: OperatorPlan | None) -> _RowsFile:
        states = () if operator is None else with_states(operator).states or ()
        old = next((one for one in states if one.name == arguments.state and one.kind == OPERATOR), None)
        table = arguments.table or (old.meta.state_type.lower() if old is not None else KEYED_STATE)
        if table in OF_OPERATOR and arguments.state is None:
            raise UsageError(f"--table {table} needs the name of the state", expected="FILE STATE")
        if table == TIMERS and arguments.state is not None:
            raise UsageError("timers have no state: --option state=SERVICE names their timer service")
        if arguments.key is not None and not _listed(arguments.key):
            raise UsageError(f"--key is {arguments.key!r}, expected names separated by commas")
        key = () if table in OF_OPERATOR else tuple(_listed(arguments.key)) or ("key",)
        types = dict(type_pair(text) for text in arguments.type)
        column_types = {} if operator is None else _existing_types(base, operator, table, key, arguments.state)
        path = Path(arguments.file).expanduser()
        for column, text in types.items():
            column_types |= dict.fromkeys((column, column.partition(".")[0]), arrow_type(column, text, arguments))
        rows = rows_of_file(path, arguments.format, column_types)
        expect_columns(rows, key, "--key", path)
        known = rows.schema.names
        heads = [name if name in known else name.partition(".")[0] for name in types if name != "key"]
        expect_columns(rows, heads, "--type", path)
        expect_columns(rows, [_kind_pair(text)[0] for text in arguments.kind], "--kind", path)
        expect_columns(rows, _listed(arguments.ttl), "--ttl", path)
        return cls(arguments, rows, table, key, frozenset(one.name for one in states))

    def counted(self, base: LocalSavepoint, operator: OperatorPlan) -> dict[str, RowCounts]:
        """Count the keys of the states that exist and get rows; timers are only added."""
        if self.table == TIMERS:
            return {}
        counts, keyed = {}, {}
        key = ("key",) if self.table in OF_OPERATOR else self.key
        for state in with_states(operator).states or ():
            column = self.column_of(state.name)
            if state.kind == TIMER_QUEUES or column is None:
                continue
            if state.kind == OPERATOR or is_namespaced(state.meta):
                counts[state.name] = RowCounts.of(base, operator, state, self.rows, (key, column))
            else:
                keyed[state.name] = (state, column)
        return counts | RowCounts.of_keyed(base, operator, keyed, self.rows, key)

    def column_of(self, state: str) -> str | None:
        """Return the column that has the rows of a state, if there is one."""
        if self.arguments.state is None:
            return state if state in self.states else None
        if self.arguments.state != state:
            return None
        others = [name for name in self.states if name not in (*OF_WINDOWS, "key")]
        return state if state in self.states else others[0] if len(others) == 1 else None

    @property
    def upserts(self) -> bool:
        """Whether keys that the file lacks keep what they have."""
        return getattr(self.arguments, "upsert", False)

    def expect_consent(self) -> None:
        """Raise UsageError if keys would go without a word that they may."""
        if self.upserts and getattr(self.arguments, "replace", False):
            raise UsageError("--upsert keeps the keys that the file lacks, --replace drops them: give one of them")
        if self.upserts and self.table == TIMERS:
            raise UsageError("timers have no values: --upsert cannot change them", remedy="leave it out to add timers")
        if self.upserts or getattr(self.arguments, "replace", False) or self.arguments.dry_run:
            return
        for one in self.counts.values():
            if one.dropped > 0:
                raise UsageError(
                    f"{one.loss} of state {one.state!r} would go: the file has no rows for them",
                    found=numbered(self.rows.count, "row"),
                    remedy="--upsert changes the keys of the file and keeps all others, --replace drops those, "
                    "--dry-run shows both",
                )

    def written(self, savepoint: LocalSavepoint, is_new: bool) -> LocalSavepoint:
        """Return the savepoint with the state of the file; ``is_new``: it has no such operator yet."""
        uid, state, rows = self.arguments.uid, self.arguments.state, self.rows
        options, name = self.options(rows.schema.names), self.arguments.name
        if is_new and self.table == KEYED_STATE and state is None:
            return savepoint.with_operator(uid, rows, key=self.key, name=name, **options)
        if is_new:
            savepoint = savepoint.with_operator(uid, name=name)
        if self.upserts:
            return self.updated(savepoint)
        if self.table in OF_OPERATOR and state in self.replaced:
            if self.arguments.table is not None:
                options["kind"] = self.table
            return savepoint.with_state(uid, state, rows, replace=True, **options)
        verbs: dict[str, Callable[..., LocalSavepoint]] = {
            LIST: savepoint.with_list_state,
            UNION: savepoint.with_union_state,
            BROADCAST: savepoint.with_broadcast_state,
        }
        if self.table in verbs:
            return verbs[self.table](uid, state, rows, **options)
        if self.table == TIMERS:
            return savepoint.with_timers(uid, rows, key=self.key, **options)
        if state is not None and (state in self.replaced or self.table == KEYED_STATE):
            return savepoint.with_state(uid, state, rows, key=self.key, replace=True, **options)
        if self.table == WINDOW_STATE and not self.replaced & set(self.states):
            return savepoint.with_window_state(uid, rows, key=self.key, **options)
        return savepoint.with_state(uid, self.states, rows, key=self.key, replace=True, **options)

    def updated(self, savepoint: LocalSavepoint) -> LocalSavepoint:
        """Return the savepoint with the rows laid over its states."""
        uid, names = self.arguments.uid, self.rows.schema.names
        type_options = {"--type": self.arguments.type, "--kind": self.arguments.kind, "--ttl": self.arguments.ttl}
        changing = [name for name, value in type_options.items() if value]
        if changing:
            raise UsageError(
                f"{changing[0]} cannot change a state of which other keys keep what they have",
                remedy="leave it out; --replace writes the whole state, and can change its type",
            )
        states = [self.arguments.state] if self.arguments.state is not None else self.states
        missing = [name for name in states if name not in self.replaced]
        timers = {one.service for one in with_states(savepoint.plan.operator(uid)).of_kind(TIMER_QUEUES)}
        if missing and missing[0] not in timers:
            raise StateNotFoundError(
                f"the operator has no state {missing[0]!r} to update",
                operator=uid,
                remedy=f"{did_you_mean(missing[0], self.replaced)} (without --upsert a state is added)",
            )
        if self.arguments.state is not None:
            options = self.options(names) | ({} if self.table in OF_OPERATOR else {"key": self.key})
            return savepoint.update_state(uid, self.arguments.state, self.rows, **options)
        return savepoint.update_state(uid, states, self.rows, key=self.key, **self.options(names))

    @cached_property
    def states(self) -> list[str]:
        """The columns that are states."""
        others = {*self.key, *(OF_WINDOWS if self.table == WINDOW_STATE else ())}
        return [name for name in self.rows.schema.names if name not in others and not _is_access(name)]

    def options(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return the options of a write for some columns."""
        arguments = self.arguments
        types = {name: text for name, text in map(type_pair, arguments.type) if _is_of(name, columns)}
        kinds = {name: kind for name, kind in map(_kind_pair, arguments.kind) if name in columns}
        ttl = [name for name in _listed(arguments.ttl) if name in columns]
        options = more_options(arguments)
        if types:
            options["types"] = types
        if kinds:
            options["states"] = kinds
        if ttl:
            options["ttl"] = ttl
        return options

    def changes(self, savepoint: LocalSavepoint) -> Iterator[Change]:
        """Yield what is written: a row for each state, with its types."""
        operator = with_states(savepoint.plan.operator(self.arguments.uid))
        states = [self.arguments.state] if self.arguments.state is not None else self.states
        for one in operator.states or ():
            if not one.inputs or (self.table != TIMERS and one.name not in states):
                continue
            counts = self.counts.get(one.name)
            note = None
            if counts is not None and counts.removed > 0 and self.upserts:
                rows = "row has" if counts.removed == 1 else "rows have"
                note = f"{numbered(counts.removed, counts.unit)} whose {rows} no value: the state goes"
            if counts is not None and counts.dropped > 0 and not self.upserts:
                note = f"{counts.loss} go"
                if not getattr(self.arguments, "replace", False):
                    note += f": --replace drops them, --upsert keeps them ({counts.after_update} after)"
            yield {
                "change": "updated" if self.upserts else "replaced" if one.name in self.replaced else "added",
                "operator": operator.label,
                "state": one.name,
                "key_type": _key_type(operator, one),
                "type": one.meta.value_serializer.flink_type,
                "before": None if counts is None else counts.before,
                "rows": self.rows.count,
                "after": None if counts is None else counts.after_update if self.upserts else counts.given,
                "note": note,
            }


def _key_type(operator: OperatorPlan, state: PlannedState) -> str | None:
    """Return the type of a state's keys: broadcast state has its own, other operator state none."""
    key = state.meta.serializers.get("KEY_SERIALIZER") if state.kind == OPERATOR else operator.key_serializer
    return key.flink_type if key is not None else None


def _is_access(column: str) -> bool:
    return column.endswith(LAST_ACCESS)


def _is_of(name: str, columns: Sequence[str]) -> bool:
    """Return whether a type is that of a column, of a part of it, or of the key."""
    return name == "key" or any(is_type_of(name, column) for column in columns)


def _listed(text: str | None) -> list[str]:
    return list(split_names(text or ""))


def type_pair(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not equals or not name or not kind:
        raise UsageError("--type takes COLUMN=TYPE", expected="such as total=LONG, or key=STRING", found=repr(text))
    return name, kind


def _kind_pair(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not equals or not name or kind.upper() not in KINDS:
        kinds = ", ".join(sorted(map(str.lower, KINDS)))
        raise UsageError(
            "--kind takes COLUMN=KIND", expected=f"one of {kinds}, such as totals=reducing", found=repr(text)
        )
    return name, kind


def arrow_type(column: str, text: str, arguments: Writes) -> pa.DataType | None:
    """Return the type of a column of a text file, by its Flink type; None for a part of one."""
    if "." in column or set(OF_CLASSES) & set(more_options(arguments)):
        return None
    version = DEFAULT_FLINK_VERSION if arguments.flink is None else parse_release(arguments.flink)
    return type_of(text, column, version).arrow_type(DecodeOptions())


def _existing_types(
    base: LocalSavepoint, operator: OperatorPlan, table: str, key: Sequence[str], state: str | None
) -> dict[str, pa.DataType]:
    """Return the types of columns of an existing operator, as they are read."""
    of_operator = table in OF_OPERATOR
    options: dict[str, Any] = {"state": state if of_operator else [state]} if state is not None else {}
    try:
        name: Any = "operator_state" if of_operator else table
        schema = base.table(name, operator.identifier, **options).schema
    except (StateNotFoundError, UnsupportedStateError):
        if table in OF_OPERATOR:
            return {}  # a new state: its keys are its own, not those of the operator's keyed state
        try:
            schema = keyed_table(base, operator)[1].schema
        except StateNotFoundError:
            return {}
    types = {field.name: field.type for field in schema}
    kind = types.pop("key", None)
    if table == BROADCAST and kind is not None:
        return {**types, "key": kind}
    if kind is not None and len(key) == 1:
        types[key[0]] = kind
    elif kind is not None and pa.types.is_struct(kind) and kind.num_fields == len(key):
        types |= {name: kind.field(number).type for number, name in enumerate(key)}
    return types
