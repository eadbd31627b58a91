// The keys of a remote control, and full screen. All else is scrolling.
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  const here = () => slides.reduce((best, slide) =>
    Math.abs(slide.getBoundingClientRect().top) < Math.abs(best.getBoundingClientRect().top) ? slide : best);
  const go = step => slides[slides.indexOf(here()) + step]?.scrollIntoView();
  addEventListener("keydown", event => {
    const on = document.activeElement, busy = on.matches("input, button, summary");
    const step = { PageDown: 1, PageUp: -1 }[event.key]
      ?? (busy ? 0 : { ArrowRight: 1, ArrowDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]);
    if (step) { event.preventDefault(); on.blur(); go(step); }
    else if (event.key === "f" && !busy) document.documentElement.requestFullscreen();
  });
})();
