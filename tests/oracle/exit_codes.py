"""Exit codes of `check-restore`, compared with real restores of the same changed jobs.

    python -m tests.oracle.exit_codes                                  # 1.20.5 to 1.20.5 and 2.3.0, 2.3.0 to 2.3.0
    python -m tests.oracle.exit_codes 1.16.3-2.1.1 --backend rocksdb --only POJO

A JVM per release writes the savepoints of the jobs as they were and starts every changed job from them; the command is
run with the description of the same job. Exit code 0 must mean that Flink restores, 1 that it does not (or that it
reads wrongly what it restores), 3 is no promise. Prints a table of counts and times, and every difference.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark_savepoint.command_line.main import main as command
from tests.oracle.evolution import ORDER, PLAIN, Job, described, evolve

RESTORES, FAILS, UNKNOWN = 0, 1, 3
PAIRS = ("1.20.5-1.20.5", "1.20.5-2.3.0", "2.3.0-2.3.0")
BACKENDS = ("hashmap", "rocksdb")

COLOR = "ENUM<evolve.Color>(RED, GREEN, BLUE)"
CART = f"POJO<evolve.Cart>(color {COLOR}, first {ORDER}, size INT)"
KEYED: Job = {
    "uid": "keyed",
    "key": "LONG",
    "states": {
        "count": "LONG",
        "order": ORDER,
        "color": COLOR,
        "cart": CART,
        "recent": {"kind": "LIST", "type": "INT"},
        "spent": {"kind": "MAP", "key": "STRING", "type": "DOUBLE"},
        "colors": {"kind": "MAP", "key": COLOR, "type": "LONG"},
        "sum": {"kind": "REDUCING", "type": "LONG"},
        "timed": {"type": "STRING", "ttl": True},
        "visits": {"kind": "LIST", "type": "LONG", "ttl": True},
        "history": {"kind": "LIST", "type": ORDER},
        "latest": {"kind": "MAP", "key": "STRING", "type": ORDER},
        "pair": f"TUPLE<INT, {ORDER}>",
        "row": "ROW<a INT, b STRING>",
        "amounts": "PRIMITIVE_ARRAY<LONG>",
        "names": "BASIC_ARRAY<STRING>",
        "price": "BIG_DECIMAL",
    },
    "operatorStates": {"seen": {"kind": "LIST", "type": "LONG"}},
}
BASE: Job = {"parallelism": 2, "operators": [KEYED, PLAIN]}
#: Operators that only have keys of other types.
KEYS: Job = {
    "operators": [
        {"uid": name, "key": key, "states": {"n": "LONG"}}
        for name, key in {
            "text": "STRING",
            "tuple": "TUPLE<LONG, STRING>",
            "row": "ROW<a INT, b STRING>",
            "pojo": ORDER,
            "number": "INT",
        }.items()
    ]
}
THING = "package evolve; public class Thing { public Thing() { } public int size = 3; Object rest; }"
#: Types that Flink infers from classes: those of Thing and of raw collections are Kryo's.
KRYO: Job = {
    "sources": {"evolve.Thing": THING},
    "operators": [
        {
            "uid": "kryo",
            "key": "LONG",
            "states": {"thing": "AUTO<evolve.Thing>", "list": "AUTO<java.util.ArrayList>", "n": "LONG"},
        }
    ],
}
TAGS = "public java.util.List<String> tags = new java.util.ArrayList<>();"


def bag(fields: str = TAGS) -> Job:
    """A job with a POJO of which Flink infers the fields: 1.x has Kryo for a List, 2.x a serializer of its own."""
    source = f"package evolve; public class Bag {{ public Bag() {{ }} public long id; {fields} }}"
    states = {"bag": "AUTO<evolve.Bag>"}
    return {"operators": [{"uid": "bags", "key": "LONG", "states": states}], "sources": {"evolve.Bag": source}}


@dataclass(frozen=True)
class Change:
    """A job as it was and as it is now."""

    name: str
    before: Job
    after: Job


def changed(which: str, base: Job = BASE, **changes: Any) -> Job:
    """The job with one operator changed; states are replaced one by one, None removes."""
    job = copy.deepcopy(base)
    (operator,) = (one for one in job["operators"] if one["uid"] == which)
    for name, value in changes.items():
        if name in ("states", "operatorStates"):
            states = {**operator.get(name, {}), **value}
            operator[name] = {state: spec for state, spec in states.items() if spec is not None}
        else:
            operator[name] = value
    return job


def everywhere(old: str, new: str, base: Job = BASE) -> Job:
    """Return the job with a part of types replaced in all places."""
    return json.loads(json.dumps(base).replace(old, new))


def only(base: Job, *uids: str) -> Job:
    return {**base, "operators": [operator for operator in base["operators"] if operator["uid"] in uids]}


def values(**states: Any) -> Job:
    return changed("keyed", states=states)


def lists(**states: Any) -> Job:
    return changed("plain", operatorStates=states)


def changes() -> Iterator[Change]:
    """All changed jobs."""
    for name, job in {**_of_values(), **_of_operators()}.items():
        yield Change(name, BASE, job)
    for name, (uid, key) in _of_keys().items():
        before = only(KEYS, uid)
        yield Change(name, before, changed(uid, before, key=key))
    for name, job in _of_kryo().items():
        yield Change(name, KRYO, job)
    for name, job in _of_inferred().items():
        yield Change(name, bag(), job)


def _of_values() -> dict[str, Job]:
    with_note = ORDER.replace("name STRING", "name STRING, note STRING")
    return {
        "nothing": BASE,
        "LONG to STRING": values(count="STRING"),
        "LONG to INT": values(count="INT"),
        "LONG to POJO": values(count=ORDER),
        "POJO to LONG": values(order="LONG"),
        "POJO field added": everywhere(ORDER, with_note),
        "POJO field removed": everywhere(", total DOUBLE", ""),
        "POJO field of another type": everywhere("total DOUBLE", "total LONG"),
        "POJO field renamed": everywhere("total DOUBLE", "sum DOUBLE"),
        "POJO field to an enum": everywhere("name STRING", f"name {COLOR}"),
        "POJO with all fields replaced": everywhere("id LONG, name STRING, total DOUBLE", "a INT, b INT"),
        "POJO of another class, same fields": values(order=ORDER.replace("evolve.Order", "evolve.Other")),
        "POJO inside a POJO: field added": values(
            cart=CART.replace(ORDER, with_note),
            order=with_note,
            history={"kind": "LIST", "type": with_note},
            latest={"kind": "MAP", "key": "STRING", "type": with_note},
            pair=f"TUPLE<INT, {with_note}>",
        )
        | {
            "operators": [
                changed(
                    "keyed",
                    states={
                        "cart": CART.replace(ORDER, with_note),
                        "order": with_note,
                        "history": {"kind": "LIST", "type": with_note},
                        "latest": {"kind": "MAP", "key": "STRING", "type": with_note},
                        "pair": f"TUPLE<INT, {with_note}>",
                    },
                )["operators"][0],
                everywhere(ORDER, with_note)["operators"][1],
            ]
        },
        "POJO inside a POJO: field removed": everywhere(f", first {ORDER}", ""),
        "POJO inside a POJO: field of another type": everywhere("size INT", "size STRING"),
        "enum constant added": everywhere("RED, GREEN, BLUE", "RED, GREEN, BLUE, PINK"),
        "enum constant added in the middle": everywhere("RED, GREEN, BLUE", "RED, PINK, GREEN, BLUE"),
        "enum constants in another order": everywhere("RED, GREEN, BLUE", "BLUE, GREEN, RED"),
        "enum constant removed": everywhere("RED, GREEN, BLUE", "RED, GREEN"),
        "enum to STRING": values(color="STRING"),
        "tuple with one field more": values(pair=f"TUPLE<INT, {ORDER}, INT>"),
        "tuple with another field": values(pair=f"TUPLE<LONG, {ORDER}>"),
        "row with one field more": values(row="ROW<a INT, b STRING, c INT>"),
        "row with another field": values(row="ROW<a LONG, b STRING>"),
        "row with renamed fields": values(row="ROW<x INT, y STRING>"),
        "row to tuple": values(row="TUPLE<INT, STRING>"),
        "primitive array to another": values(amounts="PRIMITIVE_ARRAY<INT>"),
        "array of objects to a list": values(names="LIST<STRING>"),
        "BIG_DECIMAL to DOUBLE": values(price="DOUBLE"),
        "VALUE to LIST": values(count={"kind": "LIST", "type": "LONG"}),
        "VALUE to MAP": values(count={"kind": "MAP", "key": "STRING", "type": "LONG"}),
        "LIST to VALUE": values(recent="INT"),
        "LIST to a value that is a list": values(recent="LIST<INT>"),
        "LIST to MAP": values(recent={"kind": "MAP", "key": "INT", "type": "INT"}),
        "MAP to LIST": values(spent={"kind": "LIST", "type": "DOUBLE"}),
        "REDUCING to VALUE": values(sum="LONG"),
        "list of another element": values(recent={"kind": "LIST", "type": "LONG"}),
        "map of another key": values(spent={"kind": "MAP", "key": "LONG", "type": "DOUBLE"}),
        "map of another value": values(spent={"kind": "MAP", "key": "STRING", "type": "LONG"}),
        "time to live switched on": values(count={"type": "LONG", "ttl": True}),
        "time to live switched off": values(timed="STRING"),
        "time to live of a list switched off": values(visits={"kind": "LIST", "type": "LONG"}),
        "time to live and another type": values(timed={"type": "LONG", "ttl": True}),
        "state removed": values(count=None),
        "state added": values(more="LONG"),
        "state renamed": values(count=None, counted="LONG"),
        "all states renamed": changed("keyed")
        | {
            "operators": [{**KEYED, "states": {f"new {name}": state for name, state in KEYED["states"].items()}}, PLAIN]
        },
    }


def _of_operators() -> dict[str, Job]:
    other = {"uid": "other", "key": "LONG", "states": {"x": "LONG"}}
    return {
        "operator removed": only(BASE, "plain"),
        "operator removed, and that is allowed": {**only(BASE, "plain"), "allowNonRestoredState": True},
        "both operators removed, and that is allowed": {**BASE, "operators": [other], "allowNonRestoredState": True},
        "operator added": {**BASE, "operators": [KEYED, PLAIN, other]},
        "uid renamed": changed("keyed", uid="renamed"),
        "uid renamed, and that is allowed": {**changed("keyed", uid="renamed"), "allowNonRestoredState": True},
        "uids swapped": {**BASE, "operators": [{**KEYED, "uid": "plain"}, {**PLAIN, "uid": "keyed"}]},
        "parallelism up": {**BASE, "parallelism": 5},
        "parallelism down": {**BASE, "parallelism": 1},
        "parallelism above max parallelism": {**BASE, "parallelism": 130},
        "max parallelism the same": {**BASE, "maxParallelism": 128},
        "max parallelism larger": {**BASE, "maxParallelism": 256},
        "max parallelism smaller": {**BASE, "maxParallelism": 64},
        "max parallelism of one operator": changed("keyed", maxParallelism=64),
        # Chained to the source it would have the max parallelism of that.
        "max parallelism of an operator without keys": {**changed("plain", maxParallelism=64), "chaining": False},
        "not keyed any more": {**BASE, "operators": [{"uid": "keyed", "states": {}}, PLAIN]},
        "keyed, and was not": {**BASE, "operators": [KEYED, {**PLAIN, "key": "LONG", "states": {"x": "LONG"}}]},
        "operator state: list to union": lists(list={"kind": "UNION", "type": "STRING"}),
        "operator state: union to list": lists(union={"kind": "LIST", "type": "LONG"}),
        "operator state: list to broadcast": lists(list={"kind": "BROADCAST", "key": "STRING", "type": "STRING"}),
        "operator state: another element": lists(list={"kind": "LIST", "type": "LONG"}),
        "operator state: another key of a broadcast": lists(
            rates={"kind": "BROADCAST", "key": "LONG", "type": "DOUBLE"}
        ),
        "operator state: another value of a broadcast": lists(
            rates={"kind": "BROADCAST", "key": "STRING", "type": "LONG"}
        ),
        "operator state removed": lists(list=None),
        "operator state of a keyed operator changed": changed(
            "keyed", operatorStates={"seen": {"kind": "LIST", "type": "STRING"}}
        ),
    }


def _of_keys() -> dict[str, tuple[str, str]]:
    return {
        "key LONG to STRING": ("text", "LONG"),
        "key INT to LONG": ("number", "LONG"),
        "key: tuple with a field more": ("tuple", "TUPLE<LONG, STRING, INT>"),
        "key: tuple with another field": ("tuple", "TUPLE<LONG, LONG>"),
        "key: row with another field": ("row", "ROW<a INT, b LONG>"),
        "key: row to tuple": ("row", "TUPLE<INT, STRING>"),
        "key: POJO field added": ("pojo", ORDER.replace("name STRING", "name STRING, note STRING")),
        "key: POJO field removed": ("pojo", ORDER.replace(", total DOUBLE", "")),
        "key: POJO to LONG": ("pojo", "LONG"),
        "key: POJO the same": ("pojo", ORDER),
    }


def _of_kryo() -> dict[str, Job]:
    return {
        "Kryo: nothing": KRYO,
        "Kryo: another class": changed("kryo", KRYO, states={"list": "AUTO<java.util.LinkedList>"}),
        "Kryo to LONG": changed("kryo", KRYO, states={"list": "LONG"}),
        "LONG to Kryo": changed("kryo", KRYO, states={"n": "AUTO<java.util.ArrayList>"}),
        "Kryo to a list of Flink's": changed("kryo", KRYO, states={"list": "LIST<STRING>"}),
        "Kryo to POJO": {**KRYO, "sources": {"evolve.Thing": THING.replace("Object rest", "public String rest")}},
        "Kryo: state removed, class kept": {
            **changed("kryo", KRYO, states={"thing": None}),
            "javaClasses": ["evolve.Thing"],
        },
        "Kryo: class removed": {**changed("kryo", KRYO, states={"thing": None}), "sources": {}},
    }


def _of_inferred() -> dict[str, Job]:
    return {
        "inferred: nothing": bag(),
        "inferred: field added": bag(f"{TAGS} public String note;"),
        "inferred: list to map": bag("public java.util.Map<String, String> tags = new java.util.HashMap<>();"),
        "inferred: list to text": bag('public String tags = "";'),
        "inferred: to Kryo": bag(f"{TAGS} Object rest;"),
    }


# -- Flink and the command ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Flink's result for a changed job, and the command's verdict."""

    change: Change
    answer: Mapping[str, Any]
    code: int
    said: str
    seconds: float

    @property
    def restored(self) -> bool:
        return "error" not in self.answer

    @property
    def is_misread(self) -> bool:
        return '"verdict": "is misread"' in self.said

    @property
    def kind(self) -> str:
        """What the exit code is worth."""
        if self.code == UNKNOWN:
            return "no promise"
        if self.code == RESTORES:
            return "right" if self.restored else "false restores"
        if self.code == FAILS:
            return "right" if not self.restored else "misread" if self.is_misread else "false fails"
        return "error"


