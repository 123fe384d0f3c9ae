"""Numbers from rows and from small summaries: windows, cohorts, percentiles, intervals, crossings, saturation.

Pure functions on arrays and frozen values. There are no files here, no Spark and no sentences; ``docs/explanation/statistics.md``
has every definition with an example.
"""
