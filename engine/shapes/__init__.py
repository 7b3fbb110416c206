"""The engine at the sizes that people serve, with random weights: what a pass costs, and what drafting would save.

Weights of the right shapes cost exactly what real ones do; only whether a draft is kept does not come from them, so α
is set by hand (`engine/lab/synthetic.py`) and every table says so.
"""
