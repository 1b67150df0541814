"""The results database: commits, imports, exports, size."""
