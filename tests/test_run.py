"""Run folders: what is in them, how a run goes on, and what happens when the disk or a file fails."""

import dataclasses
import functools
import importlib
import json
import linecache
import os
import resource
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from coteach.config import Config
from coteach.data import Dataset, load
from coteach.errors import DataError, SettingError, StorageError, TrainingError
from coteach.function_source import source_sha256
from coteach.noise import corrupt, save_draw, symmetric
from coteach.recipes import recipe, saved_labels
from coteach.results import saving
from coteach.results.checkpoint import Checkpoints
from coteach.results.folder import RunFolder
from coteach.results.run import InterruptedRun, Runner, read_result, run
from coteach.training.setup import draw_labels, make_trainer


class StopAfter:
    """Raises Ctrl-C's signal after some steps, as a user would."""

    def __init__(self, steps, number=signal.SIGINT):
        self.left, self.number = steps, number

    def __call__(self, progress):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


def files(path):
    return sorted(p.name for p in path.iterdir() if not p.name.startswith("."))


def test_a_finished_folder(quick, tmp_path):
    config = quick()
    result = run(config, tmp_path)
    assert result.path == tmp_path / config.name
    written = ["config.json", "epochs.jsonl", "labels.npz", "model.json", "summary.json"]
    assert files(result.path) == [*written, "weights.safetensors"]
    assert RunFolder(result.path).config() == config
    assert [record.epoch for record in result.epochs] == [1, 2, 3]
    assert result.summary["noise_rate"] == pytest.approx(0.45, abs=0.03)
    assert result.summary["parameters"] == [26090, 26090]
    assert result.summary["environment"]["torch"] == torch.__version__
    weights = safetensors.torch.load_file(result.path / "weights.safetensors")
    assert {name.split(".")[0] for name in weights} == {"0", "1"}


