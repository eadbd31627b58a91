"""All studies by name."""

from studies import (
    delta,
    echo,
    emhc,
    emhc_controls,
    emhc_gates,
    gt_text,
    hyper_gain,
    mgt,
    order,
    reflection,
    regimes,
    sudoku,
)

STUDIES = {study.name: study for study in (
    delta.STUDY,
    echo.STUDY,
    emhc_controls.STUDY,
    emhc.ECHO,
    emhc_gates.STUDY,
    emhc.GYROSCOPE,
    emhc.NEAR_PI_MULTI,
    emhc.NEAR_PI_SINGLE,
    gt_text.STUDY,
    hyper_gain.STUDY,
    mgt.STUDY,
    order.STUDY,
    reflection.STUDY,
    regimes.STUDY,
    sudoku.STUDY,
)}
