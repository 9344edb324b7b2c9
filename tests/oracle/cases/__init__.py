"""Tables of cases, one topic a file."""
