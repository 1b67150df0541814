"""The `roofline` command. `main.py` holds the app; every other file is one command group, importing what it needs lazily."""
