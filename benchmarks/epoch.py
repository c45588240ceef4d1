"""How long an epoch takes, with its evaluation: a plain loop against coteach, in one run, on whatever device is here.

    python -m benchmarks.epoch                       CIFAR-10's shapes on a GPU, digits on a CPU
    python -m benchmarks.epoch --out results/speed   also write the numbers as JSON

Pixels and labels are random on a GPU: the time does not depend on them. On a GPU every number is the median of three
epochs after one that warms up (of two for the plain loop, measured once for one and for two networks); on a CPU of 25,
in turns with the plain loop. `first step` is the time from a built trainer to the end of its first step.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.plain import PlainTrainer
from coteach.config import Config
from coteach.data import Dataset, load
from coteach.methods import catalogue
from coteach.nets import Shape, build, forward_flop
from coteach.paper import in_order
from coteach.recipes import recipe
from coteach.results.environment import environment
from coteach.training.arithmetic import settled, switches
from coteach.training.setup import draw_labels, make_trainer


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(device: torch.device, work: Callable[[], object]) -> float:
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


def matrix_ceiling(device: torch.device) -> float:
    """The rate of a large matrix product in TFLOP/s: bf16 on a GPU, fp32 on a CPU."""
    n, kind = (8192, torch.bfloat16) if device.type == "cuda" else (2048, torch.float32)
    a, b = torch.randn(n, n, device=device, dtype=kind), torch.randn(n, n, device=device, dtype=kind)
    timed(device, lambda: a @ b)
    return 2 * n**3 / min(timed(device, lambda: a @ b) for _ in range(5)) / 1e12


def step_tflop(net: nn.Module, shape: Shape, batch_size: int) -> float:
    """Of one network's step: forward, and twice as much backward."""
    return 3 * forward_flop(net, shape) * batch_size / 1e12


def medians(device: torch.device, repeats: int, *works: Callable[[], object]) -> list[float]:
    """The median seconds of each work. They take turns, so that what else the machine does hits all alike."""
    seconds = [[timed(device, work) for work in works] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*seconds, strict=True)]


def plain_trainer(config: Config, data: Dataset, device: torch.device) -> PlainTrainer:
    return PlainTrainer(
        data,
        lambda: build(config.network, data.shape, data.classes, config.dropout),
        networks=catalogue.load(config.method).networks,
        keep=0.5,
        batch_size=config.batch_size,
        workers=4 if device.type == "cuda" else 0,
        device=device,
    )


def measure(
    config: Config, data: Dataset, device: torch.device, *, ceiling: float, plain: list[float] | None, repeats: int
) -> dict[str, Any]:
    """One method against the plain loop: `plain` has its seconds, or None where it is quick enough to run beside."""
    with switches(settled(config, device), device):
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        trainer = make_trainer(config, data, draw_labels(config, data), device=device)
        epoch = trainer.run_epoch()
        first = timed(device, lambda: next(epoch))
        for _ in epoch:
            pass
        trainer.finish_epoch()
        works: list[Callable[[], object]] = [lambda: sum(1 for _ in trainer.run_epoch()), trainer.finish_epoch]
        if plain is None:
            beside = plain_trainer(config, data, device)
            beside.epoch()
            training, evaluation, *plain = medians(device, repeats, *works, beside.epoch, beside.evaluate)
        else:
            training, evaluation = medians(device, repeats, *works)
    step = training / trainer.steps_per_epoch
    work = sum(step_tflop(net, data.shape, config.batch_size) for net in trainer.networks)
    return {
        "precision": trainer.config.precision,
        "compile": trainer.config.compile,
        "epoch_s": training + evaluation,
        "training_s": training,
        "step_ms": 1000 * step,
        "tflops": work / step,
        "share_of_matrix_product": work / step / ceiling,
        "first_step_s": first,
        "peak_gib": torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None,
        "plain_epoch_s": sum(plain),
        "plain_training_s": plain[0],
        "ratio": sum(plain) / (training + evaluation),
    }


def random_cifar() -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60_000, 32, 32, 3), np.uint8), rng.integers(0, 10, 60_000)
    return Dataset.checked("cifar10", x[:50_000], y[:50_000], x[50_000:], y[50_000:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for epoch-<device>.json")
    parser.add_argument("--methods", nargs="*", default=in_order(catalogue.entries()))
    parser.add_argument("--threads", type=int, default=0, help="CPU threads, 0 for torch's own choice")
    ask = parser.parse_args()
    if ask.threads:
        torch.set_num_threads(ask.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = random_cifar() if device.type == "cuda" else load("digits")
    ceiling = matrix_ceiling(device)
    plain: dict[int, list[float]] = {}
    rows = {}
    print(
        f"{'method':<14}{'s an epoch':>12}{'ms a step':>11}{'TFLOP/s':>9}{'of matmul':>11}{'GiB':>6}"
        f"{'first step, s':>15}{'plain loop, s':>15}{'ratio':>8}"
    )
    for method in ask.methods:
        config = recipe(data.name, noise="symmetric", rate=0.5, method=method)
        networks = catalogue.load(method).networks
        if device.type == "cuda" and networks not in plain:
            torch.backends.cudnn.allow_tf32 = True
            loop = plain_trainer(config, data, device)
            loop.epoch()
            plain[networks] = medians(device, 2, loop.epoch, loop.evaluate)
            del loop
        repeats = 3 if device.type == "cuda" else 25
        row = measure(config, data, device, ceiling=ceiling, plain=plain.get(networks), repeats=repeats)
        rows[method] = row
        print(
            f"{method:<14}{row['epoch_s']:>12.3f}{row['step_ms']:>11.3f}{row['tflops']:>9.2f}"
            f"{row['share_of_matrix_product']:>11.1%}{row['peak_gib'] or 0:>6.1f}{row['first_step_s']:>15.1f}"
            f"{row['plain_epoch_s']:>15.3f}{row['ratio']:>8.2f}",
            flush=True,
        )
    if ask.out:
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        ask.out.mkdir(parents=True, exist_ok=True)
        content = {
            "data": data.name,
            "matrix_product_tflops": ceiling,
            "coteach": rows,
            "environment": environment(device),
        }
        file = ask.out / f"epoch-{name.lower().replace(' ', '-')}.json"
        file.write_text(json.dumps(content, indent=2) + "\n")
        print(f"written to {file}")


if __name__ == "__main__":
    main()
