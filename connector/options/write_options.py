"""Options of a write: the only place of their names, defaults and descriptions.

They are parsed once, on the driver, with one error for all problems.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from pyspark_savepoint.formats.errors import OptionError, type_name
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.registry import GivenSerializers
from pyspark_savepoint.options.option_fields import (
    SERIALIZERS_DOC,
    STORAGE_OPTIONS_DOC,
    absolute_path,
    class_paths,
    collect,
    given_names,
    listed,
    named,
    seconds,
    storage,
    table_of,
)
from pyspark_savepoint.options.options import SavepointReadOptions, given_serializers
from pyspark_savepoint.options.plan_option import PlannedWrite, parse_write_plan
from pyspark_savepoint.statebackends.model.table_options import (
    InvalidOptionValueError,
    choice,
    kryo_words,
    names,
    option,
    python_types,
    required,
    size,
    text,
    whole_number,
)
from pyspark_savepoint.statebackends.type_extraction.releases import DECLARED, ExtractionRelease
from pyspark_savepoint.statebackends.writing.planning.operator_types import split_types_from
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    BROADCAST,
    DEFAULT_FLINK_VERSION,
    DEFAULT_MAX_PARALLELISM,
    DEFAULT_RETENTION,
    DEFAULT_SORT_MEMORY,
    ELEMENTS,
    ENTRIES,
    KEYED_STATE,
    LIST,
    OPERATOR_STATE,
    TIMERS,
    UNION,
    WINDOW_STATE,
    WriteRequest,
    WriteSpec,
)

STATE_KINDS = ("value", "list", "map", "reducing", "aggregating")
#: The splits of a source; written rows replace existing splits.
SPLITS = "splits"
#: Options that apply to splits.
OF_SPLITS = frozenset({"path", "uid", "uidHash", "operatorName", "table", "storageOptions", "drop", "retention"})
WRITTEN_TABLES = (KEYED_STATE, WINDOW_STATE, TIMERS, OPERATOR_STATE, SPLITS)
OPERATOR_KINDS = (LIST, UNION, BROADCAST)
#: Options that only tables of keyed state have.
OF_KEYS = ("key", "states", "sortMemory", "keyGroup")
#: Oldest Flink of written savepoints, oldest whose version is recognized, newest.
OLDEST, OLDEST_KNOWN, NEWEST = (1, 16), (1, 8), (2, 99)

# -- values of options of writes ----------------------------------------------------------------------------


def _columns(value: str) -> tuple[str, ...]:
    """Parse names separated by commas, or a JSON list of names that contain commas."""
    return tuple(_json_names(value)) if value.lstrip().startswith("[") else names(value)


def _json_names(value: str) -> list[str]:
    parsed = _json(value)
    if not isinstance(parsed, list) or not parsed or not all(isinstance(name, str) for name in parsed):
        raise InvalidOptionValueError("""names separated by commas, or a JSON list of names, such as ["a", "b"]""")
    return parsed


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _texts(value: str) -> dict[str, str]:
    parsed = _json(value)
    if not isinstance(parsed, dict) or not all(isinstance(item, str) for item in parsed.values()):
        raise InvalidOptionValueError("""a JSON object of texts, such as {"column": "..."}""")
    return parsed


def _kinds(value: str) -> dict[str, str]:
    kinds = {column: kind.strip().casefold() for column, kind in _texts(value).items()}
    wrong = sorted(set(kinds.values()) - set(STATE_KINDS))
    if wrong:
        raise InvalidOptionValueError(f"""a JSON object of columns to {", ".join(STATE_KINDS)}, not {listed(wrong)}""")
    return kinds


def _ttl(value: str) -> bool | tuple[str, ...]:
    folded = value.strip().casefold()
    return folded == "true" if folded in ("true", "false") else _columns(value)


def _flink_version(value: str) -> tuple[int, int]:
    """Parse major and minor version; no format depends on the patch version.

    >>> _flink_version("1.20.5")
    (1, 20)
    """
    match = re.fullmatch(r"\s*([12])\.([0-9]{1,2})(?:\.[0-9]{1,3})?\s*", value)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if not OLDEST_KNOWN <= version <= NEWEST:
        raise InvalidOptionValueError("a version of Flink 1 or 2, from 1.16 on, such as 1.20 or 2.2")
    return version


def _uid_hash(value: str) -> str:
    try:
        return OperatorID.from_hex(value).hex
    except OptionError:
        raise InvalidOptionValueError("32 hex digits; if this is the operator's uid, give it as option 'uid'") from None


def _types_from(value: str) -> tuple[str, ...]:
    """Parse a path, or a JSON list of paths, each optionally with ``#`` and an operator."""
    found = []
    for given in _json_names(value) if value.lstrip().startswith("[") else [text(value)]:
        path, mark, operator = given.partition("#")
        found.append(absolute_path(path) + mark + operator)
    return tuple(found)


