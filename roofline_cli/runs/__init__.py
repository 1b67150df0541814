"""`roofline runs`, `show`, `report`."""
