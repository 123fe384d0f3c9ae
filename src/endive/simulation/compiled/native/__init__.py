"""Compile kernels to object code with Numba and LLVM, keep them on disk, and load them without Numba.

Only this package and ``memory`` use private interfaces of Numba. With these interfaces, a kernel is compiled in about 5 s instead
of 15 s. A compiled kernel is loaded in about 1 ms, without an import of Numba. ``TESTED`` contains the releases with which the
interfaces were tested:

* ``numba.core.codegen``: ``JITCodeLibrary`` (``_final_module``, ``_linking_libraries``, ``_finalized``, ``add_llvm_module``,
  ``finalize``), ``JITCPUCodegen`` (``_library_class``, ``_create_empty_module``)
* ``numba.core.cpu.CPUContext`` (``init``, ``_internal_codegen``, ``get_executable``)
* ``numba.core.registry``: ``CPUDispatcher`` (``targetdescr``, ``overloads``, ``add_overload``, ``get_call_template``),
  ``CPUTarget`` (``_toplevel_target_context``, ``_target_name``)
* ``numba.core.target_extension``: ``CPU``, ``target_registry``, ``dispatcher_registry``, ``jit_registry``
* ``numba.core.externals.c_math_functions``, ``numba.core.compiler_lock.global_compiler_lock``, ``numba.core.utils``
* ``numba.np.arrayobj``: ``make_array``, ``populate_array`` (in ``memory``)
* the compiler options ``_nrt``, ``no_cpython_wrapper`` and ``no_cfunc_wrapper``
* the calling convention of compiled functions: address of the result, address of the error, arguments; the status is returned

With another release, or if a kernel cannot be linked, ``numba.njit`` compiles the kernels in each process that needs them, after
one warning. ``llvmlite.binding`` and ``numba.extending`` are public.
"""

from __future__ import annotations

import re
from importlib.metadata import version

TESTED = {"numba": ((0, 68), (0, 69)), "llvmlite": ((0, 50), (0, 51))}
"""Releases with which the private interfaces were tested: first release, and first untested release, as in ``pyproject.toml``."""


def find_untested_release() -> str:
    """Return a sentence about an installed release outside ``TESTED``.

    The text is empty if all installed releases are tested.
    """
    for package, (first, end) in TESTED.items():
        installed = version(package)
        if not first <= tuple(int(number) for number in re.findall(r"\d+", installed)[:2]) < end:
            bounds = ",".join(f"{sign}{'.'.join(map(str, bound))}" for sign, bound in ((">=", first), ("<", end)))
            return f"{package} {installed} is outside the tested releases; install '{package}{bounds}' to cache compiled kernels"
    return ""


UNTESTED_RELEASE = find_untested_release()
"""Reason why ``numba.njit`` compiles the kernels. The text is empty if the private interfaces can be used."""
