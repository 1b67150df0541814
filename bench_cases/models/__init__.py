"""Whole models as benchmark cases: where they come from, and how one is loaded, quantised, run, checked and measured.

`sources` which models there are, `reference` what a prediction knows of one, `model_cases` which
cases are run (no torch), `held_models` models in memory, `model_step` one decode or prefill call, `step_memory` bytes,
`step_quality` loss against the 16-bit model, `host_time` what the framework itself takes, `measure_model` the path of
one case.
"""
