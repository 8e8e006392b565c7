"""Command salvage: what can be read of a damaged snapshot, and a table of what is lost."""

from __future__ import annotations

import warnings
from typing import Any

from pyspark_savepoint.command_line.commands import Salvage
from pyspark_savepoint.command_line.edits import finished, opened
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointWarning
from pyspark_savepoint.text.texts import numbered

#: Serialized keys are shown up to this many bytes.
MOST_OF_KEY = 32


def salvage(arguments: Salvage, output: Output) -> int:
    """Write what is left."""
    try:
        base = opened(arguments, arguments.path)
    except CorruptStateError as error:
        raise error.with_facts(
            remedy="without _metadata nobody knows what the files are: take another retained checkpoint of the job, "
            "or a backup of this file"
        ) from None
    losses: list[dict[str, Any]] = base.losses().to_arrow().to_pylist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SavepointWarning)  # the table says it
        savepoint = base.salvage()
    rows = [
        {
            "change": "lost",
            "operator": row["operator_uid"] or row["operator_name"] or row["operator_uid_hash"],
            "state": row["state"] or row["table"],
            "keys": _keys(row["first_key"], row["last_key"]),
            "to": _places(row["subtask"], row["first_key_group"], row["last_key_group"]),
            "note": row["note"].split("\n")[0],
        }
        for row in losses
    ]
    output.say(f"{numbered(len(rows), 'part')} of the state cannot be kept")
    return finished(arguments, arguments.target, output, savepoint, rows)


def _places(subtask: int | None, first: int | None, last: int | None) -> str:
    groups = "" if first is None else f", key groups {first} to {last}"
    return f"subtask {subtask}{groups}"


def _keys(first: bytes | None, last: bytes | None) -> str | None:
    if first is None or last is None:
        return None
    return f"{first[:MOST_OF_KEY].hex()} to {last[:MOST_OF_KEY].hex()}"
