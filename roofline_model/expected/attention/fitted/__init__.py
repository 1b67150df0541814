"""Constants of the attention model: read, fitted, lent from chip to chip."""
