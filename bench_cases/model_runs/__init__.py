"""Whole models as benchmark cases: load, quantise, take a step, check it, measure memory and quality beside its time.

Where to find what: `model_cases` which cases there are (no torch), `model_reference` what a prediction knows of a model,
`held_models` models in memory, `model_step` one decode or prefill call, `step_memory` bytes, `step_quality` loss against the
16-bit model, `host_time` what the framework itself takes, `measure_model` the path of one case.
"""
