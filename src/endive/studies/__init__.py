"""Questions that need several runs, on this machine without Spark: replications, measuring, frontiers, tuning.

Takes configurations and the rows of their runs, and returns metrics (``endive.analysis`` has the definitions). Replications own a
folder of small files of metrics; nothing else here keeps state.
"""
