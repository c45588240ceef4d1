"""Signs that training has collapsed, looked for once an epoch: what no method comes back from by itself."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ENOUGH = 20
"""A class with fewer samples in an epoch may well have none picked."""


def collapse(networks: Sequence[nn.Module], picked: Tensor, seen: Tensor, class_names: Sequence[str]) -> str | None:
    """What has gone wrong, with the way out, or nothing; how many samples of each class were seen and picked."""
    gone = vanished_class(picked, seen)
    if gone is not None:
        network, label = gone
        return (
            f"network {network + 1} picked none of the samples labelled {class_names[label]}: "
            f"it saw {int(seen[label])}; keep a share of each class (balanced), or give a lower noise rate"
        )
    if identical(networks):
        return (
            "the networks are identical and cannot correct each other: let the function that builds them draw other "
            "weights at each call"
        )
    return None


def vanished_class(picked: Tensor, seen: Tensor) -> tuple[int, int] | None:
    """A network and a class of which it picked nothing all epoch; `picked` [network, class], `seen` [class]."""
    gone = ((picked == 0) & (seen >= ENOUGH)).nonzero()
    return (int(gone[0, 0]), int(gone[0, 1])) if len(gone) else None


@torch.no_grad()
def identical(networks: Sequence[nn.Module]) -> bool:
    """Whether two networks hold the same parameters: then they cannot correct each other."""
    if len(networks) < 2:
        return False
    pairs = zip(*(net.parameters() for net in networks), strict=True)
    return all(torch.allclose(first, other, rtol=1e-5, atol=1e-7) for first, *others in pairs for other in others)
