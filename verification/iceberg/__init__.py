"""Real Iceberg clients, Java and Python, whose every access to the catalog and to metadata files is counted and can be delayed.

The measured side (java, python, writers, victims) knows nothing of the simulator; predict.py asks the simulator for the same cases.
"""
