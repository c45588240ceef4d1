"""Trained networks as a classifier keeps them, and what they say in float64."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import CoteachError
from coteach.model.trained import Ensemble, Model
from coteach.nets import Network, name_of
from coteach.results.weights import Description
from coteach.samples import as_input


class _Double(Ensemble):
    """An ensemble in float64: what it says of a sample does not depend on the others beside it."""

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities [n, classes]."""
        x = as_input(x).double()
        return torch.stack([net(x).softmax(1) for net in self.networks]).mean(0)


def kept_model(networks: Iterable[nn.Module], config: Config, dataset: Dataset, network: Network | None) -> Model:
    """The networks as a model on the CPU, so that what was pickled beside a GPU can be read without one."""
    if network is not None:
        config = replace(config, network=name_of(network))
    ensemble = Ensemble(list(networks)).eval().cpu()
    ensemble.zero_grad(set_to_none=True)
    return Model(ensemble, Description.of(config, dataset, len(ensemble.networks)), torch.device("cpu"))


def exact_probabilities(model: Model, x: NDArray[Any], device: torch.device) -> NDArray[np.float64]:
    """The probability of each class in float64; a user's network that cannot be copied or doubled stays in float32."""
    try:
        networks = [copy.deepcopy(net).to(device) for net in model.ensemble.networks]
        found = replace(model, ensemble=_Double(networks).double(), device=device).predict_proba(x)
    except CoteachError:
        raise
    except Exception:  # whatever the user's network raises
        found = replace(model, ensemble=model.ensemble.to(device), device=device).predict_proba(x)
        model.ensemble.cpu()
    return found.astype(np.float64)
