"""Real Iceberg clients, Java and Python, with counted and optionally delayed accesses to the catalog and to metadata files.

The measuring modules (java, python, writers, victims) do not use the simulator; predict.py simulates the same cases.
"""
