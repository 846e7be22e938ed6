"""Recordings of a program's allocation calls: docs/trace-format.md describes the files.

    capture   runs a program under the recorder
    raw       reads what the recorder wrote             -> Records
    link      finds out which call ends which block     -> Trace
    store     keeps a Trace in a .hakotrace file
    plan      writes a Trace for the program that replays it
    figures   what a Trace shows: sizes, lifetimes, threads
    show      prints the figures
    advice    what the replays say about the allocators
"""
