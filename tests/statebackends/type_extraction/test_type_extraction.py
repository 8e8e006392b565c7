"""Types as a release infers them, compared with snapshots that Flink wrote of the same classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_savepoint.formats.class_files import ClassPath, ClassType, parse_field_type
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import OptionError, TypeNotationError, UnsupportedStateError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_versioned
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease, TypeExtractor
from pyspark_savepoint.statebackends.type_extraction.known_classes import made_up, public_field
from pyspark_savepoint.statebackends.type_extraction.words import TypeInference

#: Cases whose types are hints, and no classes.
HINTS = {
    "pojo-generic-hint": "Lmiglab/Model$PGeneric<Ljava/lang/String;>;",
    "hint-list-string": "Ljava/util/List<Ljava/lang/String;>;",
    "hint-list-pojo": "Ljava/util/List<Lmiglab/Model$Addr;>;",
    "hint-map-string-long": "Ljava/util/Map<Ljava/lang/String;Ljava/lang/Long;>;",
    "hint-set-string": "Ljava/util/Set<Ljava/lang/String;>;",
    "hint-collection": "Ljava/util/Collection<Ljava/lang/String;>;",
    "hint-array-list": "Ljava/util/ArrayList<Ljava/lang/String;>;",
    "hint-hash-map": "Ljava/util/HashMap<Ljava/lang/String;Ljava/lang/Long;>;",
    "hint-tuple-list": "Lorg/apache/flink/api/java/tuple/Tuple2<Ljava/lang/String;Ljava/util/List<Ljava/lang/Long;>;>;",
    "hint-array-of-list": "[Ljava/util/List<Ljava/lang/String;>;",
    "either-list": "Lorg/apache/flink/types/Either<Ljava/lang/String;Ljava/util/List<Ljava/lang/Long;>;>;",
}


def written(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_versioned(serializer, view)
    return view.getvalue()


@pytest.fixture(scope="module")
def class_path(corpus: Path) -> str:
    return str(corpus / "migration" / "classes")


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_classes_have_the_snapshots_that_flink_wrote(corpus: Path, class_path: str, version: str) -> None:
    cases = json.loads((corpus / "migration" / f"bytes-{version}.json").read_text())
    extractor = TypeExtractor(ExtractionRelease.parse(version), ClassPath([class_path]))
    compared = 0
    for name, case in cases.items():
        if "snapshot" not in case or not (name in HINTS or name.startswith(("pojo-", "record-"))):
            continue
        flinks = bytes.fromhex(case["snapshot"])
        serializer = snapshot_reader(DataInputView(flinks)).versioned()
        if name in HINTS:
            kind = parse_field_type(HINTS[name])
        else:
            assert isinstance(serializer, PojoSerializer)
            kind = ClassType(serializer.class_name)
        ours = extractor.of(kind)
        assert written(ours) == flinks, f"{name}: {ours.flink_type}, Flink has {serializer.flink_type}"
        compared += 1
    assert compared > 55


def test_a_collection_of_itself_ends_in_flinks_own_error(class_path: str) -> None:
    extractor = TypeExtractor(ExtractionRelease.parse("2.2"), ClassPath([class_path]))
    with pytest.raises(UnsupportedStateError, match="StackOverflowError"):
        extractor.of(ClassType("miglab.Model$PSelfList"))


@pytest.mark.parametrize(
    ("version", "name", "expected"),
    [
        ("1.18", "miglab.Model$RPlain", "KRYO<miglab.Model$RPlain>"),
        ("1.19", "miglab.Model$RPlain", "POJO<miglab.Model$RPlain>(a STRING, b INT, c LONG)"),
        ("1.20", "java.util.concurrent.TimeUnit", "ENUM<java.util.concurrent.TimeUnit>(NANOSECONDS, "),
        ("2.2", "java.util.TimeZone", "POJO<java.util.TimeZone>(ID STRING)"),
        ("2.2", "java.util.UUID", "KRYO<java.util.UUID>"),
        ("2.2", "miglab.Model$KSimple", "KRYO<miglab.Model$KSimple>"),
        ("2.2", "miglab.Model$Shape", "ENUM<miglab.Model$Shape>(ROUND, SQUARE)"),
    ],
)
def test_what_classes_become(class_path: str, version: str, name: str, expected: str) -> None:
    found = TypeExtractor(ExtractionRelease.parse(version), ClassPath([class_path])).of(ClassType(name))
    assert found.flink_type.startswith(expected)


def test_what_is_not_known_is_refused(class_path: str) -> None:
    extractor = TypeExtractor(ExtractionRelease.parse("2.2"), ClassPath([class_path]))
    for name in ("com.shop.Order", "java.awt.Point", "java.util.Locale$Category"):
        with pytest.raises(UnsupportedStateError, match="not in the class files"):
            extractor.of(ClassType(name))
    with pytest.raises(OptionError, match="not known"):
        ExtractionRelease.parse("2.4")


def test_classes_that_grow_without_end_are_refused() -> None:
    """Each class has two fields of the next: a million types in twenty classes."""
    classes = {
        f"C{n}": made_up(f"C{n}", [public_field(name, ClassType(f"C{n + 1}")) for name in "ab"]) for n in range(30)
    }
    classes["C30"] = made_up("C30", [public_field("n", ClassType("java.lang.Long"))])
    with pytest.raises(UnsupportedStateError, match="too many parts"):
        TypeExtractor(ExtractionRelease.parse("2.2"), classes.get).of(ClassType("C0"))
    chain = {f"C{n}": made_up(f"C{n}", superclass=ClassType(f"C{n + 1}")) for n in range(500)}
    with pytest.raises(UnsupportedStateError, match="superclasses"):
        TypeExtractor(ExtractionRelease.parse("2.2"), chain.get).of(ClassType("C0"))
    ring = {name: made_up(name, superclass=ClassType(above)) for name, above in (("A", "B"), ("B", "A"))}
    with pytest.raises(UnsupportedStateError, match="superclasses"):
        TypeExtractor(ExtractionRelease.parse("2.2"), ring.get).of(ClassType("A"))


# -- words ---------------------------------------------------------------------------------------------------

ORDER = "POJO<com.shop.Order>(id LONG, lines LIST<STRING>)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (ORDER, "POJO<com.shop.Order>(id LONG, lines NULLABLE<LIST<NULLABLE<STRING>>>)"),
        ("POJO<a.B>(m MAP<STRING, LONG>)", "POJO<a.B>(m NULLABLE<MAP<NULLABLE<STRING>, LONG>>)"),
        ("POJO<a.B>(s SET<INT>)", "POJO<a.B>(s NULLABLE<SET<INT>>)"),
        ("POJO<a.B>(n MAP<STRING, LIST<LONG>>)", "POJO<a.B>(n KRYO<java.util.Map>)"),
        ("POJO<a.B>(d LOCAL_DATE)", "POJO<a.B>(d KRYO<java.time.LocalDate>)"),
        ("POJO<a.B>(r ROW<LONG>)", "POJO<a.B>(r KRYO<org.apache.flink.types.Row>)"),
        ("POJO<a.B>(a OBJECT_ARRAY<LIST<STRING>>)", "POJO<a.B>(a OBJECT_ARRAY<NULLABLE<LIST<NULLABLE<STRING>>>>)"),
        ("POJO<a.B>(c POJO<a.C>(l LIST<BYTE>))", "POJO<a.B>(c POJO<a.C>(l NULLABLE<LIST<NULLABLE<BYTE>>>))"),
        ("POJO<a.B>(l LIST<ENUM<a.E>(X, Y)>)", "POJO<a.B>(l NULLABLE<LIST<NULLABLE<ENUM<a.E>(X, Y)>>>)"),
        ("POJO<a.B>(l NULLABLE<LIST<NULLABLE<STRING>>>)", "POJO<a.B>(l NULLABLE<LIST<NULLABLE<STRING>>>)"),
        ("TUPLE<LONG, LIST<STRING>>", "TUPLE<LONG, NULLABLE<LIST<NULLABLE<STRING>>>>"),
        ("EITHER<LONG, LIST<STRING>>", "EITHER<LONG, NULLABLE<LIST<NULLABLE<STRING>>>>"),
        ("LIST<STRING>", "NULLABLE<LIST<NULLABLE<STRING>>>"),
        ("LOCAL_DATE", "LOCAL_DATE"),
        ("ROW<a LIST<STRING>, b POJO<a.C>(l LIST<LONG>)>",
         "ROW<a LIST<STRING>, b POJO<a.C>(l NULLABLE<LIST<NULLABLE<LONG>>>)>"),
        ("ROWDATA<id BIGINT NOT NULL>", "ROWDATA<id BIGINT NOT NULL>"),
        ("POJO<a.B>(x INT) REGISTERED(a.S POJO<a.S>(l LIST<INT>))",
         "POJO<a.B>(x INT) REGISTERED(a.S POJO<a.S>(l NULLABLE<LIST<NULLABLE<INT>>>))"),
    ],
)  # fmt: skip
def test_words_stand_for_classes(words: str, expected: str) -> None:
    assert TypeInference(ExtractionRelease.parse("2.2")).parse(words).flink_type == expected


def test_before_2_0_lists_are_kryos() -> None:
    inference = TypeInference(ExtractionRelease.parse("1.20"))
    assert inference.parse(ORDER).flink_type == "POJO<com.shop.Order>(id LONG, lines KRYO<java.util.List>)"
    with pytest.raises(TypeNotationError, match=r"Flink 1\.20 uses Kryo for lines"):
        inference.written(ORDER, (1, 16))


def test_the_container_of_a_state_is_its_own() -> None:
    inference = TypeInference(ExtractionRelease.parse("2.2"))
    found = inference.parse("LIST<POJO<a.C>(l LIST<LONG>)>", container=True)
    assert found.flink_type == "LIST<POJO<a.C>(l NULLABLE<LIST<NULLABLE<LONG>>>)>"


def test_names_of_classes_are_types(class_path: str) -> None:
    inference = TypeInference(ExtractionRelease.parse("2.2"), (class_path,))
    address = "POJO<miglab.Model$Addr>(street STRING, zip INT)"
    for words, expected in {
        "miglab.Model$Addr": address,
        "POJO<miglab.Model$Addr>": address,
        address: address,
        "ENUM<miglab.Model$Color>": "ENUM<miglab.Model$Color>(RED, GREEN, BLUE)",
        "LIST<miglab.Model$Addr>": f"NULLABLE<LIST<NULLABLE<{address}>>>",
        "java.util.List<miglab.Model$Addr>": f"NULLABLE<LIST<NULLABLE<{address}>>>",
        "POJO<a.B>(home miglab.Model$Addr)": f"POJO<a.B>(home {address})",
        "miglab.Model$PGeneric<java.lang.String>": (
            "POJO<miglab.Model$PGeneric>(id INT, name STRING, v STRING, w KRYO<java.util.List>)"
        ),
    }.items():
        assert inference.parse(words).flink_type == expected
    with pytest.raises(OptionError, match="the fields of the type differ"):
        inference.parse("POJO<miglab.Model$Addr>(street STRING, zip LONG)")
    with pytest.raises(TypeNotationError, match="treats as POJO"):
        inference.parse("POJO<miglab.Model$Color>")
    with pytest.raises(UnsupportedStateError, match="not in the class files"):
        inference.parse("miglab.Model$Nobody")
