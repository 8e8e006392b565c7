"""Generic types whose classes are described: columns of what real Flink 1.20.5 and 2.3.0 wrote of the same values."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.class_files.java_types import ClassType
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    OptionError,
    SavepointError,
    UndecodableStateError,
    UnsupportedStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.serializers.base import TypeSerializer, UnknownPayloads
from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import DescribedKryoSerializer, JobClasses, load
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import KryoObject, object_format, write_object
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.formats.variant import VARIANT
from pyspark_savepoint.statebackends.rows.state_column import decode_whole
from pyspark_savepoint.statebackends.rows.state_entries import encode_column

MODEL = "miglab.Model$"
#: The first byte of a VARIANT that is BINARY.
BYTES = b"\x3c"
#: Values with an object of a subclass in a field, with itself in it, or with a null key: no value of such a column.
NO_COLUMN = {("kryo-u-objects", 0), ("kryo-u-arrays", 0), ("kryo-u-arrays", 1), ("kryo-u-cycle", 1)} | {
    ("pojo-list-pojo", 3),
    ("pojo-map-null-key", 0),
    ("pojo-addr", 1),
}
#: A Timestamp in a state of Date; values whose order or offset the two versions of Kryo do not write alike.
OTHERS = {"kryo-date", "kryo-set-of", "kryo-map-of", "kryo-zoned-overlap", "kryo-zoned-date-time", "kryo-u-times"}


def serializer_of(snapshot: str, job: JobClasses | None) -> TypeSerializer:
    return snapshot_reader(DataInputView(bytes.fromhex(snapshot)), UnknownPayloads(classes=job)).versioned()


def decode(serializer: TypeSerializer, kryo: int, *values: str, **options: Any) -> list[Any]:
    at = Cursors.over([bytes.fromhex(value) for value in values], options=DecodeOptions(kryo=kryo, **options))
    column = decode_whole(serializer, at)
    at.expect_end()
    assert column.type == serializer.arrow_type(at.options)
    found: list[Any] = column.to_pylist()
    return found


@pytest.fixture(scope="module")
def releases(corpus: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    old, new = (json.loads((corpus / "migration" / f"bytes-{each}.json").read_text()) for each in ("1.20.5", "2.3.0"))
    return old, new


@pytest.fixture(scope="module")
def job(corpus: Path) -> JobClasses:
    return JobClasses((str(corpus / "migration" / "classes"),))


def test_both_releases_give_equal_columns(releases: tuple[dict[str, Any], dict[str, Any]], job: JobClasses) -> None:
    """Also a List in a POJO, which 1.20.5 left to Kryo and 2.3.0 has a serializer for."""
    equal = structs = 0
    for name, before in releases[0].items():
        after = releases[1][name]
        if not name.startswith(("kryo-", "pojo-", "record")) or "snapshot" not in after or name in OTHERS:
            continue
        old, new = (serializer_of(each["snapshot"], job) for each in (before, after))
        if old.opaque_parts() or new.opaque_parts():
            continue
        pairs = zip(before["values"], after["values"], strict=True)
        for row, (left, right) in enumerate(pairs):
            if left.startswith("!") or right.startswith("!"):
                continue
            if (name, row) in NO_COLUMN:
                with pytest.raises((ValueRangeError, CorruptStateError, UndecodableStateError)):
                    decode(old, 2, left, timestamps="raw")
                continue
            found = decode(old, 2, left, timestamps="raw")
            assert found == decode(new, 5, right, timestamps="raw"), (name, row)
            equal += 1
            structs += (
                pa.types.is_struct(old.arrow_type(DecodeOptions())) and old.arrow_type(DecodeOptions()) != VARIANT
            )
    assert (equal, structs) == (334, 168)


#: Constants of the job's enums, which have their names only with descriptions.
ENUMS = ("kryo-enum-map", "kryo-enum-set")


def test_columns_of_the_jdk_stay_as_they_are(releases: tuple[dict[str, Any], dict[str, Any]], job: JobClasses) -> None:
    """What is readable without descriptions gives the same values with them."""
    same = 0
    for kryo, release in zip((2, 5), releases, strict=True):
        for name, each in release.items():
            if not name.startswith("kryo-") or "snapshot" not in each:
                continue
            plain, described = serializer_of(each["snapshot"], None), serializer_of(each["snapshot"], job)
            for value in each["values"]:
                if plain.opaque_parts() or value.startswith("!") or name in ENUMS:
                    continue
                try:
                    wanted = decode(plain, kryo, value, timestamps="raw")
                except UndecodableStateError:
                    continue
                if isinstance(wanted[0], dict) and wanted[0].get("value", b"")[:1] == BYTES:
                    continue  # unreadable without descriptions
                assert decode(described, kryo, value, timestamps="raw") == wanted, name
                same += 1
    assert same == 324


#: Values that are written otherwise than Flink wrote them, for columns do not show these: the class of a List, Set
#: or Map (ArrayList, HashSet, HashMap are written); whether an object is shared (it is repeated); null for Optional.
OTHERWISE = {
    *((2, "pojo-list-string", row) for row in range(4, 10)),
    *((2, "pojo-map-string-long", row) for row in range(4, 10)),
    *((2, name, 0) for name in ("pojo-map-enum-long", "pojo-set-pojo", "pojo-all")),
    *((2, "pojo-set-string", row) for row in (3, 4)),
    *((kryo, name, row) for kryo in (2, 5) for name, row in (("pojo-list-list", 3), ("pojo-optional", 1))),
}


def test_columns_are_written_as_flink_wrote_them(
    releases: tuple[dict[str, Any], dict[str, Any]], job: JobClasses
) -> None:
    """Byte for byte, or in other words with equal values; else they are refused, for an empty column too."""
    counts: Counter[str] = Counter()
    otherwise = set()
    for kryo, release in zip((2, 5), releases, strict=True):
        for name, each in release.items():
            serializer = serializer_of(each["snapshot"], replace(job, kryo=kryo)) if "snapshot" in each else None
            if serializer is None or "Kryo" not in repr(serializer) or serializer.opaque_parts():
                continue
            options = DecodeOptions(kryo=kryo, timestamps="raw")
            for row, value in enumerate(each["values"]):
                if value.startswith("!"):
                    continue
                try:
                    column = decode_whole(serializer, Cursors.over([bytes.fromhex(value)], options=options))
                except SavepointError:
                    counts["not read"] += 1
                    continue
                try:
                    buffer, start, end = encode_column(serializer, column)
                except UnsupportedStateError:
                    counts["refused"] += 1
                    continue
                written = bytes(buffer[start[0] : end[0]])
                if written != bytes.fromhex(value):
                    otherwise.add((kryo, name, row))
                    assert decode_whole(serializer, Cursors.over([written], options=options)).equals(column), name
                counts["written"] += 1
    assert otherwise == OTHERWISE
    assert counts == {"written": 303, "refused": 369, "not read": 12}


@pytest.mark.parametrize(
    ("words", "value", "problem"),
    [
        ("A(n INT)", {"n": None}, "cannot be null"),
        ("A(c Character)", {"c": "ab"}, "written as Character"),
        ("A(u UUID)", {"u": "1"}, "written as UUID"),
        ("A(e E); E ENUM(X, Y)", {"e": "Z"}, "no such constant"),
        ("A(d DATE)", {"d": datetime.datetime(2020, 1, 1, microsecond=1, tzinfo=datetime.UTC)}, "written as Date"),
        ("A(z ZonedDateTime)", {"z": "2020-01-01"}, "written as ZonedDateTime"),
        ("A(q Queue<Long>)", None, "Queue cannot be written back"),
        ("A(t TreeMap<String, Long>)", None, "how it is sorted"),
        ("A(l List<Object>)", None, "Object cannot be written back"),
        ("A(a A)", None, "it contains itself"),
        ("A(b B); B(n INT); B VARIANT", None, "B cannot be written back"),
    ],
)
def test_what_is_not_written(words: str, value: Any, problem: str) -> None:
    """By its type with no value at hand; by its values with the part that they are in."""
    serializer = JobClasses(words=words, kryo=2).described(KryoSerializer.of("A"))
    column = pa.array([] if value is None else [value], serializer.arrow_type(DecodeOptions()))
    with pytest.raises((UnsupportedStateError, ValueRangeError), match=problem):
        serializer.sizes(column)


def test_an_object_of_another_class_is_refused_by_its_column() -> None:
    """A Timestamp in a field of Date is a time, but no number of milliseconds."""
    moment = KryoObject("java.sql.Timestamp", (1500, 500_000_000))
    for kind, timestamps, value in (
        ("java.util.Date", "micros", datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)),
        ("java.util.Date", "raw", None),
        ("java.sql.Date", "micros", None),
    ):
        job = JobClasses(words=f"A(at {kind})")
        serializer = job.described(KryoSerializer.of("A"))
        for kryo in (2, 5):
            form = object_format(2 if kryo == 2 else 5, serializer.classes, load(job)[0])
            data = write_object(KryoObject("A", {("A", "at"): moment}), form).hex()
            if value is not None:
                assert decode(serializer, kryo, data, timestamps=timestamps) == [{"at": value}]
                continue
            with pytest.raises(ValueRangeError, match=r"java\.sql\.Timestamp in a column of java"):
                decode(serializer, kryo, data, timestamps=timestamps)


def test_a_list_is_of_the_class_that_words_name() -> None:
    for kryo in (2, 5):
        serializer = JobClasses(words="A(l LinkedList<Long>)", kryo=kryo).described(KryoSerializer.of("A"))
        column = pa.array([{"l": [1, None]}, None], serializer.arrow_type(DecodeOptions()))
        buffer, start, end = encode_column(serializer, column)
        assert b"java.util.LinkedLis" in bytes(buffer)
        values = [bytes(buffer[low:high]).hex() for low, high in zip(start, end, strict=True)]
        assert decode(serializer, kryo, *values) == column.to_pylist()


WORDS = f"""
    final {MODEL}KSimple(i INT, l LONG, s STRING, d DOUBLE, b BOOLEAN, y BYTE, h SHORT, c CHAR, f FLOAT,
        bi Integer, bl NULLABLE<LONG>, bb Boolean, bd Double);
    {MODEL}KLeaf(s STRING, n INT); {MODEL}KSubLeaf extends {MODEL}KLeaf(n INT, z STRING);
    {MODEL}Color ENUM(RED, GREEN, BLUE); {MODEL}KReg(s STRING, leaves LIST<{MODEL}KLeaf>)"""


@pytest.mark.parametrize("name", ["kryo-u-simple", "kryo-u-list-of-class", "kryo-array-list", "kryo-reg-same"])
def test_words_say_the_same_as_class_files(
    releases: tuple[dict[str, Any], dict[str, Any]], job: JobClasses, name: str
) -> None:
    words = JobClasses(words=WORDS + f"; {MODEL}Addr(street STRING, zip Integer)")
    for kryo, release in zip((2, 5), releases, strict=True):
        each = release[name]
        by_files, by_words = serializer_of(each["snapshot"], job), serializer_of(each["snapshot"], words)
        assert isinstance(by_words, DescribedKryoSerializer)
        assert by_words.arrow_type(DecodeOptions()) == by_files.arrow_type(DecodeOptions())
        assert decode(by_words, kryo, *each["values"]) == decode(by_files, kryo, *each["values"])


def test_a_class_with_subclasses_is_variant_if_words_say_so(
    releases: tuple[dict[str, Any], dict[str, Any]], job: JobClasses
) -> None:
    each = releases[0]["kryo-u-objects"]
    with pytest.raises(ValueRangeError, match=r"KSubLeaf in a column of the fields of .*KLeaf"):
        decode(serializer_of(each["snapshot"], job), 2, each["values"][0])
    told = serializer_of(each["snapshot"], JobClasses(job.paths, f"{MODEL}KLeaf VARIANT"))
    kind = told.arrow_type(DecodeOptions())
    assert kind.field("poly").type == VARIANT
    assert decode(told, 2, each["values"][0])[0]["num"] is not None


def test_what_is_not_described_is_named(releases: tuple[dict[str, Any], dict[str, Any]]) -> None:
    each = releases[0]["kryo-u-objects"]
    nothing = serializer_of(each["snapshot"], JobClasses(words="com.shop.Money(cents LONG)"))
    assert nothing.opaque_parts()
    assert "option 'classes'" in nothing.remedy
    assert "option 'kryoTypes'" in nothing.remedy
    partly = serializer_of(each["snapshot"], JobClasses(words=f"{MODEL}KObjects(again {MODEL}KLeaf)"))
    with pytest.raises(UndecodableStateError) as refused:
        decode(partly, 2, each["values"][0])
    assert f"{MODEL}KLeaf" in str(refused.value)
    wrong = serializer_of(each["snapshot"], JobClasses(words=f"{MODEL}KObjects(again STRING)"))
    with pytest.raises(CorruptStateError, match="are not those of the job"):
        decode(wrong, 2, each["values"][0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("com.shop.Money", "'('"),
        ("com.shop.Money(cents)", "a type"),
        ("com.shop.Money(cents LONG", "')'"),
        ("com.shop.Money(cents LONG) com.shop.Item()", "';'"),
        ("com.shop.Money(a LONG); com.shop.Money(b LONG)", "not described before"),
        ("com.shop.Money(cents L%NG)", "a name"),
        ("A(b " + "List<" * 40 + "B" + ">" * 40 + ")", "nested at most"),
    ],
)
def test_words_that_are_not_understood(text: str, expected: str) -> None:
    with pytest.raises(OptionError) as refused:
        WordClasses.parse(text)
    assert expected in refused.value.facts["expected"]


def test_a_described_class_comes_before_one_of_the_jdk_with_its_name() -> None:
    """Wherever the text describes it: a job may have a ``Locale`` without a package."""
    for text in (
        "Locale(code STRING); Order(to Locale)",
        "Order(to Locale, all List<Locale>); final Locale(code STRING)",
    ):
        order = WordClasses.parse(text).classes["Order"]
        assert order.fields[0].type == ClassType("Locale")
    assert order.fields[1].type == ClassType("java.util.List", (ClassType("Locale"),))
    other = WordClasses.parse("Order(to Locale)").classes["Order"]
    assert other.fields[0].type == ClassType("java.util.Locale")


PLUG_IN = """
import pyarrow as pa
from pyspark_savepoint.formats.serializers.kryo.objects.plugged_classes import KryoClass

