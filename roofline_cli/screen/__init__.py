"""Tables, numbers and files that commands print."""
