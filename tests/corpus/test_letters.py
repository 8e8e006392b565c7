"""Snapshots of DataStream jobs (`oracle.Letters`), 1.10 to 2.3: hashmap and RocksDB, canonical, native, checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from tests.corpus.everything import KEYED, misplaced_keys, read_state, states_of

Rows = list[dict[str, Any]]
PLACE = ("key_group", "subtask")
RECEIVERS = range(10)
#: When timers fire, in milliseconds; those of each key a little later, or sooner.
LATER = 4_102_444_800_000
TEXTS = ("first note", "second n\u00f6te", "third \u6f22\u5b57", "")
NOTES: Rows = [{"value": text} for text in TEXTS]
SOURCE = {"position": [{"value": 20}], "notes": NOTES}


def java(text: str) -> dict[str, bytes]:
    """A string as Java serializes it."""
    return {"value": b"\xac\xed\x00\x05t" + len(text.encode()).to_bytes(2, "big") + text.encode()}


def of_keys(**states: Any) -> Rows:
    """A row of each key, a number; the other columns are functions of it."""
    return [{"key": key} | {name: value(key) for name, value in states.items()} for key in RECEIVERS]


def of_tuples(**states: Any) -> Rows:
    """The same for keys that are tuples of a number."""
    return [row | {"key": {"f0": row["key"]}} for row in of_keys(**states)]


def last_letter(key: int) -> str:
    return f"letter {key + 10}"


def both(key: int) -> int:
    return 2


#: What the jobs put into each state, by uid, or by the name of the state alone where operators have none.
CONTENTS: dict[str, dict[tuple[str, str], Rows]] = {
    "udf": {
        **{("source", state): rows for state, rows in SOURCE.items()},
        ("function", "count"): of_tuples(count=both),
        ("function", "last"): of_tuples(last=last_letter),
        ("by-long", "count"): of_keys(count=both),
        ("by-long", "last"): of_keys(last=last_letter),
        ("operator", "kept"): of_tuples(window=lambda key: key, kept=lambda key: 100 * key),
        ("notes", "notes"): NOTES,
    },
    "broadcast": {
        **{(uid, state): rows for uid in ("source", "rules") for state, rows in SOURCE.items()},
        ("two", "numbers"): [{"key": key, "value": -key} for key in RECEIVERS],
        ("two", "names"): [{"key": f"rule {key}", "value": key} for key in RECEIVERS],
        ("two", "last"): of_keys(last=last_letter),
        ("one", "titles"): [{"key": key, "value": f"title {key}"} for key in RECEIVERS],
    },
    "custom": {
        **{("source", state): rows for state, rows in SOURCE.items()},
        ("weights", "weight"): of_keys(weight=lambda key: (1000 * key).to_bytes(8, "big")),
    },
    "by-position": {
        **{("", state): rows for state, rows in SOURCE.items()},
        ("", "_default_"): [java(f"{which} {text}") for which in ("one", "two") for text in TEXTS],
    },
    "by-position-keyed": {
        **{("", state): rows for state, rows in SOURCE.items()},
        ("", "_default_"): [java(f"behind a window {text}") for text in TEXTS],
        ("", "count"): of_keys(count=both),
        ("", "window-contents"): of_keys(
            **{"window-contents": lambda key: [{"f0": key, "f1": f"letter {key + ten}"} for ten in (0, 10)]}
        ),
    },
}
NUMBER = {"udf": 42, "broadcast": 32, "custom": 16, "by-position": 6, "by-position-keyed": 6}
HASHES = {
    OperatorID.from_uid(uid).hex: uid
    for uid in ("source", "rules", "function", "by-long", "operator", "notes", "two", "one", "weights")
}


def job_of(path: Path) -> str:
    return path.name.rsplit("-", 3)[0]


def snapshots(corpus: Path, job: str) -> Iterator[tuple[str, Path]]:
    """The snapshots of a job with the names of their folders."""
    folders = sorted(path for path in (corpus / "datastream").iterdir() if job_of(path) == job)
    assert len(folders) == NUMBER[job]
    for folder in folders:
        (found,) = find_snapshots(str(folder))
        yield folder.name, Path(found.path)


def states(path: Path) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for listed in states_of(path):
        if listed["state"] is not None:
            yield (HASHES.get(listed["operator_uid_hash"], ""), listed["state"]), listed


def rows_of(path: Path, listed: dict[str, Any]) -> Rows:
    table = read_state(path, listed)
    assert table is not None
    return sorted(({name: row[name] for name in row if name not in PLACE} for row in table.to_pylist()), key=str)


@pytest.mark.filterwarnings("ignore::pyspark_savepoint.formats.errors.SavepointWarning")
@pytest.mark.parametrize("job", CONTENTS)
def test_every_state_holds_what_the_job_put_in(corpus: Path, job: str) -> None:
    expected = {place: sorted(rows, key=str) for place, rows in CONTENTS[job].items()}
    for name, path in snapshots(corpus, job):
        found: dict[tuple[str, str], Rows] = {}
        for place, listed in states(path):
            if listed["table"] != "timers":
                found[place] = sorted(found.get(place, []) + rows_of(path, listed), key=str)
        assert found == expected, name


@pytest.mark.filterwarnings("ignore::pyspark_savepoint.formats.errors.SavepointWarning")
def test_timers(corpus: Path) -> None:
    for name, path in snapshots(corpus, "udf"):
        found: dict[str, Rows] = {}
        for (uid, _), listed in states(path):
            if listed["table"] == "timers":
                found[uid] = rows_of(path, listed)  # of both clocks, from whichever of the two rows
        assert set(found) == {"function", "by-long", "operator"}, name
        for uid, rows in found.items():
            service = "waiting" if uid == "operator" else "user-timers"
            keys = [key if uid == "by-long" else {"f0": key} for key in RECEIVERS]
            for domain, sign in (("event", 1), ("processing", -1)):
                fired = [row for row in rows if (row["domain"], row["service"]) == (domain, service)]
                fired.sort(key=lambda row: str(row["key"]))
                assert [row["key"] for row in fired] == keys, (name, uid)
                assert [row["timestamp"] for row in fired] == [LATER + sign * key for key in RECEIVERS]
                if uid == "operator":
                    assert [row["namespace"] for row in fired] == list(RECEIVERS)
            assert len(rows) == 20, name


@pytest.mark.filterwarnings("ignore::pyspark_savepoint.formats.errors.SavepointWarning")
@pytest.mark.parametrize("job", CONTENTS)
def test_every_key_is_in_its_key_group(corpus: Path, job: str) -> None:
    kinds: Counter[str] = Counter()
    for name, path in snapshots(corpus, job):
        for _, listed in states(path):
            if listed["table"] in KEYED:
                kinds[listed["key_type"]] += 1
                assert list(misplaced_keys(path, listed)) == [], name
    assert set(kinds) <= {"TUPLE<LONG>", "LONG"}


def test_every_snapshot_is_of_a_known_job(corpus: Path) -> None:
    assert Counter(map(job_of, (corpus / "datastream").iterdir())) == NUMBER
