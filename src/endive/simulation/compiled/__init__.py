"""Simulate on the compiled engine, a Numba kernel on arrays that produces the same rows as the reference engine.

``lower`` converts a configuration to the arrays of ``run_state``. ``engine`` runs the kernel and converts its records to rows. The
kernel consists of the functions in ``kernel`` and all functions that they call. ``features`` marks these functions and determines
their branches. ``compilation`` compiles the kernel, and ``kernel_cache`` stores and loads it.

Some modules have the name of a module of the model, because they implement the same rules for the compiled engine: ``arrivals`` and
``committer`` (``endive.workload``), ``iceberg`` and ``protocol_path`` (``endive.transaction``), and ``service``
(``endive.catalog``).
"""
