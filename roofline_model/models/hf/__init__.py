"""Models as Hugging Face describes them: configurations, architectures, parameter counts."""
