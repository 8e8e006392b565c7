"""Class files: those of the migration corpus, the compiler's own words about them, and damage."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from pyspark_savepoint.formats.class_files import (
    ClassPath,
    ClassType,
    JavaClass,
    Wildcard,
    parse_class,
    parse_field_type,
)
from pyspark_savepoint.formats.class_files.java_types import SignatureError, parse_method_signature
from pyspark_savepoint.formats.errors import CorruptStateError, SnapshotNotFoundError

MODEL = "miglab.Model$"


@pytest.fixture
def folder(corpus: Path) -> Path:
    return corpus / "migration" / "classes"


@pytest.fixture
def classes(folder: Path) -> ClassPath:
    return ClassPath([str(folder)])


def the(classes: ClassPath, name: str) -> JavaClass:
    found = classes.find(MODEL + name)
    assert found is not None
    return found


def test_fields_have_their_generics(classes: ClassPath) -> None:
    found = the(classes, "PAll")
    assert {field.name: str(field.type) for field in found.fields} == {
        "tags": "java.util.List<java.lang.String>",
        "counts": "java.util.Map<java.lang.String, java.lang.Long>",
        "seen": "java.util.Set<java.lang.String>",
        "addrs": "java.util.List<miglab.Model$Addr>",
        "uuid": "java.util.UUID",
        "day": "java.time.LocalDate",
        "byCity": "java.util.Map<java.lang.String, java.util.List<miglab.Model$Addr>>",
        "at": "java.time.Instant",
        "color": "miglab.Model$Color",
        "n": "long",
    }
    assert found.superclass == ClassType(MODEL + "Base")
    assert str(found.fields[0].erased) == "java.util.List"


def test_wildcards_and_variables(classes: ClassPath) -> None:
    (wild,) = the(classes, "PListWild").fields
    assert wild.type == ClassType("java.util.List", (Wildcard(upper=ClassType("java.lang.Number")),))
    generic = the(classes, "PGeneric")
    assert generic.type_parameters == ("T",)
    assert [str(field.type) for field in generic.fields] == ["T", "java.util.List<T>"]
    assert str(the(classes, "PGenericString").superclass) == "miglab.Model$PGeneric<java.lang.String>"


def test_nested_classes_have_the_flags_of_their_source(classes: ClassPath) -> None:
    assert the(classes, "Addr").is_public
    assert the(classes, "KSimple").is_final
    assert not the(classes, "KLeaf").is_final
    inner = the(classes, "KInner$In")
    assert [field.name for field in inner.fields if field.is_synthetic] == ["this$0"]


def test_enums_and_records(classes: ClassPath) -> None:
    color = the(classes, "Color")
    assert color.is_enum
    assert color.enum_constants == ("RED", "GREEN", "BLUE")
    assert the(classes, "Shape").enum_constants == ("ROUND", "SQUARE")
    assert not the(classes, "Shape$1").is_enum
    record = the(classes, "RPlain")
    assert record.is_record
    assert record.record_components == ("a", "b", "c")


def test_methods_and_constructors(classes: ClassPath) -> None:
    simple = the(classes, "KSimple")
    assert [str(kind) for kind in simple.constructors[0].erased.arguments] == ["int", "java.lang.String"]
    assert {method.name for method in simple.methods} >= {"<init>", "compareTo"}


def test_annotations_name_their_classes() -> None:
    """``@TypeInfo(com.shop.Factory.class)`` of a class, put together by hand."""
    texts = [
        "com/shop/Money",
        "java/lang/Object",
        "RuntimeVisibleAnnotations",
        "value",
        "Lcom/shop/Factory;",
        "Lan/TypeInfo;",
    ]
    pool = b"".join(b"\x01" + len(text).to_bytes(2, "big") + text.encode() for text in texts) + b"\x07\0\x01\x07\0\x02"
    annotation = b"\0\x01" + b"\0\x06" + b"\0\x01" + b"\0\x04c\0\x05"
    attribute = b"\0\x03" + len(annotation).to_bytes(4, "big") + annotation
    data = bytes.fromhex("cafebabe0000003d0009") + pool + b"\0\x21\0\x07\0\x08" + b"\0\0" * 3 + b"\0\x01" + attribute
    found = parse_class(data).annotation("an.TypeInfo")
    assert found is not None
    assert found.classes == {"value": ClassType("com.shop.Factory")}


@pytest.mark.skipif(shutil.which("javap") is None, reason="needs a JDK")
def test_javap_says_the_same(folder: Path, classes: ClassPath) -> None:
    names = sorted(path.stem for path in (folder / "miglab").glob("*.class"))
    said = subprocess.run(
        ["javap", "-p", "-cp", str(folder), *(f"miglab.{name}" for name in names)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in names:
        found = classes.find(f"miglab.{name}")
        assert found is not None
        for field in found.fields:
            assert f" {field.type} {field.name};" in said, (name, field)


def test_a_jar_is_like_a_folder(folder: Path, tmp_path: Path) -> None:
    jar = tmp_path / "job.jar"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (folder / "miglab").glob("*.class"):
            archive.write(path, f"miglab/{path.name}")
    classes = ClassPath([str(jar)])
    assert the(classes, "Color").enum_constants == ("RED", "GREEN", "BLUE")
    assert classes.find("miglab.Nobody") is None


@pytest.mark.parametrize("name", ["../secret", "..secret", "a..b", "a/b", "", "a\0b", "/etc/passwd", "a.", "C:.x"])
def test_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.class").write_bytes(b"x")
    (tmp_path / "classes").mkdir()
    assert ClassPath([str(tmp_path / "classes")]).find(name) is None


def test_what_is_no_jar_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.jar").write_bytes(b"PK\x05\x06" + bytes(10))
    with pytest.raises(CorruptStateError, match="not a jar"):
        ClassPath([str(tmp_path / "no.jar")])
    with pytest.raises(SnapshotNotFoundError, match="folder of class files"):
        ClassPath([str(tmp_path / "nothing")])


def test_a_bomb_in_a_jar_is_not_inflated(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.jar", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/Bomb.class", bytes(64 << 20))
    with pytest.raises(CorruptStateError, match="larger than any compiler writes"):
        ClassPath([str(tmp_path / "bomb.jar")]).find("a.Bomb")


def test_damage_is_an_error_of_ours(folder: Path) -> None:
    data = (folder / "miglab" / "Model$RList.class").read_bytes()
    for size in range(0, len(data), 7):
        with pytest.raises(CorruptStateError):
            parse_class(data[:size])
    chance = random.Random(14)
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(data))] = chance.choice((0, 1, 255, chance.randrange(256)))
        with contextlib.suppress(CorruptStateError):
            parse_class(bytes(damaged))


def test_one_long_text_that_all_members_name_is_parsed_once() -> None:
    """65,000 fields of 64 kB each would be 4 GB of text."""
    long = b"L" + b"a" * 65_000 + b";"
    pool = b"\x01" + len(long).to_bytes(2, "big") + long + b"\x01\0\x01A" + b"\x07\0\x02"
    field = b"\0\x01" + b"\0\x02" + b"\0\x01" + b"\0\0"
    data = (
        bytes.fromhex("cafebabe0000003d0004")
        + pool
        + b"\0\x21\0\x03\0\0\0\0"
        + b"\xfd\xe8"
        + field * 65_000
        + b"\0\0\0\0"
    )
    found = parse_class(data)
    assert len(found.fields) == 65_000
    assert found.fields[0].type is found.fields[-1].type


@pytest.mark.parametrize("text", ["", "X", "La/B", "La/B<", "La/B<>", "[", "T;", "V", "II", "La/B<I", "[" * 100 + "I"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_field_type(text)


def test_methods_with_bounds_and_exceptions() -> None:
    found = parse_method_signature(
        "<T::Ljava/lang/Comparable<TT;>;U:TT;>([TT;Ljava/util/List<-TU;>;)TT;^Ljava/io/IOException;"
    )
    assert found.parameters == ("T", "U")
    assert [str(kind) for kind in found.arguments] == ["T[]", "java.util.List<? super U>"]
