"""All studies by name."""

from studies.experiments import (
    delta,
    echo,
    emhc,
    emhc_gates,
    gt_text,
    headline,
    hyper_gain,
    mgt_ablation,
    mgt_depth,
    mgt_rank,
    order,
    real,
    real_graft,
    real_sentence,
    real_training,
    real_turns,
    reflection,
    regimes,
    released,
    sudoku,
)

STUDIES = {study.name: study for study in (
    delta.STUDY,
    echo.STUDY,
    emhc.ECHO,
    emhc_gates.STUDY,
    emhc_gates.AS_PUBLISHED,
    emhc.GYROSCOPE,
    emhc.NEAR_PI_MULTI,
    emhc.NEAR_PI_SINGLE,
    gt_text.STUDY,
    headline.STUDY,
    hyper_gain.STUDY,
    mgt_ablation.STUDY,
    mgt_depth.STUDY,
    mgt_rank.STUDY,
    order.STUDY,
    reflection.STUDY,
    regimes.STUDY,
    released.STUDY,
    sudoku.STUDY,
)}
# measurements in a network that others have trained
MEASUREMENTS = {study.name: study for study in (
    real.STUDY, real_graft.STUDY, real_sentence.STUDY, real_training.STUDY,
    real_turns.STUDY)}
