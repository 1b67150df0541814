"""The HTTP API: read-only answers of the model and the store. `app.create_app` makes it, `models` is its contract."""
