"""Tiles of a product on a chip: waves, edge tiles, occupancy."""
