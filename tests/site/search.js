// How the search of the site orders what it finds: pages by task before the reference, records of the past last.
// A heading that has all the words is worth more.
// WORTH is written by __main__.py. The other numbers are those of Sphinx, which this replaces.
var Scorer = {
  score: ([page, , , , points, , kind]) => points + (WORTH[page] ?? 0) + (kind === "title" ? 8 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
