"""What a GPU computes is what the plain loop computes. Skipped where there is none."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from coteach.data import Dataset, load
from coteach.estimate.prepare import prepare
from coteach.methods import catalogue
from coteach.nets import PaperCNN
from coteach.noise import corrupt, symmetric
from coteach.recipes import recipe
from coteach.results.run import Runner
from coteach.samples import Resident, Streamed
from coteach.training.arithmetic import switches
from coteach.training.setup import draw_labels, make_trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
GPU, CPU = torch.device("cuda"), torch.device("cpu")
METHODS = sorted(catalogue.entries())


@pytest.fixture(scope="module")
def images():
    """Random pixels of CIFAR-10's shape: enough for ten steps of 64."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (900, 32, 32, 3), np.uint8), np.arange(900) % 10
    return Dataset.checked("cifar10", x[:700], y[:700], x[700:], y[700:])


@pytest.fixture
def trainer_for(images):
    """Builds trainers; keywords change the config."""

    def make(method="co-teaching", device=GPU, room=None, **changes):
        base = {"noise": "symmetric", "rate": 0.5, "epochs": 3, "decay_from": 2, "batch_size": 64}
        config = recipe("cifar10", method=method, **(base | changes))
        return make_trainer(config, images, draw_labels(config, images), device=device, room=room)

    return make


def train(trainer, steps):
    """This many steps, over the ends of epochs, with the switches of the trainer's precision."""
    with switches(trainer.config, trainer.device):
        while steps:
            for _ in trainer.run_epoch():
                steps -= 1
                if not steps:
                    return trainer
            trainer.finish_epoch()
    return trainer


def weights(trainer):
    return torch.cat([p.detach().cpu().flatten() for p in trainer.networks.parameters()])


def first_moments(trainer):
    """Adam's mean of the gradients: after one step, the gradients."""
    states = [state for optimiser in trainer.optimisers for state in optimiser.state.values()]
    return torch.cat([state["exp_avg"].flatten().double() for state in states])


def distance(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28, 1), (30, 30, 3)])
def test_the_fused_network_is_as_near_to_fp32_as_autocast(shape, monkeypatch):
    from coteach.training.fused_cnn import FusedCNN
    from coteach.training.kernels import unfolded

    torch.manual_seed(0)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # the truth is fp32
    net = PaperCNN(shape, 10, dropout=0.0).to(GPU, memory_format=torch.channels_last)
    norms = [layer for layer in net if isinstance(layer, torch.nn.BatchNorm2d)]
    start = {name: value.clone() for name, value in net.state_dict().items()}
    x, y = torch.rand(128, shape[2], *shape[:2], device=GPU), torch.randint(0, 10, (128,), device=GPU)

    def measured(forward):
        net.load_state_dict(start)
        net.train().zero_grad()
        scores = forward(x)
        F.cross_entropy(scores, y).backward()
        found = {name: p.grad.clone() for name, p in net.named_parameters() if p.ndim > 1}
        found |= {f"{place}.gamma": norm.weight.grad.clone() for place, norm in enumerate(norms)}
        found |= {f"{place}.beta": norm.bias.grad.clone() for place, norm in enumerate(norms)}
        found |= {f"{place}.mean": norm.running_mean.clone() for place, norm in enumerate(norms)}
        found |= {f"{place}.var": norm.running_var.clone() for place, norm in enumerate(norms)}
        found |= {"bias": net[-1].bias.grad.clone(), "scores": scores.detach()}
        with torch.no_grad():
            net.eval()
            return found | {"evaluated": forward(x).clone()}

    def autocast(x):
        with torch.autocast("cuda", torch.bfloat16):
            return net(x).float()

    fused_net = FusedCNN(net)
    truth, plain, fused = measured(net), measured(autocast), measured(lambda x: fused_net(unfolded(x)))
    assert truth.keys() == fused.keys()
    for name in truth:
        assert distance(fused[name], truth[name]) <= 1.3 * distance(plain[name], truth[name]) + 1e-3, name


