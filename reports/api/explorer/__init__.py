"""What the explorer page shows: its address as a question, the answers as blocks."""
