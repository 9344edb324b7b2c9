"""Programs of one device, or of one process, from programs on whole arrays."""
