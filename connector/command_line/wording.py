"""Texts of the other doors in the words of the command line.

Errors, warnings and notes are written where the problem is found, mostly in the words of the data source
(``option('table', 'splits')``) or of ``Savepoint`` (``remove_state('total')``). Here they become arguments and
commands: an argument of the command that runs, else ``--option`` if it takes that, else the command that does.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from types import MappingProxyType

from pyspark_savepoint.formats.errors import SavepointError

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
        "storageOptions": "--storage-option",
        "top": "--top",
        "parallelism": "--parallelism",
    }
)
#: Arguments without a name.
PLACES = MappingProxyType(
    {"uid": "UID", "uidHash": "UID", "operatorName": "UID", "state": "STATE", "maxParallelism": "max parallelism"}
)
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
        "catch_up": "catch-up OLD NEW",
        "migrate": "migrate",
        "vacuum": "vacuum",
    }
)
SEE_CHANGES = "pyspark-savepoint changes shows them"
#: Other phrases, and what is said instead.
PHRASES = (
    (r"set option '(\w+)' to (\w+)", r"add option '\1' = '\2'"),
    (r"'uid', 'uidHash' or 'operatorName'(, or 'table' = 'splits' or 'offsets')?", "UID"),
    (r"option 'uid' or 'uidHash'", "UID"),
    (r"load(ing)? the path without options", "pyspark-savepoint ls"),
    (r"the path without options lists", "pyspark-savepoint ls lists"),
    (r"table 'metadata' lists the operators", "pyspark-savepoint ls lists the operators"),
    (r" \(df\.dropDuplicates\)", ""),
    (r"\bconnector='(\w+)'", r"--connector \1"),
    (r"\breset='(\w+)'", r"--reset \1"),
    (r"(?<![\w.])create\(max_parallelism=\.\.\.\)", "create --max-parallelism"),
    (r"\{'key': \.\.\.\}", "--type key=TYPE"),
    (r"options 'types', 'states' and 'ttl'", "--type, --kind and --ttl"),
    (r"give keys, or conditions in 'where'", "--keys KEY, or --where 'UID: CONDITION'"),
    (r"\bwhere\['([^']*)'\]", r"--where '\1: ...'"),
    (r"\bwhere=\{'([^']*)': \.\.\.\}", r"--where '\1: CONDITION'"),
    (r"\binspect\.verify\(\) reports", "pyspark-savepoint verify reports"),
    (r"\bwrite\(path\) copies it", "pyspark-savepoint cp copies it"),
    (r"table 'offsets' lists", "pyspark-savepoint offsets lists"),
    (r"add 'readChangeFeed' = true(, or read them as a stream: spark\.readStream|; a stream has no end)", SEE_CHANGES),
    (
        r"'readChangeFeed' needs 'startingVersion' or 'startingTimestamp': with .*",
        "pyspark-savepoint changes shows what changed",
    ),
    (
        r"with_max_parallelism\(n, operators=\[\.\.\.\]\)",
        "pyspark-savepoint set-max-parallelism OLD NEW N --operators UID",
    ),
    (r"argument '(old|new)_(plan|explain)'", r"--\1-\2"),
    (r"argument '(node|source|column|cast)s'", r"--\1"),
    (r"\b(fill|filters)='(\w+)'", r"--\1 \2"),
    (r"\b(node|source|column|cast)s=\{'([^']*)': '?([^'{}]*)'?\}", r"--\1 \2=\3"),
    (r"\bbackfill=\{'([^']*)': rows\}", r"--backfill '\1=FILE'"),
    (r"by sources=", "by --source"),
    (r"give its values in backfill", "give its values by --backfill"),
    (r"df\.select\(([^()]*)\)", r"\1"),
    (r"Savepoint\.load\(spark, path\), or pyspark_savepoint\.open\(path\)", "pyspark-savepoint ls"),
)
OPENED = r"(?:Savepoint(?:\.(?:load|create)\([^()]*\))?\.|sp\.|pyspark_savepoint\.open\([^()]*\)\.)"
NESTED = r"\((?:[^()]|\([^()]*\))*\)"
VERBS = "|".join(COMMANDS_BY_VERB)
FAMILY = r"(?:(?:inspect|sources|sinks)\.)?"
VERB = re.compile(rf"(?:call )?({OPENED})?{FAMILY}\b(?P<verb>{VERBS})\b(?P<given>{NESTED})?(?:\.write\([^()]*\))?")
#: ``option("name", "value")``; ``option 'name'``, ``option 'name' = 'value'``; ``'camelCase' = 'value'``.
CALL = re.compile(r"""option\((?P<q>["'])(?P<name>\w+)(?P=q)(?:,\s*(?:(?P<v>["'])(?P<value>.*?)(?P=v)|\.\.\.))?\)""")
NAMED_OPTION = re.compile(r"""(?:the )?option '(?P<name>\w+)'(?:,? (?:with|=) '?(?P<value>[\w*#./<>-]+)'?)?""")
CAMEL = re.compile(r"'(?P<name>[a-z]+(?:[A-Z][a-z]*)+)'(?: = '?(?P<value>\w+)'?)?")
#: ``include_ttl=True``: an argument of a verb.
SNAKE = re.compile(r"""(?<![\w.(])(?P<name>[a-z]+(?:_[a-z]+)+)=(?P<value>True|False)""")
CAMEL_NAMES = frozenset(
    {*ARGUMENTS, *PLACES, "readChangeFeed", "deduplicationMode", "pyTypes", "recordTypes", "fieldNames", "keyGroups"}
)


def worded(text: str, command: str | None) -> str:
    """Return a text in the words of a command.

    >>> worded("option('table', 'splits') shows them; remove_state('total') removes it", "show")
    '--table splits shows them; pyspark-savepoint remove OLD NEW UID.STATE removes it'
    >>> worded("give option 'pyTypes'", "show"), worded("option('table', 'splits') shows them", "ls")
    ('give --option pyTypes=...', 'pyspark-savepoint show --table splits shows them')
    """
    text = SNAKE.sub(lambda match: f"option('{_camel(match['name'])}', '{match['value'].lower()}')", text)
    for phrase, instead in PHRASES:
        text = re.sub(phrase, instead, text)
    if "option" in text or "'" in text:
        taken = _arguments(command)
        for form in (CALL, NAMED_OPTION, CAMEL):
            text = form.sub(_of_option(taken, form is CAMEL), text)
    return VERB.sub(_of_verb, text)


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


def _arguments(command: str | None) -> frozenset[str]:
    """Return the names of the arguments of a command."""
    from pyspark_savepoint.command_line.arguments import COMMANDS

    return frozenset(
        name for one in COMMANDS if one.name == command for part in one.all_arguments for name in part.names
    )


def _of_option(taken: frozenset[str], camel: bool) -> Callable[[re.Match[str]], str]:
    def argument(match: re.Match[str]) -> str:
        name, value = _camel(match["name"]), match["value"]
        if camel and name not in CAMEL_NAMES:
            return match[0]
        if name in PLACES and (value is None or name in taken):
            return PLACES[name] if value is None else f"{PLACES[name]} {value}"
        own = ARGUMENTS.get(name)
        if name == "readChangeFeed":
            return "pyspark-savepoint changes"
        if own in taken:
            return own if value is None else f"{own} {_argument_value(name, value)}".rstrip()
        if "--option" in taken:
            return f"--option {_quoted(name, value)}"
        if own == "--table":
            return f"pyspark-savepoint show --table {value or '...'}"
        return f"pyspark-savepoint show --option {_quoted(name, value)}"

    return argument


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


def _of_verb(match: re.Match[str]) -> str:
    """Return the command of a verb; a verb alone, without its arguments, may be any word."""
    if match[1] is None and match["given"] is None and "_" not in match["verb"]:
        return match[0]
    names = re.findall(r"['\"]([^'\"]*)['\"]", match["given"] or "")
    if match["verb"] == "rename_state" and len(names) == 3:
        return f"pyspark-savepoint rename OLD NEW {shlex.quote(f'{names[0]}.{names[1]}={names[2]}')}"
    if match["verb"] == "rename_class" and len(names) == 2:
        return f"pyspark-savepoint rename-class OLD NEW {shlex.quote('='.join(names))}"
    if match["verb"] == "rekey" and len(names) > 1 and names[-2] == "key":
        names = names if len(names) > 2 else ["UID", *names]
        return f"pyspark-savepoint rekey OLD NEW {shlex.quote(names[0])} --type {shlex.quote(f'key={names[-1]}')}"
    if COMMANDS_BY_VERB[match["verb"]].startswith("rename") and len(names) == 2:
        return f"pyspark-savepoint rename OLD NEW {shlex.quote('='.join(names))}"
    return f"pyspark-savepoint {COMMANDS_BY_VERB[match['verb']]}"
