"""The pictures of docs/pictures.md: each is drawn from what the engine does when it is drawn.

`./mpirun.sh docs --draw` writes them to docs/pictures/, where GitHub shows them; the site draws its
own, and refuses to be built when those in docs/pictures/ say something else.
"""
