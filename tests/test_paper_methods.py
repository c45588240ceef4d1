"""Each method's loss, gradient and selection against a slow float64 computation written from its formula.

Loops over samples, numpy and math only: nothing here is shared with the code that it checks.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch

from coteach.batches import Batch
from coteach.data import load
from coteach.errors import DataError, SettingError
from coteach.methods import catalogue
from coteach.methods.f_correction import FCorrection, anchor_rows
from coteach.noise import pair
from coteach.recipes import recipe, stage_one_of
from coteach.results.publish import publish, read_published
from coteach.results.run import read_result, run
from coteach.training.setup import draw_labels, make_trainer

N, C = 24, 5


@pytest.fixture(params=range(5))
def data(request):
    """Scores of two networks, labels, and the same as tensors that gather gradients."""
    rng = np.random.default_rng(request.param)
    scores = [3 * rng.normal(size=(N, C)) for _ in range(2)]
    labels = rng.integers(0, C, N)
    return rng, scores, labels, [torch.tensor(s, requires_grad=True) for s in scores]


def softmax(row):
    top = max(row)
    powers = [math.exp(z - top) for z in row]
    return [p / sum(powers) for p in powers]


def step(method, logits, labels, epoch=30, **settings):
    built = method if isinstance(method, torch.nn.Module) else catalogue.load(method)(C, **settings)
    answer = built.double().step(
        logits[: built.networks], Batch(torch.zeros(N), torch.tensor(labels)), torch.tensor(epoch)
    )
    torch.stack(answer.losses).sum().backward()
    return answer


def numeric_gradient(loss_of, scores, h=1e-6):
    """The gradient of a loss by central differences, entry by entry."""
    gradient = np.zeros_like(scores)
    for i, j in np.ndindex(*scores.shape):
        up, down = scores.copy(), scores.copy()
        up[i, j] += h
        down[i, j] -= h
        gradient[i, j] = (loss_of(up) - loss_of(down)) / (2 * h)
    return gradient


def picked(answer, network=0):
    return [i for i, p in enumerate(answer.picked[network].tolist()) if p]


def test_standard(data):
    _, (scores, _), labels, logits = data

    def loss_of(s):
        return sum(-math.log(softmax(s[i])[labels[i]]) for i in range(N)) / N

    answer = step("standard", logits, labels)
    assert answer.losses[0].item() == pytest.approx(loss_of(scores))
    assert logits[0].grad.numpy() == pytest.approx(numeric_gradient(loss_of, scores), abs=1e-7)
    assert picked(answer) == list(range(N))


@pytest.mark.parametrize("beta", [0.8, 0.3, 1.0])
def test_bootstrap(data, beta):
    _, (scores, _), labels, logits = data
    own = [int(np.argmax(row)) for row in scores]  # a constant: no gradient goes through the argmax

    def loss_of(s):
        total = 0.0
        for i in range(N):
            p = softmax(s[i])
            target = [beta * (k == labels[i]) + (1 - beta) * (k == own[i]) for k in range(C)]
            total -= sum(t * math.log(q) for t, q in zip(target, p, strict=True))
        return total / N

    answer = step("bootstrap", logits, labels, beta=beta)
    assert answer.losses[0].item() == pytest.approx(loss_of(scores))
    assert logits[0].grad.numpy() == pytest.approx(numeric_gradient(loss_of, scores), abs=1e-7)
    assert picked(answer) == list(range(N))


def test_decoupling(data):
    _, scores, labels, logits = data
    differ = [i for i in range(N) if np.argmax(scores[0][i]) != np.argmax(scores[1][i])]
    assert 0 < len(differ) < N
    answer = step("decoupling", logits, labels)
    for network in (0, 1):

        def loss_of(s):
            return sum(-math.log(softmax(s[i])[labels[i]]) for i in differ) / len(differ)

        assert answer.losses[network].item() == pytest.approx(loss_of(scores[network]))
        expected = numeric_gradient(loss_of, scores[network])
        assert logits[network].grad.numpy() == pytest.approx(expected, abs=1e-7)
        assert picked(answer, network) == differ


def test_decoupling_without_any_disagreement(data):
    _, scores, labels, _ = data
    twins = [torch.tensor(scores[0], requires_grad=True) for _ in range(2)]
    answer = step("decoupling", twins, labels)
    assert picked(answer, 0) == picked(answer, 1) == []
    assert [loss.item() for loss in answer.losses] == [0, 0]
    assert all((z.grad == 0).all() for z in twins)


def test_decoupling_with_nothing_but_disagreement(data):
    _, scores, labels, _ = data
    pair = [torch.tensor(s, requires_grad=True) for s in (scores[0], np.roll(scores[0], 1, axis=1))]
    answer = step("decoupling", pair, labels)
    assert picked(answer) == list(range(N))


@pytest.mark.parametrize("epoch", [1, 3, 11, 200])
def test_mentornet(data, epoch):
    _, (scores, _), labels, logits = data
    losses = [-math.log(softmax(scores[i])[labels[i]]) for i in range(N)]
    kept = math.ceil((1 - 0.45 * min((epoch - 1) / 10, 1)) * N - 1e-9)
    easy = sorted(sorted(range(N), key=lambda i: losses[i])[:kept])

    def loss_of(s):
        return sum(-math.log(softmax(s[i])[labels[i]]) for i in easy) / kept

    answer = step("mentornet", logits, labels, epoch, tau=0.45)
    assert picked(answer) == easy
    assert answer.losses[0].item() == pytest.approx(loss_of(scores))
    assert logits[0].grad.numpy() == pytest.approx(numeric_gradient(loss_of, scores), abs=1e-7)


@pytest.mark.parametrize("epoch", [1, 5, 50])
def test_mentornet_is_co_teaching_with_two_identical_networks(data, epoch):
    _, scores, labels, logits = data
    alone = step("mentornet", logits, labels, epoch, tau=0.4)
    twins = [torch.tensor(scores[0], requires_grad=True) for _ in range(2)]
    both = step("co-teaching", twins, labels, epoch, tau=0.4)
    for network in (0, 1):
        assert picked(both, network) == picked(alone)
        assert both.losses[network].item() == alone.losses[0].item()
        assert torch.equal(twins[network].grad, logits[0].grad)


def through(p, matrix, label):
    """-log (p @ T)[label], in a loop."""
    return -math.log(sum(p[i] * matrix[i][label] for i in range(C)))


@pytest.mark.parametrize("transposed", [False, True])
def test_f_correction(data, transposed):
    rng, (scores, _), labels, logits = data
    matrix = rng.dirichlet(np.ones(C), C)
    method = catalogue.load("f-correction")(C, transposed=transposed).double()
    method.transition.copy_(torch.tensor(matrix.T if transposed else matrix))

    def loss_of(s):
        return sum(through(softmax(s[i]), matrix, labels[i]) for i in range(N)) / N

    answer = step(method, logits, labels)
    assert answer.losses[0].item() == pytest.approx(loss_of(scores))
    assert logits[0].grad.numpy() == pytest.approx(numeric_gradient(loss_of, scores), abs=1e-7)
    assert picked(answer) == list(range(N))
    assert not method.transition.requires_grad


def test_s_model(data):
    rng, (scores, _), labels, logits = data
    noise = rng.normal(size=(C, C))
    method = catalogue.load("s-model")(C).double()
    method.noise.data.copy_(torch.tensor(noise))

    def loss_of(s, w=noise):
        matrix = [softmax(row) for row in w]
        return sum(through(softmax(s[i]), matrix, labels[i]) for i in range(N)) / N

    answer = step(method, logits, labels)
    assert answer.losses[0].item() == pytest.approx(loss_of(scores))
    assert logits[0].grad.numpy() == pytest.approx(numeric_gradient(loss_of, scores), abs=1e-7)
    expected = numeric_gradient(lambda w: loss_of(scores, w), noise)
    assert method.noise.grad.numpy() == pytest.approx(expected, abs=1e-7)


def test_s_model_starts_from_the_confusion_of_stage_one():
    predictions = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 2])
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    method = catalogue.load("s-model")(3)
    method.learn_from(torch.eye(3)[predictions], labels)
    expected = [[0.75, 0.25, 0], [0, 0.5, 0.5], [0, 0, 1]]
    assert method.noise.softmax(1).detach().numpy() == pytest.approx(np.array(expected), abs=1e-6)
    assert method.noise[0, 1].item() == pytest.approx(math.log(0.25 + 1e-8))


def test_a_class_that_stage_one_never_predicts_gets_no_opinion():
    method = catalogue.load("s-model")(3)
    method.learn_from(torch.eye(3)[torch.tensor([0, 1])], torch.tensor([0, 1]))
    assert method.noise.softmax(1)[2].tolist() == pytest.approx([1 / 3] * 3)


def test_f_correction_takes_the_rows_of_the_surest_samples():
    """100 samples a class with known rows; the surest three percent of each are planted outliers."""
    rng = np.random.default_rng(0)
    transition = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.05, 0.15, 0.8]])
    rows = []
    for i in range(3):
        anchor = transition[i]
        weaker = [anchor * (1 - e) + e / 3 for e in rng.uniform(0.3, 0.9, 96)]
        outliers = [np.eye(3)[i] * 0.97 + 0.01 for _ in range(3)]
        rows += [anchor, *weaker, *outliers]
    p = torch.tensor(np.array(rows))
    everything = anchor_rows(p, filter_outliers=False)
    assert everything.diagonal().tolist() == pytest.approx([0.98] * 3)
    # Of 300 values in a column, nine lie at or above the 97th percentile: the outliers and the next six.
    filtered = anchor_rows(p, filter_outliers=True)
    for i in range(3):
        column = sorted((row[i] for row in rows), reverse=True)
        limit = sorted(column)[math.ceil(0.97 * (len(column) - 1))]
        best = max((row for row in rows if row[i] < limit), key=lambda row: row[i])
        assert filtered[i].numpy() == pytest.approx(best / best.sum())
    assert filtered.sum(1).tolist() == pytest.approx([1.0] * 3)


def test_pair_noise_swaps_classes_when_the_surest_sample_belongs_to_another():
    """The paper's collapse: the surest sample of a label truly belongs to the class before it."""
    p = torch.tensor([[0.45, 0.55, 0.0], [0.0, 0.45, 0.55], [0.55, 0.0, 0.45]])
    assert anchor_rows(p, filter_outliers=False).tolist() == p.roll(1, 0).tolist()


