"""The report of a run, or of a comparison, as one page for a browser, without a network.

Made of the report's JSON alone, so that a saved one gives the same page. Bars, matrix and heat map
are HTML and CSS: the page follows light and dark, a phone's width and print, needs no library, and
says each figure as text too.
"""
