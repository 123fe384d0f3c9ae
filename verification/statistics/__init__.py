"""Verification of the coverage of 95% intervals: replicated small studies against runs that are a thousand times longer."""
