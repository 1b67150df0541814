"""From a model to a decision: load, recommend, quantise and benchmark, judge, save. `run.run_pipeline` is the whole
way.

Where to find what: `settings` what was asked, `state` the resumable folder, `load` and `facts` the model, `recommend`
the candidates by prediction, `measure` and `pytest_run` (a process of its own) their measurement, `verdict` the
decision, `save` the winner, `report` and `words` what people read, `progress`
what they see meanwhile.
"""
