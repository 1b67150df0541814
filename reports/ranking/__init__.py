"""The configurations of a shape in order."""
