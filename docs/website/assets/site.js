"use strict";
/* The search: words of all sections are loaded when the field is first used; nothing is asked of anyone else. */
const field = document.getElementById("search"), found = document.getElementById("found"), root = document.body.dataset.root;
let words = null, loading = false;
function load() {
  if (loading) return;
  loading = true;
  const script = document.createElement("script");
  script.src = root + "words.js";
  script.addEventListener("load", () => {
    words = window.softwrightWords.map(([page, title, heading, text]) => ({page, title, heading, text, low: text.toLowerCase(), head: `${title} ${heading}`.toLowerCase()}));
    show();
  });
  document.head.append(script);
}
function count(text, word) {
  let n = 0, at = text.indexOf(word);
  while (at >= 0 && n < 9) { n++; at = text.indexOf(word, at + word.length); }
  return n;
}
/* A section must hold every word; headings count more than text, whole words more than parts. */
function search(asked) {
  const terms = asked.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
  if (!terms.length || !words) return [];
  const rows = [];
  for (const one of words) {
    let score = 0;
    for (const term of terms) {
      const head = count(one.head, term), text = count(one.low, term);
      if (!head && !text) { score = 0; break; }
      score += 12 * Math.min(head, 2) + text + (one.heading.toLowerCase() === term ? 30 : 0);
    }
    if (score && terms.length > 1 && `${one.head} ${one.low}`.includes(terms.join(" "))) score += 20;
    if (score) rows.push([score, one]);
  }
  return rows.sort((a, b) => b[0] - a[0]).slice(0, 12).map(([, one]) => ({...one, term: terms[0]}));
}
function excerpt(one) {
  const at = Math.max(0, one.low.indexOf(one.term) - 50);
  return (at ? "... " : "") + one.text.slice(at, at + 150);
}
function el(tag, ...inside) {
  const made = document.createElement(tag);
  made.append(...inside);
  return made;
}
function show() {
  const asked = field.value.trim();
  found.hidden = !asked;
  if (!asked || !words) return;
  const rows = search(asked);
  const list = el("ol", ...rows.map(one => {
    const link = el("a", el("b", one.heading || one.title), el("small", `${one.title}: ${excerpt(one)}`));
    link.href = root + one.page;
    return el("li", link);
  }));
  found.replaceChildren(el("small", rows.length ? `${rows.length} place(s)` : "nothing found"), list);
}
field.addEventListener("focus", load);
field.addEventListener("input", () => { load(); show(); });
document.addEventListener("keydown", event => {
  if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) { event.preventDefault(); field.focus(); }
  if (event.key === "Escape") { field.value = ""; found.hidden = true; }
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !found.hidden) {
    const links = [...found.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (at < 0 && document.activeElement !== field) return;
    event.preventDefault();
    const next = links[at + (event.key === "ArrowDown" ? 1 : -1)];
    (next || field).focus();
  }
});
document.addEventListener("click", event => { if (!found.contains(event.target) && event.target !== field) found.hidden = true; });
