"""Checks of the simulator against what is outside of it: real clients of Apache Iceberg."""
