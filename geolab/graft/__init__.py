"""Any residual of the registry in a network that exists: `graft(model, "mhc")`.

A block adds its sublayers to what it gets, x ← x + F(norm x), one after the other. A grafted block
puts a residual around each of them instead:

    rules       what a block is made of: its norms and its F, for each library that we know
    block       the block that is grafted
    start       how far a residual starts from the plain network, and what it reads
    trial       whether a rule computes what its block does
    stacks      which blocks of a network are grafted
    network     `graft`, which gives each block its residuals, and `ungraft`
    files       a grafted network, saved with how it was grafted
    stream      a network taken apart at one input, for probes: `residual_stream(model, tokens)`

No library is imported for it. What is grafted is recognised by the name of its class.
"""

from geolab.graft.block import Grafted
from geolab.graft.files import load, save
from geolab.graft.network import graft, new_parameters, ungraft
from geolab.graft.rules import rule
from geolab.graft.start import distance_from_plain, reads_other_positions
from geolab.graft.stream import ResidualStream, Sublayer, residual_stream

__all__ = ["Grafted", "ResidualStream", "Sublayer", "distance_from_plain", "graft", "load",
           "new_parameters", "reads_other_positions", "residual_stream", "rule", "save", "ungraft"]
