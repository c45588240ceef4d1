"""The contract that every registered method keeps, whatever it does, and then what each one does."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from coteach.batches import Batch
from coteach.data import Dataset
from coteach.errors import SettingError, TrainingError
from coteach.methods import catalogue
from coteach.methods.base import Method, Step
from coteach.paper import tables
from coteach.recipes import recipe
from coteach.training.loop import judge
from coteach.training.setup import draw_labels, make_trainer

METHODS = sorted(catalogue.entries())
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def blobs():
    """Four well separated classes in eight dimensions, small enough to train in a moment."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(4, 8))
    y = rng.integers(0, 4, 500)
    x = (centres[y] + rng.normal(size=(500, 8))).astype(np.float32)
    return Dataset.checked("blobs", x[:400], y[:400], x[400:], y[400:])


def trainer_for(blobs, method, **changes):
    config = recipe(blobs, noise="symmetric", rate=0.3, method=method, **({"epochs": 6, "batch_size": 32} | changes))
    torch.manual_seed(0)
    return make_trainer(config, blobs, draw_labels(config, blobs), device=CPU)


def train(trainer, until=None):
    records = []
    while trainer.epoch <= (until or trainer.config.epochs):
        for _ in trainer.run_epoch():
            pass
        records.append(trainer.finish_epoch())
    return records


def weights(trainer):
    return torch.cat([p.detach().flatten().clone() for p in trainer.networks.parameters()])


@pytest.mark.parametrize("method", METHODS)
def test_it_trains(blobs, method):
    records = train(trainer_for(blobs, method))
    assert np.mean(records[-1].test_accuracy) > 0.85
    networks = catalogue.load(method).networks
    for record in records:
        for values in (record.test_accuracy, record.train_loss, record.label_precision, record.picked):
            assert len(values) == networks
            assert all(np.isfinite(values))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [0, 1, 7, 12])
def test_it_resumes_bit_equal_from_any_step(blobs, method, steps):
    whole = trainer_for(blobs, method, dropout=0.1)
    expected = train(whole)
    first = trainer_for(blobs, method, dropout=0.1)
    train(first, until=2)
    for _, _ in zip(range(steps), first.run_epoch(), strict=False):
        pass
    state = first.state()
    second = trainer_for(blobs, method, dropout=0.1)
    torch.manual_seed(123)  # what the process did meanwhile must not matter
    second.load_state(state)
    assert train(second) == expected[2:]
    assert torch.equal(weights(second), weights(whole))


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seeds_give_the_same_run_and_others_another(blobs, method):
    first = train(trainer_for(blobs, method, epochs=2))
    assert train(trainer_for(blobs, method, epochs=2)) == first
    for seed in ("init_seed", "order_seed", "noise_seed"):
        assert train(trainer_for(blobs, method, epochs=2, **{seed: 99})) != first


@pytest.mark.parametrize("method", METHODS)
def test_a_short_last_batch_is_trained_on_or_left_out(blobs, method):
    kept = trainer_for(blobs, method, drop_last=False, batch_size=64)
    left = trainer_for(blobs, method, drop_last=True, batch_size=64)
    assert (kept.steps_per_epoch, left.steps_per_epoch) == (7, 6)  # 400 = 6 * 64 + 16
    assert all(np.isfinite(train(kept)[-1].train_loss))


@pytest.mark.parametrize("method", METHODS)
def test_a_step_neither_waits_for_the_host_nor_changes_shapes(blobs, method):
    """On the meta device there are no values: reading one, or a shape that depends on one, is an error."""
    built = catalogue.load(method)(4, **trainer_for(blobs, method).config.settings).to("meta")
    logits = [torch.empty(32, 4, device="meta", requires_grad=True) for _ in range(built.networks)]
    batch = Batch(torch.empty(32, 8, device="meta"), torch.empty(32, dtype=torch.int64, device="meta"))
    step = built.step(logits, batch, torch.tensor(5, device="meta"))
    assert [loss.shape for loss in step.losses] == [torch.Size([])] * built.networks
    assert [(mask.shape, mask.dtype) for mask in step.picked] == [(torch.Size([32]), torch.bool)] * built.networks


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_explains_itself_and_unknown_ones_are_refused(method):
    for field in catalogue.settings_of(method).values():
        assert field.doc, field.name
    assert catalogue.entry(method).summary
    with pytest.raises(SettingError, match="unknown setting"):
        catalogue.load(method)(4, no_such_setting=1)


class PicksNothing(Method):
    """Learns in the first epoch only."""

    name = "picks-nothing"

    def step(self, logits, batch, epoch):
        losses = torch.nn.functional.cross_entropy(logits[0], batch.y, reduction="none")
        picked = torch.ones_like(losses, dtype=torch.bool) & (epoch == 1)
        return Step(losses=(torch.where(picked, losses, 0).mean(),), picked=(picked,))


def test_an_empty_selection_moves_nothing(blobs):
    trainer = trainer_for(blobs, "standard", epochs=2)
    trainer.method = PicksNothing(4)
    first = train(trainer, until=1)
    before = weights(trainer)
    moments = [s["exp_avg"].clone() for s in trainer.optimisers[0].state.values()]
    second = train(trainer)
    assert torch.equal(weights(trainer), before)  # although Adam's momentum would have moved it
    assert all(torch.equal(a, s["exp_avg"]) for a, s in zip(moments, trainer.optimisers[0].state.values(), strict=True))
    assert {s["step"].item() for s in trainer.optimisers[0].state.values()} == {trainer.steps_per_epoch}
    assert (first[0].picked, second[0].picked, second[0].label_precision) == ((1.0,), (0.0,), ())


