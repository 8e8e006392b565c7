"""Handles of channel state in metadata of Flink 1.11, which have no subtask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
    write_metadata,
)
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.operator_handles import INPUT_CHANNELS, ChannelStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle

LATER = ChannelStateHandle(3, (0, 1), (4, 40), 72, ByteStreamStateHandle("buffers", bytes(80)))


@pytest.mark.parametrize("handle", [LATER, replace(LATER, has_subtask=False)], ids=["1.12", "1.11"])
def test_both_forms_are_read_and_written(handle: ChannelStateHandle) -> None:
    subtask = OperatorSubtaskState(input_channel_state=(handle, handle))
    metadata = CheckpointMetadata(3, 1, (), (OperatorState(OperatorID(bytes(16)), 4, 128, subtasks={3: subtask}),))
    assert read_metadata(write_metadata(metadata)) == metadata

    data = INPUT_CHANNELS.at(3).bytes((handle, handle))
    with pytest.raises(CorruptStateError):
        INPUT_CHANNELS.at(3).read(DataInputView(data[:-1]), "channel state handles")
