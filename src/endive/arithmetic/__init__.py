"""What both engines compute, written once in the subset of Python that Numba compiles.

Numbers and records in, numbers out: a record is anything with the fields that a function names, a dataclass of the model or a
record of the compiled engine's arrays. The reference engine runs these functions as they are, the compiled engine compiles them.
"""
