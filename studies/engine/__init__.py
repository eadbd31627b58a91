"""The engine of a study: `arm` trains and measures one arm, `run` makes the file's content."""
