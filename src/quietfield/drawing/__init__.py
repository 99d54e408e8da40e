"""Small pictures as SVG and as text; they know nothing of releases."""
