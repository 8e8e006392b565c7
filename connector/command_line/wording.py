"""Sentences of the other doors in the words of the command line.

Errors, warnings and notes are written where the problem is found, in the notation of ``text.doors``. Here options
become arguments of the command that runs, else ``--option`` if it takes that, else the command that does.
"""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Callable, Sequence
from functools import cache
from types import MappingProxyType

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.text.doors import door

#: Arguments of commands by the options that they set.
ARGUMENTS = MappingProxyType(
    {
        "versionAsOf": "--as-of",
        "timestampAsOf": "--as-of",
        "asOf": "--as-of",
        "startingVersion": "--start",
        "startingTimestamp": "--start",
        "endingVersion": "--end",
        "endingTimestamp": "--end",
        "table": "--table",
        "keys": "--keys",
        "key": "--key",
        "types": "--type",
        "states": "--kind",
        "ttl": "--ttl",
        "classes": "--classes",
        "kryoTypes": "--kryo-types",
        "typesFrom": "--types-from",
        "flinkVersion": "--flink",
        "allowOutside": "--allow-outside",
        "checksums": "--checksums",
        "storageOptions": "--storage-option",
        "top": "--top",
        "parallelism": "--parallelism",
    }
)
#: Arguments without a name.
PLACES = MappingProxyType(
    {"uid": "UID", "uidHash": "UID", "operatorName": "UID", "state": "STATE", "maxParallelism": "max parallelism"}
)
#: Options that sentences name without the word.
CAMEL_NAMES = frozenset(
    {*ARGUMENTS, *PLACES, "readChangeFeed", "deduplicationMode", "pyTypes", "recordTypes", "fieldNames", "keyGroups"}
)
#: Arguments of verbs by name, and what has each of their values.
BY_KEY = MappingProxyType({"where": "--where '{}: CONDITION'", "backfill": "--backfill '{}=FILE'"})
#: Commands by the verbs of a savepoint.
COMMANDS_BY_VERB = MappingProxyType(
    {
        "with_max_parallelism": "set-max-parallelism OLD NEW N",
        "remove_operator": "remove OLD NEW UID",
        "remove_state": "remove OLD NEW UID.STATE",
        "rename_state": "rename OLD NEW UID.STATE=NEW_NAME",
        "change_operator_identifier": "rename OLD NEW UID=NEW_UID",
        "assign_uid": "rename OLD NEW HASH=UID",
        "assign_uids": "rename OLD NEW HASH=UID",
        "copy_operator": "copy-operator",
        "remove_keys": "remove-keys OLD NEW UID",
        "rekey": "rekey OLD NEW UID",
        "rename_class": "rename-class OLD NEW CLASS=NEW_CLASS",
        "with_operator": "put",
        "with_state": "put",
        "with_window_state": "put --table window_state",
        "with_timers": "put --table timers",
        "with_list_state": "put --table list",
        "with_union_state": "put --table union",
        "with_broadcast_state": "put --table broadcast",
        "with_offsets": "set-offsets",
        "check_migration": "check-migration",
        "check_evolution": "evolve OLD --dry-run",
        "evolve": "evolve OLD NEW --old-plan FILE --new-plan FILE",
        "catch_up": "catch-up OLD NEW",
        "migrate": "migrate",
        "vacuum": "vacuum",
        "verify": "verify",
        "write": "cp",
        "create": "create --max-parallelism",
    }
)
TABLES = MappingProxyType({"metadata": "ls", "offsets": "offsets"})


def worded(text: str, command: str | None) -> str:
    """Return a text in the words of a command.

    >>> worded("option('table', 'splits') shows them; remove_state('total') removes it", "show")
    '--table splits shows them; pyspark-savepoint remove OLD NEW UID.STATE removes it'
    >>> worded("give option 'pyTypes'", "show"), worded("option('table', 'splits') shows them", "ls")
    ('give --option pyTypes=...', 'pyspark-savepoint show --table splits shows them')
    """
    return _door_of(command)(text)


