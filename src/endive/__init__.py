"""Endive: a simulator of Apache Iceberg's optimistic concurrency control."""

__version__ = "0.1.0"
