"""What users do, in a session of Spark Connect and on a cluster of two workers whose tasks fail and are killed.

One session of each kind does everything: a JVM and its workers take half a minute to start where others run, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.script import run_script

pytestmark = [pytest.mark.spark, pytest.mark.slow("sessions of their own: Spark Connect, a cluster")]

#: What is on stderr between the queries of someone who has only installed the package and the rest.
MARK = "-- all else --"

START = """
import io, json, os, shutil, signal, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
master, shop, lab, folder, mark, mistakes = sys.argv[1:]
os.chdir(folder)
builder = SparkSession.builder
if master == "connect":
    builder = builder.remote("local[2]")
else:
    builder = builder.master(master).config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    builder = builder.config("spark.python.daemon.module", "pyspark_savepoint.daemon")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.warehouse.dir", f"{folder}/warehouse")
spark = builder.getOrCreate()
"""

#: Nothing is imported: Spark itself finds the data source.
FOUND = """
rates = spark.read.format("savepoint").options(uid="currency-converter", state="rates").load(shop)
opaque = spark.read.format("savepoint").options(uid="kv-kryo", state="no-default").load(lab)
opaque.count()
opaque.filter("key = 1").count()
spark.sql(f"CREATE TEMPORARY VIEW orders USING savepoint OPTIONS (path '{shop}', uid 'warehouse-export', "
          "state 'pending_orders', parallelism 2)")
installed = {
    "rates": {row.key: row.value for row in rates.collect()},
    "orders": spark.sql("SELECT count(*) FROM orders").first()[0],
    "partitions": spark.sql("SELECT count(DISTINCT p) FROM (SELECT spark_partition_id() AS p FROM orders)").first()[0],
    "totals": spark.read.format("savepoint").option("uid", "accounts").load(shop).selectExpr("sum(total)").first()[0],
    "imported": "pyspark_savepoint" in sys.modules,
}
print(mark, file=sys.stderr, flush=True)
import pyspark_savepoint
from pyspark_savepoint import KeyedStateReaderFunction, Savepoint, key_by, show_progress
"""

LIVE = """
class Totals(KeyedStateReaderFunction):
    def open(self, ctx):
        self.total = ctx.get_state("total")
    def read_key(self, key, ctx):
        yield {"id": key, "total": self.total.value()}

sp = Savepoint.load(spark, shop)
lived = {"tree": "accounts" in sp._repr_html_() and "<" in sp._repr_html_()}
sp.create_tables()
lived["sql"] = list(spark.sql("SELECT count(*), sum(total) FROM accounts.keyed_state").first())
lived["rates"] = spark.sql("SELECT count(*) FROM currency_converter.rates").first()[0]
sp.drop_tables()
lived["left"] = [row[0] for row in spark.sql("SHOW DATABASES").collect()]
pyspark_savepoint.register(spark)
lived["states"] = spark.sql(f"SELECT count(*) FROM savepoint_states('{shop}')").first()[0]
lived["metadata"] = spark.sql(f"SELECT count(*) FROM savepoint_metadata('{shop}')").first()[0]
sizes = sp.inspect.sizes("accounts").where("state = 'total'")
lived["sizes"] = sizes.selectExpr("sum(entries)").first()[0]
lived["heaviest"] = sp.inspect.heaviest_keys("accounts", top=2).where("state = 'total'").count()
lived["ages"] = sp.inspect.ttl_ages("accounts").where("units > 0").count()
read = sp.read_keyed_state("accounts", Totals(), "id long, total long")
lived["function"] = list(read.selectExpr("count(*)", "sum(total)").first())
printed = io.StringIO()
with redirect_stdout(printed), redirect_stderr(printed), show_progress(spark, "writing"):
    fixed = sp.remove_keys("accounts", sp.keyed_state("accounts").where("key < 1010").select("key"))
    fixed = fixed.write(f"{folder}/job/savepoint-2")
