"""What a reader is told: functions over the types of the domain that return sentences."""
