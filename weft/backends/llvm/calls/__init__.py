"""The native caller: it matches arguments, runs programs and boxes results."""
