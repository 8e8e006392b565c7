"""Types that Flink infers from classes, byte for byte, and its verdict about a snapshot that has others."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_savepoint import Savepoint as FluentSavepoint
from pyspark_savepoint.formats.class_files import ClassPath, ClassType
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped, write_versioned
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.jobs.compatibility import Compatibility
from pyspark_savepoint.statebackends.jobs.compatibility_rules import resolve
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease, TypeExtractor
from pyspark_savepoint.statebackends.type_extraction.words import TypeInference
from tests.oracle.conftest import VERSIONS
from tests.oracle.evolution import evolve
from tests.oracle.flink import Oracle, compile_harness, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.flink

HINTS = "oracle.Inferred$Hints"
LINES = "POJO<oracle.Inferred$Lines>(id LONG, lines LIST<STRING>)"


def expect_asked(version: str) -> None:
    """The oldest and the newest, where nobody names others."""
    if "FLINK_VERSIONS" not in os.environ and version == VERSIONS[1]:
        pytest.skip("the releases between are asked where FLINK_VERSIONS names them")


def test_classes_have_the_snapshots_that_flink_gives_them(flink_version: str) -> None:
    expect_asked(flink_version)
    folder = compile_harness(flink_version)
    files = sorted((folder / "oracle").glob("Inferred$*.class"))
    names = [f"oracle.{path.stem}" for path in files if not path.stem.rpartition("$")[2].isdigit()]
    asked = "".join(f"{name}{'#' if name == HINTS else ''}\n" for name in names)
    answers: dict[str, str] = {}
    for line in run(flink_version, "oracle.Infer", given=asked).splitlines():
        answers.update(json.loads(line))
    classes = ClassPath([str(folder)])
    hints = classes.find(HINTS)
    assert hints is not None
    kinds = {f"{HINTS}#{field.name}": field.type for field in hints.fields}
    extractor = TypeExtractor(ExtractionRelease.parse(flink_version), classes)
    differences = []
    for name, flinks in answers.items():
        try:
            serializer = extractor.of(kinds.get(name, ClassType(name)))
            view = DataOutputView()
            write_versioned(serializer, view)
            ours, shown = view.getvalue().hex(), serializer.flink_type
        except SavepointError as error:
            ours, shown = "error", str(error)
        if ours != flinks and not (ours == "error" and flinks.startswith("error")):
            differences.append(f"{name}: {shown}, Flink has {flinks[:200]}")
    assert not differences, "\n".join(differences)
    assert len(answers) > 60


def snapshot(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_enveloped(serializer, view)
    return view.getvalue()


def test_flink_refuses_the_plain_form_of_what_it_infers(flink_oracle: Oracle) -> None:
    expect_asked(flink_oracle.version)
    release = ExtractionRelease.parse(flink_oracle.version)
    inference = TypeInference(release, (str(compile_harness(flink_oracle.version)),))
    plain, inferred = parse_type(LINES), inference.parse("oracle.Inferred$Lines")
    for old, new, expected in ((plain, inferred, "incompatible"), (inferred, inferred, "as is")):
        assert flink_oracle.compatibility(snapshot(old), snapshot(new)) == expected
        verdict = resolve(old, new, release.version).verdict
        assert verdict is (Compatibility.INCOMPATIBLE if expected == "incompatible" else Compatibility.AS_IS)
    if release.has_collections:
        # Flink reads what is written with inferred types: id 7, lines ["a", null].
        value = bytes.fromhex("0200000000000000000700000000000200026101")
        (read,) = flink_oracle.serializer(snapshot(inferred), [value])["values"]
        assert read["again"] == value
        assert read["json"] == {"class": "oracle.Inferred$Lines", "fields": {"id": 7, "lines": ["a", None]}}


ADDRESS, LINES_CLASS = "oracle.Inferred$Address", "oracle.Inferred$Lines"


@pytest.mark.spark
def test_flink_restores_a_job_whose_types_it_infers(flink_version: str, spark: SparkSession, tmp_path: Path) -> None:
    """The types of the write come from class files; the job passes only the classes to Flink."""
    if "FLINK_VERSIONS" not in os.environ and not flink_version.startswith("2"):
        pytest.skip("releases of Flink 1 are asked where FLINK_VERSIONS names them")
    release, folder = ExtractionRelease.parse(flink_version), str(compile_harness(flink_version))
    address = "struct<street: string, zip: int>"
    columns = {"home": (ADDRESS, address), "pair": (f"TUPLE<LONG, {ADDRESS}>", f"struct<f0: bigint, f1: {address}>")}
    if release.has_collections:
        columns["list"] = (LINES_CLASS, "struct<id: bigint, lines: array<string>>")
    values = {
        key: {
            "home": ("street" if key % 2 else None, key),
            "pair": (key, ("", None)),
            "list": (key, ["a", None] if key % 2 else None),
        }
        for key in range(20)
    }
    schema = ", ".join(["key bigint", *(f"{name} {kind}" for name, (_, kind) in columns.items())])
    rows = [(key, *(value[name] for name in columns)) for key, value in values.items()]
    told = {"types": {name: java for name, (java, _) in columns.items()}, "types_from": folder}
    told["inferred_by"] = ".".join(map(str, release.version))
    sp = FluentSavepoint.create(spark).with_operator("classes", spark.createDataFrame(rows, schema), **told)
    sp.write(str(tmp_path / "savepoint"), flink_version=str(told["inferred_by"]))
    job = {
        "name": "inferred",
        "held": "read",
        "count": 0,
        "restore": str(tmp_path / "savepoint"),
        "operators": [{"uid": "classes", "key": "LONG", "states": {}}],
    }
    for name, (java, _) in columns.items():
        job["operators"][0]["states"][name] = re.sub(r"oracle\.Inferred\$\w+", r"AUTO<\g<0>>", java)
    (answer,) = evolve(flink_version, tmp_path / "work", [job])
    found = {name: {key: value for key, _, value in there} for name, there in answer["found"]["classes"].items()}

    def told_by_flink(name: str, **fields: object) -> dict[str, object]:
        return {"class": name, "fields": fields}

    for key, value in values.items():
        assert found["home"][key] == told_by_flink(ADDRESS, street=value["home"][0], zip=key)
        assert found["pair"][key] == [key, told_by_flink(ADDRESS, street="", zip=None)]
        if release.has_collections:
            assert found["list"][key] == told_by_flink(LINES_CLASS, id=key, lines=value["list"][1])
    assert {len(there) for there in found.values()} == {20}
