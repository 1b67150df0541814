"""Number formats: the catalog, exact codecs, how a weight is quantised."""