def _inferred_by(value: str) -> str:
    """Parse a release of Flink; return an empty text for ``declared``.

    >>> _inferred_by("1.20.5"), _inferred_by("declared")
    ('1.20', '')
    """
    if value.strip().casefold() == DECLARED:
        return ""
    try:
        return str(ExtractionRelease.parse(value))
    except OptionError as error:
        raise InvalidOptionValueError(f"'declared', or {error.facts['expected']}") from None


# -- the options --------------------------------------------------------------------------------------------


@redacted
@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointWriteOptions:
    path: str = required(absolute_path, "the directory of the savepoint, new or existing; the argument of `save(path)`")
    uid: str | None = option(text, "the operator, by the uid that the job gives it")
    uid_hash: str | None = option(_uid_hash, "the operator, by its uid hash (32 hex digits)")
    operator_name: str | None = option(
        text, "the operator's name, which metadata of Flink 2 records; without `uid` it names an existing operator"
    )
    table: str = option(
        choice(*WRITTEN_TABLES, ENTRIES, ELEMENTS),
        ", ".join(f"`{name}`" for name in WRITTEN_TABLES),
        KEYED_STATE,
        f"`{KEYED_STATE}`",
    )
    state: str | None = option(
        text,
        "the name of an operator state; of `timers` the timer services; of `keyed_state` and `window_state` the "
        "states to write, such as `total,profile`: other states of the operator stay",
        shown="required for `operator_state`; of timers `user-timers`; else all",
    )
    kind: str | None = option(
        choice(*OPERATOR_KINDS),
        "the kind of an operator state: " + ", ".join(f"`{name}`" for name in OPERATOR_KINDS),
        shown="that of the state in the savepoint or in `typesFrom`; else `broadcast` for columns `key` and `value`, "
        "`list` for one column",
    )
    key: tuple[str, ...] = option(
        _columns, "the key column, or the columns of a composite key, such as `tenant,account`", (), "`key`"
    )
    states: Mapping[str, str] | None = option(
        _kinds,
        """kinds by column, such as `{"totals": "reducing"}`: `value`, `list`, `map`, `reducing`, `aggregating`""",
        shown="`list` for arrays, `map` for maps, else `value`",
    )
    types: Mapping[str, str] | None = option(
        _texts,
        """Flink types by column (a composite key is `key`), such as `{"total": "LONG"}`""",
        shown="from the Spark type",
    )
    types_from: tuple[str, ...] = option(
        _types_from,
        "a savepoint whose serializers are used unchanged, such as `/savepoints/old#accounts` (path and uid); with "
        "`inferredBy` also jars and folders of class files, whose classes `types` can name; several as a JSON list",
        (),
        "none",
    )
    inferred_by: str = option(
        _inferred_by,
        "`declared`: each type names one serializer; a release from 1.16 to 2.3: types name classes, and serializers "
        "are those that the type extraction of this release infers from them",
        "",
        "`declared`",
    )
    serializers: GivenSerializers | None = option(  # noqa: RUF009 (a field)
        given_serializers,
        SERIALIZERS_DOC + "; in `types` a serializer has the name of its `flink_type`, or of its snapshot class",
        shown="Flink's, and those of entry points",
    )
    max_parallelism: int | None = option(
        whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of key groups; if the job sets a max parallelism, it must be the same",
        shown=f"that of `key_by` or of the existing operator, else {DEFAULT_MAX_PARALLELISM}",
    )
    parallelism: int | None = option(
        whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of subtasks, and so of state files; a job may restore the savepoint with another parallelism",
        shown="that of `key_by` or of the existing operator, else by the size of the state",
    )
    compression: str = option(choice("none", "snappy"), "`none` or `snappy`", "none", "none")
    ttl: bool | tuple[str, ...] = option(
        _ttl,
        "`true`, or the columns whose states have a TTL in the job, such as `total,profile`; times of last access come "
        "from column `<state>__last_access`, else are the time of the write",
        False,
        "false",
    )
    py_types: str | None = option(
        python_types,
        "types that a PyFlink job declared for its states, as in option `pyTypes` of a read",
        shown="what the bytes of existing states prove",
    )
    classes: tuple[str, ...] = option(
        class_paths,
        "jars and folders of the job's class files, as in option `classes` of a read: columns of their classes are "
        "written as Kryo does",
        (),
        "none",
    )
    kryo_types: str = option(kryo_words, "the same by name and fields, as in option `kryoTypes` of a read", "", "none")
    flink_version: tuple[int, int] | None = option(
        _flink_version,
        "the oldest release of Flink that must be able to restore the savepoint, such as `1.20`",
        shown=f"that of the existing savepoint, else {DEFAULT_FLINK_VERSION[0]}.{DEFAULT_FLINK_VERSION[1]}",
    )
    sort_memory: int = option(
        size,
        "bytes of rows that a task holds to sort them; more go to local disk",
        DEFAULT_SORT_MEMORY,
        f"{DEFAULT_SORT_MEMORY >> 20}m",
    )
    key_group: str | None = option(
        text, "the column that has the key group of each row, for keys whose hash only the job's code computes"
    )
    storage_options: str | None = option(storage, STORAGE_OPTIONS_DOC, shown="the environment")
    drop: tuple[str, ...] = option(
        names,
        "states and timer services that an overwrite may remove although no row has them, such as "
        "`profile,user-timers`, also `coordinator_state`, `raw_keyed_state`, `raw_operator_state` and `in_flight`; "
        "`*`: all",
        (),
        "none: an overwrite that would remove any fails",
    )
    retention: int = option(
        seconds,
        "how long replaced files stay for queries that still read them, such as `0`, `30m` or `1d`; after that the "
        "next write deletes them, or `Savepoint.vacuum`",
        DEFAULT_RETENTION,
        f"{DEFAULT_RETENTION // 3600}h",
    )
    plan: PlannedWrite | None = option(parse_write_plan, "")  # noqa: RUF009 (a field)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse Spark's options; raise one OptionError for all problems."""
        return cls(**collect(cls, options, _conflicts))

    def request(self, overwrite: bool) -> WriteRequest:
        """Return the request of the write."""
        path = StoragePath.of(self.path, self.storage_options)
        if self.plan is not None:
            source = self.plan.request.types_from
            types_from = None if source is None else StoragePath.of(source, self.storage_options)
            bases = tuple(SavepointReadOptions.parse(each).request() for each in self.plan.bases)
            request = self.plan.request_with(self.serializers)
            return replace(request, path=path, types_from=types_from, bases=bases)
        spec = _spec({name: value for name, value in asdict(replace(self, plan=None)).items() if value is not None})
        return WriteRequest(path, **spec, drop=self.drop, retention=self.retention, overwrite=overwrite)


