"""Selectors of objects: by labels and by fields."""
