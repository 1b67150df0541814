"""Expected time of products, C(M×N) = A(M×K)·B(K×N): kernels to choose from, their time, the constants of each chip."""

from __future__ import annotations
