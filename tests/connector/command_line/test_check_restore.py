"""check-restore: exit codes that agree with real Flink's outcome, JSON and JUnit XML."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.connector.command_line.conftest import Run
from tests.connector.command_line.test_doctor import keyed

README = Path(__file__).parents[3] / "connector" / "command_line" / "README.md"

ACCOUNTS = {
    "uid": "accounts",
    "key": "LONG",
    "states": {"total": "LONG"},
}


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def written(**changes: Any) -> Path:
        path = tmp_path / "job.json"
        classes = ["oracle.Shop$Profile", "oracle.Shop$Tier"]
        path.write_text(json.dumps({"operators": [{**ACCOUNTS, **changes}], "javaClasses": classes}))
        return path

    return written


def test_the_job_that_took_it_restores_it(run: Run, shop: Path) -> None:
    done = run("check-restore", shop, shop)
    assert (done.code, done.out.splitlines()[-1]) == (0, "Flink restores the snapshot.")


@pytest.mark.parametrize(
    ("changes", "options", "code"),
    [
        ({}, ["--allow-non-restored-state"], 0),
        ({}, [], 1),  # the other operators are left behind
        ({"states": {"total": "STRING"}}, ["--allow-non-restored-state"], 1),
        ({"maxParallelism": 64}, ["--allow-non-restored-state"], 1),
        ({"states": None}, ["--allow-non-restored-state"], 2),
        ({"states": {"new": "LONG"}}, ["--allow-non-restored-state", "--flink", "2.3"], 0),
    ],
)
def test_exit_codes(run: Run, shop: Path, job: Any, changes: dict[str, Any], options: list[str], code: int) -> None:
    assert run("check-restore", shop, job(**changes), *options).code == code


def test_types_that_are_not_described_are_no_promise(run: Run, shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"operators": [{"uid": "accounts"}]}')
    done = run("check-restore", shop, path, "--allow-non-restored-state", "--json")
    assert done.code == 3
    (record,) = done.records
    assert record["restores"] is None
    assert record["types_not_described"] == ["'accounts'"]
    assert run("check-restore", shop, path, "--allow-non-restored-state", "--ids-only").code == 0


def test_junit_and_json(run: Run, shop: Path, job: Any, tmp_path: Path) -> None:
    target = tmp_path / "restore.xml"
    done = run("check-restore", shop, job(states={"total": "STRING"}), "--json", "--junit", target)
    (record,) = done.records
    assert record["restores"] is False
    verdicts = {row["operator_uid"]: row["verdict"] for row in record["operators"]}
    assert verdicts["accounts"] == "fails"
    suite = ElementTree.parse(target).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("7", "6")
    failed = {case.get("name"): case.find("failure") for case in suite}
    assert failed["accounts"] is not None
    assert "LONG versus STRING" in str(failed["accounts"].text)
    assert failed["orders-parser"] is None
    # What every reader of JUnit XML needs, after Jenkins' junit-10.xsd and those that are stricter.
    assert suite.tag == "testsuite"
    assert {"name", "tests", "failures", "errors", "skipped"} <= set(suite.keys())
    assert all(case.tag == "testcase" and case.get("name") and case.get("classname") for case in suite)
    assert {part.tag for case in suite for part in case} <= {"failure", "skipped", "system-out"}
    assert all(part.get("type") and part.get("message") for part in suite.iter("failure"))


def test_the_steps_that_the_readme_has_for_github_actions(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run them in a user's folder, with a job that restores the savepoint, and then with one that does not."""
    monkeypatch.chdir(tmp_path)
    keyed(tmp_path / "golden", 10)
    described = {"uid": "totals", "key": "LONG", "states": {"value": "STRING"}}
    Path("job.json").write_text(json.dumps({"operators": [described]}))
    assert run("schema", "golden", "--file", "golden/schema.json").code == 0
    steps = [shlex.split(step) for step in re.findall(r"^- run: pyspark-savepoint (.+)$", README.read_text(), re.M)]
    assert [step[0] for step in steps] == ["check-restore", "schema"]
    assert [run(*step).code for step in steps] == [0, 0]
    assert ElementTree.parse("restore.xml").getroot().get("failures") == "0"
    Path("job.json").write_text(json.dumps({"operators": [{**described, "key": "STRING"}]}))
    Path("golden/schema.json").write_text(Path("golden/schema.json").read_text().replace("STRING", "LONG"))
    assert [run(*step).code for step in steps] == [1, 1]


@pytest.mark.parametrize("text", ["{", "[]", '{"operators": 3}', '{"operators": [{"uid": "a", "sates": {}}]}'])
def test_what_describes_no_job(run: Run, shop: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.json"
    path.write_text(text)
    done = run("check-restore", shop, path)
    assert done.code == 2
    assert done.err.startswith("error: ")


@pytest.mark.parametrize(("field", "nearest"), [("uidd", "uid"), ("maxparalelism", "maxParallelism")])
def test_fields_of_the_file_stay_as_they_are_written(run: Run, shop: Path, job: Any, field: str, nearest: str) -> None:
    """They are no arguments of the command, which it would spell UID."""
    done = run("check-restore", shop, job(**{field: "a"}))
    assert (done.code, f'to do: did you mean "{nearest}"' in done.err) == (2, True), done.err


def test_the_file_of_schema_is_a_description(run: Run, shop: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    assert run("schema", shop, "--file", schema).code == 0
    same = run("check-restore", shop, schema)
    assert same.code == 0, same.out
    changed = schema.read_text().replace('"value": "MAP<STRING, LONG>"', '"value": "MAP<STRING, INT>"')
    schema.write_text(changed)
    other = run("check-restore", shop, schema)
    assert other.code == 1
    assert "spent_by_currency" in other.out


def test_the_schema_names_hashes_as_hashes(run: Run, corpus: Path, tmp_path: Path) -> None:
    schema, path = tmp_path / "schema.json", corpus / "lab" / "1.20.5-hashmap-native" / "savepoint"
    assert run("schema", path, "--file", schema).code == 0
    operators = json.loads(schema.read_text())["operators"]
    assert operators
    assert all(set(operator) == {"uidHash", "states"} for operator in operators)
    assert run("check-restore", path, schema).code == 0
    former = [{"uid": operator["uidHash"], "states": operator["states"]} for operator in operators]
    schema.write_text(json.dumps({"operators": former}))
    assert run("check-restore", path, schema).code == 0
    assert run("schema", path, "--check", schema).code == 0


def test_a_plan_without_uids_is_undecided(run: Run, shop: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"nodes": [{"id": 1, "type": "Source: orders", "parallelism": 1}]}))
    ran = run("check-restore", shop, plan, "--ids-only")
    assert ran.code == 3
    assert "an execution plan does not contain" in ran.out
    assert '"settings"' in ran.out
