"""Runs for TensorBoard: what is in its files, read with the library that wrote them."""

import struct

import pytest

from coteach.errors import DataError, SettingError
from coteach.results.run import run
from coteach.results.tensorboard import export


def scalars(folder):
    """Every number of an event file: length, two checksums and a message, one after another."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = folder.iterdir()
    data, found = file.read_bytes(), {}
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
        data = data[16 + length :]
    return found


def test_every_epoch_is_there_once(quick, tmp_path):
    result = run(quick(), tmp_path / "runs")
    found = scalars(export(result.path, tmp_path / "board"))
    for record in result.epochs:
        for network, accuracy in enumerate(record.test_accuracy, 1):
            assert found.pop((f"test_accuracy/network_{network}", record.epoch)) == pytest.approx(accuracy)
    assert {tag.split("/")[0] for tag, _ in found} == {"train_loss", "label_precision", "picked"}
    with pytest.raises(SettingError, match="is not empty"):
        export(result.path, tmp_path / "board")


def test_what_is_no_run_is_named(cli, tmp_path):
    with pytest.raises(DataError, match="is no run folder"):
        export(tmp_path, tmp_path / "board")
    assert not (tmp_path / "board").exists()
    process = cli("export", "tensorboard", "absent")
    assert (process.returncode, process.stderr.count("\n")) == (1, 1)
    assert "did you mean 'tensorboard'" in cli("export", "tensorbord", "x").stderr
