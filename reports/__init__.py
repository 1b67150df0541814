"""MEANING: what stored runs say. Records in, frozen views out, drawn as plots and pages; nothing here measures."""

__roofline_bench__ = True  # tells our package from another one of this common name
