"""Operator ids: the hash of uids against ids that real jobs have, and how they are written."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier


@pytest.mark.parametrize(
    ("uid", "text"),
    [("my-uid", "8409efe6adc6d20787611f16017c808f"), ("10_calc", "f22e0690e74b1b2728989d5c7333324f")],
)
def test_uids_hash_as_in_flink(uid: str, text: str) -> None:
    assert OperatorID.from_uid(uid).hex == text
    assert OperatorID.from_hex(text) == OperatorID.from_hex(text.upper()) == OperatorID.from_uid(uid)


def test_uids_of_real_jobs_have_the_ids_that_flink_gave(corpus: Path) -> None:
    pairs = {
        (operator["uid"], operator["operatorId"])
        for expected in corpus.glob("lab/*/expected.json")
        for operator in json.loads(expected.read_text())["operatorIds"]
        if operator.get("uid")
    }
    assert len(pairs) >= 10
    for uid, text in pairs:
        assert OperatorID.from_uid(uid).hex == text


def test_unpaired_surrogates_hash_as_a_question_mark() -> None:
    assert OperatorID.from_uid("a\ud800b") == OperatorID.from_uid("a?b")
    assert OperatorID.from_uid("\ud83d\ude00") == OperatorID.from_uid("\U0001f600")


@pytest.mark.parametrize("text", ["", "my-uid", "84", "8409efe6adc6d20787611f16017c808", "8409efe6 " * 4, "é" * 32])
def test_text_that_is_no_hash_is_an_option_error(text: str) -> None:
    with pytest.raises(OptionError, match="32 hex digits"):
        OperatorID.from_hex(text)


def test_ids_have_sixteen_bytes_and_pickle() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        OperatorID(b"short")
    identifier = OperatorIdentifier.for_uid("my-uid")
    assert pickle.loads(pickle.dumps(identifier)) == identifier
    assert str(identifier) == "uid 'my-uid' (8409efe6adc6d20787611f16017c808f)"
    assert OperatorIdentifier.for_uid_hash("84" * 16).operator_id.hex == "84" * 16
