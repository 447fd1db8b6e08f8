"""From expression graphs to compiled kernels that run whole populations of parameters.

`lower` describes a recursion and turns its graphs into typed statements, `emit` lays these out in
lanes, `machine_code` writes them as LLVM instructions, `elementary` functions as vector arithmetic
on `terms`, and `loops` what is around them, `native` compiles and keeps the result, `kernel` runs
it on threads, `clock` counts its time. `tangent` differentiates a program. Hand-written loops are
plain Python that `routine` writes as LLVM instructions and calls, or numba code that `cache` keeps.
"""
