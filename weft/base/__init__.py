"""What every other room stands on: knobs, errors, source lines, small helpers, text layout."""
