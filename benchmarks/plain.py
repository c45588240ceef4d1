"""A plain research-style training loop, as published code has it: what coteach is measured against.

A loader with workers, float32 tensors copied to the device batch by batch, eager networks, the selection sorted on the
host with numpy, a host-side loss value every step. Written for the purpose.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from coteach.data import Dataset as Arrays


class Images(Dataset[tuple[Tensor, int]]):
    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        image = torch.from_numpy(self.x[i]).permute(2, 0, 1).float().div_(255)
        return image, int(self.y[i])


class PlainTrainer:
    """Standard (one network) or co-teaching (two) on a device, the usual way."""

    def __init__(
        self,
        data: Arrays,
        build: Callable[[], nn.Module],
        *,
        networks: int,
        keep: float,
        batch_size: int,
        workers: int,
        device: torch.device,
    ) -> None:
        self.nets = [build().to(device) for _ in range(networks)]
        self.optimisers = [torch.optim.Adam(net.parameters(), lr=0.001) for net in self.nets]
        self.keep, self.device = keep, device
        self.train_set = DataLoader(
            Images(data.x_train, data.y_train),
            batch_size=batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        self.test_set = DataLoader(Images(data.x_test, data.y_test), batch_size=batch_size, num_workers=workers)

    def epoch(self) -> float:
        """One epoch; answers the mean loss."""
        for net in self.nets:
            net.train()
        total = 0.0
        for images, labels in self.train_set:
            x, y = images.to(self.device), labels.to(self.device)
            losses = [F.cross_entropy(net(x), y, reduction="none") for net in self.nets]
            if len(self.nets) == 1:
                chosen = [losses[0].mean()]
            else:
                orders = [np.argsort(loss.detach().cpu().numpy()) for loss in losses]
                kept = int(self.keep * len(y))
                picks = [torch.from_numpy(order[:kept]).to(self.device) for order in orders]
                chosen = [losses[0][picks[1]].mean(), losses[1][picks[0]].mean()]
            for loss, optimiser in zip(chosen, self.optimisers, strict=True):
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            total += chosen[0].item()
        return total / len(self.train_set)

    @torch.no_grad()
    def evaluate(self) -> list[float]:
        """The test accuracy of each network."""
        right = [0] * len(self.nets)
        for net in self.nets:
            net.eval()
        for images, labels in self.test_set:
            x = images.to(self.device)
            for i, net in enumerate(self.nets):
                right[i] += int((net(x).argmax(1).cpu() == labels).sum())
        return [count / len(self.test_set.dataset) for count in right]  # type: ignore[arg-type]
