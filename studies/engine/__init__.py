"""How a study is run: `arm` trains and measures one arm, `run` makes the content of the file."""
