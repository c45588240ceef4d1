"""The mathematics that methods share, as pure functions of tensors.

Masks instead of shorter tensors: shapes never change and nothing waits for the host, so that one compiled and
captured step can serve a whole run.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def per_sample_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of each sample."""
    return F.cross_entropy(logits, labels, reduction="none")


def small_loss(losses: Tensor, count: Tensor) -> Tensor:
    """A mask of the `count` samples with the smallest losses; of equal losses the earlier sample goes first."""
    losses = losses.detach()
    if losses.is_cuda and len(losses) <= 1024:
        return _smaller(losses).sum(1) < count  # where all pairs are compared at once, sorting takes longer
    return losses.argsort(stable=True).argsort() < count


def small_loss_within(losses: Tensor, labels: Tensor, share: Tensor, *, up: bool = True) -> Tensor:
    """A mask of the samples with the smallest losses of each label, that share of its samples in the batch."""
    same = labels == labels[:, None]
    return (_smaller(losses.detach()) & same).sum(1) < keep_count(share, same.sum(1), up=up)


def _smaller(losses: Tensor) -> Tensor:
    """[sample, other]: whether the other goes first, by its loss, of equal losses by its place; NaN goes last."""
    losses = losses.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    place = torch.arange(len(losses), device=losses.device)
    return (losses < losses[:, None]) | ((losses == losses[:, None]) & (place < place[:, None]))


def everything(losses: Tensor) -> Tensor:
    """A mask that leaves nothing out."""
    return torch.ones_like(losses, dtype=torch.bool)


def mean_over(losses: Tensor, picked: Tensor) -> Tensor:
    """The mean loss of the picked samples; 0 when none is picked."""
    return torch.where(picked, losses, 0).sum() / picked.sum().clamp(min=1)


def keep_share(epoch: Tensor, tau: float, t_k: int, c: float) -> Tensor:
    """R(T) = 1 - tau * min((T - 1)^c / T_k, 1) in the T-th epoch, counted from 1."""
    return 1 - tau * ((epoch.double() - 1) ** c / t_k).clamp(max=1)


def authors_keep_share(epoch: Tensor, tau: float, t_k: int, c: float) -> Tensor:
    """The authors' program: over T_k epochs the dropped share climbs to tau^c, and is tau from then on."""
    climbing = tau**c * (epoch.double() - 1) / max(t_k - 1, 1)
    return 1 - torch.where(epoch <= t_k, climbing, tau)


def constant_keep_share(epoch: Tensor, tau: float, t_k: int, c: float) -> Tensor:
    """1 - tau in every epoch, for networks that are not new."""
    return 1 - tau * torch.ones_like(epoch, dtype=torch.float64)


def keep_count(share: Tensor, size: int | Tensor, *, up: bool = True) -> Tensor:
    """How many of `size` samples a share is: the smallest integer not below it, or the largest not above."""
    slack = 1e-9 * size  # 0.8 * 10 may come out as 8.000000000000002
    exact = share * size
    return (exact - slack).ceil() if up else (exact + slack).floor()
