"""pytest's side: hooks and the `roofline` fixture."""
