// Sphinx reads this as a part of its search: the page named after what is asked for comes first.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 60, partialTitle: 30, term: 5, partialTerm: 2,
  // Sphinx counts a word of any heading as a word of the title. The page that is named after what
  // is asked for comes before those that have a section about it.
  score: ([page, title, anchor, , score]) => {
    const plain = title.replace(/<[^>]*>/g, " ").toLowerCase();
    const asked = (new URLSearchParams(location.search).get("q") || "").trim().toLowerCase();
    const words = asked.split(/\s+/).map(word => word.replace(/s$/, ""));
    const named = words.filter(word => word && plain.includes(word)).length / words.length;
    return score + 60 * named + (asked && plain.includes(asked) ? 20 : 0) - (anchor ? 30 : 0);
  },
};
addEventListener("DOMContentLoaded", () => {
  const plain = Search.htmlToText;  // excerpts without the source of formulas
  Search.htmlToText = (text, anchor) =>
    plain(text.replace(/<(span|div) class="math[^>]*>[^<]*<\/\1>/g, "…"), anchor);
});