lived["progress"] = printed.getvalue()
shutil.copytree(shop, f"{folder}/job/savepoint-1")
lived["changed"] = sp.diff(fixed, "accounts").count()
lived["history"] = pyspark_savepoint.history(spark, f"{folder}/job", "accounts", state="total").count()
daemon = udf(lambda _: sys.modules["__main__"].__spec__.name)
lived["daemon"] = spark.range(1).select(daemon("id")).first()[0]
"""

RETRIED = """
def broken(batches):
    # The first attempt of one task fails with rows written, that of another is killed. No task is run twice at once:
    # the cluster has one host; tests/faults/test_clusters.py has one of several.
    context = TaskContext.get()
    place = (context.partitionId(), context.attemptNumber())
    for batch in batches:
        yield batch
    if place == (0, 0):
        raise RuntimeError("first attempt")
    if place == (1, 0):
        os.kill(os.getpid(), signal.SIGKILL)

def save(name, frame, **options):
    path = f"{folder}/saved/{name}"
    frame.write.format("savepoint").options(uid="op", **options).mode("append").save(path)
    back = spark.read.format("savepoint").option("uid", "op").load(path)
    return [back.count(), back.selectExpr("sum(n)").first()[0], sorted(os.listdir(path)).index("_metadata") >= 0,
            sum(entry.startswith(".") for entry in os.listdir(path)), len(os.listdir(path))]

frame = spark.range(0, 20000, 1, 4).selectExpr("id AS key", "id * 2 AS n")
laid_out = key_by(frame, "key", max_parallelism=128, parallelism=4)
text = frame.selectExpr("concat('k', key) AS key", "n")
written = {}
if master == "connect":
    written["plain"] = save("plain", frame, parallelism="2")
    written["laid out"] = save("laid_out", laid_out)
    written["by arrow"] = save("by_arrow", key_by(text, "key", parallelism=2))
else:
    written["retried"] = save("retried", frame.mapInArrow(broken, frame.schema), parallelism="2")
    written["retried final"] = save("final", laid_out.mapInArrow(broken, laid_out.schema), parallelism="4")
"""

FLUENT = """
frame = spark.range(0, 20, 1, 2).selectExpr("id AS key", "id * 2 AS n", "concat('t', id) AS t")
timers = frame.selectExpr("key", "n AS timestamp", "'event' AS domain")

def read(path, **options):
    return spark.read.format("savepoint").options(**options).load(path)

def here(path):
    # Connect has a folder for the session's processes, where nothing is to be written.
    return f"{folder}/{path}" if master == "connect" else path

def rows(frame):
    return sorted(json.dumps(row.asDict()) for row in frame.collect())

# Relative, where the JVM began: the plain writer, and the tasks of a table that opens the path again.
frame.write.format("savepoint").options(uid="a").mode("append").save(here("out/sp"))
timers.write.format("savepoint").options(uid="a", table="timers").mode("append").save(here("./out/sp"))
frame.write.format("savepoint").options(uid="b", typesFrom=here("out/sp#a")).mode("append").save(here("out/../out/sp"))
fluent = {"tables": read(here("out/sp")).count()}
fluent["read"] = rows(read(here("out/sp"), uid="a", state="n")) == rows(frame.select("key", "n"))
fluent["uid hashes"] = read(here("out/sp"), table="metadata").count()

if master == "connect":
    try:
        frame.write.format("savepoint").options(uid="a").mode("append").save("out/lost")
    except Exception as error:
        fluent["refused"] = "an absolute path or a URI" in str(error)

# A notebook that goes elsewhere stays in the same session.
if master != "connect":
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
sp = Savepoint.load(spark, "out/sp")
fixed = sp.keyed_state("a", state="n").selectExpr("key", "n + 1 AS n")
changed = (sp.with_state("a", "n", fixed).remove_keys("a", spark.range(3, 4)).remove_operator("b")
    .with_operator("c", key_by(frame, "key", types_from="out/sp#a"), key="key", types_from="out/sp#a")
    .with_timers("c", timers).write("out/next"))
