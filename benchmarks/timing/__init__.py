"""How contestants are timed side by side, and the table they end in."""
