"""The pure functions of methods against slow computations that share no code with them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coteach.methods.selection import (
    _smaller,
    authors_keep_share,
    constant_keep_share,
    keep_count,
    keep_share,
    mean_over,
    per_sample_loss,
    small_loss,
)

losses = st.lists(st.floats(0, 100, width=32), min_size=1, max_size=80)


@given(losses, st.data())
def test_small_loss_picks_the_smallest(values, data):
    k = data.draw(st.integers(0, len(values)))
    picked = small_loss(torch.tensor(values), torch.tensor(float(k)))
    order = sorted(range(len(values)), key=lambda i: (values[i], i))
    assert [i for i, p in enumerate(picked.tolist()) if p] == sorted(order[:k])


@given(losses, st.data())
def test_mean_over_is_the_mean_of_the_picked(values, data):
    mask = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    chosen = [v for v, m in zip(values, mask, strict=True) if m]
    mean = mean_over(torch.tensor(values, dtype=torch.float64), torch.tensor(mask))
    assert mean.item() == pytest.approx(sum(chosen) / len(chosen) if chosen else 0)


def test_a_mask_that_leaves_out_a_nan_leaves_out_its_gradient():
    values = torch.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    mean_over(values, torch.tensor([True, False, True])).backward()
    assert values.grad.tolist() == [0.5, 0.0, 0.5]


@given(st.integers(1, 300), st.floats(0, 0.99), st.integers(1, 30), st.sampled_from([0.5, 1.0, 2.0]))
def test_keep_share_is_the_formula_of_the_paper(epoch, tau, t_k, c):
    expected = 1 - tau * min((epoch - 1) ** c / t_k, 1)
    assert keep_share(torch.tensor(epoch), tau, t_k, c).item() == pytest.approx(expected)


@given(st.floats(0, 0.99), st.integers(1, 30), st.sampled_from([0.5, 1.0, 2.0]))
def test_r_starts_at_one_never_grows_and_ends_at_one_minus_tau(tau, t_k, c):
    shares = [keep_share(torch.tensor(epoch), tau, t_k, c).item() for epoch in [*range(1, 50), 100, 1000]]
    assert shares[0] == 1
    assert all(a >= b for a, b in itertools.pairwise(shares))
    assert shares[-1] == pytest.approx(1 - tau)


@given(st.floats(0.01, 0.99), st.integers(2, 30), st.sampled_from([0.5, 1.0, 2.0]))
def test_authors_schedule_is_theirs(tau, t_k, c):
    rates = np.ones(200) * tau
    rates[:t_k] = np.linspace(0, tau**c, t_k)
    for epoch in (1, 2, t_k, t_k + 1, 200):
        share = authors_keep_share(torch.tensor(epoch), tau, t_k, c).item()
        assert share == pytest.approx(1 - rates[epoch - 1])


@given(st.integers(0, 100), st.integers(1, 2000))
def test_keep_count_rounds_without_being_fooled_by_floats(percent, size):
    exact = Fraction(percent, 100) * size
    share = torch.tensor(percent / 100, dtype=torch.float64)
    assert keep_count(share, size).item() == math.ceil(exact)
    assert keep_count(share, size, up=False).item() == math.floor(exact)


def test_per_sample_loss_against_the_definition():
    torch.manual_seed(0)
    logits, labels = torch.randn(30, 7, dtype=torch.float64), torch.randint(0, 7, (30,))
    for row, label, loss in zip(logits.tolist(), labels.tolist(), per_sample_loss(logits, labels), strict=True):
        assert loss.item() == pytest.approx(math.log(sum(math.exp(z - row[label]) for z in row)))


def test_a_constant_share_is_the_last_one_of_the_paper_s():
    for epoch in (1, 2, 100):
        assert constant_keep_share(torch.tensor(epoch), 0.3, 10, 1.0) == keep_share(torch.tensor(11), 0.3, 10, 1.0)


@pytest.mark.parametrize("values", [[0.3, 0.1, 0.2, 0.1, 0.1], [1.0, math.inf, 0.5, -0.0, 0.0, math.inf, math.nan]])
def test_counting_ranks_as_sorting_does(values):
    """Sorting is what a CPU does, counting a GPU."""
    found = torch.tensor(values)
    assert _smaller(found).sum(1).tolist() == found.argsort(stable=True).argsort().tolist()
