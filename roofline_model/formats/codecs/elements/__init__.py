"""Single elements: narrow floats, integers, and how codes share bytes."""
