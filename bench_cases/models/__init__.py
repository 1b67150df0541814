"""Real transformers models: where they come from, and what is known of them before they are loaded."""
