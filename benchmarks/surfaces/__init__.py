"""What a user waits for: imports, report pages, the API."""
