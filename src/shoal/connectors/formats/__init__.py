"""File formats: a file comes in, batches of unchecked rows go out; conversion gives each column its declared type."""
