"""The Yahoo! Streaming Benchmark: views of ads per campaign and window."""