@pytest.mark.parametrize("method", METHODS)
def test_a_compiler_sees_the_step_as_one_graph(method):
    """Nothing in it waits for the host or changes shapes, so that a GPU can run it compiled and captured."""
    torch.manual_seed(0)
    made = catalogue.load(method)(10)
    logits = [torch.randn(64, 10, requires_grad=True) for _ in range(made.networks)]
    batch = Batch(x=torch.rand(64, 3), y=torch.randint(0, 10, (64,)), clean=torch.rand(64) < 0.5)
    torch.compiler.reset()
    whole = torch.compile(judge, backend="aot_eager", fullgraph=True, dynamic=False)
    found, expected = (each(made, logits, batch, torch.tensor(7)) for each in (whole, judge))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.loss, logits), torch.autograd.grad(expected.loss, logits))


def test_standard_label_precision_is_the_clean_share(blobs):
    trainer = trainer_for(blobs, "standard", batch_size=50)  # 400 = 8 * 50: no sample is left out
    clean = torch.cat([trainer.batches.take(*rows).clean for rows in trainer.batches.ahead(1, 1, 0, 8)])
    assert train(trainer)[0].label_precision == pytest.approx((clean.double().mean().item(),))


def test_co_teaching_is_algorithm_1(blobs):
    """One step against a slow computation: loops over samples, float64, no shared code."""
    rng = np.random.default_rng(1)
    for epoch in (1, 4, 30):
        method = catalogue.load("co-teaching")(5, tau=0.4, t_k=10)
        scores = [rng.normal(size=(20, 5)) for _ in range(2)]
        labels = rng.integers(0, 5, 20)
        logits = [torch.tensor(s, requires_grad=True) for s in scores]
        step = method.step(logits, Batch(torch.zeros(20), torch.tensor(labels)), torch.tensor(epoch))
        torch.stack(step.losses).sum().backward()

        kept = int(np.ceil((1 - 0.4 * min((epoch - 1) / 10, 1)) * 20 - 1e-9))
        softmax = [np.exp(s) / np.exp(s).sum(1, keepdims=True) for s in scores]
        losses = [[-np.log(p[i, labels[i]]) for i in range(20)] for p in softmax]
        picks = [sorted(range(20), key=lambda i, own=own: own[i])[:kept] for own in losses]
        for mine, peer in ((0, 1), (1, 0)):
            assert sorted(step.picked[mine].nonzero().flatten().tolist()) == sorted(picks[mine])
            expected = sum(losses[mine][i] for i in picks[peer]) / kept
            assert step.losses[mine].item() == pytest.approx(expected)
            gradient = np.zeros((20, 5))
            for i in picks[peer]:
                gradient[i] = (softmax[mine][i] - np.eye(5)[labels[i]]) / kept
            assert logits[mine].grad.numpy() == pytest.approx(gradient)


def test_the_authors_loss_is_divided_once_more(blobs):
    logits = [torch.randn(20, 5, requires_grad=True) for _ in range(2)]
    batch, epoch = Batch(torch.zeros(20), torch.randint(0, 5, (20,))), torch.tensor(50)
    method = catalogue.load("co-teaching")
    plain = method(5, tau=0.5).step(logits, batch, epoch).losses
    again = method(5, tau=0.5, divide_again=True).step(logits, batch, epoch).losses
    assert [a.item() for a in again] == pytest.approx([p.item() / 10 for p in plain])


@pytest.mark.parametrize("settings", [{"tau": 1.0}, {"tau": -0.1}, {"t_k": 0}, {"c": 0.0}, {"tau": "much"}])
def test_a_schedule_that_keeps_nothing_is_refused(settings):
    with pytest.raises(SettingError, match=r"tau|t_k|c is"):
        catalogue.load("co-teaching")(10, **settings)


def test_the_catalogue_needs_no_torch():
    code = "import sys; from coteach.methods import catalogue; print(len(catalogue.entries()), 'torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert answer == [str(len(METHODS)), "False"]


@pytest.mark.parametrize("method", tables()["methods"])
def test_every_method_has_its_page(method):
    pages = Path(__file__).parents[1] / "docs" / "methods"
    page = (pages / f"{method}.md").read_text()
    assert page.startswith(f"# {method}\n")
    assert f"({method}.md)" in (pages / "README.md").read_text()


ONE, MASK = torch.tensor(1.0), torch.ones(4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (None, "answers with NoneType: return Step"),
        (((ONE,), (MASK,)), "answers with tuple: return Step"),
        (Step((ONE, ONE), (MASK,)), "has 2 losses and 1 picks for 1 networks"),
        (Step((torch.ones(4),), (MASK,)), "no tensor of one number"),
        (Step((1.0,), (MASK,)), "no tensor of one number"),
        (Step((ONE,), (torch.tensor([0, 2, 3, 1]),)), "is no mask"),
        (Step((ONE,), (MASK[:3],)), "is no mask"),
    ],
)
def test_an_answer_of_another_form_is_named(answer, cause):
    method = catalogue.load("standard")(3)
    method.step = lambda logits, batch, epoch: answer
    batch = Batch(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64), None)
    with pytest.raises(TrainingError, match=rf"Standard.step\(\).*{cause}"):
        judge(method, [torch.zeros(4, 3)], batch, ONE)
