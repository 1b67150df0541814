"""`python -m roofline_cli`: the same as the console script `roofline`."""

from roofline_cli.entry import run

if __name__ == "__main__":
    run()