wanted = frame.where("key <> 3").selectExpr("key", "n + 1 AS n", "t")
fluent["fluent"] = rows(read(here("out/next"), uid="a")) == rows(wanted)
fluent["timers"] = [read(here("out/next"), uid=uid, table="timers").count() for uid in "ac"]
fluent["new"] = rows(changed.keyed_state("c")) == rows(frame)
created = Savepoint.create(spark).with_operator("d", frame).write("out/own")
fluent["created"] = rows(created.keyed_state("d")) == rows(frame)
"""

#: What the script evaluates on Connect, the plain sentence of the error, and what there is to do.
MISTAKES = {
    "read(shop, uid='acounts')": ("the snapshot has no such operator", "did you mean 'accounts'?"),
    "read(shop, uid='accounts', state='totl')": ("the operator has no state 'totl'", "did you mean 'total'?"),
    "read(shop, uid='accounts', sate='total')": ("there is no option 'sate'", "did you mean 'state'"),
    "read(shop, uid='accounts', memory='64 bananas')": ("'memory' is '64 bananas'", "expected a size from 1m to 1t"),
    "read(shop, uid='accounts', keys='1, 2')": ("option 'keys' is '1, 2'", "expected a JSON list of keys"),
    "read(shop, uid='accounts', keys='[\"a\"]')": ("key must be a value of int64", "to do: give a whole number"),
    "read(shop, uid='accounts', keyGroups='0-999')": ("'keyGroups' is out of the range", "expected: 0 to 127"),
    "read(f'{folder}/nothing')": ("there is no file or folder at this path", "to do: "),
    "read(f'{folder}/iceberg')": ("there is no snapshot in this folder", "to do: give the folder of a completed"),
    "read(shop, uid='accounts').where(\"key = 'x'\").collect()": ("cannot be cast to", "Use `try_cast`"),
    "spark.readStream.format('savepoint').option('uid', 'acounts').load(shop)": ("no such operator", "'accounts'?"),
    "streamed(spark.readStream.format('savepoint').option('uid', 'accounts').load(shop))": (
        "a savepoint is not a stream",
        "to do: readStream with the folder of the job's checkpoints",
    ),
    "write('2L AS n', key='idd')": ("there is no column 'idd' for the key", "did you mean 'id'?"),
    "write('NULL AS n')": (
        "has a type without a counterpart in Flink",
        "to do: its values are all NULL: give the column a type",
    ),
    "write('2L AS n, CAST(NULL AS BIGINT) AS k', key='k')": (
        "column 'k' is NULL in some rows",
        "leave the rows out in which 'k' is NULL",
    ),
    "write('array(1L, NULL) AS n')": ("a value of LONG cannot be null", "to do: filter these rows"),
    "write('2L AS n', mode='error')": ("cannot be written in the", 'use either the "Append" or "Overwrite" mode'),
    "write('2L AS n', path='iceberg')": ("found: an Iceberg table: data/, metadata/", "to do: name a new folder"),
    "write('2L AS n', path=None).saveAsTable('mistaken')": ("no path is given", "write by save(path)"),
    "sp.with_state('accounts', 'total', [(1, 2)])": ("must be given as a DataFrame of Spark", "createDataFrame"),
    "sp.with_state('accounts', 'total', spark.sql(\"SELECT 1L AS key, 'x' AS total\"))": (
        "column 'total' cannot be written as LONG",
        "to do: cast it to bigint",
    ),
    "sp.remove_keys('accounts', spark.sql(\"SELECT 'a' AS key\"))": (
        "column 'key' cannot be written as LONG",
        "to do: cast it to bigint",
    ),
    "sp.remove_keys('accounts', ['a'])": ("key must be a value of int64", "to do: give a whole number"),
    "sp.with_operator('new', spark.sql('SELECT 1L AS v, CAST(NULL AS BIGINT) AS key')).write(f'{folder}/mistaken')": (
        "operator: new (",
        "to do: leave the rows out in which",
    ),
    "sp.remove_operator('accounts').write(f'{folder}/out/next')": (
        "a savepoint exists at this path",
        "write to a new path",
    ),
}

MISTAKEN = """
def write(columns, mode="append", path="mistaken", **options):
    given = {"uid": "x", "key": "id"} | options
    writer = spark.sql(f"SELECT 1L AS id, {columns}").write.format("savepoint").options(**given).mode(mode)
    return writer if path is None else writer.save(f"{folder}/{path}")

def streamed(frame):
    query = frame.writeStream.format("noop").option("checkpointLocation", f"{folder}/streamed").start()
    query.processAllAvailable()

def said(mistake):
    try:
        made = eval(mistake)
        if isinstance(made, Savepoint):
            made.write(f"{folder}/mistaken")
        elif made is not None:
            made.schema
    except Exception as error:
        return str(error).partition("JVM stacktrace")[0]

