// Sphinx reads this as a part of its search: the page named after what is asked for comes first.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 60, partialTitle: 30, term: 5, partialTerm: 2,
  // a section's title counts less than the title of a chapter
  score: ([page, title, anchor, , score]) => score - (anchor ? 10 : 0),
};
addEventListener("DOMContentLoaded", () => {
  const plain = Search.htmlToText;  // excerpts without the source of formulas
  Search.htmlToText = (text, anchor) =>
    plain(text.replace(/<(span|div) class="math[^>]*>[^<]*<\/\1>/g, "…"), anchor);
});
