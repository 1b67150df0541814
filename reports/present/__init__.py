"""What every surface shows: blocks and tables, declared once, printed on a screen, as Markdown, page and JSON."""
