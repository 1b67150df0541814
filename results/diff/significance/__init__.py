"""Whether a change is more than noise."""
