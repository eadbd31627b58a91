"""Times of geolab beside what one would use instead, and the arithmetic of what a step costs."""
