"""Changes on their way into a database that may be away."""
