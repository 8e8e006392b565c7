"""Jobs that change: run by real Flink (`oracle.Evolve`) and checked by our restore check, from one description."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from tests.oracle.flink import run

Job = dict[str, Any]

ORDER = "POJO<evolve.Order>(id LONG, name STRING, total DOUBLE)"
#: An operator with operator state only.
PLAIN: Job = {
    "uid": "plain",
    "operatorStates": {
        "list": {"kind": "LIST", "type": "STRING"},
        "union": {"kind": "UNION", "type": "LONG"},
        "rates": {"kind": "BROADCAST", "key": "STRING", "type": "DOUBLE"},
        "orders": {"kind": "LIST", "type": ORDER},
    },
}

#: Of other types the fields are Objects: serializers are those that are declared.
JAVA_TYPES = {
    "LONG": "long",
    "INT": "int",
    "SHORT": "short",
    "BYTE": "byte",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "CHAR": "char",
    "STRING": "String",
    "INSTANT": "java.time.Instant",
}
#: Settings that are passed only to Flink's side of a job.
HARNESS_FIELDS = ("name", "restore", "savepoint", "format", "allowNonRestoredState", "chaining", "inlined", "sources")


def evolve(
    version: str,
    folder: Path,
    jobs: Iterable[Job],
    configuration: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> list[dict[str, Any]]:
    """Flink's answers, in one cluster: `{"ok": true}` and what it found, or the `error` of the restore."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({**job, "sources": {**dict(sources(job)), **job.get("sources", {})}}) for job in jobs]
    arguments = [f"--out={folder.resolve()}", "--parallelism=8", "--conf=restart-strategy=none"]
    arguments += [f"--conf={name}={value}" for name, value in (configuration or {}).items()]
    given = "".join(line + "\n" for line in lines)
    answers = run(version, "oracle.Evolve", arguments, given=given, heap="1g", timeout=timeout)
    return [json.loads(line) for line in answers.splitlines()]


def described(job: Job) -> Job:
    """The same job for our restore check, with the source that the harness adds."""
    operators = [{key: value for key, value in operator.items() if key != "behind"} for operator in job["operators"]]
    known = {key: value for key, value in job.items() if key not in HARNESS_FIELDS}
    return {**known, "operators": [{"uid": "numbers"}, *operators]}


def sources(job: Job) -> Iterator[tuple[str, str]]:
    """Java classes of the POJOs and enums that the types of a job name."""
    for operator in job["operators"]:
        texts = [operator["key"]] if operator.get("key") else []
        for states in (operator.get("states", {}), operator.get("operatorStates", {})):
            for state in states.values():
                texts += (
                    [state] if isinstance(state, str) else [state[part] for part in ("type", "key") if part in state]
                )
        for text in texts:
            if "KRYO" not in text and "AUTO" not in text:
                yield from _classes(parse_type(text))


def _classes(serializer: TypeSerializer) -> Iterator[tuple[str, str]]:
    if isinstance(serializer, EnumSerializer):
        package, _, name = serializer.enum_class.rpartition(".")
        yield serializer.enum_class, f"package {package}; public enum {name} {{ {', '.join(serializer.constants)} }}"
    if isinstance(serializer, PojoSerializer):
        package, _, name = serializer.class_name.rpartition(".")
        fields = " ".join(f"public {_java(member.serializer)} {member.name};" for member in serializer.fields)
        # Keys must have a hashCode of their own.
        methods = "public int hashCode() { return 7; } public boolean equals(Object other) { return this == other; }"
        yield (
            serializer.class_name,
            f"package {package}; public class {name} {{ {fields} public {name}() {{ }} {methods} }}",
        )
    for child in serializer.children:
        yield from _classes(child)


def _java(serializer: TypeSerializer) -> str:
    if isinstance(serializer, EnumSerializer):
        return serializer.enum_class
    if isinstance(serializer, PojoSerializer):
        return serializer.class_name
    return JAVA_TYPES.get(serializer.flink_type, "Object")
