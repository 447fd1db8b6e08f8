"""From expression graphs to compiled kernels that run whole populations of parameters.

`lower` describes a recursion and turns its graphs into typed statements, `machine_code` writes
these as LLVM instructions, `emit` sets them into loops, `cache` compiles and keeps the result,
`kernel` runs it on threads, `clock` counts its time. `tangent` differentiates a program;
`vector_field` compiles one ODE.
"""
