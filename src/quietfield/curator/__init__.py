"""The curator's side: the only part that sees records. What leaves it has noise on it, or says NOT PRIVATE."""
