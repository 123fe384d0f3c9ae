"""Building a kernel: its parts are specialised for a set of features, lowered by Numba, linked and optimised as one module.

LLVM sees the whole kernel once, with the entries as its only way in. The outcome is object code, which ``cache.py`` keeps and
loads.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from llvmlite import binding as llvm
from numba.core.compiler_lock import global_compiler_lock

from endive.simulation.compiled.bits import REPLACED
from endive.simulation.compiled.jit import INLINE
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


class _Specialisation:
    """The parts of one kernel: copies of functions in which features are constants, and calls go to other copies."""

    def __init__(self, constants: Mapping[str, bool]) -> None:
        self._constants = constants
        self._parts: dict[Any, Part] = {}

    def part(self, function: Any) -> Part:
        if function not in self._parts:
            code, names = function.__code__, function.__globals__
            asked = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
            used = {name: self._value(name, names[name]) for name in asked if name in names}
            used["__name__"] = function.__module__
            copy = FunctionType(code, used, function.__name__, function.__defaults__, function.__closure__)
            copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
            options = {**_OPTIONS, "inline": "always"} if getattr(function, INLINE, False) else _OPTIONS
            self._parts[function] = Part(py_func=copy, locals={}, targetoptions=dict(options))
        return self._parts[function]

    def _value(self, name: str, value: Any) -> Any:
        if name in self._constants:
            return self._constants[name]
        if isinstance(value, FunctionType) and value in REPLACED:
            return REPLACED[value]
        known = not isinstance(value, FunctionType) or value.__module__.partition(".")[0] in ("numba", "numpy")
        return value if known else self.part(value)


Entry = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that is called from outside, and the Numba types of its arguments."""


def build(entries: Mapping[str, Entry], constants: Mapping[str, bool]) -> bytes:
    """Compile functions, with all that they call, into object code in which they bear the names they are given here.

    Each is a C function that takes the address of its outcome, an address that Numba uses, and its arguments; it returns 0.
    """
    specialisation = _Specialisation(constants)
    with global_compiler_lock:
        module = _lowered({name: (specialisation.part(function), takes) for name, (function, takes) in entries.items()})
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
    module = llvm.parse_assembly(str(codegen()._create_empty_module("endive")))
    for library in libraries.values():
        module.link_in(library._final_module, preserve=True)
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    for function in module.functions:
        if function.name in symbols:
            function.name = symbols[function.name]
        elif not function.is_declaration:
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
