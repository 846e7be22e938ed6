"""Pictures of raw results: one HTML page that needs nothing else, and docs/benchmarks.md with its plots.

facts.py says what is shown, plots.py draws it, page.py and markdown.py put it together; theme.py has the colours,
svg.py turns matplotlib's figures into small SVG, history.py reads the results of earlier commits.
"""
