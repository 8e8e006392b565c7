"""Types of Flink's own aggregates: a text makes the bytes that Flink 1.20.5 wrote; classes of the user are refused."""

from __future__ import annotations

import base64
import zlib

import pytest

from pyspark_savepoint.formats.errors import TypeNotationError
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer

VIEW = "RAW('org.apache.flink.table.api.dataview.MapView', '...')"
MAXIMUM = (
    "STRUCTURED<'org.apache.flink.table.runtime.functions.aggregate.MaxWithRetractAggFunction"
    f"$MaxWithRetractAccumulator', `max` INT, `mapSize` BIGINT, `map` {VIEW}>"
)
#: Streams of these types in a savepoint of ``SELECT k, SUM(v), MAX(v) FROM changelog GROUP BY k``: zlib, base64.
VIEW_OF_FLINK = (
    "eNqVUU1KAzEUfq0UpAtBr6G8uChuZqXSjYwirSi4kdcxjtHMZEjSdtqFW8+idCduvICn8Q4mM2WmVQs1m0cSvp/3fbMvaBkNe0rHSBlF9xzvpE"
    "gf0dJAcrSTjBuUKhYRSezR+MI9QHkaTWiG0IokTacWtsMHGhGTlMbsWJIxQQhtw7UgKaZcWzgInQYrNVih4S6CRSpJVMq80NAKaZhX6Fe4INew"
    "v5a5sJw/DF5DW5izoZQeEcKmx/SUsn/6KWgLK4bNadkCrccFedZ40tD5ryWPnduCHQC31ZbPC31e2E2HyeJnZmGjd3g10rC7Qsclh7dkaST4GE"
    "8pu3QT6pNnrlNcga1wPpY66ffzj5O3aHbTLNwd/QJ7ybIsrMrCARmOy431RRpLblU6eXl+/cRxtyTsrEe4zFUX6Vb6Bj0B5CM="
)
MAXIMUM_OF_FLINK = (
    "eNqlVT1TFEEQ7eVAEC1FUasMNEITqVlRNCECPPGsE6m7Q0oCqWFvWAdnZ8eZXjgIKI3MzA38AVpmlol/wMDM36GxiYE9e3hfSnniBre3s9PvvX"
    "7T3fvuGww5C9dTGzNuePRYsA0l9ROGfF0JhjtGOKbSWEZcsSraLMLMinqN1qF5BQMwtAonpCtph1yj9IFlGOWIVq5nKBzCWHmTb/EwQ6nCsnQ4"
    "Q++jNDHcSpdqhLtl4g+b/GHOH+b8Yc4f7vOH3fwT7cf5FhYhj8vEKJEIjRxlqucVdyThVFOC4joO8yXaedRlRliPhXDjMBJmGham+7Ju2Ql7S2"
    "xI3etdYRWGpbstNVdlOFYXLrLSeN0IpzskE6/UMWkeS9c3RYSlOuUnN6SwCFMHSY84chIQ3u8J8bKv9iW73Lx3Sx5YhVHpFjOlmkc94mMqaYoI"
    "N/tzsQPWx800TLDXr5M9sfuy4DQAZXXCO8a8Y6yos6TzpUE4Wa1Vludry5XirbXaw6ViYExAxX85D/LFyeZTpcgqst9NLOskrZNfeZJUtD9OXp"
    "r68PXl2AAEZRhUtPIU9iAg1sm/A7TXz8/Bs8+Pvl/MYYII4VxHc7S3kSckbbyNPGst3/E6Gs+/XHj1ib8uQFCCQSd3RcNQjoXtQf9LQQuHaOaO"
    "Zpr91bgdRdpdmj7vI+SB5on49R/zLrr2z+dPedLJFBLeIOWTfSkvaewuSGh4FSPBnr8dQxguLdaKC8WK889nCX444aZKRhFF2BfFnIz/ynJkrr"
    "RARC0SysH0nUOFb/c0VRmGIsV3dz0c+T1KA0NyRaLtH9uKGxnSCE1SnXvrS8SFHrLaipvpEVyozK5sWbhygEBCZHWaGFtSbLN73DygO7SvvB7Z"
    "AbGtOD8V2go+LH28+z56tzaQN+fcb8GespkEayXB1rkTrDuTKs0+JTDVO29evP3EtotNwOn+ALuxOg/U5A6dodlz5/96pv0B6hw5Hvw4wuDi/c"
    "UiGb9xAIfNaC4ntJbp5uRgPI6tiDkKOofGisTHFYGWRzgbx7f3N030vImiLMkUx9R2nZn5CanFnyY="
)


@pytest.mark.parametrize(
    ("text", "stream"), [(VIEW, VIEW_OF_FLINK), (MAXIMUM, MAXIMUM_OF_FLINK)], ids=["raw", "structured"]
)
def test_a_text_makes_what_flink_wrote(text: str, stream: str) -> None:
    serializer = parse_type(f"ROWDATA<BIGINT, {text}>")
    assert isinstance(serializer, RowDataSerializer)
    assert serializer.flink_type == f"ROWDATA<BIGINT, {text}>"
    assert serializer.fields[1].stream == zlib.decompress(base64.b64decode(stream))


@pytest.mark.parametrize(
    "text",
    [
        "RAW('com.shop.Money', '...')",
        "RAW('org.apache.flink.table.api.dataview.MapView', 'AAAA')",
        "RAW(MapView, '...')",
        "STRUCTURED<'com.shop.Total', `a` INT>",
        "STRUCTURED<`a` INT>",
        "STRUCTURED",
    ],
)
def test_classes_of_the_user_are_refused(text: str) -> None:
    with pytest.raises(TypeNotationError):
        parse_type(f"ROWDATA<{text}>")


def test_times_with_a_zone() -> None:
    assert parse_type("ROWDATA<TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL>").flink_type == (
        "ROWDATA<TIMESTAMP_LTZ(3) NOT NULL>"
    )
    with pytest.raises(TypeNotationError, match="WITH TIME ZONE"):
        parse_type("ROWDATA<TIMESTAMP(3) WITH ZONE>")
