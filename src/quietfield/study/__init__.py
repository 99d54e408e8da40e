"""What can be found out without records: simulation, rehearsal, goodness of fit, comparison."""
