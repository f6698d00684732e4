"""`python -m pagewire` is the command `pagewire`."""

from pagewire.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
