"""Compile a kernel: specialize its functions for a set of features, and compile the functions together.

``compile_object_code`` lowers the functions to LLVM IR with the target of ``numba_target``, links them into one module and
optimizes the module once. The module exports only the entry points. ``compile_plainly`` uses ``numba.njit`` for all of these steps.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core.compiler_lock import global_compiler_lock

from endive.simulation.compiled.features import INLINE, REPLACED

_OPTIONS: dict[str, Any] = {"boundscheck": None, "error_model": "numpy", "nogil": True}
_NATIVE_OPTIONS: dict[str, Any] = {
    **_OPTIONS,
    "nopython": True,
    "_nrt": False,  # the kernel allocates no arrays, so reference counting would only cost time
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_OPTIMISATION_LEVEL = 2

Entry = tuple[Callable[..., Any], tuple[Any, ...]]
"""Entry point of the kernel: a function, and the Numba types of its arguments."""


class Specialiser:
    """Specialized copies of the functions of one kernel. In a copy, features are constants and calls go to other copies."""

    def __init__(self, dispatcher: Callable[[Callable[..., Any], bool], Any], constants: Mapping[str, bool]) -> None:
        self._dispatcher = dispatcher
        self._constants = constants
        self._copies: dict[FunctionType, Any] = {}

    def specialise(self, function: Any) -> Any:
        """Return the dispatcher of the specialized copy of a function."""
        if function not in self._copies:
            names = {name: self._value(name, value) for name, value in _globals_of(function).items()}
            names["__name__"] = function.__module__
            copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
            copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
            self._copies[function] = self._dispatcher(copy, getattr(function, INLINE, False))
        return self._copies[function]

    def _value(self, name: str, value: Any) -> Any:
        if name in self._constants:
            return self._constants[name]
        return self.specialise(value) if _is_compiled_with_caller(value) else value


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the globals that a function uses.

    Functions of ``endive.arithmetic`` are replaced if ``features.REPLACED`` contains them.
    """
    names = {each.argval for each in dis.get_instructions(function.__code__) if each.opname == "LOAD_GLOBAL"}
    values = {name: function.__globals__[name] for name in names if name in function.__globals__}
    return {name: REPLACED.get(value, value) if isinstance(value, FunctionType) else value for name, value in values.items()}


def _is_compiled_with_caller(value: Any) -> bool:
    """Return whether a value is a function that is compiled into the kernel, as all functions outside of Numba and NumPy are."""
    return isinstance(value, FunctionType) and value.__module__.partition(".")[0] not in ("numba", "numpy")


def _lowered_function(function: Callable[..., Any], inline: bool) -> Any:
    from endive.simulation.compiled.numba_target import LoweredFunction

    options = {**_NATIVE_OPTIONS, "inline": "always"} if inline else dict(_NATIVE_OPTIONS)
    return LoweredFunction(py_func=function, locals={}, targetoptions=options)


def _plain_function(function: Callable[..., Any], inline: bool) -> Any:
    return numba.njit(**_OPTIONS, inline="always" if inline else "never")(function)


def compile_plainly(entries: Mapping[str, Entry], constants: Mapping[str, bool]) -> dict[str, Any]:
    """Compile functions and their callees by ``numba.njit``. Each function is compiled when it is first called."""
    specialiser = Specialiser(_plain_function, constants)
    return {name: specialiser.specialise(function) for name, (function, _) in entries.items()}


def compile_object_code(entries: Mapping[str, Entry], constants: Mapping[str, bool]) -> bytes:
    """Compile functions and their callees to object code that exports the functions under the names in ``entries``.

    Each exported function is a C function. It takes the addresses of its result and of an error, and its arguments, and returns a
    status.
    """
    specialiser = Specialiser(_lowered_function, constants)
    with global_compiler_lock:
        dispatchers = {name: (specialiser.specialise(function), takes) for name, (function, takes) in entries.items()}
        return _emit(_link(dispatchers))


def _link(entries: Mapping[str, tuple[Any, tuple[Any, ...]]]) -> Any:
    """Link all functions into one module.

    The entry points get the names in ``entries``, and other functions become private.
    """
    from endive.simulation.compiled.numba_target import create_module

    modules: dict[int, Any] = {}
    symbols: dict[str, str] = {}
    for name, (dispatcher, argument_types) in entries.items():
        dispatcher.compile(argument_types)
        compiled = dispatcher.overloads[argument_types]
        modules |= compiled.library.linked_modules()
        symbols[compiled.fndesc.llvm_func_name] = name
    module = llvm.parse_assembly(create_module("endive"))
    for each in modules.values():
        module.link_in(each, preserve=True)
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    for function in module.functions:
        if function.name in symbols:
            function.name = symbols[function.name]
        elif not function.is_declaration:
            function.linkage = "internal"
    return module


def _emit(module: Any) -> bytes:
    """Optimize a module, and return its object code for the processor of this machine."""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(llvm.get_host_cpu_name(), features, _OPTIMISATION_LEVEL, reloc="pic", codemodel="small")
    tuning = llvm.create_pipeline_tuning_options(speed_level=_OPTIMISATION_LEVEL)
    tuning.loop_vectorization = tuning.slp_vectorization = False  # the kernel has no loops that can be vectorized
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    module.verify()
    return bytes(machine.emit_object(module))
