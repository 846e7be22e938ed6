"""Recordings of a program's allocation calls: hakobench/docs/trace-format.md describes the files.

    capture   runs a program under the recorder
    raw       reads the recorder's files                -> Records
    link      finds the call that ends each block       -> Trace
    store     keeps a Trace in a .hakotrace file
    plan      writes a Trace for the program that replays it
    replays   replays a Trace under allocators
    placement replays a Trace for the addresses of its blocks
    locality  counts the cache lines and pages that they lie on
    figures   computes sizes, lifetimes and threads of a Trace
    show      prints the figures
    advice    judges the allocators by the replays
"""
