"""What the networks made of each sample while they learned: the evidence for or against its label."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Ledger(nn.Module):
    """Sums over the steps, one entry a sample. A module, so that it is saved and moved as the networks are."""

    seen: Tensor
    picked: Tensor
    loss: Tensor

    def __init__(self, networks: int, samples: int) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(samples, dtype=torch.int32))
        self.register_buffer("picked", torch.zeros(networks, samples, dtype=torch.int32))
        self.register_buffer("loss", torch.zeros(networks, samples))

    @torch.no_grad()
    def note(self, rows: Tensor, labels: Tensor, logits: list[Tensor], picked: Tensor) -> None:
        """Take in a step: the numbers of its samples, their labels, each network's scores and picks."""
        losses = torch.stack([F.cross_entropy(z, labels, reduction="none") for z in logits])
        self.seen.index_add_(0, rows, torch.ones_like(rows, dtype=torch.int32))
        self.picked.index_add_(1, rows, picked.int())
        self.loss.index_add_(1, rows, losses.float())