@pytest.mark.parametrize(("transposed", "predicted"), [(False, 0), (True, 1)])
def test_what_minimises_the_loss_under_pair_noise(transposed, predicted):
    """Samples of class 0 with pair-45 labels: with the matrix transposed, the loss is smallest for the next class."""
    q = torch.tensor(pair(10, 0.45), dtype=torch.float32)
    method = catalogue.load("f-correction")(10, transposed=transposed)
    method.transition.copy_(q)
    labels = [0] * 55 + [1] * 45
    sure = 30 * torch.eye(10)
    losses = [step(method, [sure[c].repeat(100, 1).requires_grad_()], labels).losses[0].item() for c in range(10)]
    assert losses.index(min(losses)) == predicted


def test_a_run_that_transposes_nothing_keeps_its_name():
    config = recipe("digits", noise="pair", rate=0.45, method="f-correction")
    without = replace(config, settings={k: v for k, v in config.settings.items() if k != "transposed"})
    assert config.name == without.name
    assert recipe("digits", noise="pair", rate=0.45, method="f-correction", transposed=True).name != config.name


def test_stage_one_is_the_standard_run_of_the_same_seeds():
    config = recipe("digits", noise="pair", rate=0.45, method="f-correction", seed=3)
    standard = recipe("digits", noise="pair", rate=0.45, method="standard", seed=3)
    assert stage_one_of(config) == standard
    assert stage_one_of(recipe("digits", noise="pair", rate=0.45, method="s-model", seed=3)) == standard
    early = replace(config, settings={**config.settings, "stage_one": "early"})
    assert stage_one_of(early) == replace(standard, hold_out=0.1, patience=20)
    assert stage_one_of(standard) is None