def parse_spec(options: Mapping[str, str], **own: str | None) -> WriteSpec:
    """Parse options of rows that have no savepoint yet; ``own`` are fields that calls give, not options."""
    own = {name: value for name, value in own.items() if value is not None}
    values = collect(SavepointWriteOptions, options, lambda given: _spec_conflicts({**given, **own}), complete=False)
    return WriteSpec(**_spec({**values, **own}))


def expect_release_text(flink: object) -> str:
    """Return a release of Flink that a user gave; raise OptionError unless it is text: 1.20 is the number 1.2.

    >>> expect_release_text("1.20")
    '1.20'
    """
    if not isinstance(flink, str):
        raise OptionError(
            "a Flink release must be given as text",
            expected="such as '1.20' or '2.3'",
            found=f"{type_name(flink)} {flink!r}",
        )
    return flink


def parse_flink_version(value: str) -> tuple[int, int]:
    """Parse a release of Flink for which a savepoint is written; raise OptionError for an older one."""
    values = collect(SavepointWriteOptions, {"flinkVersion": value}, _spec_conflicts, complete=False)
    version: tuple[int, int] = values["flink_version"]
    return version


#: The fields of a WriteSpec that options have.
OF_ROWS = frozenset(found.name for found in fields(WriteSpec)) - {"class_path"}


