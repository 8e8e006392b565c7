"""Types as text: every word, errors that point at the place, and what the corpus prints read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import TypeNotationError
from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer, OpaqueAvroSerializer
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.composite.fields import RowSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.notation.names import NEEDS, NOT_FROM_TEXT, SIMPLE, composites
from pyspark_savepoint.formats.serializers.notation.notation import SPECIAL, parse_type
from pyspark_savepoint.formats.serializers.registry import read_serializer
from pyspark_savepoint.formats.serializers.sql.rowdata import CollectionDataSerializer, RowDataSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.formats.serializers.codec_checks import check_column

NEWEST = (2, 3)
SCHEMA = '{"type": "record", "name": "com.shop.Order", "fields": [{"name": "its", "type": "long"}]}'


def snapshot_of(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_enveloped(serializer, view)
    return bytes(view.getvalue())


#: Text, and what it is printed as where that is something else.
TYPES: Mapping[str, str | None] = {
    **{name: None for name in SIMPLE if not name.startswith(("BIG_DEC", "BIG_INT"))},
    "BIG_DEC": "BIG_DECIMAL",
    "big_int": "BIG_INTEGER",
    " map < string ,tuple<long,\n list<int> > > ": "MAP<STRING, TUPLE<LONG, LIST<INT>>>",
    "POJO<com.shop.Order$Line>(total DOUBLE, id LONG, `unit price` FLOAT, aB INT)": (
        "POJO<com.shop.Order$Line>(aB INT, id LONG, total DOUBLE, `unit price` FLOAT)"
    ),
    "POJO<A>(x INT) REGISTERED(B POJO<B>(x INT), C POJO<C>(x INT)) SUBCLASSES(D POJO<D>(x INT))": None,
    "TUPLE<com.shop.Pair>(LONG, STRING)": None,
    "CASE_CLASS<com.shop.Order>(_1 LONG, _2 STRING)": None,
    "ROW<LONG, STRING>": None,
    "ROW<id LONG, date DATE, `row` ROW<>>": "ROW<id LONG, date DATE, row ROW<>>",
    "ENUM<com.shop.Color>(RED, GREEN)": None,
    "SCALA_ENUM<com.shop.Color$>(RED = 7, GREEN = -2)": None,
    "NULLABLE<LONG>": None,
    "NULLABLE<LONG>(padded)": "NULLABLE<LONG>(PADDED)",
    "BASIC_ARRAY<LONG>": "OBJECT_ARRAY<LONG>",
    "OBJECT_ARRAY<OBJECT_ARRAY<TUPLE<LONG>>>": None,
    "OBJECT_ARRAY<com.shop.Money>(BIG_DECIMAL)": None,
    "EITHER<LONG, SCALA_EITHER<OPTION<INT>, STRING>>": None,
    "UNION<LONG, STRING>": None,
    "TIMER<LONG, VOID_NAMESPACE>": None,
    "TTL<LIST<LONG>>": None,
    "LIST_VIEW<LIST<LONG>>": None,
    "MAP_VIEW<MAP<LONG, STRING>>": None,
    "LINKED_LIST<LONG>": None,
    "NULL_AWARE_MAP<LONG, STRING>": None,
    "BUFFER_ENTRY<LONG>": None,
    "STREAM_ELEMENT<LONG>": None,
    "SET<STRING>": None,
    "LIST<LONG>": None,
    "OPTION<LONG>": None,
    "SCALA_EITHER<LONG, STRING>": None,
    f"AVRO<'{SCHEMA}'>": "AVRO<com.shop.Order>",
    f"AVRO<com.shop.Order>('{SCHEMA}')": "AVRO<com.shop.Order>",
    "DECIMAL(38, 18)": None,
    "TIMESTAMP(3)": None,
    "ROWDATA<>": None,
    "ROWDATA<int, string not null, decimal(5), timestamp, timestamp_ltz(3) not null *rowtime*, time, bytes, char>": (
        "ROWDATA<INT, STRING NOT NULL, DECIMAL(5, 0), TIMESTAMP(6), TIMESTAMP_LTZ(3) NOT NULL *ROWTIME*, TIME(0), "
        "BYTES, CHAR(1)>"
    ),
    "ROWDATA<id BIGINT NOT NULL, `a b` VARCHAR(10), interval INTERVAL DAY(3) TO SECOND(6), y INTERVAL YEAR(4)>": None,
    "ARRAYDATA<STRING NOT NULL>": None,
    "MAPDATA<STRING, DECIMAL(20, 3)>": None,
    "ROWDATA<a ARRAY<BIGINT>, m MAP<STRING, TIMESTAMP_LTZ(3)>, s MULTISET<STRING>>": None,
    "ROWDATA<r ROW<`a` INT NOT NULL, `b` ROW<`c` STRING>>>": None,
}


@pytest.mark.parametrize("text", TYPES)
def test_types_and_what_they_print(text: str) -> None:
    serializer = parse_type(text, NEWEST)
    printed = TYPES[text] or text
    assert serializer.flink_type == printed
    # What is written reads back as the same, and prints what parses to the same bytes.
    read = read_serializer(snapshot_of(serializer))
    assert snapshot_of(read) == snapshot_of(serializer)
    assert read == serializer
    if "AVRO" not in text:
        assert snapshot_of(parse_type(printed, NEWEST)) == snapshot_of(serializer)


def test_every_word_is_tried() -> None:
    tried = {text.strip().upper().partition("<")[0].partition("(")[0].strip() for text in TYPES}
    assert set(composites()) | set(SPECIAL) <= tried | {"PRIMITIVE_ARRAY", "VALUE_ARRAY"}
    assert not set(NOT_FROM_TEXT) & (set(composites()) | set(SPECIAL) | set(SIMPLE))


#: Text, the part that the error points at, and what its message has.
REFUSED = [
    ("", "", "expected a type"),
    ("STRNG", "STRNG", "did you mean 'STRING'"),
    ("TUPLE<LONG, BIGINT>", "BIGINT", "did you mean 'LONG'?"),
    ("LIST<LONG", "", "expected '>'"),
    ("LIST<LONG>>", ">", "the end of the type"),
    ("LIST<LONG, INT>", "LIST", "LIST with 1 types, not 2"),
    ("MAP<LONG>", "MAP", "MAP with 2 types"),
    ("LONG<INT>", "<INT>", "nothing after LONG"),
    ("LONG()", "()", "nothing after LONG"),
    ("TUPLE<" + ", ".join(["INT"] * 26) + ">", "TUPLE", "0 to 25 types, not 26"),
    ("POJO<com.shop.Order>", "", "expected '('"),
    ("POJO(id LONG)", "(id", "expected '<'"),
    ("POJO<com.shop.Order>(id LONG, id INT)", "id INT", "a name other than 'id'"),
    ("POJO<com.shop.Order>(LONG)", ")", "expected a type"),
    ("ENUM<com.shop.Color>", "", "the constants of the enum"),
    ("ENUM<com.shop.Color>(A, A)", "A)", "a constant other than 'A'"),
    ("ROW<id LONG, STRING>", ">", "expected a type"),
    ("NULLABLE<STRING>(PADDED)", "NULLABLE", "a type of fixed length"),
    ("NULLABLE<LONG>(WIDE)", "WIDE", "PADDED"),
    ("PRIMITIVE_ARRAY<STRING>", "PRIMITIVE_ARRAY", "OBJECT_ARRAY<T>"),
    ("OBJECT_ARRAY<ROWDATA<INT>>", "OBJECT_ARRAY", "OBJECT_ARRAY<com.shop.Item>(ROWDATA<INT>)"),
    ("CASE_CLASS<A>(_2 INT)", "CASE_CLASS", "_1, _2"),
    ("LIST_VIEW<MAP<INT, INT>>", "LIST_VIEW", "a LIST inside LIST_VIEW"),
    ("AVRO<com.shop.Order>", "", "the schema of com.shop.Order"),
    ("AVRO<'{'>", "'{'", "not JSON"),
    ("TIMESTAMP", "", "INSTANT or LOCAL_DATE_TIME"),
    ("DECIMAL", "", "BIG_DECIMAL"),
    ("DECIMAL(39, 0)", "39", "from 1 to 38"),
    ("DECIMAL(3, 4)", "4)", "a scale of at most the precision"),
    ("ROWDATA<LONG>", "LONG", "SQL's word is BIGINT"),
    ("ROWDATA<id BIGINT, STRING>", "STRING", "a name for every field, or for none"),
    ("ROWDATA<a INT, a INT>", "a INT>", "a name other than 'a'"),
    ("ROWDATA<ROW<INT>>", "ROW<", "names for the fields"),
    ("ROWDATA<INT NOT>", ">", "expected NULL"),
    ("ROWDATA<INTERVAL MONTH TO DAY>", ">", "units of an interval"),
    ("ROWDATA<ARRAY<ARRAY<INT>>>", "ROWDATA", "cannot be created from its name alone"),
    ("MAPDATA<INT>", ">", "expected ','"),
    ("ROWDATA<INT, RAW('com.shop.Money', '...')>", "RAW", "typesFrom"),
    ("KRYO<com.shop.Order>", "KRYO", "typesFrom"),
    ("LIST<LONG> ?", "?", "expected a type"),
    ("LIST<'x'>", "'x'", "expected a type"),
    ("LIST<" * 60 + "INT" + ">" * 60, "", "nested at most 48 deep"),
]


@pytest.mark.parametrize(("text", "place", "message"), REFUSED)
def test_errors_point_at_the_place(text: str, place: str, message: str) -> None:
    with pytest.raises(TypeNotationError) as caught:
        parse_type(text)
    assert message in str(caught.value)
    first, shown, mark = caught.value.message.split("\n")
    at = int(first.rsplit(" ", 1)[1]) - 1
    assert text[at:].startswith(place)
    assert len(shown) < 120
    assert shown[len(mark) - 1 :].startswith(text[at : at + 5].partition("\n")[0])


def test_what_a_flink_does_not_have() -> None:
    later = {f"{word}<INT>": kind.since for word, kind in composites().items() if kind.since is not None}
    for text, since in {**NEEDS, **later}.items():
        assert parse_type(text, since).flink_type == text
        with pytest.raises(TypeNotationError, match=f"Flink {since[0]}.{since[1]}: use option..flinkVersion"):
            parse_type(text, (1, 20))
    assert ".scala." in parse_type("OPTION<INT>", (1, 16)).snapshot_class
    assert ".table.api." in parse_type("OPTION<INT>", (2, 0)).snapshot_class


def test_names_of_rows_are_no_part_of_the_snapshot() -> None:
    for named, plain in (("ROW<id LONG, name STRING>", "ROW<LONG, STRING>"), ("ROWDATA<id BIGINT>", "ROWDATA<BIGINT>")):
        assert snapshot_of(parse_type(named)) == snapshot_of(parse_type(plain))
        assert parse_type(named).arrow_type(DecodeOptions()).field(0).name == "id"
        assert parse_type(plain).arrow_type(DecodeOptions()).field(0).name == "f0"
    row = parse_type("ROW<id LONG, name STRING>")
    assert isinstance(row, RowSerializer)
    check_column(row, pa.array([{"id": 1, "name": None}], row.arrow_type(DecodeOptions())))


def test_the_schema_of_avro() -> None:
    generic, specific = parse_type(f"AVRO<'{SCHEMA}'>"), parse_type(f"AVRO<com.shop.Order>('{SCHEMA}')")
    assert isinstance(generic, AvroSerializer)
    assert isinstance(specific, AvroSerializer)
    assert generic.schema == specific.schema == SCHEMA
    assert generic.runtime_class.endswith("GenericRecord")
    assert specific.runtime_class == "com.shop.Order"
    loop = '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}'
    assert isinstance(parse_type(f"AVRO<'{loop}'>"), OpaqueAvroSerializer)


def test_fields_of_pojos_stand_in_the_order_of_java() -> None:
    pojo = parse_type("POJO<A>(b INT, `\U0001f600` INT, `\uffee` INT, B INT, a INT)")
    assert isinstance(pojo, PojoSerializer)
    assert [field.name for field in pojo.fields] == ["B", "a", "b", "\U0001f600", "\uffee"]


# -- the corpus ----------------------------------------------------------------------------------------------------

EARLIER = "an earlier version of the snapshot"
#: Why the text of a serializer is not a type, or one of another snapshot: for those that releases have both in the data
#: set and in Flink's test resources.
REASONS: Mapping[str, str] = {
    "arraylist-serializer": "in memory only: state has LIST",
    "ttl-aware-serializer-string-value": "in memory only: the serializer inside is what is shown",
    "pojo-serializer-with-different-field-types-in-registered-subclass": "inherited fields",
    "pojo-serializer-with-different-subclass-registration-order": "inherited fields",
    "pojo-serializer-with-missing-registered-subclass": "inherited fields",
    "pojo-serializer-with-modified-schema-in-registered-subclass": "inherited fields",
    "pojo-serializer-with-new-registered-subclass": "inherited fields",
    **dict.fromkeys(("dewey-number-serializer", "event-id-serializer", "lockable-type-serializer"), "CEP"),
    "node-id-serializer": "CEP",
    **dict.fromkeys(("copyable-value-serializer", "java-serializer", "value-serializer"), "user code"),
    "kryo-custom-type-serializer-changed-registration-order": "user code",
    "kryo-type-serializer-changed-registration-order": "user code",
    "kryo-type-serializer-unrelated-config-after-restore": "user code",
}
#: Of those of the data set alone.
OWN_REASONS: Mapping[str, str] = {
    **REASONS,
    **dict.fromkeys(("linked-list-serializer-1.13", "linked-list-serializer-with-nulls-1.13"), EARLIER),
    **{
        f"row-serializer{kind}-{release}": EARLIER
        for kind in ("", "-nested", "-of-pojos")
        for release in ("1.10", "1.13")
    },
    "ttl-serializer-v2": "the serializer of the first state API is what is shown",
    "shared-buffer-edge-serializer": "CEP",
    "sorted-map-serializer": "the comparator is an object",
    "two-phase-commit-serializer": "sinks",
    "kryo-serializer-of-a-uuid": "what is registered with Kryo is not shown",
}
#: Of those of Flink's test resources alone.
FLINKS_REASONS: Mapping[str, str] = {
    **REASONS,
    "linked-list-serializer-1.14": EARLIER,
    "generic-avro-serializer": "the schema is not shown",
    "writeable-serializer": "user code",
}


def check_texts(folders: Path, reasons: Mapping[str, str]) -> None:
    """Every text is the type of the snapshot that it was printed of, but for the reasons, which all occur."""
    met = set()
    for folder in sorted(folders.iterdir()):
        data = (folder / "serializer-snapshot").read_bytes()
        try:
            same = snapshot_of(parse_type(read_serializer(data).flink_type, NEWEST)) == data
        except TypeNotationError:
            same = False
        stem = folder.name.rsplit("-", 1)[0]
        reason = stem if stem in reasons else folder.name
        assert same != (reason in reasons), folder.name
        met |= {reason} & set(reasons)
    assert met == set(reasons)


def test_what_serializers_print_reads_back(corpus: Path) -> None:
    check_texts(corpus / "serializers", OWN_REASONS)


def test_what_the_fixtures_print_reads_back(flink_resources: Path) -> None:
    check_texts(flink_resources / "serializers", FLINKS_REASONS)


def test_rows_of_sql_are_written_as_flink_wrote_them(corpus: Path) -> None:
    """Snapshots of rows, arrays and maps from their texts alone, Java objects and all."""
    texts: dict[str, bytes] = {}
    for metadata in sorted(corpus.glob("sql/*/_metadata")):
        savepoint = Snapshot.open(str(metadata.parent))
        for operator in savepoint.operators:
            for header in OpenOperator(savepoint, operator).keyed.headers:
                metas = [header.key_serializer, *(s for meta in header.states for s in meta.serializers.values())]
                texts |= {part.flink_type: snapshot_of(part) for whole in metas for part in sql_parts(whole)}
    others = 0
    for text, data in texts.items():
        if "'oracle." in text or "'java." in text:  # classes of the job, and Java's
            with pytest.raises(TypeNotationError, match="typesFrom"):
                parse_type(text)
        elif b"\0\tclassName" in data:  # structured types of Flink 2, which are written in the form of Flink 1
            assert parse_type(text).flink_type == text
            others += 1
        else:
            assert snapshot_of(parse_type(text)) == data, text
    assert len(texts) > 40
    assert others > 1


def sql_parts(serializer: TypeSerializer) -> Iterator[TypeSerializer]:
    if isinstance(serializer, RowDataSerializer | CollectionDataSerializer):
        yield serializer
    for child in serializer.children:
        yield from sql_parts(child)


# -- any text ------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [*composites(), *SPECIAL, "LONG", "STRING", "INT", "BIGINT", "a", "com.x.A", "NOT", "NULL", "*", "="]
)
PIECES = st.one_of(WORDS, st.sampled_from(list("<>(),`' ")), st.integers(-1, 40).map(str))


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=14).map(" ".join)))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    try:
        serializer = parse_type(text, NEWEST)
    except TypeNotationError:
        return
    assert read_serializer(snapshot_of(serializer)) == serializer
