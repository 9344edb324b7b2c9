"""The CPU: LLVM text, machine code, libraries, threads."""
