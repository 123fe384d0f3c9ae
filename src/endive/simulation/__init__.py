"""Simulation runs: configuration, engines, results."""

from endive.simulation.config import SimulationConfig
from endive.simulation.rows import RESULT_SCHEMA, TRACE_SCHEMA
from endive.simulation.runner import Simulation
from endive.simulation.statistics import Statistics
from endive.simulation.summary import RunCounters, Summary

__all__ = ["RESULT_SCHEMA", "TRACE_SCHEMA", "RunCounters", "Simulation", "SimulationConfig", "Statistics", "Summary"]
