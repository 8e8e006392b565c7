"""One person in a job's state, as `oracle.PersonJob` put it there: what is erased, and what must be left.

The job has 12 operators with state of their own, and the person stands in 49 places: as keys of eight types, in windows
and timers, inside of values, in operator state, in a queue and in buffers of an unaligned checkpoint.

    python -m tests.oracle.person 2.3.0 tests/oracle/savepoints/person/2.3.0.tar.xz     # the recorded checkpoint
"""

from __future__ import annotations

import copy
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.oracle.flink import Case, generate

ID, MAIL, TOKEN = 104_729, "anna@example.org", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
SECRET = ("only the job reads " + MAIL).encode()
#: Records in flight have smaller numbers; the others are sent after a restore.
CLICKS = 400
#: The job with its state in RocksDB, as an unaligned, incremental checkpoint.
CASE: Mapping[str, Any] = {
    "job": "person",
    "backend": "rocksdb-incremental",
    "format": "checkpoint",
    "configuration": {
        "execution.checkpointing.unaligned": "true",
        "execution.checkpointing.unaligned.enabled": "true",
    },
}
KEYED = ("by-long", "by-int", "by-text", "by-big", "by-kryo", "by-tuple", "by-pojo", "by-row", "windows", "opaque")
UIDS = ",".join([*KEYED, "values", "operator-states", "clicks", "click-texts", "ask", "answered", "source"])
KEYS = {"id": [ID], "mail": [MAIL], "token": [TOKEN], "nobody": [-5], "no-mail": ["nobody"]}
BY: Mapping[str, Any] = {
    "by-long": "id",
    "by-int": "id",
    "by-text": "mail",
    "by-big": "id",
    "by-kryo": "token",
    "by-tuple": {"f0": "mail"},
    "by-pojo": {"number": "id"},
    "by-row": {"f0": "mail"},
    "windows": "id",
    "opaque": "id",
    "values": "id",
}


def _has_mail(column: str) -> pc.Expression:
    """A list of texts that has the address among its elements."""
    joined = pc.binary_join(pc.field(*column.split(".")), "|")
    return pc.match_substring_regex(joined, pattern=f"(^|[|]){MAIL}($|[|])")


WHERE: Mapping[str, Any] = {
    "by-row": f"key.f1 = {ID}",
    "values.friend": f"friend = '{MAIL}'",
    "values.friends": f"list_value = '{MAIL}'",
    "values.groups": _has_mail("list_value"),
    "values.pojo": f"pojo.name = '{MAIL}' OR pojo.leaf.weight = {ID}",
    "values.row": (pc.field("row", "f0") == ID) | _has_mail("row.f1"),
    "values.tuple": f"tuple.f1 = {ID}",
    "values.array": f"list_value = '{MAIL}'",
    "values.map": f"map_key = '{MAIL}' OR map_value = {ID}",
    "values.mails": f"list_value = '{MAIL}'",
    "values.by-mail": f"map_key = '{MAIL}'",
    "values.mail-of": f"map_value = '{MAIL}'",
    "values.recent": f"recent = '{MAIL}'",
    "values.recent-mails": f"list_value = '{MAIL}'",
    "values.recent-by-mail": f"map_key = '{MAIL}'",
    "operator-states.pending": f"value.f0 = '{MAIL}' OR value.f1 = {ID}",
    "operator-states.owners": f"value.name = '{MAIL}'",
    "operator-states.names": f"key = {ID} OR value = '{MAIL}'",
    "operator-states.rules": f"key = '{MAIL}' OR value = '{MAIL}'",
    "operator-states.bytes": f"value = X'{SECRET.hex()}'",
    "ask.in_flight": f"value.f0 = {ID} OR value.f1 LIKE '%of {MAIL}'",
    "click-texts.output 0": f"value.f0 = {ID} OR value.f1 LIKE '%of {MAIL}'",
}
RECORD_TYPES = {"click-texts.output 0": "TUPLE<LONG, STRING>"}


def keys() -> pa.Table:
    """What is known of the person, and of nobody."""
    return pa.table(KEYS)


#: By uid, whether a key is the person's, in the words of `expected.json`.
_OWN: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("by-long", "by-int", "windows", "opaque"), lambda key: key == ID),
    "by-text": lambda key: key == MAIL,
    "by-big": lambda key: key == str(ID),
    "by-kryo": lambda key: key == TOKEN,
    "by-tuple": lambda key: key[0] == MAIL,
    "by-pojo": lambda key: key["fields"]["number"] == ID,
    "by-row": lambda key: key["row"][0] == MAIL or key["row"][1] == ID,
}
#: By state, whether a value, or an element or entry of one, is the person's.
_INSIDE: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("friend", "friends", "array", "mails", "recent", "recent-mails"), lambda text: text == MAIL),
    "groups": lambda group: MAIL in group,
    "pojo": lambda node: node["fields"]["name"] == MAIL or node["fields"]["leaf"]["fields"]["weight"] == ID,
    "row": lambda row: row["row"][0] == ID or MAIL in row["row"][1],
    "tuple": lambda pair: pair[1] == ID,
    **dict.fromkeys(("map", "by-mail", "mail-of", "recent-by-mail"), lambda entry: MAIL in entry or entry[1] == ID),
    "pending": lambda row: row["row"][0] == MAIL or row["row"][1] == ID,
    "owners": lambda animal: animal["fields"]["name"] == MAIL,
    "names": lambda entry: entry[0] == ID or entry[1] == MAIL,
    "rules": lambda entry: MAIL in entry,
    "bytes": lambda data: data == {"hex": SECRET.hex()},
}
_COLLECTIONS = ("friends", "groups", "array", "mails", "recent-mails", "map", "by-mail", "mail-of", "recent-by-mail")


def without(expected: Mapping[str, Any]) -> dict[str, Any]:
    """What a job must find after the person was erased: of a key's values the last one counts."""
    after = copy.deepcopy(dict(expected))
    for operator in after["operators"]:
        uid = operator["uid"]
        own = _OWN.get(uid)
        for state in operator["states"]:
            if own is not None:
                last = {repr(entry[:2]): entry for entry in state["entries"]}
                state["entries"] = [entry for entry in last.values() if not own(entry[0])]
            elif uid == "values":
                state["entries"] = [kept for entry in state["entries"] if (kept := _kept(state["name"], entry))]
            else:
                inside = _INSIDE[state["name"]]
                state["entries"] = [entry for entry in state["entries"] if not inside(entry)]
        for timers in operator.get("timers", ()):
            for domain in ("eventTime", "processingTime"):
                timers[domain] = [entry for entry in timers[domain] if own is None or not own(entry[0])]
    return after


def _kept(state: str, entry: list[Any]) -> list[Any] | None:
    key, namespace, value = entry
    inside = _INSIDE[state]
    if state not in _COLLECTIONS:
        return None if inside(value) else entry
    if isinstance(value, dict):
        return [key, namespace, {"map": [each for each in value["map"] if not inside(each)]}]
    return [key, namespace, [each for each in value if not inside(each)]]


def pack(version: str, archive: Path) -> None:
    """Run Flink to write the checkpoint, and pack its files and what must be in it."""
    with tempfile.TemporaryDirectory() as folder:
        generated = generate(Case(version, **CASE), Path(folder))
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:xz") as tar:
            tar.add(generated.path.parent, "job")
            tar.add(Path(folder) / "expected.json", "expected.json")


if __name__ == "__main__":
    pack(sys.argv[1], Path(sys.argv[2]))
