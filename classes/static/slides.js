// The keys of a remote control, full screen, and the speaker's notes in a window of their own.
(async () => {
  const all = () => [...document.querySelectorAll(".slide")];
  const fits = slide => [slide, slide.querySelector(":scope > div")]
    .every(box => box.scrollHeight <= box.clientHeight + 1);

  // Move a block's last parts, as many as don't fit, into a copy, and return it if it has any.
  const parted = "section, ol, ul, div:not(.math, .geolab-explore, .geolab-question, [role=img])";
  const rest = (block, slide) => {
    const copy = block.cloneNode(false);
    while (!fits(slide) && block.children.length) {
      const last = block.lastElementChild, inner = last.matches(parted) && rest(last, slide);
      if (inner && fits(slide)) { copy.prepend(inner); break; }
      if (inner) last.append(...inner.children);
      if (block.children.length === 1) break;
      copy.prepend(last);
    }
    if (block.matches("ol")) copy.start = (block.start || 1) + block.children.length;
    return copy.children.length ? copy : null;
  };

  // A picture that isn't wide has its sliders beside it, and each has a pad there.
  for (const explore of document.querySelectorAll(".slide .geolab-explore")) {
    const box = explore.querySelector("[role=img] svg")?.viewBox.baseVal;
    if (box && box.width < 1.7 * box.height || explore.querySelector(".geolab-pad")) explore.classList.add("beside");
  }

  // What is too tall for a screen goes on on a next slide. Formulas have their sizes by then.
  await globalThis.MathJax?.startup?.promise;
  for (let slide, k = 0; (slide = all()[k]); k++) {
    if (fits(slide)) continue;
    const more = rest(slide.querySelector(":scope > div"), slide);
    if (!more) continue;
    const next = slide.cloneNode(false), head = slide.querySelector(":scope > h2");
    if (head) next.append(head.cloneNode(true));
    next.append(more);
    const notes = slide.querySelector(".notes");
    if (notes) next.append(notes.cloneNode(true));
    slide.after(next);
  }

  const slides = all(), screen = document.querySelector("main");
  const here = () => slides.reduce((best, slide) =>
    Math.abs(slide.getBoundingClientRect().top) < Math.abs(best.getBoundingClientRect().top) ? slide : best);
  const at = () => slides.indexOf(here());
  const show = k => slides[k]?.scrollIntoView();

  let speaker;
  const tell = () => {
    if (!speaker || speaker.closed) return;
    const k = at(), words = (slide, part) => slide?.querySelector(part)?.innerHTML ?? "";
    speaker.document.title = `Notes ${k + 1} of ${slides.length}`;
    speaker.document.body.innerHTML = `<h2>${k + 1}. ${words(slides[k], "h1, h2")}</h2>`
      + (words(slides[k], ".notes") || "<p>No notes.</p>") + `<hr><p>Next: ${words(slides[k + 1], "h1, h2")}</p>`;
  };
  const notes = () => {
    speaker = open("", "notes", "width=700,height=600");
    if (!speaker) return;
    speaker.document.head.innerHTML = document.querySelector("#MJX-SVG-styles")?.outerHTML ?? "";
    speaker.document.head.insertAdjacentHTML("beforeend",
      "<style>body{font:1.4rem/1.5 system-ui;margin:1.5rem}svg{max-width:100%}</style>");
    tell();
  };

  show(Number(location.hash.slice(1)) - 1);
  let wait;
  screen.addEventListener("scroll", () => {
    clearTimeout(wait);
    wait = setTimeout(() => { history.replaceState(null, "", `#${at() + 1}`); tell(); }, 100);
  });
  addEventListener("keydown", event => {
    const on = document.activeElement, busy = on.matches("input, button, summary");
    const k = at(), step = { PageDown: 1, PageUp: -1 }[event.key]
      ?? (busy ? 0 : { ArrowRight: 1, ArrowDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1,
                       Home: -k, End: slides.length - 1 - k }[event.key]);
    if (step) { event.preventDefault(); on.blur(); show(k + step); }
    else if (event.key === "f" && !busy) document.documentElement.requestFullscreen();
    else if (event.key === "n" && !busy) notes();
  });
  document.documentElement.dataset.ready = "";
})();
