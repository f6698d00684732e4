"""`python -m pagewire.apps.hpl` runs the mini-app."""

from pagewire.apps.hpl.main import main

if __name__ == "__main__":
    raise SystemExit(main())
