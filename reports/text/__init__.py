"""Text from outside and from the catalog, made fit to show."""
