import pytest

from coteach.recipes import recipe
from coteach.training.schedule import beta1, learning_rate


def test_the_optimiser_plan_of_the_printed_numbers():
    config = recipe("cifar10")
    for t in range(200):  # counted from 0, as the authors' program does
        lr = 0.001 if t < 80 else 0.001 * (200 - t) / 120
        assert learning_rate(config, t + 1) == pytest.approx(lr)
        assert beta1(config, t + 1) == (0.9 if t < 80 else 0.1)


def test_cifar100_decays_later():
    config = recipe("cifar100")
    assert learning_rate(config, 100) == 0.001
    assert learning_rate(config, 151) == pytest.approx(0.0005)


def test_a_run_shorter_than_the_plateau_does_not_decay():
    assert learning_rate(recipe("mnist", epochs=20), 20) == 0.001
