"""What an operation costs: counted by valgrind (callgrind), and by the processor where it can be counted (perf).

An operation is one malloc together with one free, with the workload's own loop around them: all allocators run the
same loop, so differences are the allocator's. Callers: hakobench.commands.counts.
"""
