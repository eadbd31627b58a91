"""Times of geolab beside its alternatives, and the arithmetic of the cost of a step."""
