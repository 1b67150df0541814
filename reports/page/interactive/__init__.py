"""The interactive page: what its figures show as plain data (`page_data`), and the scripts that draw it (`page_script`).

Everything that a run holds reaches the page as JSON, never as script text; the scripts put it into the page as text.
"""

from __future__ import annotations
