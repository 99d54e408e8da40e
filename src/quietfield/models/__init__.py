"""``Model``: its answers, samples, intervals and files, and whether a file is what a reader demands."""
