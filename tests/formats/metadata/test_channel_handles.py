"""Handles of channel state in metadata of Flink 1.11, which have no subtask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.metadata.operator_handles import (
    INPUT,
    ChannelStateHandle,
    read_channel_handles,
    write_channel_handles,
)
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle

LATER = ChannelStateHandle(3, (0, 1), (4, 40), 72, ByteStreamStateHandle("buffers", bytes(80)))


@pytest.mark.parametrize("handle", [LATER, replace(LATER, has_subtask=False)], ids=["1.12", "1.11"])
def test_both_forms_are_read_and_written(handle: ChannelStateHandle) -> None:
    out = DataOutputView()
    write_channel_handles((handle, handle), INPUT, False, out)
    view = DataInputView(out.getvalue())
    assert read_channel_handles(view, INPUT, False, owner=3) == (handle, handle)
    assert view.remaining == 0

    with pytest.raises(CorruptStateError):
        read_channel_handles(DataInputView(out.getvalue()[:-1]), INPUT, False, owner=3)
