"""A report and a diff as files: Markdown, JUnit, figures."""
