# How nbgrader reads this folder. See https://nbgrader.readthedocs.io for what else it can do.
from pathlib import Path

import nbgrader

c = get_config()  # noqa: F821
# A page of feedback, or of Formgrader, has its script for formulas in itself, and needs no network.
c.HTMLExporter.extra_template_basedirs = [
    str(Path(__file__).parent / "templates"),
    str(Path(nbgrader.__file__).parent / "server_extensions/formgrader/templates")]
c.CourseDirectory.course_id = "residual-connections"
c.ClearSolutions.code_stub = {"python": ""}  # the text above says what to write
c.ClearSolutions.text_stub = "*Your answer in place of this line.*"
# tools/grade.py runs students' programs, within walls, and writes what it found into checked/.
# nbgrader reads the marks there and runs nothing, whoever presses the button of Formgrader.
c.CourseDirectory.submitted_directory = "checked"
c.Autograde.sanitize_preprocessors = [
    f"nbgrader.preprocessors.{step}" for step in
    ("DeduplicateIds", "OverwriteKernelspec", "OverwriteCells", "CheckCellMetadata")]
c.Autograde.autograde_preprocessors = [
    f"nbgrader.preprocessors.{step}" for step in
    ("LimitOutput", "SaveAutoGrades", "AssignLatePenalties", "CheckCellMetadata")]
