"""The studio: a page on the curator's or the analyst's own machine that does what the command line does.

It is a thin layer. Short questions are answered by the functions that the commands call; long steps are the commands
themselves, each in a process of its own (``jobs.py``), and the page shows what it runs. State lies in files of the
folder that the server was started for, so that a reload, another tab or another server finds it.
"""
