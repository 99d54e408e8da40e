"""``Release``: its parts, its checks, its file, its signature and its description in words."""
