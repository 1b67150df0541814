"""The app, its routes, and what every request passes."""
