"""Simulate on the compiled engine, a Numba kernel on arrays that produces the same rows as the reference engine.

``lower`` converts a configuration to the arrays of ``run_state``. ``engine`` runs the kernel and converts its records to rows. The
kernel consists of ``kernel`` and all functions that it calls. ``features`` marks these functions and determines their branches.
``compilation`` compiles the kernel, and ``kernel_cache`` stores and loads it.

Modules with the name of a module of the model implement the same rules for the compiled engine: ``arrivals`` and ``committer`` as
in ``endive.workload``, ``iceberg`` and ``protocol_path`` as in ``endive.transaction``, ``service`` as in
``endive.catalog``.
"""
