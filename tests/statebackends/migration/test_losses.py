"""What Flink 2 cannot keep, or not read, is announced wherever it stands in a value; what it reads wrongly, too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pyspark_savepoint.formats.class_files.class_file import PUBLIC, JavaClass, JavaMethod
from pyspark_savepoint.formats.class_files.java_types import (
    OBJECT,
    ClassSignature,
    ClassType,
    JavaType,
    MethodSignature,
)
from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses
from pyspark_savepoint.formats.serializers.kryo.objects import (
    STRING,
    DescribedClasses,
    KryoObject,
    list_of,
    map_of,
    object_format,
    write_object,
)
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import KryoChange
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import Loss, MigrationVerdict, Outcome, PartVerdict
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from tests.statebackends.migration.test_value_scan import migration

CLASSES = "com.Line(counts Map<String, Integer>); com.Page(line com.Line); com.Held(held Object)"
LINE = "POJO<com.Line>(counts MAP<STRING, INT>)"
NUMBER = KryoObject("int", 1)


def text(value: str) -> KryoObject:
    return KryoObject(STRING, value)


def line(counts: str) -> KryoObject:
    return KryoObject("com.Line", {("com.Line", "counts"): map_of([(text("a"), NUMBER)], counts)})


def held(value: KryoObject) -> KryoObject:
    return KryoObject("com.Held", {("com.Held", "held"): value})


def locale(script: str) -> KryoObject:
    return KryoObject("java.util.Locale", ("zh", "CN", "", script, ""))


def verdict(path: Path, values: Iterable[KryoObject], of_type: str | None = None) -> PartVerdict:
    form = object_format(2, classes=DescribedClasses([WordClasses.parse(CLASSES)]))
    types = {} if of_type is None else {"v": of_type}
    written = [write_object(value, form) for value in values]
    check = migration(path / "old", written, kryo_types=CLASSES, types=types).check()
    (part,) = [part for part in check.parts if part.ref.state == "v"]
    return part


@pytest.mark.parametrize("counts", ["java.util.TreeMap", "java.util.HashMap"])
@pytest.mark.parametrize(
    ("of_type", "wrapped"),
    [
        (LINE, lambda one: one),
        (f"LIST<{LINE}>", lambda one: list_of([one])),
        (f"LIST<{LINE}>", lambda one: list_of([line("java.util.HashMap"), one])),
        (f"MAP<INT, {LINE}>", lambda one: map_of([(NUMBER, one)])),
        (f"POJO<com.Page>(line {LINE})", lambda one: KryoObject("com.Page", {("com.Page", "line"): one})),
        (
            f"LIST<POJO<com.Page>(line {LINE})>",
            lambda one: list_of([KryoObject("com.Page", {("com.Page", "line"): one})]),
        ),
    ],
)
def test_an_order_that_is_lost_is_announced_at_every_depth(of_type, wrapped, counts, tmp_path):  # type: ignore[no-untyped-def]
    part = verdict(tmp_path, [wrapped(line(counts))], of_type)
    if counts == "java.util.HashMap":
        assert part.verdict is MigrationVerdict.REWRITTEN
    else:
        assert part.verdict is MigrationVerdict.IS_LOST
        assert str(part.reason).endswith(f"{Loss.COLLECTION}: java.util.TreeMap")


def test_a_set_where_flink_2_reads_a_list_is_lost(tmp_path: Path) -> None:
    one = list_of([text("a")], "java.util.HashSet")
    assert verdict(tmp_path, [one], "LIST<STRING>").verdict is MigrationVerdict.IS_LOST


@pytest.mark.parametrize("of_type", [None, "LIST<KRYO<com.Held>>"])
def test_what_kryo_does_not_keep_is_announced_inside_lists_of_flink_too(of_type: str | None, tmp_path: Path) -> None:
    part = verdict(tmp_path, [list_of([held(locale("")), held(locale("Hans"))])], of_type)
    assert part.verdict is MigrationVerdict.IS_LOST
    assert f"{Loss.SCRIPT} java.util.Locale" in str(part.reason)
    assert verdict(tmp_path / "other", [list_of([held(locale(""))])], of_type).verdict is MigrationVerdict.REWRITTEN


@pytest.mark.parametrize("of_type", [None, "LIST<KRYO<com.Held>>"])
def test_what_kryo_cannot_read_stops_a_migration_inside_lists_of_flink_too(of_type: str | None, tmp_path: Path) -> None:
    fixed = list_of([text("a")], "java.util.Collections$UnmodifiableRandomAccessList")
    part = verdict(tmp_path, [list_of([held(fixed)])], of_type)
    assert part.verdict is MigrationVerdict.IMPOSSIBLE
    assert "Collections$UnmodifiableRandomAccessList" in str(part.reason)


def with_constructors(superclass: str, *constructors: tuple[JavaType, ...], flags: int = PUBLIC) -> JavaClass:
    made = [MethodSignature((), tuple(parameters), OBJECT) for parameters in constructors]
    methods = tuple(JavaMethod("<init>", flags, each, each) for each in made)
    signature = ClassSignature((), ClassType(superclass), ())
    return JavaClass("com.Own", PUBLIC, signature, superclass, (), methods)


class Single:
    """A source of one class."""

    def __init__(self, one: JavaClass) -> None:
        self.one = one

    def find(self, name: str) -> JavaClass | None:
        return self.one if name == self.one.name else None


COMPARATOR = ClassType("java.util.Comparator")


@pytest.mark.parametrize(
    ("own", "is_read"),
    [
        (with_constructors("java.util.TreeMap", ()), False),
        (with_constructors("java.util.TreeMap", (), (COMPARATOR,)), True),
        (with_constructors("java.util.TreeMap", (COMPARATOR,), flags=0), False),
        (with_constructors("java.util.TreeSet", ()), False),
        (with_constructors("java.util.ArrayList", (), flags=0), True),
        (with_constructors("java.util.ArrayList", (COMPARATOR,)), False),
        (with_constructors("java.util.HashMap", (COMPARATOR,)), True),
        (with_constructors("java.lang.Object", (COMPARATOR,)), True),
    ],
)
def test_classes_without_the_constructor_that_kryo_5_calls_are_not_rewritten(own: JavaClass, is_read: bool) -> None:
    targets = Knowledge(ExtractionRelease.parse("2.3")).targets
    change = KryoChange(2, 5, DescribedClasses([Single(own)]), targets.pojo, lambda _: None)
    assert (change.why_unreadable("com.Own") is None) is is_read


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        # An empty list is read as null, and what follows it is read from another position.
        (list_of([list_of([])]), Outcome.WRONG_VALUES),
        (list_of([text("a"), text("b")]), Outcome.WRONG_VALUES),
        (map_of([(text("a"), NUMBER)], "java.util.concurrent.ConcurrentSkipListMap"), Outcome.FAILS),
        (KryoObject("java.net.URI", "http://example.org"), Outcome.RESTORES),
    ],
)
def test_what_flink_2_does_without_a_migration_is_foretold(value: KryoObject, outcome: Outcome, tmp_path: Path) -> None:
    assert verdict(tmp_path, [value]).outcome is outcome
