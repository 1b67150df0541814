"""Our own exports: JSON, CSV, Parquet, and back."""