def test_a_done_run_is_not_trained_again(quick, tmp_path):
    first = run(quick(), tmp_path)
    again = run(quick(), tmp_path, on_progress=lambda progress: pytest.fail("trained again"))
    assert again.already_done
    assert not first.already_done
    assert again.epochs == first.epochs


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_the_same_call_goes_on_bit_equal(quick, tmp_path, number):
    whole = run(quick(), tmp_path / "whole")
    with pytest.raises(InterruptedRun, match="run the same command again to go on"):
        run(quick(), tmp_path / "stopped", on_progress=StopAfter(6, number))
    said = []
    stopped = run(quick(), tmp_path / "stopped", on_message=said.append)
    assert said == ["going on in epoch 2 of 3"]
    for name in ("epochs.jsonl", "weights.safetensors"):
        assert (stopped.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_classes_that_a_draw_of_the_noise_makes_another_are_named_once(quick, tmp_path):
    said = []
    runner = Runner(tmp_path, on_message=said.append)
    for seed in (1, 2):
        runner.run(quick(noise_seed=0, epochs=1, decay_from=0, seed=seed))
    assert len(said) == 1
    assert "3 (as 4), 5 (as 6), 8 (as 9); a method that sees only the labels confuses the two: another" in said[0]


def test_the_callers_random_numbers_are_left_alone(quick, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run(quick(), tmp_path)
    assert torch.equal(torch.rand(3), expected)


def test_of_time_on_a_shared_device_a_share_is_counted_over_all_tries(quick, tmp_path, monkeypatch):
    now, runs, config, data = [0.0], [2], quick(), load("digits")
    monkeypatch.setattr(saving, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def saver():
        trainer = make_trainer(config, data, draw_labels(config, data), device=torch.device("cpu"))
        return saving.Saver(trainer, Checkpoints(tmp_path), 30.0, lambda: runs[0])

    first = saver()
    now[0] = 10.0
    first.count()  # beside another run
    now[0], runs[0] = 14.0, 1
    first.save()  # alone
    now[0], runs[0] = 20.0, 4
    second = saver()
    second.restore(lambda message: None, keep_threads=False)
    now[0] = 28.0
    second.count()
    assert (second.seconds, second.device_seconds) == (10 + 4 + 8, 5 + 4 + 2)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(quick, tmp_path, damage):
    whole = run(quick(), tmp_path / "whole")
    with pytest.raises(InterruptedRun):
        run(quick(), tmp_path / "hurt", checkpoint_every=0, on_progress=StopAfter(7))
    newest = tmp_path / "hurt" / quick().name / "checkpoint.pt"
    newest.write_bytes(damage(newest.read_bytes()))
    said = []
    hurt = run(quick(), tmp_path / "hurt", on_message=said.append)
    assert said[0] == "checkpoint.pt is damaged and was passed over"
    assert "going on" in said[1]
    assert (hurt.path / "weights.safetensors").read_bytes() == (whole.path / "weights.safetensors").read_bytes()


def test_a_run_without_a_whole_checkpoint_starts_over(quick, tmp_path):
    whole = run(quick(), tmp_path / "whole")
    with pytest.raises(InterruptedRun):
        run(quick(), tmp_path / "hurt", on_progress=StopAfter(9))
    (tmp_path / "hurt" / quick().name / "checkpoint.pt").write_bytes(b"nonsense")
    hurt = run(quick(), tmp_path / "hurt")
    assert (hurt.path / "epochs.jsonl").read_bytes() == (whole.path / "epochs.jsonl").read_bytes()


def test_a_torn_line_of_epochs_is_dropped(quick, tmp_path):
    whole = run(quick(), tmp_path / "whole")
    with pytest.raises(InterruptedRun):
        run(quick(), tmp_path / "torn", on_progress=StopAfter(9))
    with (tmp_path / "torn" / quick().name / "epochs.jsonl").open("a") as file:
        file.write('{"epoch": 3, "test_acc')
    torn = run(quick(), tmp_path / "torn")
    assert (torn.path / "epochs.jsonl").read_bytes() == (whole.path / "epochs.jsonl").read_bytes()


def test_a_second_process_is_refused(quick, tmp_path):
    refused = []

    def meanwhile(progress):
        if not refused:
            code = (
                "import sys, json; from coteach.config import Config; from coteach.results.run import run\n"
                "run(Config.from_dict(json.loads(sys.argv[1])), sys.argv[2])"
            )
            words = [sys.executable, "-c", code, json.dumps(quick().to_dict()), str(tmp_path)]
            refused.append(subprocess.run(words, capture_output=True, text=True, check=False))

    run(quick(), tmp_path, on_progress=meanwhile)
    assert refused[0].returncode == 1
    assert "another process is working on" in refused[0].stderr


def test_a_loss_that_becomes_nan_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    config = recipe("digits", noise="pair", rate=0.45, epochs=4, lr=1e30)
    with pytest.raises(TrainingError, match=r"the loss became (NaN|infinite) in epoch \d: lower the learning rate"):
        run(config, tmp_path, checkpoint_every=0)
    state, warnings = Checkpoints(tmp_path / config.name).load()
    assert warnings == []
    assert state is None or bool(state["sums"][0].isfinite().all())
    assert not RunFolder(tmp_path / config.name).done


def test_a_full_disk_says_so_and_loses_nothing(quick, tmp_path):
    """A limit on the size of files stands in for the disk: the write fails in the kernel all the same."""
    whole = run(quick(), tmp_path / "whole")
    with pytest.raises(InterruptedRun):
        run(quick(), tmp_path / "full", on_progress=StopAfter(5))
    before = (tmp_path / "full" / quick().name / "checkpoint.pt").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignore = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(StorageError, match="no space left on the disk: make room and run the same command again"):
            run(quick(), tmp_path / "full", checkpoint_every=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignore)
    folder = tmp_path / "full" / quick().name
    assert (folder / "checkpoint.pt").read_bytes() == before
    assert not list(folder.glob(".*.part"))
    full = run(quick(), tmp_path / "full")
    assert (full.path / "weights.safetensors").read_bytes() == (whole.path / "weights.safetensors").read_bytes()


def test_a_disk_that_is_really_full(quick, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "none", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can make a small disk")
    try:
        with pytest.raises(StorageError, match="no space left on the disk"):
            run(quick(), disk, checkpoint_every=0)
        assert not RunFolder(disk / quick().name).done
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_cannot_be_made(quick, tmp_path):
    (tmp_path / "runs").write_text("a file, not a folder")
    with pytest.raises(StorageError, match="a file stands where a folder is needed"):
        run(quick(), tmp_path / "runs")


def test_a_broken_config_file(quick, tmp_path):
    result = run(quick(), tmp_path)
    (result.path / "config.json").write_text("{")
    with pytest.raises(DataError, match="is damaged"):
        read_result(result.path)
    with pytest.raises(DataError, match="no finished run"):
        read_result(tmp_path)


def test_saved_labels_train_the_same_run_for_two_people(tmp_path):
    digits = load("digits")
    draw = corrupt(digits.y_train, symmetric(10, 0.3), seed=9)
    results = []
    for person in ("ann", "bob"):
        path = tmp_path / person / "labels.npz"
        path.parent.mkdir()
        save_draw(draw, path)
        config = recipe("digits", noise=str(path), epochs=2, max_steps=2)
        results.append(run(config, tmp_path / person, labels=saved_labels(str(path))))
    ann, bob = results
    assert ann.config == bob.config
    assert (ann.path / "weights.safetensors").read_bytes() == (bob.path / "weights.safetensors").read_bytes()
    assert ann.summary["labels_sha256"] == draw.sha256
    again = dataclasses.replace(ann.config, epochs=3)
    with pytest.raises(DataError, match="saved labels of this run are not here"):
        run(again, tmp_path)


def test_saved_labels_of_other_data_are_refused(tmp_path):
    save_draw(corrupt(np.arange(1437) % 10, symmetric(10, 0.3)), tmp_path / "other.npz")
    config = recipe("digits", noise=str(tmp_path / "other.npz"))
    with pytest.raises(DataError, match="drawn for other data"):
        run(config, tmp_path, labels=saved_labels(str(tmp_path / "other.npz")))


def test_a_matrix_for_other_classes_is_refused(tmp_path):
    np.save(tmp_path / "q.npy", np.eye(3))
    with pytest.raises(DataError, match="for 3 classes, digits has 10"):
        run(recipe("digits", noise=str(tmp_path / "q.npy")), tmp_path)


def test_own_data_that_changed_is_another_run(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.random((80, 5), np.float32), np.arange(80) % 4
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    config = recipe(str(path), epochs=1, batch_size=16)
    assert run(config, tmp_path).config.network == "mlp"
    np.savez(path, x_train=x + 1, y_train=y, x_test=x, y_test=y)
    other = recipe(str(path), epochs=1, batch_size=16)
    assert other.digest != config.digest
    with pytest.raises(DataError, match="has changed since"):
        run(dataclasses.replace(config, epochs=2), tmp_path)


def test_a_lost_epochs_file_is_written_again_from_the_checkpoint(quick, tmp_path):
    whole = run(quick(), tmp_path / "whole")
    with pytest.raises(InterruptedRun):
        run(quick(), tmp_path / "lost", on_progress=StopAfter(9))
    (tmp_path / "lost" / quick().name / "epochs.jsonl").unlink()
    lost = run(quick(), tmp_path / "lost")
    assert (lost.path / "epochs.jsonl").read_bytes() == (whole.path / "epochs.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["epochs.jsonl", "weights.safetensors"])
def test_a_finished_run_that_lost_a_part_says_so(quick, tmp_path, name):
    (run(quick(), tmp_path).path / name).unlink()
    with pytest.raises(DataError, match="has lost a part"):
        run(quick(), tmp_path)


def test_a_config_file_that_was_changed_is_noticed(quick, tmp_path):
    with pytest.raises(InterruptedRun):
        run(quick(), tmp_path, on_progress=StopAfter(2))
    file = tmp_path / quick().name / "config.json"
    file.write_text(file.read_text().replace('"lr": 0.001', '"lr": 0.002'))
    with pytest.raises(DataError, match="was changed"):
        run(quick(), tmp_path)


def test_ctrl_c_in_the_last_epoch_finishes_and_still_stops(quick, tmp_path):
    with pytest.raises(InterruptedRun, match="is done"):
        run(quick(), tmp_path, on_progress=StopAfter(3 * 5))  # four steps an epoch, and one call at its end
    assert run(quick(), tmp_path).already_done


def test_refused_settings_leave_no_folder(quick, tmp_path):
    with pytest.raises(SettingError):
        run(quick(network="paper-cnn"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_callers_threads_are_left_alone(quick, tmp_path):
    before = torch.get_num_threads()
    run(quick(), tmp_path, threads=2)
    assert torch.get_num_threads() == before


def test_labels_that_nobody_vouches_for_have_no_precision(quick, tmp_path):
    assert run(quick(noise="none", rate=None), tmp_path).epochs[-1].label_precision == ()


def tied(shape, classes):
    first, second = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
    second.weight = first.weight
    return nn.Sequential(nn.Flatten(), first, second, nn.Linear(64, classes))


def test_a_network_with_tied_weights(quick, tmp_path):
    assert run(quick(), tmp_path, network=tied).epochs[-1].epoch == 3


ONE = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def the_same(shape, classes):
    return ONE


def test_two_networks_that_are_one_are_refused(quick, tmp_path):
    with pytest.raises(SettingError, match="share parameters"):
        run(quick(), tmp_path, network=the_same)


def test_a_network_whose_source_changed_is_another_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    source = (
        "from torch import nn\n"
        "def net(shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, {0}), nn.Linear({0}, classes))\n"
    )
    names = []
    for module, width in (("changing_net", 8), ("changing_net", 16)):
        (tmp_path / f"{module}.py").write_text(source.format(width))
        sys.modules.pop(module, None)
        importlib.invalidate_caches()
        linecache.clearcache()
        names.append(run(recipe("digits", network=f"{module}:net", epochs=1, max_steps=1), tmp_path).path.name)
    assert len(set(names)) == 2


def own_network(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))


def test_a_network_as_a_function(quick, tmp_path):
    result = run(quick(), tmp_path, network=own_network)
    assert result.config.network.endswith(":own_network")
    assert result.summary["parameters"] == [650, 650]


def network_of(width):
    return lambda shape, classes: nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))


def hidden(shape, classes, *, width):
    return network_of(width)(shape, classes)


class Hidden:
    def __init__(self, width):
        self.width = width

    def __call__(self, shape, classes):
        return hidden(shape, classes, width=self.width)


@pytest.mark.parametrize("make", [network_of, Hidden, lambda width: functools.partial(hidden, width=width)])
def test_what_is_bound_to_a_function_makes_another_run(quick, tmp_path, make):
    sizes = [run(quick(epochs=1), tmp_path, network=make(width)).summary["parameters"][0] for width in (4, 8, 4)]
    assert sizes == [310, 610, 310]
    with pytest.raises(SettingError, match="bind plain values only"):
        run(quick(), tmp_path, network=make(object()))


def bare(shape, classes, act=torch.relu, width=64):
    return own_network(shape, classes)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*words):
        return function(*words)

    return wrapper


class Maker:
    @classmethod
    def make(cls, shape, classes):
        return own_network(shape, classes)


def test_what_makes_a_network_is_known_by_what_it_is():
    plain = source_sha256(own_network)
    for same in (bare, Maker, functools.cache(own_network)):
        assert source_sha256(same) == plain  # the file says it all
    assert source_sha256(Maker.make) == source_sha256(Maker.make)
    assert source_sha256(decorated(own_network)) == source_sha256(decorated(own_network))

    def with_width(width):
        def net(shape, classes, *, width=width):
            return own_network(shape, classes)

        return net

    bound = [with_width(1), with_width(2), *(functools.partial(bare, act=act) for act in (torch.relu, nn.ReLU, bare))]
    bound += [functools.partial(bare, act=torch.arange(5000) == place) for place in (2500, 2501)]
    assert len({source_sha256(each) for each in bound}) == len(bound)
    sets = [functools.partial(bare, act={str(n) for n in numbers}) for numbers in (range(40), reversed(range(40)))]
    assert source_sha256(sets[0]) == source_sha256(sets[1])


def test_noise_that_is_in_memory(quick, tmp_path):
    matrix = symmetric(10, 0.5)
    drawn = run(quick(noise=matrix, rate=None), tmp_path)
    np.save(tmp_path / "q.npy", matrix)
    assert drawn.path.name == run(quick(noise=tmp_path / "q.npy", rate=None), tmp_path).path.name
    draw = corrupt(load("digits").y_train, matrix, seed=7)
    mine = run(quick(noise=draw, rate=None), tmp_path, labels=draw)
    assert mine.summary["labels_sha256"] == draw.sha256
    with pytest.raises(SettingError, match="the config's noise is pair"):
        run(quick(epochs=4), tmp_path, labels=draw)
    with pytest.raises(SettingError, match="leave it out"):
        quick(noise=matrix)


def test_another_dataset_than_the_config_says_is_refused(quick, tmp_path):
    digits = load("digits")
    other = Dataset.checked("digits", digits.x_train[::-1][:100], digits.y_train[::-1][:100])
    with pytest.raises(DataError, match="the dataset given is not digits"):
        run(quick(), tmp_path, dataset=other)


def test_a_damaged_first_stage_is_not_learned_from(quick, tmp_path):
    first = run(quick(method="standard"), tmp_path)
    content = bytearray((first.path / "weights.safetensors").read_bytes())
    content[-3] ^= 1
    (first.path / "weights.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"is not the file that model\.json was written for"):
        run(quick(method="s-model"), tmp_path)


def test_who_looks_whether_a_run_is_under_way_does_not_stop_it(tmp_path):
    folder, over = RunFolder(tmp_path / "run"), threading.Event()
    folder.path.mkdir()

    def look():
        while not over.is_set():
            assert folder.running in (True, False)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(100):
            with folder.claimed():
                pass
    finally:
        over.set()
        looking.join()


def test_it_runs_in_a_thread(quick, tmp_path):
    results = []
    thread = threading.Thread(target=lambda: results.append(run(quick(), tmp_path)))
    thread.start()
    thread.join()
    assert results[0].epochs[-1].epoch == 3


def test_the_authors_recipe_runs_as_theirs(tmp_path):
    config = recipe("digits", noise="pair", rate=0.45, name="authors", epochs=3, max_steps=3)
    result = run(config, tmp_path)
    idle, first, _ = result.epochs
    assert (idle.train_loss, idle.picked, idle.label_precision) == ((), (), ())
    assert len(idle.test_accuracy) == 2
    assert first.picked[0] == int((1 - 0.45 / 9) * 128) / 128  # the drop rate of their second epoch, rounded down
    assert result.summary["test_samples"] == 256  # 360, less the last short batch of 128


def test_a_loop_over_runs_ends_when_it_is_interrupted():
    """`except Exception`, around one run of many, must not go on with the next."""
    assert not issubclass(InterruptedRun, Exception)


def table_of(path, classes=2):
    rng = np.random.default_rng(0)
    y = np.arange(400) % classes
    np.savez(path, x=(rng.normal(size=(400, 4)) + 2 * y[:, None]).astype("float32"), y=y)
    return path


def test_a_run_goes_on_wherever_its_data_are_called_from(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    file = table_of(tmp_path / "d.npz")
    how = {"method": "standard", "epochs": 2}
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InterruptedRun):
        run(recipe("d.npz", **how), tmp_path / "runs", on_progress=StopAfter(2))
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = run(recipe(file, **how), tmp_path / "runs")  # a Path, too, names the file and not only its last part
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert done.path == run(recipe("../d.npz", **how), tmp_path / "runs").path


def test_nothing_is_said_of_labels_that_nobody_knows(tmp_path, caplog):
    dataset = load(table_of(tmp_path / "d.npz"))
    config = recipe(dataset, epochs=1)
    result = run(config, tmp_path / "runs", dataset=dataset)
    assert (result.summary["noise_rate"], result.summary["noise_matrix"]) == (None, None)
    assert (config.correction_epochs, result.config.correction_epochs) == (2, 0)  # there was none to make
    assert "every label is believed: give tau" in caplog.text
    with pytest.raises(DataError, match=r"d is not here: give run\(..., dataset=...\)"):
        run(recipe(dataset, epochs=2), tmp_path / "runs")
    with pytest.raises(SettingError, match="describe the run with recipe"):
        run(Config(data=str(tmp_path / "d.npz"), method="standard"), tmp_path / "runs")


def test_epochs_that_did_not_reach_the_disk_are_written_again(quick, tmp_path):
    """As after a power cut that loses what was appended, though the summary is there."""
    config = quick()

    def lose(progress):
        if progress.record is not None and progress.epoch == config.epochs:
            (tmp_path / config.name / "epochs.jsonl").write_text("")

    run(config, tmp_path, on_progress=lose)
    assert len(read_result(tmp_path / config.name).epochs) == config.epochs


@pytest.mark.parametrize("how", ["import my.sizes\n", "from my import sizes\n", "from my.sizes import WIDTH\n"])
def test_a_changed_file_that_a_network_imports_is_another_network(tmp_path, monkeypatch, how):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "__init__.py").touch()
    (tmp_path / "my" / "sizes.py").write_text("from .deeper import WIDTH\n")  # a number, which knows no module
    (tmp_path / "my_net.py").write_text(f"from torch import nn\n{how}\ndef net(shape, classes):\n    return nn\n")
    modules = ("my_net", "my", "my.sizes", "my.deeper")
    hashes = set()
    for width in (8, 64):
        (tmp_path / "my" / "deeper.py").write_text(f"WIDTH = {width}\n")
        for name in modules:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        linecache.clearcache()
        hashes.add(source_sha256(importlib.import_module("my_net").net))
    assert len(hashes) == 2
    for name in modules:
        del sys.modules[name]


def test_odd_functions_that_make_networks_are_taken_or_named():
    class Inside:
        def __init__(self, shape, classes):
            pass

    class Slotted:
        __slots__ = ("width",)

        def __call__(self, shape, classes):
            return nn.Linear(1, 1)

    def early():
        def net(shape, classes):
            return later

        found = net
        try:
            source_sha256(found)
        finally:
            later = 1
        return later

    assert source_sha256(Inside) == source_sha256(Inside)
    for wrong in (lambda: source_sha256(Slotted()), early):
        with pytest.raises(SettingError, match="not to be told from others of its kind"):
            wrong()


def test_the_rate_of_a_matrix_counts_classes_by_their_size():
    y = (np.arange(1000) < 100).astype(int)
    dataset = Dataset.checked("uneven", np.zeros((1000, 3), np.float32), y)
    config = recipe(dataset, noise=[[1.0, 0.0], [0.5, 0.5]])
    assert (config.rate, config.settings["tau"]) == (pytest.approx(0.05), pytest.approx(0.05))


def test_what_a_kill_left_half_written_goes_with_the_checkpoints(quick, tmp_path):
    config = quick()
    folder = run(config, tmp_path).path
    (folder / "summary.json").unlink()  # as if it had been killed at its end, and once in the middle of a checkpoint
    (folder / ".checkpoint.new.pt.999999999.part").write_bytes(b"half")
    run(config, tmp_path)
    assert [file.name for file in folder.iterdir() if "checkpoint" in file.name] == []
