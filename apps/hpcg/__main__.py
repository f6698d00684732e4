"""`python -m pagewire.apps.hpcg` runs the mini-app."""

from pagewire.apps.hpcg.main import main

if __name__ == "__main__":
    raise SystemExit(main())
