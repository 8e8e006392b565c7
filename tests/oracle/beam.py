"""Has real Flink write state by real coders of Apache Beam: a savepoint with Beam's serializers and timers.

Beam's runner for Flink is not on PyPI, but PyFlink's jar has Beam's coders, windows, namespaces and data of timers. The
two classes of the runner that Flink calls are in `java/beam`, with the names, fields and bytes of Beam's. Coders of
rows need Byte Buddy (Debian's `libbyte-buddy-java`), whose jar is given. Avro is the one in PySpark, under the name
by which PyFlink's jar calls it.

    python -m tests.oracle.beam 2.3.0 OUT /usr/share/java/byte-buddy.jar
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from tests.oracle.flink import (
    BACKENDS,
    JAVA,
    OPENED_PACKAGES,
    PATIENCE,
    FlinkError,
    class_path,
    compile_harness,
    fetch,
    fetch_files,
    jdk_tool,
    why_it_failed,
)

SPARK = Path(pyspark.__file__).parent / "jars"
AVRO = b"org/apache/avro"
#: Bytes of the entries of a class's constants, by their tag; 1 is a text.
CONSTANTS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


def relocate_avro(jar: Path, target: Path) -> None:
    """Write a jar with Avro's classes under the name that PyFlink's jar calls them by."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name.endswith(".class"):
                new.writestr(name.replace(AVRO.decode(), f"org/apache/flink/avro/shaded/{AVRO.decode()}"),
                             _relocated(old.read(name)))  # fmt: skip


def _relocated(code: bytes) -> bytes:
    (count,) = struct.unpack_from(">H", code, 8)
    out, at, number = bytearray(code[:10]), 10, 1
    while number < count:
        tag = code[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", code, at + 1)
            text = code[at + 3 : at + 3 + size].replace(AVRO, b"org/apache/flink/avro/shaded/" + AVRO)
            out += bytes([1]) + len(text).to_bytes(2, "big") + text
            at += 3 + size
        else:
            out += code[at : at + 1 + CONSTANTS[tag]]
            at += 1 + CONSTANTS[tag]
        number += 2 if tag in (5, 6) else 1
    return bytes(out) + code[at:]


def generate(version: str, folder: Path, given: list[Path]) -> None:
    """Write `folder/savepoint`, and what must be in it as `folder/found.json`."""
    jars = fetch_files(f"apache-flink-libraries=={version}", re.compile(r"/opt/flink-python-[^/]*\.jar$"))
    with tempfile.TemporaryDirectory() as name:
        (avro,) = SPARK.glob("avro-1*.jar")
        relocate_avro(avro, Path(name, "avro.jar"))
        entries = [Path(name), Path(name, "avro.jar"), compile_harness(version), *given, *jars, *fetch(version)]
        entries += sorted(SPARK.glob("jackson-[acd]*.jar"))
        sources = sorted(map(str, (JAVA / "beam").rglob("*.java")))
        options = ["-nowarn", "-Xlint:none", "-proc:none", "--release", "17", "-d", name]
        _run([jdk_tool("javac"), *options, "-cp", class_path(entries), *sources])
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        configuration = {**BACKENDS["hashmap"], **PATIENCE}
        arguments = [f"--out={folder.resolve()}", "--format=canonical", "--parallelism=2"]
        arguments += [f"--staging={folder.resolve() / 'tmp'}"]
        arguments += [f"--conf={key}={value}" for key, value in configuration.items()]
        _run([jdk_tool("java"), *opened, "-Xmx1g", "-cp", class_path(entries), "oracle.Beam", *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)
    if done.returncode:
        raise FlinkError(f"{command[0]} ended with {done.returncode}:\n    {why_it_failed(done.stderr + done.stdout)}")


if __name__ == "__main__":
    generate(sys.argv[1], Path(sys.argv[2]), [Path(jar) for jar in sys.argv[3:]])
