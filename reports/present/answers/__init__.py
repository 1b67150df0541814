"""What is answered, once for `--json`, the API and the page: rankings, runs, diffs, histories, reports, first lines."""
