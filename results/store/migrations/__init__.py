"""Alembic's folder: `env.py` runs the scripts of `versions/`; `results/store/migrate.py` is the only caller."""
