"""Building a kernel: its parts are specialised for a set of features, lowered by Numba, linked and optimised as one module.

LLVM sees the whole kernel once, with the entries as its only way in. The outcome is object code, which ``cache.py`` keeps and
loads.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType
from typing import Any

from llvmlite import binding as llvm
from numba.core.compiler_lock import global_compiler_lock

from endive.simulation.compiled.jit import INLINE, REPLACED
from endive.simulation.compiled.target import Library, Part, codegen

_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "boundscheck": None,
    "error_model": "numpy",
    "nogil": True,
    "_nrt": False,  # the kernel makes no arrays, and counting references costs more than its arithmetic
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_SPEED = 2
_FLAGS = '!llvm.module.flags = !{!0}\n!0 = !{i32 7, !"RtLibUseGOT", i32 1}\n'
"""Functions of the mathematical library are called by a table of their addresses, whose size is known before a kernel is loaded."""


_parts: dict[tuple[FunctionType, frozenset[tuple[str, bool]]], Part] = {}
"""The parts of all kernels that this process has built, by the values of the features that they or what they call ask for.

Lowering a part takes Numba most of the time that a kernel takes: a second kernel takes from here what it has in common with others.
"""


def _part(function: Any, constants: Mapping[str, bool]) -> Part:
    """A part of one kernel: a copy of a function in which features are constants, and calls go to other copies."""
    key = function, frozenset((name, constants[name]) for name in _asked_by_all(function) if name in constants)
    if key not in _parts:
        used = {name: _specialised(name, value, constants) for name, value in _globals_of(function).items()}
        used["__name__"] = function.__module__
        copy = FunctionType(function.__code__, used, function.__name__, function.__defaults__, function.__closure__)
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        options = {**_OPTIONS, "inline": "always"} if getattr(function, INLINE, False) else _OPTIONS
        _parts[key] = Part(py_func=copy, locals={}, targetoptions=dict(options))
    return _parts[key]


def _specialised(name: str, value: Any, constants: Mapping[str, bool]) -> Any:
    if name in constants:
        return constants[name]
    return _part(value, constants) if _is_part(value) else value


@cache
def _globals_of(function: FunctionType) -> dict[str, Any]:
    """What a function refers to outside of itself."""
    asked = {each.argval for each in dis.get_instructions(function.__code__) if each.opname == "LOAD_GLOBAL"}
    found = {name: function.__globals__[name] for name in asked if name in function.__globals__}
    return {name: REPLACED.get(value, value) if isinstance(value, FunctionType) else value for name, value in found.items()}


@cache
def _asked_by_all(function: FunctionType) -> frozenset[str]:
    """The names that a function, or any part that it calls, refers to."""
    seen, waiting, names = {function}, [function], set[str]()
    while waiting:
        used = _globals_of(waiting.pop())
        names |= used.keys()
        called = {value for value in used.values() if _is_part(value)} - seen
        seen |= called
        waiting += called
    return frozenset(names)


def _is_part(value: Any) -> bool:
    """Tell whether this is a function that is compiled with those that call it."""
    return isinstance(value, FunctionType) and value.__module__.partition(".")[0] not in ("numba", "numpy")


Entry = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that is called from outside, and the Numba types of its arguments."""


def build(entries: Mapping[str, Entry], constants: Mapping[str, bool]) -> bytes:
    """Compile functions, with all that they call, into object code in which they bear the names they are given here.

    Each is a C function that takes the address of its outcome, an address that Numba uses, and its arguments; it returns 0.
    """
    with global_compiler_lock:
        module = _lowered({name: (_part(function, constants), takes) for name, (function, takes) in entries.items()})
        return _object_code(module)


def _lowered(parts: Mapping[str, tuple[Part, tuple[Any, ...]]]) -> Any:
    """One module of all functions; those called from outside are renamed, the others are private to it."""
    libraries: dict[int, Library] = {}
    symbols: dict[str, str] = {}
    for name, (part, argument_types) in parts.items():
        part.compile(argument_types)
        compiled: Any = part.overloads[argument_types]
        libraries |= compiled.library.linked()
        symbols[compiled.fndesc.llvm_func_name] = name
    module = llvm.parse_assembly(f"{codegen()._create_empty_module('endive')}\n{_FLAGS}")
    for library in libraries.values():
        module.link_in(library._final_module, preserve=True)
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    for function in module.functions:
        if function.name in symbols:
            function.name = symbols[function.name]
        elif function.is_declaration:
            function.add_function_attribute("nonlazybind")  # as the flag above, where they are declared
        else:
            function.linkage = "internal"
    return module


def _object_code(module: Any) -> bytes:
    """Optimise a module and turn it into machine code for this processor."""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(llvm.get_host_cpu_name(), features, _SPEED, reloc="pic", codemodel="small")
    tuning = llvm.create_pipeline_tuning_options(speed_level=_SPEED)
    tuning.loop_vectorization = tuning.slp_vectorization = False  # there is nothing to vectorise, and looking for it takes time
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    module.verify()
    return bytes(machine.emit_object(module))
