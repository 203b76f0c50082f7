"""The matrices that both multiplications use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def matrices(size: int) -> tuple[Matrix, Matrix]:
    """Returns A and B, the same in each run: square matrices of whole numbers, so that sums are exact in any order."""
    a, b = np.random.default_rng(0).integers(-1000, 1000, (2, size, size)).astype(np.float64)
    return a, b
