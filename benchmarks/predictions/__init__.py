"""How fast predictions and recommendations are computed, and how near they come on this CPU."""
