"""Checks of the simulator against external references: real Apache Iceberg clients and theory."""