def _spec(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a WriteSpec from the values of options."""
    found = {name: value for name, value in values.items() if name in OF_ROWS and value is not None}
    storage = values.get("storage_options")
    sources = [StoragePath.of(each, storage) for each in values.get("types_from", ())]
    found["inferred_by"] = values.get("inferred_by") or None
    found["types_from"], found["class_path"] = split_types_from(sources, found["inferred_by"] is not None)
    return found


def of_writes_alone() -> frozenset[str]:
    """Return the names of options that reads do not have, in lower case: such as of a view that is written and read."""
    written, read = (
        {name.lower() for name, _ in named(each)} for each in (SavepointWriteOptions, SavepointReadOptions)
    )
    return frozenset(written - read)


def write_options_table() -> str:
    """Return all options as a Markdown table, for the README."""
    return table_of(SavepointWriteOptions)


def _conflicts(values: Mapping[str, Any]) -> list[str]:
    given = given_names(SavepointWriteOptions, values)
    if "plan" in given:
        beside = [name for name in given if name not in ("path", "plan", "storageOptions", "serializers")]
        return [f"options {listed(beside)} cannot be combined with 'plan', which contains them"] if beside else []
    problems = []
    if "uid" in given and "uidHash" in given:
        problems.append("options 'uid' and 'uidHash' each name the operator: give one of them")
    if not {"uid", "uidHash", "operatorName"} & set(given):
        problems.append("no operator is named: set option 'uid' to the uid that the job gives it")
    if values.get("table") in (ENTRIES, ELEMENTS):
        problems.append(f"table '{values['table']}' is written by methods of Savepoint only")
    return problems + _spec_conflicts(values)


def _spec_conflicts(values: Mapping[str, Any]) -> list[str]:
    """Return the contradictions of options other than those of the place."""
    given = given_names(SavepointWriteOptions, values)
    problems = []
    table = values.get("table", KEYED_STATE)
    if "kind" in given and table != OPERATOR_STATE:
        problems.append(f"option 'kind' is for table '{OPERATOR_STATE}'; for '{table}', 'states' names kinds by column")
    if table == OPERATOR_STATE:
        useless = [name for name in given if name in OF_KEYS]
        if useless:
            problems.append(f"table '{table}' has no keys, so {listed(useless)} cannot apply to it")
        if "state" not in given:
            problems.append(f"table '{table}' is one state: set option 'state' to its name")
        if "drop" in given:
            problems.append(f"table '{table}' is one state, so 'drop' cannot apply to it")
    if table == SPLITS:
        useless = [name for name in given if name not in OF_SPLITS]
        if useless:
            problems.append(f"table '{table}' is the state of a source, so {listed(useless)} cannot apply to it")
        if set(values.get("drop", "*")) != {"*"}:
            problems.append(
                f"for table '{table}', option 'drop' can only be '*': splits without a row are never read again"
            )
    if table == TIMERS and "states" in given:
        problems.append("timers have no state columns, so 'states' cannot apply to them")
    if table not in (KEYED_STATE, WINDOW_STATE) and values.get("ttl"):
        problems.append(f"table '{table}' has no time to live, so 'ttl' cannot apply to it")
    if values.get("flink_version", OLDEST) < OLDEST:
        problems.append(
            "option 'flinkVersion' is older than 1.16, the oldest release that can restore written savepoints"
        )
    if not values.get("inferred_by") and any(path.endswith(".jar") for path in values.get("types_from", ())):
        problems.append(
            "option 'typesFrom' has class files: set option 'inferredBy' to the release of Flink that infers types"
        )
    limit, wanted = values.get("max_parallelism"), values.get("parallelism")
    if limit is not None and wanted is not None and wanted > limit:
        problems.append(f"option 'parallelism' is {wanted}, expected at most 'maxParallelism', which is {limit}")
    return problems
