"""The pictures of docs/pictures.md: each is drawn from what the engine does when it is drawn.

`python docs/site/draw/all.py` writes them to docs/pictures/, where GitHub shows them; the site draws
its own, and refuses to be built when those in docs/pictures/ say something else.
"""
