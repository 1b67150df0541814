"""Operators: shapes, FLOPs and bytes of every call, before any chip."""
