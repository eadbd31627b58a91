"""Every chapter has exercises with solutions that run, minutes, a summary and references."""

import re

from class_pages import SKIPPED


def test_each_exercise_has_one_solution_and_it_runs(chapter):
    marks = chapter.exercises()
    exercises = [label for kind, label, _ in marks if kind == "exercise"]
    assert len(exercises) >= 3 and len(set(exercises)) == len(exercises), exercises
    open_exercise = open_solution = None
    solved = []
    for kind, label, code in marks:
        if kind == "exercise":
            assert not open_solution, f"exercise {label} stands in the solution of {open_solution}"
            open_exercise = label
        elif kind == "solution-start":
            assert label == open_exercise, f"solution of {label} after exercise {open_exercise}"
            assert not open_solution, f"solution of {label} in the solution of {open_solution}"
            open_solution, first = label, code
        else:
            assert open_solution, "solution-end without a solution-start"
            assert code > first, f"the solution of {open_solution} has no code cell"
            solved.append(open_solution)
            open_solution = None
    assert open_solution is None and solved == exercises


def test_solutions_are_folded(chapter):
    solution = re.compile(r"^[:`]{3,}\{solution-start\} *(.*)\n((?::.*\n)*)", re.M)
    for label, options in solution.findall(chapter.text):
        folded = re.search(r"^:class:.*\bdropdown\b", options, re.M)
        assert folded, f"the solution of {label} needs the class dropdown"


def test_it_opens_with_one_title(chapter):
    titles = re.findall(r"^# .+", chapter.text, re.M)
    assert len(titles) == 1 and chapter.text.startswith(titles[0])


def test_its_plan_is_folded_and_adds_up_the_minutes_of_the_main_road(chapter):
    plan = re.search(r'<details class="plan">\n<summary>[^<]* about (\d+) minutes[^<]*</summary>\n'
                     r"(.*?)</details>", chapter.text, re.S)
    assert plan and "**You will be able to**" in plan[2]
    rows = re.findall(r"^\| (.+?) \| (\d+) \| ?(.*?) ?\|$", plan[2], re.M)
    main = [int(minutes) for section, minutes, note in rows
            if section != "Exercises" and not SKIPPED.match(note)]
    assert len(main) > 2 and int(plan[1]) == sum(main)
    # a row is a section that is there
    headings = re.findall(r"^##+ (.+)$", chapter.plain, re.M)
    folds = " ".join(re.findall("<summary>(.*?)</summary>", chapter.plain)).lower()
    assert not [name for name, *_ in rows if name != "The opening" and name not in headings
                and name.lower() not in folds]


def test_a_side_road_says_where_it_leads_and_comes_back_before_the_next_heading(chapter):
    """A fold that a heading cut in two would be closed by the browser at another place."""
    opened = re.split(r'^<details class="road">$', chapter.text, flags=re.M)[1:]
    for road in opened:
        said = re.match(r"\n<summary><strong>(?:A side road|Optional), \d+ minutes?:</strong> .+"
                        r"</summary>\n\n", road)
        assert said, road[:120]
        inside, closed, _ = road.partition("\n</details>\n")
        assert closed and not re.search(r"<details|^#+ ", inside, re.M), road[:120]


def test_it_ends_with_a_summary_and_references(chapter):
    headings = re.findall(r"^#{2,} (.+)", chapter.text, re.M)
    assert any(re.search(r"summary|remember", heading, re.I) for heading in headings), headings
    assert headings[-1] == "References" and "{footbibliography}" in chapter.text


def test_it_speaks_to_the_teacher(chapter):
    assert re.search(r"^:{3,}\{admonition\} For the teacher$", chapter.text, re.M)
