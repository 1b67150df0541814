"""Files that commands write, and their progress on the screen; tables are `reports.present`."""
