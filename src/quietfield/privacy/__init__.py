"""What a promise is made of: noise, accounting, units and their sensitivity, calibration, and words for all of it."""
