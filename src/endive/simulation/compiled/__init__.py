"""The compiled engine: the model lowered to arrays and run by a Numba kernel, row for row as the reference engine runs it."""
