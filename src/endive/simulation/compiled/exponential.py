"""The exponential function, written out where it is called: the same bits as the C library's, without the call.

A run spends a fifth of its time in ``exp``, half of it on the way there and back. The algorithm is that of Arm's Optimized Routines
(MIT licence), which glibc and musl have taken over: e^x = 2^(k/128) e^r, the first from a table, the second by a polynomial. What
the C library of a machine computes is what its reference engine sees, so the code here is used only where both agree, which is
tried before a kernel is built; elsewhere ``exp`` of the C library is called.
"""

# llvmlite has no types.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import ctypes
import math
import platform
import random
import struct
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir

from endive.simulation.compiled.lanes import REAL, WORD, constant, fused, looked_up, words_like

_CELLS = 128
_CELLS_PER_E = float.fromhex("0x1.71547652b82fep0") * _CELLS
"""128 / ln 2."""
_MINUS_LN2_HIGH = float.fromhex("-0x1.62e42fefa0000p-8")
_MINUS_LN2_LOW = float.fromhex("-0x1.cf79abc9e3b39p-47")
"""The two add up to - ln 2 / 128."""
_TO_WHOLE = float.fromhex("0x1.8p52")
"""Added to a number, leaves its whole part in the last bits."""
_C2, _C3, _C4, _C5 = (
    float.fromhex(each) for each in ("0x1.ffffffffffdbdp-2", "0x1.555555555543cp-3", "0x1.55555cf172b91p-5", "0x1.1111167a4d017p-7")
)
_SMALLEST_EXPONENT, _EXPONENTS = 0x3C9, 0x3E
"""The polynomial serves from 2^-54 up to 512, by the exponent of x; the C library takes the rest."""
_TABLE = "endive.powers"
_SAMPLES = 20_000


@cache
def _powers() -> list[int]:
    """For each k a pair of words: what the k-th root power of two lacks, relative, and its bits, less those that k adds."""
    words: list[int] = []
    with localcontext() as context:
        context.prec = 50
        for k in range(_CELLS):
            exact = Decimal(2) ** (Decimal(k) / _CELLS)
            near = float(exact)
            words += (_bits(float(exact / Decimal(near) - 1)), (_bits(near) - (k << 45)) % 2**64)
    return words


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def emit_exp(builder: Any, x: Any) -> Any:
    """Add the code of e^x to a function and return its outcome."""
    library = builder.module.globals.get("exp") or ir.Function(builder.module, ir.FunctionType(REAL, [REAL]), "exp")
    with builder.if_else(_is_usual(builder, x), likely=True) as (then, otherwise):
        with then:
            near = _by_polynomial(builder, x)
            after_near = builder.block
        with otherwise:
            far = builder.call(library, [x])
            after_far = builder.block
    outcome = builder.phi(REAL)
    outcome.add_incoming(near, after_near)
    outcome.add_incoming(far, after_far)
    return outcome


def emit_exps(builder: Any, x: Any) -> tuple[Any, Any]:
    """Add the code of e^x for the lanes of a vector; returns the outcomes, and which of them are right: extreme ones are not."""
    return _by_polynomial(builder, x), _is_usual(builder, x)


def _is_usual(builder: Any, x: Any) -> Any:
    """Whether the polynomial serves for x."""
    words = words_like(x.type)
    exponent = builder.and_(builder.lshr(builder.bitcast(x, words), constant(words, 52)), constant(words, 0x7FF))
    beyond = builder.sub(exponent, constant(words, _SMALLEST_EXPONENT))
    return builder.icmp_unsigned("<=", beyond, constant(words, _EXPONENTS))


def _by_polynomial(builder: Any, x: Any) -> Any:
    """e^x where neither is extreme. Each ``fused`` rounds once, as compilers contract the expressions of the original."""
    words, table = words_like(x.type), _table(builder.module)
    shifted = fused(builder, x, _CELLS_PER_E, constant(x.type, _TO_WHOLE))
    k = builder.bitcast(shifted, words)
    whole = builder.fsub(shifted, constant(x.type, _TO_WHOLE))
    r = fused(builder, whole, _MINUS_LN2_LOW, fused(builder, whole, _MINUS_LN2_HIGH, x))
    place = builder.shl(builder.and_(k, constant(words, _CELLS - 1)), constant(words, 1))
    tail = builder.bitcast(looked_up(builder, table, place), x.type)
    power = looked_up(builder, table, builder.or_(place, constant(words, 1)))
    scale = builder.bitcast(builder.add(power, builder.shl(k, constant(words, 45))), x.type)
    square = builder.fmul(r, r)
    low = fused(builder, fused(builder, r, _C3, constant(x.type, _C2)), square, builder.fadd(r, tail))
    high = fused(builder, r, _C5, constant(x.type, _C4))
    return fused(builder, scale, fused(builder, builder.fmul(square, square), high, low), scale)


def _table(module: Any) -> Any:
    """The table of powers, once in a module."""
    found = module.globals.get(_TABLE)
    if found is None:
        kind = ir.ArrayType(WORD, 2 * _CELLS)
        found = ir.GlobalVariable(module, kind, _TABLE)
        found.initializer = ir.Constant(kind, [ir.Constant(WORD, word) for word in _powers()])
        found.global_constant, found.linkage, found.align = True, "linkonce_odr", 64
    return found


@cache
def compiled_exp() -> Callable[[float], float]:
    """The code here as a function by itself."""
    module = ir.Module("exp")
    function = ir.Function(module, ir.FunctionType(REAL, [REAL]), "exponential")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(emit_exp(builder, function.args[0]))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(llvm.get_host_cpu_name(), features, 2, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    compiled = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(engine.get_function_address("exponential"))
    return lambda x, engine=engine: compiled(x)  # type: ignore[misc]  # the engine owns the code


@cache
def agrees_with_library() -> bool:
    """Whether ``math.exp`` gives the same bits as the code here.

    It does with glibc on processors of the family x86-64 that have FMA. Elsewhere roundings differ, in one case of a thousand
    or less; so the machine has to be of that kind, and so many samples have to agree.
    """
    if platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc" or not llvm.get_host_cpu_features().get("fma"):
        return False
    exponential, rng = compiled_exp(), random.Random(1)
    return all(exponential(x) == math.exp(x) for x in (rng.uniform(-30.0, 30.0) for _ in range(_SAMPLES)))
