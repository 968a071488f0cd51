"""What is measured of the local runtime by itself."""
