"""The library under *The Geometry of Residual Connections*. Each room is imported by its own name.

    operators    the mathematics, pure functions of tensors
    kernels      the same on a GPU; operators hand over to them
    residuals    what replaces x + F(x), one class per residual
    models       the Transformer that takes any residual
    graft        any residual in a network that exists
    tasks        data sets that know their floor and their trivial baselines
    probes       measurements
    training     the training loop, on one process or many
    show         sliders, figures and diagrams

The experiments behind the book's measured claims are in the package `studies`, which lies beside
this one in a clone of the book.
"""

__version__ = "0.2.0.dev0"
