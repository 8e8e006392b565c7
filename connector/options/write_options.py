"""Options of a write: the only place of their names, defaults and descriptions.

They are parsed once, on the driver, with one error for all problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.redaction import redacted
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
from pyspark_savepoint.options.options import SavepointReadOptions, parse_serializers
from pyspark_savepoint.statebackends.requests.table_options import (
    names,
    option,
    required,
    text,
)
from pyspark_savepoint.statebackends.writing.planning.operator_types import split_types_from
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    DEFAULT_RETENTION,
    ELEMENTS,
    ENTRIES,
    KEYED_STATE,
    OPERATOR_STATE,
    SPLITS,
    TIMERS,
    WINDOW_STATE,
    WriteRequest,
    WriteSpec,
    json_names,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.registry import GivenSerializers

#: Options that apply to splits.
OF_SPLITS = frozenset({"path", "uid", "uidHash", "operatorName", "table", "storageOptions", "drop", "retention"})
#: Options that only tables of keyed state have.
OF_KEYS = ("key", "states", "sortMemory", "keyGroup")


_BY_MODE = "mode 'append' adds an operator or state, 'overwrite' replaces the operator, with 'state' some of its states"
_SUBTASKS = "'parallelism' is the number of subtasks, and so of state files"
#: Options of other sinks for the same, in lower case, and what is there in their place.
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("statebackend", "backend"), "what is written is restored on every state backend of Flink"),
        **dict.fromkeys(("overwriteschema", "mergeschema", "partitionoverwritemode", "replacewhere"), _BY_MODE),
        **dict.fromkeys(("maxrecordsperfile", "numpartitions", "target-file-size-bytes"), _SUBTASKS),
        **dict.fromkeys(("header", "timestampformat"), "'types' names Flink's type of a column"),
        **dict.fromkeys(("primarykey", "row-key", "recordkey"), "'key' names the key column, or several"),
    }
)


def _types_from(value: str) -> tuple[str, ...]:
    """Parse a path, or a JSON list of paths, each optionally with ``#`` and an operator."""
    paths = []
    for given in json_names(value) if value.lstrip().startswith("[") else [text(value)]:
        path, mark, operator = given.partition("#")
        paths.append(absolute_path(path) + mark + operator)
    return tuple(paths)


@redacted
@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointWriteOptions(WriteSpec):
    """Options of a write: those of its rows (:class:`WriteSpec`), and where they go."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = ELSEWHERE

    path: str = required(
        absolute_path, "the directory of the savepoint, new or existing. It is the argument of `save(path)`"
    )
    types_from: tuple[str, ...] = option(
        _types_from,
        "a savepoint whose serializers are used unchanged, such as `/savepoints/old#accounts` (path and uid). With "
        "`inferredBy` also jars and folders of class files, whose classes `types` can name. Several as a JSON list",
        (),
        "none",
    )
    serializers: GivenSerializers | None = option(  # noqa: RUF009 (a field)
        parse_serializers,
        SERIALIZERS_DOC + ". In `types` a serializer has the name of its `flink_type`, or of its snapshot class",
        shown="Flink's, and those of entry points",
    )
    classes: tuple[str, ...] = option(
        class_paths,
        "jars and folders of the job's class files, as in option `classes` of a read: columns of their classes are "
        "written as Kryo does",
        (),
        "none",
    )
    storage_options: str | None = option(storage, STORAGE_OPTIONS_DOC, shown="the environment")
    drop: tuple[str, ...] = option(
        names,
        "states and timer services that an overwrite may remove although no row has them, such as "
        "`profile,user-timers`, also `coordinator_state`, `raw_keyed_state`, `raw_operator_state` and `in_flight`. "
        "`*` names all",
        (),
        "none: an overwrite that would remove any fails",
    )
    retention: int = option(
        seconds,
        "how long replaced files stay for queries that still read them, such as `0`, `30m` or `1d`. After that they "
        "are deleted by the next write, or `Savepoint.vacuum`",
        DEFAULT_RETENTION,
        f"{DEFAULT_RETENTION // 3600}h",
    )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse Spark's options, or raise one OptionError for all problems."""
        return cls(**collect(cls, options, _conflicts))

    def request(self, overwrite: bool) -> WriteRequest:
        """Return the request of the write."""
        path = StoragePath.of(self.path, self.storage_options)
        spec = _spec({name: value for name, value in asdict(self).items() if value is not None})
        return WriteRequest(path, **spec, drop=self.drop, retention=self.retention, overwrite=overwrite)


def parse_spec(options: Mapping[str, str], **own: str | None) -> WriteSpec:
    """Parse options of rows that have no savepoint yet. ``own`` are fields that calls give, not options."""
    own = {name: value for name, value in own.items() if value is not None}
    values = collect(SavepointWriteOptions, options, lambda given: _spec_conflicts({**given, **own}), complete=False)
    return WriteSpec(**_spec({**values, **own}))


def _spec(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a WriteSpec from the values of options."""
    of_rows = {field.name for field in fields(WriteSpec)}
    spec = {name: value for name, value in values.items() if name in of_rows and value is not None}
    storage = values.get("storage_options")
    sources = [StoragePath.of(path, storage) for path in values.get("types_from", ())]
    spec["type_source"], spec["class_path"] = split_types_from(sources, spec.get("inferred_by") is not None)
    return spec


def of_writes_alone() -> frozenset[str]:
    """Return the names of options that reads do not have, in lower case: such as of a view that is written and read."""
    written, read = (
        {name.lower() for name, _ in named(option_class)}
        for option_class in (SavepointWriteOptions, SavepointReadOptions)
    )
    return frozenset(written - read)


def write_options_table() -> str:
    """Return all options as a Markdown table, for the README."""
    return table_of(SavepointWriteOptions)


def _conflicts(values: Mapping[str, Any]) -> list[str]:
    given = given_names(SavepointWriteOptions, values)
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
        if "compression" in given:
            problems.append(f"table '{table}' is never compressed, so 'compression' cannot apply to it")
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
    if table not in (KEYED_STATE, WINDOW_STATE) and "ttl" in given:
        problems.append(f"table '{table}' has no time to live, so 'ttl' cannot apply to it")
    if not values.get("inferred_by") and any(path.endswith(".jar") for path in values.get("types_from", ())):
        problems.append(
            "option 'typesFrom' has class files: set option 'inferredBy' to the release of Flink that infers types"
        )
    if values.get("inferred_by") and not values.get("types"):
        problems.append(
            "option 'inferredBy' says what a release infers from classes, and no option 'types' names any: add them, "
            "or leave it out"
        )
    limit, wanted = values.get("max_parallelism"), values.get("parallelism")
    if limit is not None and wanted is not None and wanted > limit:
        problems.append(f"option 'parallelism' is {wanted}, expected at most 'maxParallelism', which is {limit}")
    return problems
