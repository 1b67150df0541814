"""A report in other forms: Markdown, paper, JSON, JUnit."""
