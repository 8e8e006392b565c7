"""Objects of Kryo: what real Flink 1.20.5 and 2.3.0 wrote of the same values, read and written in both versions."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.class_files import ClassPath
from pyspark_savepoint.formats.class_files.class_file import FINAL
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import BASE_IDS, UTIL, KryoClasses
from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import (
    STRING,
    DamagedError,
    DescribedClasses,
    ForeignError,
    KryoObject,
    ObjectFormat,
    convert_kryo,
    elements_of,
    entries_of,
    list_of,
    map_of,
    object_format,
    read_object,
    read_whole,
    set_of,
    write_object,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Version
from pyspark_savepoint.formats.serializers.registry import snapshot_reader

#: Written by code of the job, or by fields of the JDK that differ between versions of Java.
REFUSED = {"miglab.Model$KCustom", "java.nio.HeapByteBuffer"}
#: Kryo 5 bytes that do not follow from Kryo 2's: lost flags, the order of hashing in another JVM, the time of the run.
OTHER_5 = {"kryo-pattern", "kryo-set-of", "kryo-map-of", "kryo-simple-date-format"}
#: Kryo 2 bytes that do not follow from Kryo 5's: besides, shared parts, offsets, outer objects, classes of arrays.
OTHER_2 = {"kryo-zoned-overlap", "kryo-arrays-as-list", "kryo-set-of", "kryo-map-of", "kryo-simple-date-format"} | {
    "kryo-u-times",
    "kryo-u-inner",
}


@pytest.fixture(scope="module")
def classes(corpus: Path) -> DescribedClasses:
    return DescribedClasses([ClassPath([str(corpus / "migration" / "classes")])])


def cases(corpus: Path, classes: DescribedClasses) -> Iterator[tuple[str, ObjectFormat, ObjectFormat, str, str]]:
    """All values: the case, Kryo 2 and 5 with the registrations of the two snapshots, and the bytes."""
    files = [
        json.loads((corpus / "migration" / f"bytes-{release}.json").read_text()) for release in ("1.20.5", "2.3.0")
    ]
    versions: tuple[Version, Version] = (2, 5)
    for name, before in files[0].items():
        if not name.startswith("kryo-"):
            continue
        formats = []
        for version, each in zip(versions, (before, files[1][name]), strict=True):
            serializer = snapshot_reader(DataInputView(bytes.fromhex(each["snapshot"]))).versioned()
            assert isinstance(serializer, KryoSerializer)
            formats.append(object_format(version, serializer.classes, classes))
        for old, new in zip(before["values"], files[1][name]["values"], strict=True):
            yield name, *formats, old, new


def test_every_value_of_the_corpus(corpus: Path, classes: DescribedClasses) -> None:
    count: Counter[str] = Counter()
    refused: set[str] = set()
    for name, kryo_2, kryo_5, old, new in cases(corpus, classes):
        ways = (
            ("2 to 2", old, kryo_2, kryo_2, old, set[str]()),
            ("2 to 5", old, kryo_2, kryo_5, new, OTHER_5),
            ("5 to 5", new, kryo_5, kryo_5, new, set[str]()),
            ("5 to 2", new, kryo_5, kryo_2, old, OTHER_2),
        )
        for way, source, read, write, wanted, others in ways:
            if source.startswith("!") or wanted.startswith("!"):
                continue
            try:
                got = convert_kryo(bytes.fromhex(source), read, write).hex()
            except ForeignError as error:
                refused.add(error.args[0])
                continue
            assert got == wanted or name in others, (name, way)
            count[way] += got == wanted
    assert refused == REFUSED
    assert count == {"2 to 2": 204, "2 to 5": 200, "5 to 5": 209, "5 to 2": 194}


def test_shared_and_cyclic_references_stay(corpus: Path, classes: DescribedClasses) -> None:
    values = {name: (form, data) for name, form, _, data, _ in cases(corpus, classes)}
    form, data = values["kryo-u-shared"]
    first, second = elements_of(_object(data, form))[:2]
    assert first is not None
    assert first is second
    assert first.class_name == "miglab.Model$KLeaf"
    for name, form, _, data, _ in cases(corpus, classes):
        if name == "kryo-u-cycle":
            found = _object(data, form)
            assert found.field("next") in (found, None)


def test_fields_of_a_superclass(corpus: Path, classes: DescribedClasses) -> None:
    data, form = next((data, form) for name, form, _, data, _ in cases(corpus, classes) if name == "kryo-u-derived")
    found = _object(data, form)
    content = {key: value and value.content for key, value in found.content.items()}
    assert content == {
        ("miglab.Model$KBase1", "a"): "base",
        ("miglab.Model$KDerived", "m"): -1,
        ("miglab.Model$KDerived", "x"): 101,
        ("miglab.Model$KBase1", "x"): 1,
    }
    assert found.field("x").content == 101


def _object(data: str, form: ObjectFormat) -> KryoObject:
    found = read_whole(bytes.fromhex(data), form)
    assert found is not None
    return found


@pytest.mark.parametrize("version", [2, 5])
def test_elements_and_entries_are_handed_out_and_taken(version: Version) -> None:
    form = object_format(version)
    texts = [KryoObject(STRING, "a"), None, KryoObject(STRING, "b" * 70), KryoObject(STRING, "\ud800ä")]
    number = KryoObject("long", -5)
    for made in (list_of(texts), list_of(texts, UTIL + "LinkedList"), set_of(texts)):
        found, end = read_object(write_object(made, form) + b"rest", form)
        assert found is not None
        assert end == len(write_object(made, form))
        assert [each and each.content for each in elements_of(found)] == ["a", None, "b" * 70, "\ud800ä"]
        assert found.class_name == made.class_name
    found = read_whole(write_object(map_of([(texts[0], number), (None, None)]), form), form)
    assert found is not None
    assert [(key and key.content, value and value.content) for key, value in entries_of(found)] == [
        ("a", -5),
        (None, None),
    ]


@pytest.mark.parametrize("version", [2, 5])
def test_what_cannot_be_read_is_refused_by_name(version: Version, classes: DescribedClasses) -> None:
    unknown = b"\1\0" + bytes((0x80 | len("com.shop.Money") + 1,)) + b"com.shop.Money\1"
    with pytest.raises(ForeignError) as refused:
        read_object(unknown, object_format(version, classes=classes))
    assert refused.value.args[0] == "com.shop.Money"
    assert "option 'classes'" in refused.value.args[1]
    custom = KryoClasses({**BASE_IDS, 85: "miglab.Model$KLeaf"}, frozenset({"miglab.Model$KLeaf"}))
    with pytest.raises(ForeignError, match="the job has its own serializer"):
        read_object(b"\x57\1\0\0", object_format(version, custom, classes))
    inherited = KryoClasses({**BASE_IDS, 85: "miglab.Model$KSubLeaf"}, defaults=frozenset({"miglab.Model$KLeaf"}))
    with pytest.raises(ForeignError, match="the job has its own serializer"):
        read_object(b"\x57\1\0\0\0\0", object_format(version, inherited, classes))
    with pytest.raises(ForeignError, match="id 90"):
        read_object(b"\x5c\1", object_format(version))


def _nested(version: Version, depth: int) -> bytes:
    """A list in a list in a list."""
    start = 0 if version == 2 else 1
    return b"\1\0java.util.ArrayLis\xf4\1" + b"".join([bytes([start + 1, 1, 0, 1])] * (depth - 1)) + bytes([start])


@pytest.mark.parametrize("version", [2, 5])
def test_nesting_is_limited(version: Version) -> None:
    form = object_format(version)
    data = _nested(version, 128)
    found = read_whole(data, form)
    assert write_object(found, object_format(2)) == _nested(2, 128)
    with pytest.raises(ForeignError, match="deeper than 128"):
        read_object(_nested(version, 129), form)
    deep: Any = None
    for _ in range(129):
        deep = list_of([deep])
    with pytest.raises(ForeignError, match="deeper than 128"):
        write_object(deep, form)


def test_hostile_sizes_cost_nothing() -> None:
    lists = b"\1\0java.util.ArrayLis\xf4\1"
    for version, body in ((2, b"\xff\xff\xff\xff\7"), (5, b"\x7f\xff\xff\xff\7\1"), (5, b"\xff\xff\xff\xff\7\0")):
        with pytest.raises(DamagedError):
            read_object(lists + body, object_format(2 if version == 2 else 5))
    for data in (b"", b"\1\1", b"\1\0\x81\1", b"\2\x80\x80\x80\x80\x80\1"):
        with pytest.raises(DamagedError):
            read_object(data, object_format(2))


@pytest.fixture(scope="module")
def seeds(corpus: Path, classes: DescribedClasses) -> list[tuple[ObjectFormat, bytes]]:
    found = []
    for _, kryo_2, kryo_5, old, new in cases(corpus, classes):
        found += [(form, bytes.fromhex(data)) for form, data in ((kryo_2, old), (kryo_5, new)) if data[0] != "!"]
    return [(form, data) for form, data in found if len(data) < 2000]


@settings(max_examples=400, deadline=None)
@given(draw=st.data())
def test_damaged_values_are_errors_or_objects(seeds: list[tuple[ObjectFormat, bytes]], draw: st.DataObject) -> None:
    """Damage never escapes as another error, and what is read is written in the same version."""
    form, data = draw.draw(st.sampled_from(seeds))
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        changed[draw.draw(st.integers(0, len(changed) - 1))] = draw.draw(st.integers(0, 255))
    limit = sys.getrecursionlimit()
    try:
        found, end = read_object(bytes(changed), form)
        again = write_object(found, form)
        assert end <= len(changed)
        read_whole(again, form)
    except (DamagedError, ForeignError):
        pass
    assert sys.getrecursionlimit() == limit


def test_a_locale_that_java_cannot_write_is_refused() -> None:
    """Found by fuzzing: Kryo 5 has no limit on the parts of a Locale."""
    name = UTIL + "Locale"
    form = object_format(2)
    fine = KryoObject(name, ("de", "\ud800", "", "", ""))
    found = read_whole(write_object(fine, form), form)
    assert found is not None
    assert found.content == fine.content
    with pytest.raises(ForeignError, match="65535"):
        write_object(KryoObject(name, ("x" * 65536, "", "", "", "")), form)


@pytest.mark.parametrize(
    ("version", "size", "written"),
    [
        (2, 63, "0301" + "78" * 62 + "f8"),
        (2, 64, "0301c101" + "78" * 64),
        (5, 32, "0301" + "78" * 31 + "f8"),
        (5, 33, "0301a2" + "78" * 33),
    ],
)
def test_long_texts_have_their_length(version: Version, size: int, written: str) -> None:
    """As Flink 1.20.5 and 2.3.0 write them."""
    assert write_object(KryoObject(STRING, "x" * size), object_format(version)).hex() == written


def test_kryo_5_gives_no_length_of_a_class_name() -> None:
    name = "com.fasterxml.jackson.databind.node.JsonNodeFactory"
    found = KryoObject(name, {(name, "_cfgBigDecimalExact"): KryoObject("boolean", False)})
    assert write_object(found, object_format(5)) == b"\1\0" + name[:-1].encode() + bytes([ord("y") | 0x80]) + b"\1\0"


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("final", [False, True])
def test_class_files_say_whether_a_class_of_a_library_is_final(version: Version, final: bool) -> None:
    """``ImmutablePair`` of commons-lang3 was final at first: a field of it had no class then."""
    pair = "org.apache.commons.lang3.tuple.ImmutablePair"
    row = DescribedClasses().describe(pair)
    words = WordClasses.parse(f"com.shop.Box(pair {pair})")
    of_jar = WordClasses({pair: replace(row, flags=row.flags | FINAL if final else row.flags & ~FINAL)})
    form = object_format(version, classes=DescribedClasses((of_jar, words)))
    halves = {(pair, "left"): KryoObject(STRING, "a"), (pair, "right"): KryoObject("int", 5)}
    box = KryoObject("com.shop.Box", {("com.shop.Box", "pair"): KryoObject(pair, halves)})
    data = write_object(box, form)
    assert (pair[:-1].encode() in data) is not final
    assert write_object(read_whole(data, form), form) == data
