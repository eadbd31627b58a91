// What no style sheet can do: scrolling boxes that the keyboard reaches, figures that fill the screen,
// folds that print open, and links that open one.
(() => {
  const SCROLLS = ".reported, .pst-scrollable-table-container, div.math, span.math, .cell_output .output, pre";
  const check = box => {
    const unset = box.matches(".math") && !box.querySelector("mjx-container");
    const wider = !unset && box.scrollWidth > box.clientWidth + 4;  // an accent stands out by 3
    if (wider && box.tabIndex) box.tabIndex = 0;
    if (!wider && !box.tabIndex) box.removeAttribute("tabindex");
    // its right edge fades while there is more
    box.classList.toggle("more", wider && box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
  };
  const sizes = new ResizeObserver(seen => seen.forEach(({target}) => check(target)));
  const others = new MutationObserver(seen => seen.forEach(({target}) => check(target)));
  addEventListener("load", () => document.querySelectorAll(SCROLLS).forEach(box => {
    sizes.observe(box);  // also when a formula is set, or a fold opens
    others.observe(box, {attributeFilter: ["tabindex"]});  // the theme sets it by a rule of its own
    box.addEventListener("scroll", () => check(box));
  }));
  // a letter's own width comes with its font
  document.fonts.addEventListener("loadingdone",
    () => document.querySelectorAll(SCROLLS).forEach(check));
  addEventListener("load", () => {  // the theme's sidebar has a part outside of all landmarks
    const sidebar = document.querySelector(".bd-sidebar-primary");
    sidebar?.setAttribute("role", "region");
    sidebar?.setAttribute("aria-label", "Book");
    // a button's name has to contain the words that it shows
    document.querySelectorAll(".search-button-field").forEach(b => b.removeAttribute("aria-label"));
  });

  // for a lecture: a figure with its sliders, or a panel, on the whole screen
  const large = () => document.querySelectorAll(".geolab-explore, .geolab-compute, .geolab-network").forEach(box => {
    const button = Object.assign(document.createElement("button"),
      {type: "button", className: "geolab-large", ariaLabel: "Fill the screen, or leave it"});
    button.onclick = () => document.fullscreenElement ? document.exitFullscreen()
      : box.requestFullscreen().then(() => box.querySelector("input")?.focus());  // arrow keys step
    box.append(button);
  });
  if (document.fullscreenEnabled) addEventListener("load", large);

  const reveal = () => {  // a link into a closed part opens it
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const closed = place?.closest("details:not([open])");
    for (let fold = closed; fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (closed) place.scrollIntoView();
  };
  addEventListener("load", reveal);
  addEventListener("hashchange", reveal);

  let theme, opened = [];
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    opened = [...document.querySelectorAll("details:not([open], .hide)")];  // not the folded code
    opened.forEach(fold => fold.open = true);
  });
  addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    opened.forEach(fold => fold.open = false);
  });
})();
