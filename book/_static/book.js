// What no style sheet can do: scrolling boxes that the keyboard reaches, and folds that print open.
(() => {
  const SCROLLS = ".reported, div.math, span.math, .cell_output .output, pre";
  const reach = () => document.querySelectorAll(SCROLLS).forEach(box => {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  });
  addEventListener("load", reach);
  addEventListener("load", () => {  // the theme's sidebar has a part outside of all landmarks
    const sidebar = document.querySelector(".bd-sidebar-primary");
    sidebar?.setAttribute("role", "region");
    sidebar?.setAttribute("aria-label", "Book");
  });
  addEventListener("resize", reach);

  let theme, opened = [];
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach(fold => fold.open = true);
  });
  addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    opened.forEach(fold => fold.open = false);
  });
})();
