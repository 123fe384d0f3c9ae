"""Analyses that need several runs, on this machine without Spark: replications, measuring, frontier searches, tuning.

The package takes configurations and the rows of runs, and returns metrics, which ``endive.analysis`` defines. Replications keep
metrics in small files in a folder; the rest of the package has no state.
"""
