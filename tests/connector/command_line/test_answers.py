"""Questions and answers: each line of the page runs, and command help finds it by words."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from pyspark_savepoint import errors
from pyspark_savepoint.command_line.answers import PAGE, answers
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.connector.command_line.conftest import Run
from tests.remote.measured_store import measured_store
from tests.remote.storage import CREDENTIALS

#: Answers with another exit code than 0: what they look for is there.
FINDINGS = {
    "pyspark-savepoint changes /checkpoints/7d2e accounts": 1,
    "pyspark-savepoint erase /savepoints/savepoint-2f1a3c /savepoints/new --keys 1042 --dry-run": 1,
    "pyspark-savepoint diff /savepoints/savepoint-2f1a3c /savepoints/fixed": 1,
    "pyspark-savepoint diff /savepoints/savepoint-2f1a3c /savepoints/fixed accounts": 1,
    "pyspark-savepoint schema /savepoints/fixed --check schema.json": 1,
}
#: What does not run here: a query starts Spark, files of this savepoint have no prefix, its job has no SQL, and
#: following has no end. Tests of their own have a store and a job's jar.
ELSEWHERE = ("--sql", " relocate ", " evolve ", "://", "job.jar", "--follow")


@pytest.fixture
def places(shop: Path, corpus: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The paths of the page: a savepoint, an edited one, a folder of checkpoints, and files of the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("rates.jsonl").write_text('{"key": "EUR", "value": 1.1}\n')
    Path("totals.csv").write_text("key,total\n1042,7\n1043,8\n")
    fixed = tmp_path / "fixed"
    folder = corpus / "history" / "2.3.0-hashmap" / "checkpoints"
    newest = max(folder.rglob("_metadata"), key=lambda path: int(path.parent.name.removeprefix("chk-"))).parent
    one, two = tmp_path / "one", tmp_path / "two"
    assert run("split", shop, "--to", one, "accounts", "--rest", two, "--quiet").code == 0
    assert run("remove", shop, fixed, "accounts.coupon", "--quiet").code == 0
    assert run("schema", shop, "--file", "schema.json").code == 0
    damaged = Path(shutil.copytree(shop, tmp_path / "damaged"))
    max(damaged.iterdir(), key=lambda file: file.stat().st_size * (file.name != "_metadata")).unlink()
    return {
        "/savepoints/savepoint-2f1a3c": shop,
        "/savepoints/fixed": fixed,
        "/savepoints/damaged": damaged,
        "/savepoints/of-pyflink": next((corpus / "real" / "pyf-120").rglob("_metadata")).parent,
        "/savepoints/without-uids": corpus / "datastream" / "by-position-keyed-hashmap-savepoint-1.15",
        "/savepoints/orders": next((corpus / "connectors" / "2.3.0-kafka-v5.0.0").glob("savepoint-*")),
        "/savepoints/one": one,
        "/savepoints/two": two,
        "/checkpoints/7d2e": folder,
        "/checkpoints/7d2e/chk-1": newest,
    }


def test_each_answer_runs(places: dict[str, Path], run: Run, tmp_path: Path, shop: Path) -> None:
    wrong = []
    for number, (_, line) in enumerate(answers()):
        if any(word in line for word in ELSEWHERE):
            continue
        new = tmp_path / f"new-{number}"
        if line.startswith("python -c "):
            exec(shlex.split(line)[2].replace("/savepoints/savepoint-2f1a3c", str(shop)), {})
            continue
        words = [_placed(word, places, new) for word in shlex.split(line)[1:]]
        ran = run(*words)
        if ran.code != FINDINGS.get(line, 0):
            wrong.append(f"{line}\n  {ran.code}: {ran.err.strip()[-600:]}")
        shutil.rmtree(new, ignore_errors=True)
    assert not wrong, "\n".join(wrong)


def answering(question: str) -> list[str]:
    """The words of the only line that answers a question with these words, without the program's name."""
    (line,) = [answer.line for answer in answers() if question in answer.question]
    return shlex.split(line)[1:]


def test_the_answer_about_another_endpoint(shop: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of.cache_clear()
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)
    with measured_store() as store:
        store.upload(shop, "savepoint-2f1a3c")
        words = answering("MinIO")
        done = run(*(word.replace("http://minio:9000", store.endpoint) for word in words))
        assert words[-2:] == ["--storage-option", "endpoint=http://minio:9000"]
    store_of.cache_clear()
    assert (done.code, done.out.splitlines()[1:]) == (0, run("ls", shop).out.splitlines()[1:])