def outcomes(old: str, new: str, backend: str, folder: Path, only_named: str = "") -> list[Outcome]:
    """All changed jobs, written by one release and restored by another."""
    todo = [change for change in changes() if only_named in change.name]
    written: dict[str, Path] = {}
    writers, restores = [], []
    for change in todo:
        name = json.dumps(change.before, sort_keys=True)
        if name not in written:
            written[name] = folder / f"savepoint-{len(written)}"
            job = {**change.before, "name": f"writer {len(written)}", "stateBackend": backend}
            writers.append({**job, "savepoint": str(written[name])})
    for number, change in enumerate(todo):
        snapshot = written[json.dumps(change.before, sort_keys=True)]
        job = {**change.after, "name": f"job {number}", "stateBackend": backend}
        restores.append({**job, "restore": str(snapshot)})
    if old == new:
        answers = evolve(new, folder / "work", [*writers, *restores], timeout=550)
        wrote, answers = answers[: len(writers)], answers[len(writers) :]
    else:
        wrote = evolve(old, folder / "work", writers)
        answers = evolve(new, folder / "work", restores, timeout=550)
    assert all(answer == {"ok": True} for answer in wrote), wrote
    return [
        Outcome(change, answer, *_asked(change, Path(job["restore"]), new, backend, folder))
        for change, job, answer in zip(todo, restores, answers, strict=True)
    ]


