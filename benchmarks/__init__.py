"""Benchmarks of the time and memory of runs. ``make bench`` prints tables and writes ``benchmarks/results/*.json``.

Benchmarks never fail: targets are printed next to the measured values, because results depend on the load of the machine.
"""
