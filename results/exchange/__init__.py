"""Other programs' measurements as records of ours: what a file is, what its rows say, and what the model predicts of
them.

`import_any` is the door. A foreign measurement keeps a timer of its own (`imported:llama-bench`), so that nothing takes
it for a measurement of ours, and says where it came from.
"""

from __future__ import annotations
