"""A run as a report shows it: frozen views."""
