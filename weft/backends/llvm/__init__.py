"""What backends share of LLVM: its text, machine code made of it, and native calls."""
