"""Texts and tokens that quality is measured on."""
