"""`pagewire experiment`: the figures and tables of the papers, run on the emulated machine."""
