"""What both programs know: measure, which writes the cache, and report, which reads it."""
