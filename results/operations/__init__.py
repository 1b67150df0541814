"""Care for a database: copies, checks, retention, statistics."""
