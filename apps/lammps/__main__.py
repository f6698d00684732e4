"""`python -m pagewire.apps.lammps` runs the mini-app."""

from pagewire.apps.lammps.main import main

if __name__ == "__main__":
    raise SystemExit(main())
