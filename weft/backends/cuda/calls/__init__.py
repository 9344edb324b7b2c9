"""Programs on GPUs called natively: what native code does there, and the tables that it reads."""
