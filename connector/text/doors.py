"""Errors of code that several doors share, in the words of the door where it was asked.

Shared code names options as the data source does (``option 'typesFrom'``), and what else to do as a verb of a savepoint
(``with_state(...)``). Here they become what the user of a door writes: rows that ``df.write`` or ``INSERT`` brings,
verbs with Spark, or verbs without. The command line has its own words (``command_line.wording``), over those of verbs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark_savepoint.formats.errors import SavepointError

#: Facts that are sentences; the others are names and values, which stay.
SENTENCES = ("expected", "remedy")
#: A verb that no other word owns: ``with_state``, ``remove_state('total')``.
VERB = re.compile(
    r"(?<![\w.'\"])(?:call )?"
    r"(?P<verb>(?:(?:sources|sinks)\.)?(?:with|remove|rename|update|copy|change|assign|merge)_\w+)"
    r"(?P<given>\((?:[^()]|\([^()]*\))*\))?"
)
#: What rows of ``df.write`` and ``INSERT`` do in place of a verb.
BY_ROWS = {
    "with_state": "mode('overwrite') with option 'state' (INSERT OVERWRITE)",
    "update_state": "mode('append') with option 'state' (INSERT INTO)",
}
CREATED = re.compile(r"(?<![\w.])create\(max_parallelism=\.\.\.\)")
LISTED = re.compile(r"(?:loading )?the path without options(?= lists)")
OPTION = re.compile(r"(?<!there is no )\boption '(?P<name>[a-z]+(?:[A-Z][a-z]*)+)'")
CALLED = re.compile(r"\boption\('(?P<name>\w+)', (?:'(?P<value>[^']*)'|\.\.\.)\)")


def of_rows(text: str) -> str:
    """Return a sentence in the words of ``df.write`` and ``INSERT``.

    >>> of_rows("with_state(...) replaces all of it, remove_state('total') removes it first")
    "mode('overwrite') with option 'state' (INSERT OVERWRITE) replaces all of it, \
Savepoint.load(spark, path).remove_state('total') removes it first"
    """
    text = CREATED.sub("option 'maxParallelism'", text)

    def by_rows(match: re.Match[str]) -> str:
        verb, given = match["verb"], match["given"]
        return BY_ROWS.get(verb) or f"Savepoint.load(spark, path).{verb}{given or '(...)'}"

    return VERB.sub(by_rows, text)


def of_verbs(text: str) -> str:
    """Return a sentence in the words of ``Savepoint``, whose arguments are in snake case.

    >>> of_verbs("option 'typesFrom' names the operator; read with option('includeStateWindow', 'true')")
    "option 'types_from' names the operator; read with include_state_window=True"
    """
    text = _listed(OPTION.sub(lambda match: f"option '{_snake(match['name'])}'", text), "states()")
    text = text.replace("name it with 'uid', 'uidHash' or 'operatorName'", "name it by its uid")

    def given(match: re.Match[str]) -> str:
        if match["name"] == "table" and match["value"]:
            return f"{match['value']}(uid)"
        return f"{_snake(match['name'])}={_python(match['value'])}"

    return CALLED.sub(given, text)


def of_open(text: str) -> str:
    """Return a sentence in the words of ``open``.

    >>> of_open("write a changed copy of it: Savepoint.load(spark, path).with_operator(...).write(new_path)")
    'write a changed copy of it: open(path).with_operator(...).write(new_path)'
    """
    return of_verbs(text).replace("Savepoint.load(spark, path)", "open(path)").replace("df.", "rows.")


def of_sql(text: str) -> str:
    """Return a sentence in the words of SQL's table functions, whose arguments are named by ``=>``.

    >>> of_sql("option 'keys' is 'x'; option('table', 'timers') has it; loading the path without options lists all")
    "argument 'keys' is 'x'; table => 'timers' has it; savepoint_states(path) lists all"
    """
    text = _listed(re.sub(r"\boption '(?=\w+')", "argument '", text), "savepoint_states(path)")
    return CALLED.sub(lambda match: f"{match['name']} => " + repr(match["value"] or "..."), text)


@contextmanager
def in_words(worded: Callable[[str], str]) -> Iterator[None]:
    """Raise errors of this package in the words of a door."""
    try:
        yield
    except SavepointError as error:
        error.message = worded(error.message)
        for name in SENTENCES:
            if isinstance(error.facts.get(name), str):
                error.facts[name] = worded(error.facts[name])
        raise


def _listed(text: str, listing: str) -> str:
    """Return a sentence with what lists the states of a snapshot at a door, in place of a read without options."""
    text = text.replace("load the path without options to see", f"{listing} shows")
    return LISTED.sub(listing, text)


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def _python(value: str | None) -> str:
    return "..." if value is None else {"true": "True", "false": "False"}.get(value, repr(value))
