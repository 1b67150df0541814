"""The border types: what a run, a case, a measurement and a prediction are."""
