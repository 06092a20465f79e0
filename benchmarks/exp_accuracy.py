"""Every float32 between -88 and 0 through the exp of torch's attention kernel: what it errs by, at most.

python benchmarks/exp_accuracy.py             both exps of the attention kernel, four minutes of one core
python benchmarks/exp_accuracy.py --all       all kernels that float32 networks run
"""

from __future__ import annotations

import argparse
import time

import torch
from acceptance import Line, printed

from softwright.attention.exp_accuracy import KERNELS, exp_at_zero, measure
from softwright.precision import EXP_ULPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all kernels")
    parser.add_argument("--stride", type=int, default=1, help="every n-th argument")
    options = parser.parse_args()
    raise SystemExit(0 if printed(print_rows(options.stride, options.all)) else 1)


def print_rows(stride: int, every: bool = True) -> list[Line]:
    """One row per kernel."""
    found = []
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; exp(0) = 1: {exp_at_zero()}\n")
    print(f"| kernel | arguments | lowest, in 2^-24 | highest | ulp | holds {EXP_ULPS[0]} ulp | s CPU |")
    print("|---|---:|---:|---:|---:|---|---:|")
    for kernel in KERNELS if every else (KERNELS[0], KERNELS[3]):
        started = time.process_time()
        row = measure(kernel, stride)
        seconds = time.process_time() - started
        holds = "yes" if row.holds(EXP_ULPS[0]) else "NO"
        errors = f"{row.lowest:.2f} | {row.highest:.2f} | {row.ulps:.2f}"
        print(f"| {row.kernel} | {row.arguments} | {errors} | {holds} | {seconds:.0f} |", flush=True)
        found.append(row)
    job = f"ulp of exp in float32 kernels, every {stride}. argument" if stride > 1 else "ulp of exp, every float32"
    worst = max(row.ulps for row in found)
    return [Line(job, f"{worst:.2f}", str(EXP_ULPS[0]), all(row.holds(EXP_ULPS[0]) for row in found))]


if __name__ == "__main__":
    main()
