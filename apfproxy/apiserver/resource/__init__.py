"""ResourceSlices: devices that drivers offer to pods."""
