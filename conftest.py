"""Loads our plugin in a checkout that is not installed; an installed one names the same module."""

pytest_plugins = ["roofline_pytest", "pytester"]
