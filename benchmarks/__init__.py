"""Benchmarks: what a run costs in time and memory. ``make bench`` prints tables and writes ``benchmarks/results/*.json``.

Nothing here passes or fails: bars are printed beside what was seen, since a busy machine is no bug.
"""
