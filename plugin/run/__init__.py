"""One run: options, target, session, and the way of a case into the store."""
