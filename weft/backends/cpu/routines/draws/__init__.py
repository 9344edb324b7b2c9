"""Random bits and draws by rejection."""
