"""`graft(model, "mhc")` puts any residual of the registry into an existing network.

A block adds the outputs of its sublayers to its input one after the other, x ← x + F(norm x). A
grafted block puts a residual around each of them instead:

    rules       the norms and the F of a block, for each library that we know
    block       the block that is grafted
    start       measures how far a residual starts from the plain network, and what it reads
    trial       checks that a rule computes what its block does
    stacks      finds the blocks of a network that are grafted
    network     `graft`, which gives each block its residuals, and `ungraft`
    files       saves a grafted network, with the call that grafted it
    stream      takes a network apart at one input, for probes: `residual_stream(model, tokens)`

This room imports no library for it. It recognises a block by the name of its class.
"""

from geolab.graft.block import Grafted
from geolab.graft.files import load, save
from geolab.graft.network import graft, new_parameters, ungraft
from geolab.graft.rules import rule
from geolab.graft.start import distance_from_plain, reads_other_positions
from geolab.graft.stream import ResidualStream, Sublayer, residual_stream

__all__ = ["Grafted", "ResidualStream", "Sublayer", "distance_from_plain", "graft", "load",
           "new_parameters", "reads_other_positions", "residual_stream", "rule", "save", "ungraft"]
