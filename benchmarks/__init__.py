"""Side by side with what a reader would use instead: ratios in one run, and what a step costs."""
