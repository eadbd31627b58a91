"""At phone and desktop width, a page has no errors, nothing sticks out, and formulas are set."""

import pytest

pytestmark = pytest.mark.browser
# what is wider than the window: the page, or elements outside of boxes that scroll
STICKING_OUT = """() => {
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
    const wide = document.documentElement.scrollWidth > width ? ["the page"] : [];
    return wide.concat([...found].filter(e => !found.has(e.parentElement)).map(e => {
        const text = e.matches("mjx-container")
            ? "a formula in: " + e.closest("p, li, td, div").textContent : e.outerHTML;
        const right = e.getBoundingClientRect().right;
        return `${text.trim().slice(0, 200)} ... reaches ${right} of ${width} pixels`;
    }));
}"""
MOST_SHIFT = 0.4  # a line that breaks elsewhere is much; more, and a reader loses the place


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


def test_the_text_stays_where_it_is_while_the_page_loads(visit):
    assert visit.page.evaluate("""() => new Promise(done => {
        const sum = shifts => shifts.reduce((sum, shift) => sum + shift.value, 0);
        const seen = new PerformanceObserver(all =>
            done(sum(all.getEntriesByType("layout-shift"))));
        seen.observe({type: "layout-shift", buffered: true});
        seen.observe({type: "navigation", buffered: true});  // there is one, also without a shift
    })""") < MOST_SHIFT


def test_nothing_sticks_out(visit):
    """Folded or not, neither the page nor what is outside a box that scrolls is too wide."""
    assert not visit.page.evaluate(STICKING_OUT)
    visit.unfold()
    assert not visit.page.evaluate(STICKING_OUT)


def test_the_keyboard_reaches_what_scrolls_on_the_smallest_phone(phone):
    """Nothing is cut there, the page doesn't move sideways, and boxes that scroll get the focus."""
    page, usual = phone.page, phone.page.viewport_size
    phone.unfold()
    page.set_viewport_size({"width": 320, "height": 640})
    # the theme sets what the keyboard reaches, by a rule of its own, 300 ms after a window changed
    page.evaluate("""() => document.fonts.ready.then(() => new Promise(drawn =>
        setTimeout(() => requestAnimationFrame(() => setTimeout(drawn)), 400)))""")
    cut, unreached, needless = page.evaluate("""async () => {
        const boxes = document.querySelectorAll("article :is(span.math, div.math, pre)");
        const scrolls = e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
        const has = e => e.tabIndex === 0;
        // the edge of the outer box fades, so what is inside mustn't scroll by itself
        const inner = [...document.querySelectorAll("article div.math mjx-container")];
        const root = document.documentElement;
        const look = () => {
            const wider = [...boxes]
                .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 4);
            const still = [...boxes].filter(e => e.clientWidth && !wider.includes(e));
            const cut = [...wider.filter(e => !scrolls(e)), ...inner.filter(scrolls)];
            const wide = root.scrollWidth > root.clientWidth ? [root] : [];
            return [[...wide, ...cut], wider.filter(e => !has(e)), still.filter(has)];
        };
        let found = look();  // on a busy machine, the theme and our script come later
        for (let k = 0; k < 60 && found.some(all => all.length); k++) {
            await new Promise(later => setTimeout(later, 50));
            found = look();
        }
        return found.map(all => all.map(e => e.textContent.slice(0, 80)));
    }""")
    page.set_viewport_size(usual)
    assert not cut and not unreached and not needless


def test_a_link_into_a_closed_part_opens_it(site, window):
    """Chromium and Firefox do so by themselves, older browsers by our script alone."""
    window.route("**/mathjax/**", lambda route: route.abort())  # formulas need half the time
    window.goto((site / "notebooks/09_the_gate.html").as_uri())
    window.unroute("**/mathjax/**")
    closed = window.locator("#gate-steeper")
    for event in ("load", "hashchange"):
        window.evaluate("""() => document.querySelectorAll("details")
            .forEach(folded => folded.open = false)""")
        assert not closed.is_visible()
        window.evaluate("""event => {
            history.replaceState(null, "", "#gate-steeper");  // which no browser follows
            dispatchEvent(new Event(event));
        }""", event)
        assert closed.is_visible()
        window.wait_for_function("""() => {
            const top = document.getElementById("gate-steeper").getBoundingClientRect().top;
            return 0 <= top && top < 400;
        }""")  # the scrolling is smooth
