"""Every chapter has exercises with solutions that run, minutes, a summary and references."""

import re

from class_pages import SKIPPED

PLAN = re.compile(r'<details class="plan">\n<summary>[^<]* about (\d+) minutes[^<]*</summary>\n'
                  r"(.*?)</details>", re.S)
ROAD = re.compile(r"\n<summary><strong>(?:A side road|Optional), \d+ minutes?:</strong> .+"
                  r"</summary>\n\n")


def test_each_exercise_has_one_solution_and_it_runs(chapter):
    marks = chapter.exercises()
    labels = [label for kind, label, _ in marks if kind == "exercise"]
    assert len(labels) >= 3 and len(set(labels)) == len(labels)
    assert [kind for kind, *_ in marks] == [
        "exercise", "solution-start", "solution-end"] * len(labels)
    starts, ends = marks[1::3], marks[2::3]
    assert [label for _, label, _ in starts] == labels
    for (_, label, first), (_, _, last) in zip(starts, ends, strict=True):
        assert last > first, f"the solution of {label} has no code cell"


def test_it_opens_with_one_title_and_ends_with_a_summary_references_and_a_teachers_box(chapter):
    first, *titles = re.findall(r"^# .+", chapter.text, re.M)
    assert not titles and chapter.text.startswith(first)
    headings = re.findall(r"^#{2,} (.+)", chapter.text, re.M)
    assert any(re.search(r"summary|remember", heading, re.I) for heading in headings), headings
    assert headings[-1] == "References" and "{footbibliography}" in chapter.text
    assert re.search(r"^:{3,}\{admonition\} For the teacher$", chapter.text, re.M)


def test_its_plan_is_folded_and_adds_up_the_minutes_of_the_main_road(chapter):
    plan = PLAN.search(chapter.text)
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
    for road in re.split(r'^<details class="road">$', chapter.text, flags=re.M)[1:]:
        inside, closed, _ = road.partition("\n</details>\n")
        assert ROAD.match(road) and closed, road[:120]
        assert not re.search(r"<details|^#+ ", inside, re.M), road[:120]
