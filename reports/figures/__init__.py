"""The figures of a report: each is built once as data (`spec`), and drawn by matplotlib or as JSON for Plotly."""
