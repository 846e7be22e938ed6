"""How a row is run. A driver is a module of this package with two functions, `missing` and `run`: see registry.Driver.

    job        what a driver gets, and what it returns
    registry   the drivers by name
    app        what the drivers of real programs share
"""
