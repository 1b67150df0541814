"""One case of a run: times, error, energy, state, where the time went."""
