"""The schema of a snapshot: operators, states and their types, as a file that is kept beside a job's code.

::

    {"operators": [{"uid": "accounts", "states": [{"table": "keyed_state", "state": "total", "value": "LONG", ...}]}]}

It is the same for every snapshot of a job whose types did not change, whatever the state, backend and parallelism.
Subclasses that a serializer met while the job ran are part of a type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError, SavepointError, StateFileNotFoundError
from pyspark_savepoint.formats.io.local_files import read_regular
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.statebackends.requests.applicability import DECODED
from pyspark_savepoint.statebackends.rows.descriptors import TIMER_PREFIX, service_of

Schema = dict[str, Any]
MAX_SCHEMA_BYTES = 1 << 27
#: Fields of a state, and the columns of table ``states`` that have them.
FIELDS = {
    "table": "table",
    "state": "state",
    "kind": "kind",
    "key": "key_type",
    "namespace": "namespace_type",
    "value": "value_type",
    "ttl": "ttl",
}
#: Usual values of these fields, which are left out.
USUAL_VALUES = (None, False, "VOID_NAMESPACE")


def schema_of(savepoint: LocalSavepoint) -> Schema:
    """Return the schema of a snapshot, or raise OptionError if the types of an operator cannot be read."""
    operators: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in savepoint.states().rows():
        if row["table"] not in DECODED:
            if row["operator_uid_hash"] and row["table"] is None and row["kind"] is None:
                raise OptionError(
                    "the types of an operator cannot be read",
                    path=savepoint.path,
                    operator=row["operator_uid"] or row["operator_uid_hash"],
                    found=row["note"],
                )
            continue
        state = {name: row[column] for name, column in FIELDS.items() if row[column] not in USUAL_VALUES}
        if row["table"] == "timers" and row["state"].startswith(TIMER_PREFIX):
            # Use the name of timers that RocksDB jobs keep on the heap, so that the backend makes no difference.
            state["state"] = " ".join(filter(None, service_of(row["state"])))
        name = "uid" if row["operator_uid"] else "uidHash"
        operators.setdefault((row["operator_uid"] or row["operator_uid_hash"], name), []).append(state)
    return {
        "operators": [
            {name: uid, "states": sorted(states, key=_place)} for (uid, name), states in sorted(operators.items())
        ]
    }


def _place(state: Mapping[str, Any]) -> tuple[str, str]:
    return state["table"], state["state"]


def schema_text(schema: Schema) -> str:
    """Return a schema as the text of its file: a line per state, so that changes are seen."""
    lines = ['{"operators": [']
    for last, operator in _marked(schema["operators"]):
        name = "uid" if "uid" in operator else "uidHash"
        lines.append(f'  {{"{name}": {json.dumps(operator[name])}, "states": [')
        for end, state in _marked(operator["states"]):
            lines.append(f"    {json.dumps(state)}" + ("" if end else ","))
        lines.append("  ]}" + ("" if last else ","))
    return "\n".join([*lines, "]}"]) + "\n"


def _marked(items: list[Any]) -> Iterator[tuple[bool, Any]]:
    return ((number == len(items), item) for number, item in enumerate(items, 1))


def read_schema(path: Path) -> Schema:
    """Read the file of a schema, or raise OptionError for another file."""
    try:
        schema = parse_json(read_regular(str(path), MAX_SCHEMA_BYTES))
        _states(schema)
    except StateFileNotFoundError:
        raise OptionError("there is no schema at this path", path=str(path), remedy=_remedy(path)) from None
    except SavepointError as error:
        reason = error.facts.get("found", error.message)
        raise OptionError("the schema cannot be read", path=str(path), found=reason) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise OptionError("the file is not the schema of a snapshot", path=str(path), remedy=_remedy(path)) from None
    return dict(schema)


def _remedy(path: Path) -> str:
    return f"pyspark-savepoint schema SAVEPOINT --file {path}"


def differences(expected: Schema, schema: Schema) -> list[str]:
    """Return a sentence per state that is new, gone, or has other types.

    >>> one = {"operators": [{"uid": "a", "states": [{"table": "keyed_state", "state": "x", "value": "LONG"}]}]}
    >>> two = {"operators": [{"uid": "a", "states": [{"table": "keyed_state", "state": "x", "value": "INT"}]}]}
    >>> differences(one, two)
    ["a, keyed_state 'x': value was LONG, is INT"]
    """
    before, after = _states(expected), _states(schema)
    sentences = []
    for state_id in sorted(before.keys() | after.keys()):
        uid, table, state = state_id
        name = f"{uid}, {table} {state!r}"
        if state_id not in after:
            sentences.append(f"{name} is gone")
        elif state_id not in before:
            sentences.append(f"{name} is new: {json.dumps(after[state_id])}")
        else:
            old, new = before[state_id], after[state_id]
            sentences += [
                f"{name}: {field} was {old.get(field, 'none')}, is {new.get(field, 'none')}"
                for field in FIELDS
                if old.get(field) != new.get(field)
            ]
    return sentences


def _states(schema: Schema) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (
            str(operator["uid"] if "uid" in operator else operator["uidHash"]),
            str(state["table"]),
            str(state["state"]),
        ): dict(state)
        for operator in schema["operators"]
        for state in operator["states"]
    }
