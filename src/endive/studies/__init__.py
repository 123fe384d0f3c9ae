"""Analyze several runs on this machine, without Spark: replications, measurement, load searches, tuning and screening.

The package takes configurations and the rows of runs, and returns metrics, which ``endive.analysis`` defines. Replications store
metrics in small files. The rest of the package has no state.
"""
