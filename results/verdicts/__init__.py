"""Which configuration of a shape wins, and how sure that is."""
