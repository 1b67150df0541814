"""Alembic's folder: `env.py` runs the scripts of `versions/`; `results/migrate.py` is the only caller."""
