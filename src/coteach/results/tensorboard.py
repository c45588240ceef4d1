"""A run's epochs, finished or not, replayed into TensorBoard's files."""

from pathlib import Path

from coteach.errors import DataError, SettingError
from coteach.results.folder import RunFolder
from coteach.storage import storage_errors


def export(run: Path, out: Path) -> Path:
    """Write the epochs of a run folder for `tensorboard --logdir OUT`, as one curve a measure and network.

    Answers the folder, `out` / the run's name, which must be empty: TensorBoard would show old and new curves as one.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise SettingError("tensorboardX is not installed: pip install 'coteach[tensorboard]'") from None
    folder = RunFolder(run)
    if not folder.config_file.exists():
        raise DataError(f"{run} is no run folder: give one, such as runs/digits-pair-45-co-teaching-s1-...")
    epochs = folder.epochs()
    if not epochs:
        raise DataError(f"{run} has no finished epoch yet: export it later")
    target = out / folder.path.resolve().name
    with storage_errors(target, "write into"):
        if target.exists() and any(target.iterdir()):
            raise SettingError(f"{target} is not empty: delete it, or choose another folder with --out")
        writer = SummaryWriter(str(target))
        for record in epochs:
            for measure, values in vars(record).items():
                if measure != "epoch":
                    for network, value in enumerate(values, 1):
                        writer.add_scalar(f"{measure}/network_{network}", value, record.epoch)
        writer.close()
    return target
