"""The `roofline` command. `main.py` names every command and its module; a module is imported when its command is asked
for.
"""
