"""`pagewire soak`: many transfers under every impairment, and whether anything grows or goes wrong.

`phases` says what is run, `rank` is the program of a rank and `nodes` that of nodes without ranks,
`command` runs them and judges.
"""
