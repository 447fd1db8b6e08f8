"""From expression graphs to compiled kernels that run whole populations of parameters.

`program` says what a kernel computes, `lower` turns a graph into statements, `source` sets the
statements into loops, `cache` compiles and keeps the result, `kernel` runs it on threads.
"""
