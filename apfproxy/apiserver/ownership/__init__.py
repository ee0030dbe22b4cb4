"""Server-side apply: field ownership, and the merging of applied configurations."""
