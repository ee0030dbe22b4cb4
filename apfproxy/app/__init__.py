"""The composition root: builds the programs from their settings; start, reload and stop."""
