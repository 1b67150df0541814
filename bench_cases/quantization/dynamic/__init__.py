"""Dynamic quantisation: the activation is quantised at every call."""
