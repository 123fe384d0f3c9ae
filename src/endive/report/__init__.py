"""What people see: figures, one-file reports, and the words that open them."""
