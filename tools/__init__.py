"""What the pages of `docs/` are made with, and the registers behind them; no part of the wheel.

`python tools/pages.py reports` makes every page anew; each of the others makes its own alone.
"""
