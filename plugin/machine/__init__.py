"""The machine measured on: what it is, what state it is in, and the canary that notices when the state is slow."""
