"""What is quantised to which precision: recipes, layer plans, reports."""
