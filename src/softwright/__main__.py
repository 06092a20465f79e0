"""`python -m softwright`: the same as the command `softwright`."""

from softwright.cli import main

if __name__ == "__main__":
    main()
