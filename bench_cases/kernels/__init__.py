"""One kernel per weight format, activation format and device. `catalog.py` names them without importing torch."""
