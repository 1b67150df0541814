"""Power, energy, clocks and temperatures, whatever device they come from."""
