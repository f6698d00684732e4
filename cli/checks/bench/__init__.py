"""`pagewire bench`: a module for each group of figures, and below ranks/ what their ranks run."""
