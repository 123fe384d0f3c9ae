"""Define a Numba target that lowers functions to LLVM IR, but does not optimize or compile each function separately.

By default, Numba optimizes each function and generates its machine code before it links the function into its callers. It also
compiles a function once for each constant argument. This target avoids both.
"""

# Numba's inner classes have no types.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, attr-defined"

from __future__ import annotations

from functools import partial
from typing import Any

import numba
from numba.core import externals, types, utils
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.cpu import CPUContext
from numba.core.registry import CPUDispatcher, CPUTarget
from numba.core.target_extension import CPU, dispatcher_registry, jit_registry, target_registry
from numba.core.utils import threadsafe_cached_property

_TARGET = "endive"


class Library(JITCodeLibrary):
    """Library of functions in LLVM IR, without machine code."""

    def add_llvm_module(self, ll_module: Any) -> None:
        """Link a module without optimizing it."""
        self._final_module.link_in(ll_module)

    def finalize(self) -> None:
        """Mark the library as complete. Optimization and code generation happen once for the whole kernel."""
        self._finalized = True

    def linked_modules(self) -> dict[int, Any]:
        """Return the LLVM modules of this library and of all direct and indirect callees, by the ``id`` of their library."""
        modules: dict[int, Any] = {}
        waiting: list[JITCodeLibrary] = [self]
        while waiting:
            library = waiting.pop()
            if id(library) not in modules:
                modules[id(library)] = library._final_module
                waiting += library._linking_libraries
        return modules


class _Codegen(JITCPUCodegen):
    _library_class = Library


class _Context(CPUContext):
    """Numba's context for this processor, with ``Library`` as library class."""

    def init(self) -> None:
        self.is32bit = utils.MACHINE_BITS == 32
        self._internal_codegen = _Codegen("endive")
        externals.c_math_functions.install(self)

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> object:
        return object()  # there is no machine code yet; Numba uses the result only as a key


class _Kernel(CPU):
    """Numba target for the same processor as Numba's target ``cpu``."""


class _Target(CPUTarget):
    @threadsafe_cached_property
    def _toplevel_target_context(self) -> _Context:
        return _Context(self.typing_context, self._target_name)


class LoweredFunction(CPUDispatcher):
    """Function of a kernel. Numba lowers it once per list of argument types, in which a constant argument is represented by its
    type.
    """

    targetdescr = _Target(_TARGET)

    def add_overload(self, cres: Any) -> None:
        """Store the result of a compilation, without an entry point for Python."""
        self.overloads[tuple(cres.signature.args)] = cres

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Lower the function for these argument types, with constant arguments replaced by their types."""
        plain = tuple(types.unliteral(each) for each in args)
        return super().get_call_template(plain, {name: types.unliteral(each) for name, each in kws.items()})


target_registry[_TARGET] = _Kernel
dispatcher_registry[_Kernel] = LoweredFunction
jit_registry[_Kernel] = partial(numba.jit, _target=_TARGET)


def create_module(name: str) -> str:
    """Return the LLVM IR of an empty module for this processor."""
    return str(LoweredFunction.targetdescr.target_context.codegen()._create_empty_module(name))
