"""The experiments, one file each, like the experiment section of a paper: arms, protocol, measures.

`registry.STUDIES` has them by name; `python -m studies` trains them.
"""
