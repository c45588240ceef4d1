"""Learning rate and beta1 as functions of the epoch. Epochs are counted from 1."""

from coteach.config import Config


def learning_rate(config: Config, epoch: int) -> float:
    """Constant for the first `decay_from` epochs, then linear, reaching zero just after the last."""
    done = epoch - 1
    if done < config.decay_from:
        return config.lr
    return config.lr * (config.epochs - done) / (config.epochs - config.decay_from)


def beta1(config: Config, epoch: int) -> float:
    """Adam's momentum, which changes at the epoch where the decay starts."""
    return config.beta1 if epoch - 1 < config.decay_from else config.late_beta1