told = {}
if master == "connect":
    sp = Savepoint.load(spark, shop)
    for name in ("metadata/v1.metadata.json", "data/00000-0.parquet"):
        Path(f"{folder}/iceberg", name).parent.mkdir(parents=True)
        Path(f"{folder}/iceberg", name).touch()
    told = {mistake: said(mistake) for mistake in json.loads(mistakes)}
"""

END = """
spark.stop()
fluent["folders"] = sorted(
    str(path.parent.relative_to(folder))
    for path in Path(folder).rglob("_metadata") if path.relative_to(folder).parts[0] not in ("saved", "job")
)
print(json.dumps({"installed": installed, "lived": lived, "written": written, "fluent": fluent, "told": told}))
"""


class Session:
    """What one session read and wrote."""

    def __init__(self, master: str, shop: Path, lab: Path, folder: Path) -> None:
        """Run everything."""
        self.connect = master == "connect"
        script = START + FOUND + LIVE + RETRIED + FLUENT + MISTAKEN + END
        mistakes = json.dumps(list(MISTAKES))
        self.found, messages = run_script(script, master, str(shop), str(lab), str(folder), MARK, mistakes)
        #: What the first queries print on stderr.
        self.messages = messages.partition(MARK)[0]


@pytest.fixture(scope="module", params=["connect", "local-cluster[2,1,1024]"])
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shop: Path, corpus: Path
) -> Session:
    lab = corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint"
    return Session(request.param, shop, lab, tmp_path_factory.mktemp("session"))


def test_spark_finds_what_is_installed(session: Session, shop_states: dict[str, Any]) -> None:
    assert session.found["installed"] == {
        "rates": dict(shop_states["rates"]),
        "orders": len(shop_states["pending_orders"]),
        "partitions": 2,
        "totals": sum(value for _, _, value in shop_states["total"]),
        "imported": False,
    }
    # Once for one load, however often it is queried; Connect may analyse each query again (PySpark 4.0 does).
    assert 1 <= session.messages.count("WARNING savepoint: ") <= (2 if session.connect else 1)


def test_a_savepoint_is_lived_with(session: Session, shop_states: dict[str, Any]) -> None:
    """SQL alone, surveys, differences, functions."""
    found = dict(session.found["lived"])
    total = sum(value for _, _, value in shop_states["total"])
    assert found.pop("daemon") == ("pyspark.daemon" if session.connect else "pyspark_savepoint.daemon")
    assert found.pop("progress").startswith("writing: ")
    assert found == {
        "tree": True,
        "sql": [200, total],
        "rates": len(shop_states["rates"]),
        "left": ["default"],
        "states": 17,
        "metadata": 7,
        "sizes": 200,
        "heaviest": 2,
        "ages": 1,
        "function": [200, total],
        "changed": 9,
        "history": 391,
    }


def test_tasks_that_fail_and_are_killed(session: Session) -> None:
    found = session.found["written"]
    assert len(found) == (3 if session.connect else 2)
    for what, (count, total, published, hidden, files) in found.items():
        assert (count, total, published, hidden) == (20000, 19999 * 20000, True, 0), what
        assert files == 1 + (4 if what in ("laid out", "retried final") else 2), what


def test_fluent_writes_and_relative_paths(session: Session) -> None:
    """On Connect too; and every process means the same folder, also where tasks run in one of their own."""
    found = dict(session.found["fluent"])
    assert found.pop("refused", False) == session.connect
    assert found == {
        "tables": 6,
        "read": True,
        "uid hashes": 2,
        "fluent": True,
        "timers": [19, 20],
        "new": True,
        "created": True,
        "folders": ["out/next", "out/own", "out/sp"],
    }


def test_mistakes_on_connect(session: Session) -> None:
    """The client gets the plain sentence and what to do; ``test_mistakes.py`` has more."""
    told = session.found["told"]
    assert list(told) == (list(MISTAKES) if session.connect else [])
    for mistake, said in told.items():
        assert said is not None, mistake
        assert [part for part in MISTAKES[mistake] if part not in said] == [], (mistake, said)
        assert said.count("pyspark_savepoint/") <= 2, mistake  # where it is raised