@cache
def _door_of(command: str | None) -> Callable[[str], str]:
    """Return the words of a command, which depend on its arguments."""
    from pyspark_savepoint.command_line.commands import COMMANDS

    names_by_command = {one.name: {name for part in one.all_arguments for name in part.names} for one in COMMANDS}
    option_names = names_by_command.get(command or "", set())
    evolving = names_by_command.pop("evolve")
    of_evolve = evolving.difference(*names_by_command.values())

    def option(text: str, name: str, value: str | None) -> str:
        if text.startswith("there is no "):
            return f"there is no {option('', name, value)}"
        name = _camel(name)
        if name in PLACES and (value is None or name in option_names):
            return PLACES[name] if value is None else f"{PLACES[name]} {value}"
        if name == "readChangeFeed":
            return "pyspark-savepoint changes"
        own = ARGUMENTS.get(name)
        if own in option_names:
            return own if value is None else f"{own} {_argument_value(name, value)}".rstrip()
        if "--option" in option_names:
            return f"--option {_quoted(name, value)}"
        if own == "--table":
            return f"pyspark-savepoint show --table {value or '...'}"
        return f"pyspark-savepoint show --option {_quoted(name, value)}"

    def argument(text: str, name: str, value: str | None = None) -> str:
        if value in ("True", "False"):
            return option(text, name, value.lower()) if "_" in name else text
        flags = [f"--{name.replace('_', '-')}"]
        if value is None or value.startswith("{"):
            flags += [flags[0].removesuffix("s"), f"{flags[0]}-file"]
        own = next((flag for flag in flags if flag in option_names), None)
        if own is None:
            own = next((f"evolve {flag}" for flag in flags if flag in of_evolve), None)
        if own is None and _camel(name) in ARGUMENTS and value is not None and not value.startswith("{"):
            return option(text, name, value.strip(chr(39)))
        if own is None or value is None:
            return own or text
        if not value.startswith("{"):
            return f"{own} {value.strip(chr(39))}"
        key, _, of_key = (part.strip(" '") for part in value.strip("{}").partition(":"))
        return BY_KEY.get(name, f"{own} {{}}={{}}").format(key, of_key)

    return door(
        added=option,
        option=option,
        camel=lambda text, name, value: option(text, name, value) if name in CAMEL_NAMES else text,
        operator=lambda *_: "UID",
        listing=lambda *_: "pyspark-savepoint ls",
        table=lambda _, name, *__: f"pyspark-savepoint {TABLES[name]}",
        argument=argument,
        keyword=argument,
        verb=_of_verb,
    )


def with_given_uid(error: SavepointError, words: Sequence[str]) -> SavepointError:
    """Return an error whose operator has the uid that the words of a command have, if it is named by the hash of it."""
    from pyspark_savepoint.formats.metadata.identifiers import OperatorID

    hashed = error.facts.get("operator")
    for word in words:
        uids = (word, word.rpartition("=")[0], word.partition("=")[0], word.partition("=")[0].rpartition(".")[0])
        for uid in filter(None, uids):
            if OperatorID.from_uid(uid).hex == hashed:
                error.facts["operator"] = f"{uid} ({hashed})"
    return error


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _argument_value(name: str, value: str) -> str:
    """Return the value of an argument; of an option of types, which is JSON, the first of them."""
    if name == "allowOutside":
        return ""
    if name in ("types", "states"):
        try:
            types = json.loads(value)
        except ValueError:
            return shlex.quote(value)
        if isinstance(types, dict):
            return shlex.quote(next((f"{column}={kind}" for column, kind in types.items()), "..."))
    return shlex.quote(value)


def _quoted(name: str, value: str | None) -> str:
    return f"{name}=..." if value is None else shlex.quote(f"{name}={value}")


def _of_verb(text: str, verb: str, arguments: str | None) -> str:
    """Return the command of a verb, with the values of its arguments as far as the text has them."""
    if verb not in COMMANDS_BY_VERB:
        return text
    command = COMMANDS_BY_VERB[verb]
    names, more = _call(arguments or "()")
    if verb == "rename_state" and len(names) == 3:
        command = f"rename OLD NEW {shlex.quote(f'{names[0]}.{names[1]}={names[2]}')}"
    elif verb == "remove_state" and len(names) == 2:
        command = f"remove OLD NEW {shlex.quote('.'.join(names))}"
    elif verb == "rekey" and more:
        uid = shlex.quote(names[0]) if names else "UID"
        command = f"rekey OLD NEW {uid}{' ROWS' * ('rows,' in (arguments or ''))}{more}"
    elif verb == "with_state" and len(names) == 2:
        command = f"put OLD NEW {shlex.quote(names[0])} ROWS {shlex.quote(names[1])}{more}"
    elif command.startswith("rename") and len(names) == 2:
        command = f"{command.split()[0]} OLD NEW {shlex.quote('='.join(names))}"
    elif "operators=" in (arguments or ""):
        command += " --operators UID"
    return f"pyspark-savepoint {command}"


def _call(arguments: str) -> tuple[list[str], str]:
    """Return the texts among the arguments of a call, and those with types and kinds as a command has them."""
    try:
        call = ast.parse(f"verb{arguments}", mode="eval").body
    except (SyntaxError, ValueError):
        return [], ""
    if not isinstance(call, ast.Call):
        return [], ""
    names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    given = []
    for one in call.keywords:
        try:
            value = ast.literal_eval(one.value)
        except ValueError:
            continue
        if one.arg in ("types", "states") and isinstance(value, dict) and any("=" in column for column in value):
            given.append(f" --option {shlex.quote(f'{one.arg}={json.dumps(value)}')}")
        elif one.arg in ("types", "states") and isinstance(value, dict):
            given += [f" {ARGUMENTS[one.arg]} {shlex.quote(f'{column}={kind}')}" for column, kind in value.items()]
        elif one.arg == "types_from":
            given.append(f" --option {shlex.quote(f'typesFrom={value}')}")
    return names, "".join(given)
