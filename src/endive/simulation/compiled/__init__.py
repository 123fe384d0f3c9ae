"""Run the model as a Numba kernel on arrays, with the same rows as the reference engine.

``lower`` turns a configuration into the arrays of ``run_state``, ``engine`` runs the kernel and turns its records into rows. The
kernel is ``kernel`` with all that it calls; ``features`` decides which branches it has, ``jit`` marks its functions, and ``native``
compiles, keeps and loads it.

Modules that have the name of a module of the model are its compiled counterparts: ``arrivals`` and ``committer`` of
``endive.workload``, ``iceberg`` and ``pyiceberg`` of ``endive.transaction``, ``service`` of ``endive.catalog``.
"""
