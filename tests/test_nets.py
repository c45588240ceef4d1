import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from coteach.data import Dataset, load
from coteach.errors import SettingError
from coteach.nets import PaperCNN, build, count_parameters, forward_flop, own
from coteach.recipes import recipe
from coteach.results.run import Runner
from coteach.training import device
from coteach.training.setup import draw_labels, make_trainer, threads_that_pay


@pytest.mark.parametrize(
    ("shape", "classes", "parameters"),
    [((28, 28, 1), 10, 4_432_266), ((32, 32, 3), 10, 4_434_570), ((32, 32, 3), 100, 4_446_180)],
)
def test_the_papers_network_has_the_papers_size(shape, classes, parameters):
    assert count_parameters(PaperCNN(shape, classes)) == parameters


def test_the_papers_network_has_the_papers_shape():
    net = PaperCNN((32, 32, 3), 10).eval()
    sizes, x = [], torch.zeros(2, 3, 32, 32)
    for layer in net:
        x = layer(x)
        if isinstance(layer, nn.Conv2d):
            sizes.append((x.shape[1], x.shape[2]))
            assert layer.bias is not None
    assert sizes == [(128, 32)] * 3 + [(256, 16)] * 3 + [(512, 6), (256, 4), (128, 2)]
    assert x.shape == (2, 10)
    assert [m.negative_slope for m in net if isinstance(m, nn.LeakyReLU)] == [0.01] * 9
    assert [m.p for m in net if isinstance(m, nn.Dropout2d)] == [0.25] * 2


def test_dropout_drops_channels_in_training_and_nothing_in_eval():
    net = PaperCNN((28, 28, 1), 10, dropout=0.5)
    x = torch.rand(2, 1, 28, 28)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


@pytest.mark.parametrize("norm_init", ["ones", "uniform"])
def test_batch_norm_starts_as_asked(norm_init, quick):
    config, digits = quick(norm_init=norm_init), load("digits")
    trainer = make_trainer(config, digits, draw_labels(config, digits), device=torch.device("cpu"))
    convolutions = [m.weight for m in trainer.networks.modules() if isinstance(m, nn.Conv2d)]
    torch.manual_seed(config.init_seed)
    plain = [build(config.network, digits.shape, digits.classes, config.dropout) for _ in range(2)]
    expected = [m.weight for m in nn.ModuleList(plain).modules() if isinstance(m, nn.Conv2d)]
    assert all(map(torch.equal, convolutions, expected))  # no other weight depends on it
    for net in trainer.networks:
        scales = torch.cat([m.weight for m in net.modules() if isinstance(m, nn.BatchNorm2d)])
        shifts = torch.cat([m.bias for m in net.modules() if isinstance(m, nn.BatchNorm2d)])
        assert not shifts.any()
        if norm_init == "ones":
            assert torch.equal(scales, torch.ones_like(scales))
        else:
            assert 0 <= scales.min() < 0.1
            assert 0.9 < scales.max() <= 1
            assert 0.4 < scales.mean() < 0.6
            weights = torch.cat([m.weight.flatten() for m in net.modules() if isinstance(m, nn.Conv2d)])[: len(scales)]
            assert abs(torch.corrcoef(torch.stack([scales, weights]))[0, 1]) < 0.4  # they are numbers of their own


@pytest.mark.parametrize(
    ("name", "shape"), [("small-cnn", (8, 8, 1)), ("small-cnn", (16, 16, 3)), ("mlp", (20,)), ("mlp", (3, 3, 1))]
)
def test_small_networks_answer_one_score_a_class(name, shape):
    x = torch.rand(4, *((shape[2], *shape[:2]) if len(shape) == 3 else shape))
    assert build(name, shape, 7, 0.0)(x).shape == (4, 7)


def test_networks_that_do_not_fit_say_which_does():
    with pytest.raises(SettingError, match="28 pixels or more, these are 8x8: choose --network small-cnn"):
        build("paper-cnn", (8, 8, 1), 10, 0.0)
    with pytest.raises(SettingError, match="choose --network mlp"):
        build("paper-cnn", (20,), 10, 0.0)
    with pytest.raises(SettingError, match="did you mean 'paper-cnn'"):
        build("papercnn", (28, 28, 1), 10, 0.0)


def test_a_network_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n"
        "def linear(shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))\n"
        "def wrong(shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64))\n"
        "def empty(shape, classes):\n"
        "    return nn.Flatten()\n"
        "def broken(shape, classes):\n"
        "    return 1 / 0\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert build("my_nets:linear", (8, 8, 1), 10, 0.0)(torch.rand(2, 1, 8, 8)).shape == (2, 10)
    with pytest.raises(SettingError, match=r"gives \(2, 64\) for two samples, \(2, 10\) is needed"):
        build("my_nets:wrong", (8, 8, 1), 10, 0.0)
    with pytest.raises(SettingError, match="no parameters to train"):
        build("my_nets:empty", (8, 8, 1), 10, 0.0)
    with pytest.raises(SettingError, match="ZeroDivisionError"):
        build("my_nets:broken", (8, 8, 1), 10, 0.0)
    with pytest.raises(SettingError, match="has no 'nothing'"):
        build("my_nets:nothing", (8, 8, 1), 10, 0.0)
    (tmp_path / "not_python.py").write_text("def net(:\n")
    for name in ("no_such_module:net", ":net", "not_python:net"):
        with pytest.raises(SettingError, match="cannot import"):
            build(name, (8, 8, 1), 10, 0.0)


def test_own_checks_that_it_gets_a_network():
    with pytest.raises(SettingError, match=r"must return a torch\.nn\.Module"):
        own(lambda shape, classes: 3, (8, 8, 1), 10)


def test_the_work_of_a_forward_pass_is_counted():
    net = build("mlp", (20,), 10, 0.5)
    assert forward_flop(net, (20,)) == 2 * (20 * 256 + 256 * 256 + 256 * 10)
    assert net.training
    cnn = build("small-cnn", (8, 8, 1), 10, 0.0)
    assert forward_flop(cnn, (8, 8, 1)) == 2 * (9 * 16 * 64 + 9 * 16 * 32 * 16 + 9 * 32 * 64 * 4 + 64 * 4 * 10)


def test_a_run_of_a_small_network_takes_one_thread(quick, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(device, "allowed_cores", lambda: 2)
    small = quick(epochs=1, decay_from=1, max_steps=1)
    assert Runner(tmp_path).run(small).summary["environment"]["threads"] == 1
    own = Runner(tmp_path).run(small, network=lambda shape, classes: build("small-cnn", shape, classes, 0.0))
    assert own.summary["environment"]["threads"] == 2


def test_a_small_network_gets_one_thread(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    digits = load("digits")
    photos = Dataset.checked("photos", *[np.zeros((2, 64, 64, 3), np.uint8), np.arange(2)] * 2)
    small, large = recipe("digits"), recipe(photos, network="small-cnn", batch_size=2)
    assert threads_that_pay(small, digits) == 1
    assert threads_that_pay(replace(large, batch_size=128), photos) == 0  # one a core
    assert threads_that_pay(small, digits, network=lambda shape, classes: None) == 0  # nobody knows how large
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_that_pay(small, digits) == 0  # as the variable says
