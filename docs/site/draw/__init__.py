"""The pictures of the pages: each is drawn from what the engine does when it is drawn.

The site draws its own. `./mpirun.sh docs --draw` writes that of README.md, which is read where no
site is built; the build warns when its file says something else.
"""
