"""Tables and names that the terminal and the pages share."""
