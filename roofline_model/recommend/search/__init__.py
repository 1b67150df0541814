"""One format per group of layers: least loss of quality within a time and a memory budget, and the whole front."""
