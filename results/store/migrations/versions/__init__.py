"""One script per schema version; a released script never changes."""
