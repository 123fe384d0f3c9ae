"""A target for Numba: functions are lowered to LLVM's language, and neither optimised nor turned into machine code by themselves.

Numba by itself would optimise each function, and make machine code of it, before it is linked into its callers; and it would
compile a function anew for each constant that it is called with.
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
    """Functions that are lowered, and neither optimised nor turned into machine code by themselves."""

    def add_llvm_module(self, ll_module: Any) -> None:
        """Take a module as it is."""
        self._final_module.link_in(ll_module)

    def finalize(self) -> None:
        """Leave all that Numba would do now to those who link the library."""
        self._finalized = True

    def linked(self) -> dict[int, Library]:
        """Find all that this library calls, with itself, by identity."""
        found: dict[int, Library] = {}
        waiting = [self]
        while waiting:
            library = waiting.pop()
            if id(library) not in found:
                found[id(library)] = library
                waiting += library._linking_libraries
        return found


class _Codegen(JITCPUCodegen):
    _library_class = Library


class _Context(CPUContext):
    """Numba's context for this processor, but for the libraries that it makes."""

    def init(self) -> None:
        self.is32bit = utils.MACHINE_BITS == 32
        self._internal_codegen = _Codegen("endive")
        externals.c_math_functions.install(self)

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> object:
        return object()  # there is no machine code yet: something by which Numba finds the function again


class _Kernel(CPU):
    """A target of its own, of the same processor: what Numba compiles for it goes through the classes here."""


class _Target(CPUTarget):
    @threadsafe_cached_property
    def _toplevel_target_context(self) -> _Context:
        return _Context(self.typing_context, self._target_name)


class Part(CPUDispatcher):
    """A function of the kernel. Constants that it is called with are numbers like others: it is compiled once for all of them."""

    targetdescr = _Target(_TARGET)

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled, without a way in from Python."""
        self.overloads[tuple(cres.signature.args)] = cres

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for arguments of these types, constants taken as numbers."""
        plain = tuple(types.unliteral(each) for each in args)
        return super().get_call_template(plain, {name: types.unliteral(each) for name, each in kws.items()})


target_registry[_TARGET] = _Kernel
dispatcher_registry[_Kernel] = Part
jit_registry[_Kernel] = partial(numba.jit, _target=_TARGET)


def codegen() -> Any:
    """Numba's code generator for this processor, with its machine (``_tm``)."""
    return Part.targetdescr.target_context.codegen()
