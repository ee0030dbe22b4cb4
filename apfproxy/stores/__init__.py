"""Where the record of a fleet lives: stores with compare-and-swap, all behind one protocol."""
