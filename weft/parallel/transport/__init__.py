"""What carries messages between processes, and what watches over them."""
