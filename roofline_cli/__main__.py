"""`python -m roofline_cli`: the same as the console script `roofline`."""

from roofline_cli.main import run

if __name__ == "__main__":
    run()
