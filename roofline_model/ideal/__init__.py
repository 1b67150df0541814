"""The ideal time: speed of light on a chip, for calls and sequences of them."""
