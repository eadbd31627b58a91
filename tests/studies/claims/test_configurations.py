"""The papers' models at their sizes, against numbers that others counted or printed."""

from dataclasses import replace

import pytest
import torch
from shared_studies import count

from geolab.models import Transformer
from studies.claims import CONFIGURATIONS, MGT_PLANS, SOURCES, TABLES
from studies.claims.configurations import DDL_CONTROLS, EMHC, EMHC_OUTSIDE, MGT_VARIANTS

LEAK = {"emhc-ddl", "emhc-hybrid", "emhc-hybrid-published", "emhc-stream-published"}
# Of the public code's models, counted there, and in millions as tables 4 and 5 of the paper's
# revision print them (which have no row for d_v = 1 at the medium size)
DDL_COUNTS = {"small": {"additive": (123_590_400, 123), "delta": (123_627_312, 123),
                        "delta-matrix": (123_842_476, 123), "delta-matrix-ec": (123_854_764, 123),
                        "delta-matrix-cc": (123_722_668, 123),
                        "delta-matrix-cc-ec": (123_734_956, 123)},
              "medium": {"additive": (353_508_352, 353), "delta": (353_606_752, None),
                         "delta-matrix": (354_164_052, 354),
                         "delta-matrix-ec": (354_180_436, 354),
                         "delta-matrix-cc": (353_856_852, 353),
                         "delta-matrix-cc-ec": (353_873_236, 353)}}
# By the benchmark's `get_num_params`, with the 64 positions that the table counts
EMHC_COUNTS = {"emhc-gpt": 1_780_224, "emhc-ddl": 1_783_568, "emhc-mhc": 1_838_310,
               "emhc-jpmhc-published": 1_770_912, "emhc-hybrid-published": 1_787_688}


@pytest.fixture(autouse=True)
def no_memory():
    """Parameters have shapes and no numbers: the largest model would take over a gigabyte."""
    with torch.device("meta"):
        yield


# ---------------------------------------------------------------- every configuration

@pytest.mark.parametrize("key", CONFIGURATIONS)
def test_it_says_whence_it_comes_whether_it_leaks_how_large_it_is_and_runs(key):
    configuration = CONFIGURATIONS[key]
    assert configuration.source in SOURCES and configuration.number
    trunk = configuration.trunk()
    assert trunk(torch.zeros(2, 5, trunk.width)).shape == (2, 5, trunk.width)
    assert any(layer.residual.leaks for layer in trunk.layers) == (key in LEAK)
    counted = trunk.layers  # of E-MHC-Geo alone, because the ends of its trunk are its own
    if configuration.vocabulary:
        counted, tokens = configuration.model(), torch.zeros(2, 5, dtype=torch.long)
        assert counted(tokens).shape == (2, 5, configuration.vocabulary)
    if configuration.parameters:
        printed = configuration.parameters - configuration.outside
        assert count(counted) == pytest.approx(printed, rel=0.01)


@pytest.mark.parametrize("key", MGT_PLANS)
def test_a_plan_builds_each_of_its_variants(key):
    plan = MGT_PLANS[key]
    assert plan.source in SOURCES and plan.measures and plan.predictions
    for variant in plan.variants:
        backbone = plan.backbone(plan.layers[0], width=plan.width or 32, heads=plan.heads or 4)
        trunk = Transformer(replace(backbone, layers=2), "mgt", **MGT_VARIANTS[variant])
        x = torch.zeros(1, 3, backbone.width)
        assert backbone.layers == plan.layers[0] and trunk(x).shape == x.shape


# ---------------------------------------------------------------- against others' numbers

@pytest.mark.parametrize("size", DDL_COUNTS)
def test_the_delta_models_have_as_many_parameters_as_those_of_the_public_code(size):
    for name, (public, printed) in DDL_COUNTS[size].items():
        assert count(CONFIGURATIONS[f"ddl-{size}-{name}"].model()) == public
        assert printed in (None, public // 10**6)


@pytest.mark.parametrize("key", EMHC_COUNTS)
def test_the_rotating_models_have_as_many_parameters_as_the_benchmark_counts(key):
    configuration = CONFIGURATIONS[key]
    assert count(configuration.trunk().layers) + configuration.outside == EMHC_COUNTS[key]


def test_the_stream_lacks_only_the_weights_and_biases_of_norms_that_linear_maps_follow():
    layers = CONFIGURATIONS["emhc-stream-published"].trunk().layers
    assert count(layers) + len(layers) * 2 * 2 * 512 == 1_706_472


def test_sizes_are_those_of_the_papers_tables():
    names = {"GPT": "emhc-gpt", "DDL": "emhc-ddl", "mHC": "emhc-mhc", "JPmHC": "emhc-jpmhc",
             "E-MHC-Geo": "emhc-hybrid"}
    for row, columns in TABLES["emhc-table-5"].rows.items():
        configuration = EMHC[names[row]]
        assert columns["layers"][0] == configuration.backbone.layers
        assert columns["heads"][0] == configuration.backbone.heads
        assert columns["width"][0] * EMHC_OUTSIDE == configuration.outside
        assert columns["parameters"][0] * 1e6 == pytest.approx(configuration.parameters)
    for size, columns in TABLES["ddl-table-4"].rows.items():
        for key in (key for key in CONFIGURATIONS if key.startswith(f"ddl-{size}-")):
            backbone = CONFIGURATIONS[key].backbone
            sizes = {"width": backbone.width, "layers": backbone.layers, "heads": backbone.heads,
                     "head width": backbone.width / backbone.heads,
                     "parameters": CONFIGURATIONS[key].parameters / 1e6}
            assert sizes == {name: columns[name][0] for name in sizes}


def test_the_controls_of_the_matrix_state_are_as_large_as_what_they_control():
    backbone = CONFIGURATIONS["ddl-small-delta-matrix"].backbone
    sizes = {name: count(Transformer(backbone, "delta-matrix", **options))
             for name, options in DDL_CONTROLS.items()}
    whole = count(Transformer(backbone, "delta-matrix"))
    beta = 2 * backbone.layers * (backbone.width + 1)
    assert sizes == {"write-only": whole, "additive-matrix": whole - beta,
                     "overwrite": whole - beta}
