"""Real Flink restores what `check-restore` suggests: each command that it prints is run as it stands."""

from __future__ import annotations

import copy
import itertools
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from tests.connector.command_line.conftest import Run
from tests.connector.command_line.conftest import run as run
from tests.oracle.evolution import ORDER, Job, described, evolve
from tests.oracle.flink import BACKENDS, PATIENCE

pytestmark = [pytest.mark.flink]

PAIR, TRIPLE = "TUPLE<INT, STRING>", "TUPLE<INT, STRING, INT>"
ROW, LONGER = "ROW<a INT, b STRING>", "ROW<a INT, b STRING, c INT>"
KEYED: Job = {
    "uid": "keyed",
    "key": "LONG",
    "states": {
        "count": "LONG",
        "order": ORDER,
        "pair": PAIR,
        "row": ROW,
        "lasting": {"type": PAIR, "ttl": True},
        "pairs": {"kind": "LIST", "type": PAIR},
        "rows": {"kind": "MAP", "key": "STRING", "type": ROW},
    },
    "timers": {"t": "VOID"},
}
PLAIN: Job = {
    "uid": "plain",
    "operatorStates": {
        "list": {"kind": "LIST", "type": PAIR},
        "union": {"kind": "UNION", "type": ROW},
        "rates": {"kind": "BROADCAST", "key": "STRING", "type": PAIR},
    },
}
ODD: Job = {"uid": 'it\'s = 1.5: "x" $y', "key": "INT", "states": {"a=b.c": PAIR}, "timers": {}}
BASE: Job = {"parallelism": 2, "operators": [KEYED, PLAIN, ODD]}
#: What ends a command in the sentence that names it.
END = r"pyspark-savepoint (.*?)(?=; |, which | takes rows| writes it|, or pyspark-savepoint | lets it|$)"


def changed(which: Job, states: Job | None = None, **more: Any) -> Job:
    """The job with other states of an operator, where None removes one, and with other fields of it."""
    job = copy.deepcopy(BASE)
    operator = next(one for one in job["operators"] if one["uid"] == which["uid"])
    name = "operatorStates" if "operatorStates" in operator else "states"
    both = operator[name] | (states or {})
    operator[name] = {state: kind for state, kind in both.items() if kind is not None}
    return {**job, "operators": [{**one, **more} if one is operator else one for one in job["operators"]]}


CHANGES: dict[str, Job] = {
    "moved": changed(KEYED, uid="renamed"),
    "moved, odd": changed(ODD, uid="an 'odd' one = $z"),
    "class": json.loads(json.dumps(BASE).replace("evolve.Order", "com.shop.Purchase")),
    "key STRING": changed(KEYED, key="STRING"),
    "key TUPLE": changed(KEYED, key="TUPLE<LONG, STRING>"),
    "key ROW": changed(KEYED, key="ROW<a LONG>"),
    "name of a state": changed(KEYED, {"count": None, "number": "LONG"}),
    "name of an odd state": changed(ODD, {"a=b.c": None, "c.d=e 'f'": PAIR}),
    "name of an operator state": changed(PLAIN, {"list": None, "pairs": {"kind": "LIST", "type": PAIR}}),
    "pair": changed(KEYED, {"pair": TRIPLE}),
    "row": changed(KEYED, {"row": LONGER}),
    "lasting": changed(KEYED, {"lasting": {"type": TRIPLE, "ttl": True}}),
    "pairs": changed(KEYED, {"pairs": {"kind": "LIST", "type": TRIPLE}}),
    "rows": changed(KEYED, {"rows": {"kind": "MAP", "key": "STRING", "type": LONGER}}),
    "odd pair": changed(ODD, {"a=b.c": TRIPLE}),
    "list": changed(PLAIN, {"list": {"kind": "LIST", "type": TRIPLE}}),
    "union": changed(PLAIN, {"union": {"kind": "UNION", "type": LONGER}}),
    "broadcast": changed(PLAIN, {"rates": {"kind": "BROADCAST", "key": "STRING", "type": TRIPLE}}),
    "type": changed(KEYED, {"count": "STRING"}),
    "kind": changed(KEYED, {"count": {"kind": "LIST", "type": "LONG"}}),
}


