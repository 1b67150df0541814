"""`roofline db`, `push`, `prune`, `export`, `import`."""
