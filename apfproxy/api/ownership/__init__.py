"""Who owns which fields of an object, and how applied configurations merge."""
