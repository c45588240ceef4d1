"""How long a new process takes to its first step: cold, with nothing compiled before, and warm, with all of it.

    python -m benchmarks.start

Counted from before the first import to the end of the first step, on whatever device is here: CIFAR-10's shapes on a
GPU, digits on a CPU, where nothing is compiled. The system's own cache of files is as it is.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

METHODS = ("co-teaching", "standard")


def first_step(method: str) -> None:
    """Print the seconds to the first step of this process."""
    start = time.perf_counter()

    import torch

    from benchmarks.epoch import random_cifar, synchronise
    from coteach.data import load
    from coteach.recipes import recipe
    from coteach.training.arithmetic import settled, switches
    from coteach.training.setup import draw_labels, make_trainer

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = random_cifar() if device.type == "cuda" else load("digits")
    config = recipe(data.name, noise="symmetric", rate=0.5, method=method)
    with switches(settled(config, device), device):
        next(make_trainer(config, data, draw_labels(config, data), device=device).run_epoch())
        synchronise(device)
    print(time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-step", choices=METHODS, help="measure this process, as the others are measured")
    ask = parser.parse_args()
    if ask.first_step:
        first_step(ask.first_step)
        return
    print(f"{'method':<14}{'cold, s':>10}{'warm, s':>10}")
    for method in METHODS:
        with tempfile.TemporaryDirectory() as cache:
            caches = {"TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor", "TRITON_CACHE_DIR": f"{cache}/triton"}
            seconds = [
                float(
                    subprocess.run(
                        [sys.executable, "-m", "benchmarks.start", "--first-step", method],
                        env=os.environ | caches,
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                    ).stdout.split()[-1]
                )
                for _ in ("cold", "warm")
            ]
        print(f"{method:<14}{seconds[0]:>10.1f}{seconds[1]:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