def test_without_a_stage_one_the_matrix_is_the_one_of_the_noise(quick, tmp_path):
    for method, near in (("f-correction", 1e-7), ("s-model", 1e-6)):
        config = quick(method=method, stage_one="none")
        assert stage_one_of(config) is None
        draw = draw_labels(config, load("digits"))
        trainer = make_trainer(config, load("digits"), draw, device=torch.device("cpu"))
        assert trainer.method.believed().detach().numpy() == pytest.approx(pair(10, 0.45), abs=near)
        assert len(run(config, tmp_path / method).epochs) == config.epochs
        assert [path.name for path in (tmp_path / method).iterdir()] == [config.name]
    with pytest.raises(SettingError, match="no noise is put on these labels"):
        recipe("digits", method="f-correction", stage_one="none")


def test_a_method_that_cannot_be_told_says_so(quick, tmp_path, monkeypatch):
    monkeypatch.delattr(FCorrection, "be_told")
    with pytest.raises(SettingError, match="f-correction cannot be told how labels go wrong: give stage_one full or"):
        run(quick(method="f-correction", stage_one="none"), tmp_path)


def test_what_a_method_believes_must_be_a_matrix(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(FCorrection, "believed", lambda self: [0.5, 0.5])
    with pytest.raises(SettingError, match=r"FCorrection.believed\(\) must return a matrix"):
        run(quick(method="f-correction"), tmp_path)


@pytest.mark.parametrize("stage_one", ["full", "early"])
def test_stage_one_is_run_once_and_shared(quick, tmp_path, stage_one):
    said = {}
    for method in ("s-model", "f-correction"):
        summary = run(quick(method=method, stage_one=stage_one), tmp_path).summary
        said[method] = [np.array(summary[name]) for name in ("matrix_of_stage_one", "matrix_at_the_end")]
        assert np.allclose([matrix.sum(1) for matrix in said[method]], 1, atol=1e-3)
    first, last = said["s-model"]
    assert (first != last).any()  # it is learned
    first, last = said["f-correction"]
    assert (first == last).all()
    assert "matrix_of_stage_one" not in run(quick(method="standard"), tmp_path / "other").summary
    names = sorted(path.name.split("-s1-")[0] for path in tmp_path.glob("digits-*"))
    assert names == ["digits-pair-45-f-correction", "digits-pair-45-s-model", "digits-pair-45-standard"]
    standard = next(tmp_path.glob("*-standard-*"))
    before = (standard / "summary.json").stat().st_mtime_ns
    if stage_one == "full":
        assert run(quick(method="standard"), tmp_path).already_done
    run(quick(method="s-model", stage_one=stage_one), tmp_path)
    assert (standard / "summary.json").stat().st_mtime_ns == before


def test_s_model_goes_on_with_the_network_and_f_correction_starts_anew(quick, tmp_path):
    taught = safetensors.torch.load_file(run(quick(method="standard"), tmp_path).path / "weights.safetensors")
    taught = {name.removeprefix("0."): value for name, value in taught.items()}
    digits = load("digits")
    for method, goes_on in (("s-model", True), ("f-correction", False)):
        config = quick(method=method)
        draw = draw_labels(config, digits)
        trainer = make_trainer(config, digits, draw, device=torch.device("cpu"), stage_one=taught)
        weights = trainer.networks[0].state_dict()
        assert all(torch.equal(weights[name], taught[name]) for name in taught) == goes_on
        fresh = make_trainer(config, digits, draw, device=torch.device("cpu")).networks[0].state_dict()
        assert all(torch.equal(weights[name], fresh[name]) for name in fresh) != goes_on
        # what stage one says of every image, and the labels as given: nobody may look at the true ones
        teacher = make_trainer(quick(method="standard"), digits, draw, device=torch.device("cpu")).networks[0].eval()
        teacher.load_state_dict(taught)
        with torch.no_grad():
            p = teacher(torch.tensor(digits.x_train).permute(0, 3, 1, 2).float() / 255).softmax(1).numpy()
        if goes_on:
            counts = np.zeros((10, 10))
            for predicted, label in zip(p.argmax(1), draw.noisy, strict=True):
                counts[predicted, label] += 1
            expected = np.log(counts / np.maximum(counts.sum(1, keepdims=True), 1) + 1e-8)
            assert trainer.method.noise.detach().numpy() == pytest.approx(expected, abs=1e-4)
        else:
            sure = [
                np.where(p[:, i] < np.sort(p[:, i])[math.ceil(0.97 * 1436)], p[:, i], -1).argmax() for i in range(10)
            ]
            assert trainer.method.transition.numpy() == pytest.approx(p[sure], abs=1e-4)


def test_the_best_epoch_on_held_out_samples_is_kept(tmp_path):
    config = recipe("digits", noise="symmetric", rate=0.5, method="standard", epochs=12, hold_out=0.2, lr=0.01)
    result = run(config, tmp_path)
    losses = [record.held_out_loss[0] for record in result.epochs]
    assert result.summary["best_epoch"] == int(np.argmin(losses)) + 1
    assert result.summary["best_epoch"] < 12  # it memorises, and the held-out loss says so
    assert result.summary["train_samples"] == 1437 - 287


def test_held_out_samples_are_apart_and_keep_their_noisy_labels():
    config, digits = recipe("digits", noise="symmetric", rate=0.5, method="standard", hold_out=0.2), load("digits")
    draw = draw_labels(config, digits)
    trainer = make_trainer(config, digits, draw, device=torch.device("cpu"))

    def seen(x):
        return [image.tobytes() for image in x.permute(0, 2, 3, 1).mul(255).to(torch.uint8).contiguous().numpy()]

    given = {image.tobytes(): label for image, label in zip(digits.x_train, draw.noisy, strict=True)}
    [(x, y)] = trainer.held_out
    held = seen(x)
    assert [given[image] for image in held] == y.tolist()
    trained = trainer.batches.take(torch.cat([rows for (rows,) in trainer.batches.ahead(1, 1, 0, 100)]))
    assert (len(held), len(trained)) == (287, 1150)
    assert not set(seen(trained.x)) & set(held)


def test_a_run_that_no_longer_gets_better_stops_and_keeps_its_best_epoch(tmp_path):
    whole = recipe("digits", noise="symmetric", rate=0.5, method="standard", epochs=30, hold_out=0.2, lr=0.01)
    told = []
    result = run(replace(whole, patience=4), tmp_path, on_progress=told.append)
    best = result.summary["best_epoch"]
    assert len(result.epochs) == result.summary["epochs"] == best + 4 < 30
    assert told[-1].over
    assert read_result(result.path).epochs == result.epochs
    publish([result], tmp_path / "small")
    assert len(read_published(tmp_path / "small" / f"{result.config.name}.json").epochs) == best + 4
    # up to there it is the run that goes on, and if that finds nothing better, their networks are the same
    longer = run(replace(whole, epochs=30), tmp_path)
    assert longer.epochs[: best + 4] == result.epochs
    assert longer.summary["best_epoch"] == best
    ours, theirs = (safetensors.torch.load_file(each.path / "weights.safetensors") for each in (result, longer))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    cut = [*result.path.joinpath("epochs.jsonl").read_text().splitlines()][:-1]
    result.path.joinpath("epochs.jsonl").write_text("\n".join(cut) + "\n")
    with pytest.raises(DataError, match="has lost a part of its finished run"):
        read_result(result.path)


def test_patience_needs_something_to_wait_for():
    with pytest.raises(SettingError, match="there are none: give hold_out"):
        recipe("digits", noise="symmetric", rate=0.5, patience=4)
    without = recipe("digits", noise="symmetric", rate=0.5, hold_out=0.2)
    assert replace(without, patience=0).name == without.name != replace(without, patience=4).name


@pytest.mark.parametrize(("share", "said"), [(0.0003, "none of them: raise it"), (0.9999, "all of them: lower it")])
def test_a_share_that_holds_out_nothing_or_everything_is_refused(quick, tmp_path, share, said):
    with pytest.raises(SettingError, match=f"hold_out {share} of 1437 samples is {said}"):
        run(quick(hold_out=share), tmp_path)


def test_epochs_that_only_evaluate_try_no_patience(quick, tmp_path):
    result = run(quick(method="standard", epochs=6, idle_epochs=3, hold_out=0.2, patience=2), tmp_path)
    assert len(result.epochs) > 4
    assert result.epochs[3].train_loss


@pytest.mark.parametrize("method", ["co-teaching", "mentornet"])
def test_held_out_samples_of_large_loss_are_taken_for_wrong(method):
    """A network that is sure of the right classes is better than one that is sure of nothing, if a third is wrong."""
    right = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1])
    given = right.clone()
    given[::3] = (right[::3] + 1) % C
    sure, unsure = 20.0 * torch.eye(C)[right], 1.0 * torch.eye(C)[right]
    told = catalogue.load(method)(C, tau=4 / 12)
    assert told.held_out_loss(sure, given) < 1e-6 < told.held_out_loss(unsure, given)
    p = math.e / (math.e + C - 1)
    assert told.held_out_loss(unsure, given).item() == pytest.approx(-math.log(p))
    believes = catalogue.load("standard")(C)
    assert believes.held_out_loss(sure, given) > believes.held_out_loss(unsure, given)


@pytest.mark.parametrize("method", ["s-model", "f-correction"])
def test_held_out_labels_are_judged_through_the_noise(method):
    q = torch.tensor(pair(C, 0.4), dtype=torch.float32)
    told = catalogue.load(method)(C)
    told.be_told(q)
    right = torch.arange(C).repeat(5)
    given = torch.cat([right[:15], (right[15:] + 1) % C])  # two in five are the next class
    loss = told.held_out_loss(30 * torch.eye(C)[right], given)
    assert loss.item() == pytest.approx(-(0.6 * math.log(0.6) + 0.4 * math.log(0.4)), abs=1e-4)


def test_the_epoch_kept_is_not_one_that_selects_nothing_yet(tmp_path):
    """By the plain loss on noisy labels it would be one before R(T) has come down."""
    config = recipe("digits", noise="symmetric", rate=0.5, noise_seed=1, hold_out=0.1, epochs=30)
    result = run(config, tmp_path)
    assert result.summary["best_epoch"] >= 10
