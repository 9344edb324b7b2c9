"""What threads of a GPU do in the routines, in the typed stub language."""
