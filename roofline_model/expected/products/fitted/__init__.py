"""Constants of the product model: read, fitted, lent from chip to chip."""
