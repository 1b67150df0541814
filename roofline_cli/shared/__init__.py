"""Options, names and helpers that several commands share."""
