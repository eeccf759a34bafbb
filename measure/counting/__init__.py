"""What a network asks for, counted operator by operator: formulas, bytes, live memory, layers."""
