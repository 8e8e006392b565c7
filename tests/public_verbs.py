"""Every public method once, in an environment with only what README installs: no pandas, no test tools.

    python -m tests.public_verbs

Plain Python, so that it needs no package of its own. A verb that is added to ``Savepoint`` or to the package's names is
missed here until it is called. Verbs that edit are called as in ``tests/shop_edits.py``, and many of them in one plan.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import pyspark_savepoint
from pyspark_savepoint import (
    BroadcastStateBootstrapFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    MapStateDescriptor,
    OperatorTransformation,
    Savepoint,
    StreamGraph,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowReaderFunction,
    key_by,
)
from pyspark_savepoint.api.inspection import Inspection
from pyspark_savepoint.api.jobs import JobRestore
from pyspark_savepoint.api.sinks import Sinks
from pyspark_savepoint.api.sources import Sources
from pyspark_savepoint.errors import OptionError, SavepointError
from tests.shop_edits import EDITS
from tests.short_lived_jvm import SUBMIT_ARGUMENTS

SHOP = Path(__file__).parent / "oracle" / "savepoints" / "shop" / "savepoint"
ACCOUNTS, WINDOWS, RATES, ORDERS = "accounts", "orders-per-minute", "currency-converter", "warehouse-export"

#: A source, the state of an enumerator of numbers without splits, and a split of numbers.
SOURCE, NO_NUMBERS = "rates-source", bytes.fromhex("00000001 00000001 00000004 00000000")
NUMBERS = {"split_id": "1", "next": 0, "to": 9}


class Totals(KeyedStateBootstrapFunction):
    """A sum per key, and a timer."""

    def open(self, ctx: Any) -> None:
        """Register the state."""
        self.total = ctx.get_state(ValueStateDescriptor("total", "DOUBLE"))

    def process_element(self, value: Any, ctx: Any) -> None:
        """Add up."""
        self.total.update((self.total.value() or 0.0) + value.amount)
        ctx.timer_service().register_event_time_timer(value.ts)


class Passed(KeyedProcessFunction):
    """The keys of records."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Yield the key."""
        yield (value.id,)


class Rules(BroadcastStateBootstrapFunction):
    """A broadcast state of amounts."""

    rules = MapStateDescriptor("rules", "INT", "DOUBLE")

    def process_element(self, value: Any, ctx: Any) -> None:
        """Keep the amount."""
        ctx.get_broadcast_state(self.rules).put(value.id, value.amount)


class Keys(KeyedStateReaderFunction):
    """The keys that have a total."""

    def open(self, ctx: Any) -> None:
        """Register the state."""
        self.total = ctx.get_state("total")

    def read_key(self, key: Any, ctx: Any) -> Any:
        """Yield the key."""
        yield (key,)


class Contents(WindowReaderFunction):
    """How many elements windows have."""

    def read_window(self, key: Any, ctx: Any, elements: Any) -> Any:
        """Yield a number."""
        yield (len(list(elements)),)


def refused(verb: Callable[[str], object]) -> None:
    """Call a method, or a function, for which an operator has no state."""
    try:
        verb(RATES)
    except SavepointError:
        return
    raise AssertionError("not refused")


def drawn_or_needed(sp: Any) -> None:
    """Draw a figure, which needs a package that README does not install: the error names it."""
    try:
        assert sp.inspect.plot.sizes().axes
    except OptionError as error:
        if "pyspark-savepoint[plot]" not in str(error):
            raise


def written_or_needed(sp: Savepoint, path: Path) -> None:
    """Write a report, which needs packages that README does not install: the error names them."""
    try:
        assert Path(sp.inspect.report(path)).is_file()
    except OptionError as error:
        if "pyspark-savepoint[report]" not in str(error):
            raise


