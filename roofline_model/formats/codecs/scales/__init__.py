"""Scaled blocks: one scale per tensor, channel, group or microscaling block."""
