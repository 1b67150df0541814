"""Which layer can bear which format."""
