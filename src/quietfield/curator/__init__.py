"""The curator's side: the only part that sees records. What leaves it has noise on it, or says NOT PRIVATE."""

#: What stands beside everything that is computed from records without noise.
WARNING = (
    "NOT PRIVATE: this is computed from the records without noise. For the curator's eyes only; do not pass it on."
)
