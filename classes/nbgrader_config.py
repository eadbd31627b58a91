# How nbgrader reads this folder. See https://nbgrader.readthedocs.io for what else it can do.
c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "residual-connections"
c.ClearSolutions.code_stub = {"python": ""}  # the text above says what to write
c.ClearSolutions.text_stub = "*Your answer in place of this line.*"
c.ExecutePreprocessor.timeout = 600  # seconds for one cell
