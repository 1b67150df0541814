"""A table of products as a machine with known constants would run them: what a fit has to find again."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np

from roofline_model import get_hardware
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.products.fitted.constants import generic_start
from roofline_model.expected.products.formula import gemm_times
from roofline_model.expected.products.parameters import gemm_formats, rotated_copies

HEADER = ["device", "op", "m", "n", "k", "weight_format", "activation_format", "time_s", "source"]
TRUE = {"launch_s": 3.4e-6, "tensor_ratio": 0.75, "dram_ratio": 0.65, "l2_ratio": 0.5}


def write_rows(path, count, devices=("h100-sxm",), noise=0.02, seed=11):
    """Write rows of a machine whose constants are known; returns them."""
    rng = np.random.default_rng(seed)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for device in devices:
            chip = ChipSpec.of(get_hardware(device), "BF16")
            constants = replace(generic_start(chip, "BF16"), **TRUE)
            m = np.round(2 ** rng.uniform(0, 12, count))
            n, k = (64 * np.round(2 ** rng.uniform(1, 7, count)) for _ in range(2))
            copies = rotated_copies(chip, "BF16", n, k)
            times = gemm_times(
                chip, gemm_formats("BF16", "BF16"), constants, m, n, k, copies, dynamic_activation_quantization=False
            )
            times *= np.exp(rng.normal(0, noise, count))
            for row in zip(m, n, k, times, strict=True):
                writer.writerow(
                    [device, "gemm", *(int(x) for x in row[:3]), "BF16", "BF16", repr(float(row[3])), "lab"]
                )
    return path
