"""What every other room stands on: findings and answers."""