@pytest.mark.parametrize("method", METHODS)
def test_a_captured_step_is_the_plain_step(trainer_for, method):
    """The same batch, the same weights. In fp32 they differ by rounding; in bf16 by bf16's rounding."""
    plain = first_moments(train(trainer_for(method, compile=False, precision="fp32", dropout=0.0), 1))
    captured = first_moments(train(trainer_for(method, compile=True, precision="fp32", dropout=0.0), 1))
    assert distance(captured, plain) < 0.01  # nine layers of batch norm amplify rounding; in TF32 it is 0.05
    eager = first_moments(train(trainer_for(method, compile=False, precision="bf16", dropout=0.0), 1))
    fast = first_moments(train(trainer_for(method, dropout=0.0), 1))
    assert distance(fast, plain) <= 1.3 * distance(eager, plain)


@pytest.mark.parametrize("method", METHODS)
def test_the_fast_path_gives_the_same_bits_twice_and_after_a_resume(trainer_for, tmp_path, method):
    whole = train(trainer_for(method), 25)
    broken = train(trainer_for(method), 14)
    torch.save(broken.state(), tmp_path / "state.pt")
    resumed = trainer_for(method)
    resumed.load_state(torch.load(tmp_path / "state.pt", map_location="cpu"))
    train(resumed, 11)
    assert torch.isfinite(weights(whole)).all()
    assert torch.equal(weights(whole), weights(train(trainer_for(method), 25)))
    assert torch.equal(weights(whole), weights(resumed))


def test_a_captured_step_without_picks_moves_nothing(trainer_for):
    trainer = train(trainer_for("decoupling", dropout=0.0), 3)
    trainer.networks[1].load_state_dict(trainer.networks[0].state_dict())
    before = weights(trainer)
    train(trainer, 2)
    assert torch.equal(weights(trainer), before)  # two equal networks never disagree


def test_streamed_data_train_the_same_bits(trainer_for):
    resident, streamed = trainer_for(), trainer_for(room=0)
    assert isinstance(resident.batches.samples, Resident)
    assert isinstance(streamed.batches.samples, Streamed)
    assert torch.equal(weights(train(resident, 25)), weights(train(streamed, 25)))
    with switches(resident.config, GPU):
        assert resident.evaluate() == streamed.evaluate()


@pytest.mark.parametrize(("first", "then"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_run_moves_between_the_cpu_and_a_gpu(quick, tmp_path, first, then):
    config = quick(epochs=4)

    def stop(progress):
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Runner(tmp_path, first, checkpoint_every=0, on_progress=stop).run(config)
    said = []
    result = Runner(tmp_path, then, on_message=said.append).run(config)
    assert any("going on in epoch" in line for line in said)
    whole = Runner(tmp_path / "whole", then).run(config)
    for mine, other in zip(result.epochs, whole.epochs, strict=True):
        assert mine.train_loss == pytest.approx(other.train_loss, rel=0.05)


def test_a_captured_step_keeps_evidence_and_counts_for_the_guard(trainer_for):
    trainer = trainer_for(noise="none", rate=None, tau=0.5, t_k=1, guard="warn", drop_last=False)
    train(trainer, 2 * trainer.steps_per_epoch)
    assert (trainer.ledger.seen.cpu() == 2).all()  # what the graph's warm-up noted is taken back
    assert trainer.ledger.picked.sum().item() > 0
    assert trainer.ledger.loss.isfinite().all()


def test_the_noise_rate_is_estimated_on_a_gpu():
    digits = load("digits")
    draw = corrupt(digits.y_train, symmetric(10, 0.3), 0)
    config = recipe("digits", noise="symmetric", rate=0.3, name="own")
    ready = prepare(config, digits, draw, device=GPU)
    assert abs(ready.estimate.rate - draw.rate) < 0.06
