"""Compiled engine: a Numba kernel on arrays that produces the same rows as the reference engine.

``lower`` converts a configuration to the arrays of ``run_state``; ``engine`` runs the kernel and converts its records to rows. The
kernel consists of ``kernel`` and all functions that it calls; ``features`` determines its branches, ``jit`` marks its functions,
and ``native`` compiles, caches and loads it.

Modules with the name of a module of the model are its compiled counterparts: ``arrivals`` and ``committer`` of ``endive.workload``,
``iceberg`` and ``pyiceberg`` of ``endive.transaction``, ``service`` of ``endive.catalog``.
"""
