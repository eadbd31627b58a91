"""At phone and desktop width, a page has no errors, nothing sticks out, and formulas are set."""

import pytest

pytestmark = pytest.mark.browser


def test_nothing_goes_wrong(visit):
    assert visit.trouble == []


def test_mathematics_is_set(visit):
    unset, wrong = visit.page.evaluate("""() => {
        const article = document.querySelector("article");
        const unset = [...article.querySelectorAll(".math")]
            .filter(e => !e.querySelector("mjx-container mjx-math > *"));
        const errors = "mjx-merror, [data-mjx-error], mtext[mathcolor=red]";
        const wrong = [...article.querySelectorAll(errors)];
        return [unset, wrong].map(found => found.map(e => e.textContent));
    }""")
    assert not unset
    assert not wrong, "MathJax does not know a command"
    assert "Math Processing Error" not in visit.page.content()


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "unfolded"])
def test_nothing_sticks_out(visit, folded):
    """Neither the page nor any element outside a box that scrolls is wider than the window."""
    if not folded:
        visit.unfold()
    root = "document.documentElement"
    assert visit.page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
    sticking_out = visit.page.evaluate("""() => {
        const article = document.querySelector("article");
        const width = document.documentElement.clientWidth;
        const inside = box => box.left > -1 && box.right < width + 1;
        const scrolls = e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
        const excused = e => {
            for (e = e.parentElement; e !== article; e = e.parentElement)
                if (scrolls(e)) return true;
        };
        const all = [...article.querySelectorAll("*:not(svg *):not(mjx-container *)")];
        const found = new Set(all.filter(e => {
            const box = e.getBoundingClientRect();
            return box.width > 1 && box.height > 1 && !inside(box) && !excused(e);
        }));
        return [...found].filter(e => !found.has(e.parentElement)).map(e => {
            const text = e.matches("mjx-container")
                ? "a formula in: " + e.closest("p, li, td, div").textContent : e.outerHTML;
            const right = e.getBoundingClientRect().right;
            return `${text.trim().slice(0, 200)} ... reaches ${right} of ${width} pixels`;
        });
    }""")
    assert not sticking_out
