"""What an inference engine does with a model on a chip: time per token, first token, power, under a load.

`engine.py` reads an engine's constants (`catalog/*.toml`: data with sources), `amounts.py` counts what a step reads and
computes, `steps.py` times one step and one prefill, `loads.py` what a client sees, `power.py` the watts.
"""
