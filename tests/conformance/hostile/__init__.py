"""Plays the cases of hostile HTTP and judges what comes out."""
