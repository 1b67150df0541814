"""Words that the terminal and the pages share: verdicts, advice, diffs, models."""
