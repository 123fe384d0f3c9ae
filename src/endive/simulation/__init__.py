"""Define and run simulations: configuration, engines and results."""

from endive.simulation.columns import RESULT_SCHEMA, TRACE_SCHEMA
from endive.simulation.config import SimulationConfig
from endive.simulation.runner import Simulation
from endive.simulation.summary import RunCounters, Statistics, Summary

__all__ = ["RESULT_SCHEMA", "TRACE_SCHEMA", "RunCounters", "Simulation", "SimulationConfig", "Statistics", "Summary"]
