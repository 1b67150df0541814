"""`roofline db`, `prune`, `export`, `import`."""
