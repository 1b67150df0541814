"""Lists people keep beside the results: expected changes, quarantined cases."""
