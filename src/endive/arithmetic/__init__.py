"""Define the arithmetic that both engines share, in the subset of Python that Numba compiles.

Functions take numbers and records, and return numbers. A record is any object with the required fields, such as a dataclass of the
model or a record of the compiled engine. The reference engine calls these functions, and the compiled engine compiles them.
"""
