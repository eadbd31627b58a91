"""The pools through which the delta residual's gate and direction read a state of four channels.

    β = 2σ(Linear(𝒢(X)))        𝒢 of equation 2.7: the sublayer's input, or Pool(X)
    k̃ = MLP(Pool(X))            appendix B.1, in the v-Map: option 1 is a mean or all of X, option 2
                                attention

The paper names these choices and compares none of them.
"""

from geolab.residuals.delta_pool import POOLS
from geolab.tasks import Text
from geolab.training import Budget
from studies.claims.configurations import PUBLISHED_KERNELS
from studies.engine.arm import Arm
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.experiments.delta import CONFIGS, Models, on

V_MAP = PUBLISHED_KERNELS | {"map": "v", "value": "linear"}
MODELS: Models = {
    "β of x": ("delta-matrix", PUBLISHED_KERNELS),
    **{f"β of X, {pool}": ("delta-matrix", PUBLISHED_KERNELS | {"beta_reads": pool})
       for pool in POOLS},
    "k of x": ("delta-matrix", V_MAP),
    **{f"k of X, {pool}": ("delta-matrix", V_MAP | {"direction_reads": pool}) for pool in POOLS},
}


def small() -> list[Arm]:
    return on("text", Text(context=32), CONFIGS["cpu"], MODELS,
              Budget(steps=200, evaluate_every=50), Protocol.brief(rates=(1e-2, 2e-2, 5e-2)))


STUDY = Study("delta_pools", "Does it pay that the delta residual's gate or direction reads all "
              "channels of the state?", {"cpu": small})
