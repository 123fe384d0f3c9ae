"""Arithmetic that both engines share, in the subset of Python that Numba compiles.

Functions take numbers and records and return numbers. A record is any object with the fields that a function uses: a dataclass of
the model, or a record of the compiled engine's arrays. The reference engine calls these functions; the compiled engine compiles
them.
"""
