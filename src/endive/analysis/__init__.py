"""Numbers from rows and from small summaries: windows, cohorts, percentiles, intervals, crossings, saturation.

Pure functions on arrays and frozen values. There are no files here, no Spark and no sentences; ``docs/explanation/statistics.md``
has every definition with an example.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
