"""Raw results for readers: one self-contained HTML page, or the Markdown pages of bench/results with their plots.

facts.py computes what a page shows, plots.py draws it, page.py and markdown.py put it together. theme.py has the colours,
svg.py turns matplotlib's figures into small SVG, history.py reads the results of earlier commits.
"""