class Custom(KryoClass):
    arrow_type = pa.struct([("s", pa.string()), ("n", pa.int64())])

    @classmethod
    def read(cls, reader):
        return {"s": reader.text(), "n": reader.fixed("q")}

    @classmethod
    def write(cls, writer, value):
        writer.text(value["s"])
        writer.fixed("q", value["n"])
"""
#: Reads the one value of a savepoint, and compares its bytes with what is written of its column.
READ = """
import sys; sys.path.insert(0, {folder!r})
import pyspark_savepoint
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
table = pyspark_savepoint.open({path!r}).table(uid="state")
try:
    rows = table.to_arrow()
    print(rows.to_pylist())
except SavepointError as error:
    print(error)
    sys.exit()
snapshot = Snapshot.open({path!r})
((meta,),) = OpenOperator(snapshot, snapshot.operator(uid="state")).keyed.metas().values()
serializer = JobClasses(kryo=2).described(meta.value_serializer)
raw = pyspark_savepoint.open({path!r}, raw="v").table(uid="state").to_arrow()["v"][0].as_py()
print(encode_column(serializer, rows["v"].combine_chunks())[0].tobytes() == raw)
"""


@pytest.mark.thorough("False", sets=("True",))
@pytest.mark.parametrize("fails", [False, True])
def test_a_plug_in_reads_what_a_serializer_of_the_job_wrote(corpus: Path, tmp_path: Path, fails: bool) -> None:
    source = PLUG_IN.replace("reader.text()", "1 // 0") if fails else PLUG_IN
    (tmp_path / "shop.py").write_text(source)
    info = tmp_path / "shop-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[pyspark_savepoint.kryo_classes]\n{MODEL}KCustom = shop:Custom\n")
    path = corpus / "migration" / "cases" / "kryo-registered-serializer" / "1.20.5-hashmap"
    code = READ.format(folder=str(tmp_path), path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    if fails:
        assert "ZeroDivisionError" in done.stdout
        assert "shop.Custom" in done.stdout
    else:
        assert done.stdout == "[{'key': 0, 'v': {'s': 'a', 'n': 5}}]\nTrue\n"