class Verbs:
    """The calls and their results."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.called: set[str] = set()
        self.failed: list[str] = []

    def run(self, name: str, action: Callable[[], Any]) -> Any:
        """Call a verb; a DataFrame that it gives must have rows, a savepoint must be written."""
        self.called.add(name)
        begin = time.monotonic()
        try:
            result = action()
            if isinstance(result, DataFrame):
                assert result.collect(), "no rows"
        except Exception as error:
            self.failed.append(name)
            print(f"FAILED  {name}: {type(error).__name__}: {str(error)[:500]}", flush=True)
            return None
        print(f"{time.monotonic() - begin:6.1f} s  {name}", flush=True)
        return result

    # -- reading -----------------------------------------------------------------------------------------------

    def read(self) -> Savepoint:
        """Tables, functions, listings."""
        sp = self.run("load", lambda: Savepoint.load(self.spark, str(SHOP)))
        self.run("open", lambda: pyspark_savepoint.open(SHOP).keyed_state(ACCOUNTS).to_arrow())
        self.run("open_changes", lambda: pyspark_savepoint.open_changes(SHOP, "accounts").to_arrow())
        self.run("open_history", lambda: pyspark_savepoint.open_history(SHOP.parent).to_arrow())
        self.run("open_retained", lambda: pyspark_savepoint.open_retained(SHOP.parent).to_arrow())
        self.run("pin", lambda: Savepoint.load(self.spark, SHOP).pin(str(self.folder / "held")))
        self.run("vacuum", lambda: Savepoint.vacuum(SHOP, dry_run=True))
        self.run("table", lambda: sp.table())
        for name in ("states", "metadata"):
            self.run(name, getattr(sp, name))
        for name in ("sizes", "heaviest_keys"):
            self.run(name, getattr(sp.inspect, name))
        self.run("ttl_ages", lambda: sp.inspect.ttl_ages().schema)
        self.run("keyed_state", lambda: sp.keyed_state(ACCOUNTS, keys=[1042]))
        self.run("window_state", lambda: sp.window_state(WINDOWS))
        self.run("timers", lambda: sp.timers(ACCOUNTS))
        self.run("find_keys", lambda: sp.find_keys([1042]))
        self.run("changes", lambda: sp.changes(ACCOUNTS))
        self.run("list_state", lambda: sp.list_state(ORDERS, "pending_orders"))
        self.run("operator_state", lambda: sp.operator_state(RATES, "rates"))
        self.run("union_state", lambda: sp.union_state(ORDERS, "pending_orders"))
        self.run("broadcast_state", lambda: sp.broadcast_state(RATES, "rates"))
        self.run("read_keyed_state", lambda: sp.read_keyed_state(ACCOUNTS, Keys(), "key long"))
        self.run("read_window", lambda: sp.read_window(WINDOWS, Contents(), "n int"))
        self.run("verify", lambda: sp.inspect.verify())
        self.run("doctor", lambda: sp.inspect.doctor("size=1KB"))
        self.run("report", lambda: written_or_needed(sp, self.folder / "report.html"))
        self.run("plot", lambda: drawn_or_needed(sp))
        damaged = Path(shutil.copytree(SHOP, self.folder / "damaged"))
        max(damaged.iterdir(), key=lambda file: file.stat().st_size * (file.name != "_metadata")).unlink()
        self.run("losses", lambda: Savepoint.load(self.spark, str(damaged)).losses())
        left = str(self.folder / "left")
        self.run("salvage", lambda: Savepoint.load(self.spark, str(damaged)).salvage().write(left))
        erased = str(self.folder / "erased")
        report = self.run("erase", lambda: sp.erase([1042], to=erased, below=self.folder))
        self.run("verify_erasure", lambda: Savepoint.load(self.spark, erased).verify_erasure(report, [1042]))
        self.run(
            "check_hash_code", lambda: sp.inspect.check_hash_code(ACCOUNTS, lambda key: (key ^ key >> 32) & 0xFFFFFFFF)
        )
        self.run("offsets", lambda: sp.sources.offsets().schema)  # the shop's source has no splits left
        self.run("read_list_state", lambda: sp.read_list_state(ORDERS, "pending_orders"))
        self.run("read_union_state", lambda: sp.read_union_state(ORDERS, "pending_orders"))
        self.run("read_broadcast_state", lambda: sp.read_broadcast_state(RATES, "rates"))
        self.run("is_portable", lambda: sp.is_portable)
        self.run("create_tables", sp.create_tables)
        self.run("drop_tables", sp.drop_tables)
        self.run(
            "create_tables of a folder", lambda: pyspark_savepoint.create_tables(self.spark, SHOP.parent, prefix="all")
        )
        self.run("drop_tables of a folder", lambda: pyspark_savepoint.drop_tables(self.spark, SHOP.parent))
        self.run("register", lambda: pyspark_savepoint.register(self.spark))
        self.run("SQL", lambda: self.spark.sql(f"SELECT * FROM savepoint_states('{SHOP}')"))
        self.run("history", lambda: pyspark_savepoint.history(self.spark, str(SHOP)))
        self.run("initial_state", lambda: pyspark_savepoint.initial_state(sp, ACCOUNTS))
        # The shop's source has no splits left, and the shop is not a checkpoint of Spark.
        self.run("starting_offsets", lambda: refused(lambda _: pyspark_savepoint.starting_offsets(sp)))
        for name in ("open_streaming", "savepoint_from_streaming"):
            opened = getattr(pyspark_savepoint, name)
            arguments = (self.spark, str(SHOP), "uid")[: 2 + (name != "open_streaming")]
            self.run(name, lambda opened=opened, arguments=arguments: refused(lambda _: opened(*arguments)))
        assert isinstance(sp, Savepoint)
        return sp

    # -- jobs --------------------------------------------------------------------------------------------------

    def jobs(self, sp: Savepoint) -> None:
        """Would a job restore."""
        job = {"operators": [{"uid": ACCOUNTS, "key": "LONG", "states": {"total": "LONG"}}]}
        plan = {"nodes": [{"id": 1, "type": "Source: orders", "pact": "Data Source", "parallelism": 1}]}
        graph = StreamGraph()
        graph.operator("accounts", graph.source("orders").key_by(), uid=ACCOUNTS)
        self.run("check_restore", lambda: sp.job(job).check_restore())
        self.run("check_evolution", lambda: refused(lambda _: sp.check_evolution("old.json", "new.json")))
        self.run("evolve", lambda: refused(lambda _: sp.evolve("old.json", "new.json")))
        self.run("evolution", lambda: refused(lambda _: sp.evolution))
        self.run("catch_up", lambda: refused(lambda _: sp.catch_up("new", "old.json", "new.json")))
        self.run("check_migration", lambda: sp.check_migration("2.3"))
        self.run("migrate", lambda: sp.migrate("2.3").check())
        self.run("restore_plan", lambda: sp.job(job).restore_plan())
        self.run("check_migration", lambda: sp.check_migration("2.3"))
        self.run("migrate", lambda: sp.migrate("2.3").write(str(self.folder / "migrated")))
        self.run("operator_at", lambda: sp.job(graph).operator_at("accounts"))
        self.run("operator_ids", lambda: pyspark_savepoint.operator_ids(graph))
        self.run("from_execution_plan", lambda: pyspark_savepoint.from_execution_plan(plan))
        # The shop has no committables, no asynchronous function and no source of the old kind.
        for verb in (
            sp.sinks.remove_committables,
            sp.sinks.mark_committables,
            sp.sinks.clear_in_flight,
            sp.sources.migrate_source,
        ):
            self.run(verb.__name__, lambda verb=verb: refused(verb))

    # -- changing ----------------------------------------------------------------------------------------------

    def change(self, sp: Savepoint) -> None:
        """Everything that changes, written in one go, and what has changed."""
        rows = sp.keyed_state(ACCOUNTS).select("key", "total")
        keys = rows.where("key = 1042").select("key")
        windows = sp.window_state(WINDOWS)
        orders, rates = sp.list_state(ORDERS, "pending_orders"), sp.broadcast_state(RATES, "rates")
        timers = sp.timers(ACCOUNTS).select("key", "timestamp", "domain")
        new = Savepoint.create(self.spark, max_parallelism=256)
        steps: list[tuple[str, Callable[[Savepoint], Savepoint]]] = [
            ("with_max_parallelism", lambda s: s.with_max_parallelism(256)),
            # Both ask for state that is in the savepoint already; other keys would fit no later step.
            ("rename_class", lambda s: s.rename_class("oracle.Shop$Profile", "com.shop.Profile")),
            ("rekey", lambda s: s.rekey(ACCOUNTS, types={"key": "STRING"}) and s),
            ("with_state", lambda s: s.with_state(ACCOUNTS, "total", rows)),
            ("update_state", lambda s: s.update_state(ACCOUNTS, "total", rows)),
            ("rename_state", lambda s: s.rename_state(ACCOUNTS, "recent_amounts", "last_amounts")),
            ("remove_state", lambda s: s.remove_state(ACCOUNTS, "spent_by_currency")),
            ("remove_keys", lambda s: s.remove_keys(ACCOUNTS, keys)),
            ("copy_operator", lambda s: s.copy_operator(ACCOUNTS, "copied")),
            ("remove_keys", lambda s: s.remove_keys("copied", sp.keyed_state(ACCOUNTS).select("key"))),
            ("merge_operator", lambda s: s.merge_operator("copied", into=ACCOUNTS)),
            ("merge", lambda s: s.merge(new.with_operator("merged", rows))),
            ("with_operator", lambda s: s.with_operator("totals", rows)),
            (
                "with_window_state",
                lambda s: (
                    s.with_operator("windows")
                    .with_window_state("windows", windows)
                    .with_timers("windows", sp.timers(WINDOWS))
                ),
            ),
            ("with_timers", lambda s: s.with_operator("timers").with_timers("timers", timers)),
            ("with_list_state", lambda s: s.with_operator("lists").with_list_state("lists", "l", orders)),
            ("with_union_state", lambda s: s.with_union_state("lists", "u", orders)),
            ("with_broadcast_state", lambda s: s.with_broadcast_state("lists", "b", rates)),
            ("change_operator_identifier", lambda s: s.change_operator_identifier("lists", "elements")),
            ("remove_operator", lambda s: s.remove_operator(RATES)),
            ("start_over", lambda s: s.sources.start_over(SOURCE)),
            ("with_coordinator_state", lambda s: s.with_coordinator_state(SOURCE, NO_NUMBERS)),
            ("add_splits", lambda s: s.sources.add_splits(SOURCE, [NUMBERS], connector="number_sequence")),
            ("with_offsets", lambda s: s.sources.with_offsets(SOURCE, {"1": 5})),
            ("with_source", lambda s: s.sources.with_source("clicks-source", {("clicks", 0): 5})),
            ("remove_splits", lambda s: s.sources.remove_splits(SOURCE, ["1"], connector="number_sequence")),
        ]
        changed = sp
        for name, step in steps:
            changed = self.run(name, lambda step=step, changed=changed: step(changed)) or changed
        for name in sorted(EDITS.keys() - self.called):
            self.run(name, lambda name=name: EDITS[name](sp, sp))
        written = self.run("write", lambda: changed.write(str(self.folder / "changed")))
        if written is not None:
            referring = written.write(str(self.folder / "referring"), files="reference")
            self.run("relocate", lambda: self.relocate(referring))
            self.run("diff", lambda: sp.diff(written))
            self.run("diff of an operator", lambda: pyspark_savepoint.diff(sp, written, "totals"))

    def relocate(self, sp: Savepoint) -> None:
        """Small state is in the metadata and has no path: then an error is expected."""
        try:
            sp.relocate(self.folder / "changed", "/moved")
        except pyspark_savepoint.SavepointError as error:
            if "no file of the savepoint is recorded" not in str(error):
                raise

    # -- functions and plain writes ----------------------------------------------------------------------------

    def functions(self) -> None:
        """State from records, and rows of DataFrames."""
        records = self.spark.createDataFrame([(1, 10.0, 5), (2, 20.0, 6)], "id int, amount double, ts long")
        source = OperatorTransformation.bootstrap_with(records).assign_timestamps("ts")
        keyed = source.key_by("id")
        window = keyed.window(TumblingEventTimeWindows.of(60_000))
        created = self.run("create", lambda: Savepoint.create(self.spark, max_parallelism=16))
        parts = {
            "transform": lambda: keyed.transform(Totals()),
            "transform to operator state": lambda: source.transform(Rules()),
            "window, reduce": window.process,
        }
        for name, part in parts.items():
            created = (
                self.run(name, lambda part=part, made=created, uid=name: made.with_operator(uid, part())) or created
            )
        self.run("write of functions", lambda: created.write(str(self.folder / "functions")))
        self.run("process", lambda: keyed.process(Passed(), "id int"))
        path = str(self.folder / "rows")
        named = self.spark.createDataFrame([("a", 1), ("b", 2)], "key string, n int")
        laid_out = self.run("key_by", lambda: key_by(named, "key", max_parallelism=16))
        for mode in ("append", "overwrite"):
            writer = laid_out.write.format("savepoint").option("uid", "rows").mode(mode)
            self.run(f"save, {mode}", lambda writer=writer: writer.save(path))

        def progress() -> None:
            with pyspark_savepoint.show_progress(self.spark, "counting"):
                self.spark.range(10).count()

        self.run("show_progress", progress)


def main() -> int:
    """Run all; 1 where one fails, or is missed here."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", SUBMIT_ARGUMENTS)
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    with tempfile.TemporaryDirectory() as folder:
        warehouse = {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
        spark = SparkSession.builder.master("local[2]").config(map={**conf, **warehouse}).getOrCreate()
        verbs = Verbs(spark, Path(folder))
        sp = verbs.read()
        verbs.jobs(sp)
        verbs.change(sp)
        verbs.functions()
        spark.stop()
    families = {"inspect": Inspection, "sources": Sources, "sinks": Sinks, "job": JobRestore}
    public = {name for name in dir(Savepoint) if not name.startswith("_")} - set(families)
    public |= {name for family in families.values() for name in vars(family) if not name.startswith("_")}
    public |= {name for name in pyspark_savepoint.__all__ if name[0].islower()}
    missed = sorted(public - verbs.called - {"diff"})
    if missed:
        print("not called here:", ", ".join(missed))
    return 1 if missed or verbs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
