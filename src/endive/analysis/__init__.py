"""Compute statistics of runs: windows, cohorts, percentiles, intervals, crossings, saturation.

The package consists of pure functions of arrays and frozen values. It does not read files, use Spark or produce text for users.
``docs/explanation/statistics.md`` defines every metric with an example.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