def test_the_answer_about_the_job_s_jar(corpus: Path, run: Run, tmp_path: Path) -> None:
    """Kryo wrote objects of an inner class of the job, whose class files are in a jar."""
    classes = shutil.make_archive(str(tmp_path / "job"), "zip", corpus / "migration" / "classes")
    jar = Path(classes).rename(tmp_path / "job.jar")
    of_kryo = corpus / "migration" / "cases" / "kryo-u-inner" / "1.20.5-hashmap"
    given = [
        word.replace("/savepoints/of-kryo", str(of_kryo)).replace("job.jar", str(jar)) for word in answering("Kryo")
    ]
    assert run(*given, "--json").records == [{"key": 0, "v": {"b": 2}}]
    without = run(*given[:-2], "--json")
    assert isinstance(without.records[0]["v"], str)  # of bytes
    assert "classes" in without.err


def _placed(word: str, places: dict[str, Path], new: Path) -> str:
    """A word of an answer with the path that stands for it here."""
    if word in places:
        return str(places[word])
    return word.replace("/savepoints/", f"{new}/") if word.startswith("/savepoints/") else word


def test_the_page_has_questions_alone() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and "?" in line]
    assert len(rows) == len(answers()) >= 50
    assert len({answer.question for answer in answers()}) == len(rows)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("largest", "state"), "sizes"),
        (("rename", "operator"), "rename"),
        (("Kafka",), "offsets"),
        (("why", "restore"), "check-restore"),
        (("fix", "keys"), "put"),
        (("GDPR",), "erase"),
        (("damaged", "checkpoint"), "verify"),
        (("SQL", "query", "keep"), "evolve"),
        (("changed", "SQL", "query"), "evolve"),
        (("renamed", "class"), "rename-class"),
        (("TTL", "last", "used"), "show"),
        (("native", "to", "canonical"), "cp"),
        (("salvage",), "salvage"),
        (("golden", "test"), "create"),
        (("PyFlink",), "show"),
        (("uids", "for", "a", "plan"), "rename"),
        (("biggest", "state"), "sizes"),
        (("is", "savepoint", "corrupted"), "verify"),
        (("compare", "two", "savepoints"), "diff"),
        (("list", "checkpoints", "size", "date"), "ls"),
        (("delete", "old", "checkpoints"), "retained"),
        (("broken", "checkpoint", "recover"), "salvage"),
        (("reset", "kafka", "offset"), "set-offsets"),
        (("only", "two", "columns"), "show"),
        (("state", "to", "csv"), "export"),
        (("upsert",), "put"),
        (("key", "type"), "rekey"),
        (("checkpoint", "id"), "cp"),
        (("remove", "timers"), "remove"),
        (("convert", "checkpoint", "to", "savepoint"), "cp"),
        (("count", "keys", "per", "key", "group"), "sizes"),
        (("timers", "due", "before", "now"), "show"),
        (("which", "operators", "have", "timers"), "show"),
        (("copy", "broadcast", "state", "to", "another", "job"), "export"),
        (("unaligned", "in-flight", "data"), "show"),
        (("make", "savepoint", "smaller"), "put"),
        (("what", "does", "this", "error", "mean"), "help"),
        (("which", "Flink", "release", "wrote", "this"), "ls"),
        (("give", "one", "key", "another", "value"), "put"),
        (("cron",), "verify"),
        (("Delta", "daily"), "export"),
        (("Azure", "SAS", "token"), "ls"),
    ],
)
def test_words_find_answers(run: Run, words: tuple[str, ...], command: str) -> None:
    ran = run("help", *words)
    assert ran.code == 0
    assert f"pyspark-savepoint {command} " in "\n".join(ran.out.splitlines()[:4])  # the first answer, or the second


def test_words_find_the_oldest_entry(run: Run) -> None:
    assert "ttl_ages()" in run("help", "oldest", "TTL", "entry").out.splitlines()[1]


@pytest.mark.parametrize("word", ["kubernetes", "yarn", "EMR", "serverless", "Databricks"])
def test_words_find_pages(run: Run, word: str) -> None:
    ran = run("help", word)
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "Page: Run on a cluster or platform"
    assert Path(ran.out.splitlines()[1].strip()).name == "clusters.md"
    assert run("help", word, "--json").records[0] == {"page": "clusters.md", "title": "Run on a cluster or platform"}


def test_each_error_is_found(run: Run) -> None:
    for name in errors.__all__:
        if name != "SavepointError":
            ran = run("help", name.upper())
            assert ran.code == 0
            assert ran.out.startswith(f"{name}\n")


@pytest.mark.parametrize(("word", "page"), [("proxy", "README.md"), ("Beam", "formats/README.md")])
def test_words_of_the_reference_alone_find_its_sections(run: Run, word: str, page: str) -> None:
    title, place = run("help", word).out.splitlines()[:2]
    assert title.startswith("Section: ")
    assert place.partition("#")[0].endswith(f"pyspark_savepoint/{page}")


def test_words_that_no_question_has(run: Run) -> None:
    assert run("help", "zeppelin").code == 1