def _asked(change: Change, snapshot: Path, version: str, backend: str, folder: Path) -> tuple[int, str, float]:
    """Exit code, output and seconds of the command."""
    job = described({**change.after, "stateBackend": backend})
    text = json.dumps(job)
    if "AUTO<" in json.dumps(change.before):
        job["inferredBy"] = version.rpartition(".")[0]
        job["classes"] = [str(_classes(change.after.get("sources", {}), folder / "work"))]
        text = re.sub(r"AUTO<([^>]*)>", r"\1", json.dumps(job))
    path = folder / "job.json"
    path.write_text(text)
    arguments = ["check-restore", str(snapshot), str(path), "--flink", version.rpartition(".")[0], "--json"]
    arguments += ["--allow-non-restored-state"] * bool(change.after.get("allowNonRestoredState"))
    said, start = io.StringIO(), time.perf_counter()
    with redirect_stdout(said), redirect_stderr(said):
        code = command(arguments)
    return code, said.getvalue(), time.perf_counter() - start


def _classes(sources: Mapping[str, str], work: Path) -> Path:
    """The folder into which the harness compiled the classes of a job."""
    for folder in work.glob("classes-*"):
        found = {f"evolve.{path.stem}": path.read_text() for path in folder.glob("*.java")}
        if found == sources:
            return folder
    raise AssertionError(f"nothing was compiled of {', '.join(sources)}")


