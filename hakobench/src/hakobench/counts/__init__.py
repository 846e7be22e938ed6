"""The cost of an operation, counted by valgrind (callgrind), and by the processor (perf) where it has counters.

An operation is one malloc together with one free, and the workload's own loop around them. All allocators run the same
loop, so a difference comes from the allocator. Caller: hakobench.commands.counts.
"""
