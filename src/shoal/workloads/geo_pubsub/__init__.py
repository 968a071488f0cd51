"""Location-aware publish/subscribe: points stream past standing range queries, with hotspots that come and go."""