COLUMNS = ("right", "misread", "no promise", "false restores", "false fails", "error")


def main(given: Sequence[str] | None = None) -> int:
    """The command line: prints the table; exit code 1 for any false exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.exit_codes", description=__doc__)
    parser.add_argument("pairs", nargs="*", default=PAIRS, metavar="OLD-NEW")
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="default: both")
    parser.add_argument("--only", default="", help="changes with this in their names")
    told = parser.parse_args(given)
    bad = 0
    lines = [
        "| from | to | backend | jobs | " + " | ".join(COLUMNS) + " | slowest |",
        "| --- " * (5 + len(COLUMNS)) + "|",
    ]
    for pair in told.pairs:
        old, _, new = pair.partition("-")
        for backend in told.backend or BACKENDS:
            with tempfile.TemporaryDirectory() as folder:
                found = outcomes(old, new, backend, Path(folder), told.only)
            counts = Counter(one.kind for one in found)
            slowest = max(one.seconds for one in found)
            numbers = " | ".join(str(counts[name]) for name in COLUMNS)
            lines.append(f"| {old} | {new} | {backend} | {len(found)} | {numbers} | {slowest:.2f} s |")
            for one in found:
                if one.kind != "right":
                    flink = "restores" if one.restored else one.answer["error"].splitlines()[-1][:300]
                    print(f"{pair} {backend}: {one.change.name}: {one.kind}\n    Flink: {flink}\n    {one.said[:700]}")
            bad += counts["false restores"] + counts["false fails"] + counts["error"]
    print("\n".join(lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