def as_type(value: Any, kind: pa.DataType) -> Any:
    """A value in another type: what is added to a row is 7."""
    if pa.types.is_struct(kind):
        parts = list(value.values()) if isinstance(value, dict) else [value]
        parts += [7] * (kind.num_fields - len(parts))
        return {field.name: as_type(part, field.type) for field, part in zip(kind, parts, strict=True)}
    if pa.types.is_map(kind):
        return [(key, as_type(part, kind.item_type)) for key, part in value]
    if pa.types.is_list(kind):
        return [as_type(part, kind.value_type) for part in (value if isinstance(value, list) else [value])]
    return str(value) if pa.types.is_string(kind) else int(value)


def rows_of(snapshot: Path, words: Sequence[str], path: Path) -> Path:
    """The file that a command asks for as ROWS: what is there, in the type that the command gives."""
    told = dict(itertools.pairwise(words))
    if "--option" in told:
        ((_, text),) = json.loads(told["--option"].partition("=")[2]).items()
    else:
        text = told["--type"].partition("=")[2]
    kind, savepoint = parse_type(text).arrow_type(DecodeOptions()), pyspark_savepoint.open(snapshot)
    uid, state = words[3], words[5]
    if words[0] == "rekey":
        keys = [row["key"] for row in savepoint.keyed_state(uid).rows()]
        made = [as_type({"key": key, "text": f"text {key}"} if kind.num_fields == 2 else key, kind) for key in keys]
        columns = {"key": pa.array(keys), "new_key": pa.array(made, kind)}
    elif uid == "plain":
        table = {"list": savepoint.list_state, "union": savepoint.union_state}.get(state, savepoint.broadcast_state)
        found = list(table(uid, state).rows())
        columns = {"value": pa.array([as_type(row["value"], kind) for row in found], kind)}
        columns |= {"key": pa.array([row["key"] for row in found])} if "key" in found[0] else {}
    else:
        found = list(savepoint.keyed_state(uid).rows())
        columns = {"key": pa.array([row["key"] for row in found])}
        columns[state] = pa.array([as_type(row[state], kind) for row in found], kind)
    pq.write_table(pa.table(columns), path)
    return path


def followed(run: Run, base: Path, job: Job, flink: str, folder: Path) -> Path:
    """What the commands of `check-restore` make of a savepoint, of which it has nothing more to say."""
    folder.mkdir()
    path, now = folder / "job.json", base
    operators = [{name: one for name, one in each.items() if name != "timers"} for each in described(job)["operators"]]
    path.write_text(json.dumps({**described(job), "operators": operators}))
    said = json.loads(run("check-restore", now, path, "--flink", flink, "--json").out)
    remedies = [row["remedy"] for row in said["operators"] if row["remedy"]]
    assert remedies
    for number, command in enumerate(dict.fromkeys(re.findall(END, "; ".join(remedies)))):
        if command.startswith("remove "):
            continue
        words = shlex.split(command)
        places = {"OLD": now, "NEW": folder / str(number)}
        if "ROWS" in words:
            places["ROWS"] = rows_of(now, words, folder / f"{number}.parquet")
        ran = run(*[places.get(word, word) for word in words])
        assert ran.code == 0, (command, ran.err)
        now = folder / str(number)
    after = run("check-restore", now, path, "--flink", flink)
    assert (after.code, "to do" in after.out) == (0, False), after.out
    return now


@pytest.mark.parametrize(("backend", "form"), [("hashmap", "CANONICAL"), ("rocksdb", "NATIVE")])
def test_what_is_printed_is_restored(backend: str, form: str, run: Run, flink_version: str, tmp_path: Path) -> None:
    setting = {"stateBackend": backend, "conf": dict(BACKENDS[backend])}
    base = tmp_path / "base"
    filled = {**BASE, **setting, "name": "fill", "held": "fill", "count": 20, "format": form, "savepoint": str(base)}
    assert evolve(flink_version, tmp_path / "fill", [filled], PATIENCE) == [{"ok": True}]
    reading = []
    for number, (name, job) in enumerate({"base": BASE, **CHANGES}.items()):
        path = base
        if name != "base":
            path = followed(run, base, job, flink_version.rpartition(".")[0], tmp_path / str(number))
        reading.append({**job, **setting, "name": f"read {number}", "held": "read", "restore": str(path)})
    answers = evolve(flink_version, tmp_path / "read", reading, PATIENCE)
    counts = [
        sorted(len(entries) for states in one.get("found", {}).values() for entries in states.values())
        for one in answers
    ]
    assert max(counts[0]) > 0
    for name, answer, count in zip(CHANGES, answers[1:], counts[1:], strict=True):
        assert count == counts[0], (name, answer.get("error"))
