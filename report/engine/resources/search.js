"use strict";
// Finds headings, figures and tables by their words, and models and chips by the rows that tables have of them.
(() => {
  const contents = document.querySelector("#contents details");
  if (!contents) return;
  const MOST = 14;
  const words = (element) => element.textContent.replace(/\s+/g, " ").trim();

  let entries = null;
  function index() {
    const found = [];
    const add = (kind, target, text, where = "") => found.push({ kind, target, text, where, low: text.toLowerCase() });
    for (const link of contents.querySelectorAll('li a[href^="#"]')) {
      add(0, decodeURIComponent(link.hash.slice(1)), words(link));
    }
    for (const card of document.querySelectorAll("[data-card]")) add(0, card.id, card.dataset.card, "card");
    for (const figure of document.querySelectorAll("figure[id]")) {
      const caption = figure.querySelector("figcaption");
      if (!caption) continue;
      add(2, figure.id, words(caption));
      const [label] = words(caption).split(":");
      for (const [at, row] of [...figure.querySelectorAll("tbody tr")].entries()) {
        const name = row.cells[0] && words(row.cells[0]);
        if (!name || /^[\d−–-]/.test(name)) continue;
        row.id ||= `${figure.id}-${at + 1}`;
        add(1, row.id, name, label);
      }
    }
    return found;
  }

  function matching(asked) {
    const parts = asked.toLowerCase().split(/\s+/).filter(Boolean);
    if (!parts.length) return [];
    const rank = ({ kind, low }) => (low === asked.toLowerCase() ? -2 : low.startsWith(parts[0]) ? -1 : 0) + kind;
    return entries.filter(({ low }) => parts.every((part) => low.includes(part))).sort((a, b) => rank(a) - rank(b));
  }

  const box = document.createElement("div");
  box.className = "search";
  box.setAttribute("role", "search");
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Model, chip or word";
  input.setAttribute("aria-label", "Search for a model, a chip or a word of a heading");
  const list = document.createElement("ul");
  const said = document.createElement("p");
  said.setAttribute("role", "status");
  box.append(input, said, list);
  contents.querySelector("summary").after(box);

  function show() {
    entries ??= index();
    const found = matching(input.value);
    list.replaceChildren(
      ...found.slice(0, MOST).map(({ target, text, where }) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = `#${encodeURIComponent(target)}`;
        link.textContent = text.length > 90 ? `${text.slice(0, 89)}…` : text;
        item.append(link);
        if (where) {
          const place = document.createElement("small");
          place.textContent = ` ${where}`;
          link.append(place);
        }
        return item;
      }),
    );
    const more = found.length > MOST ? `, the first ${MOST} shown` : "";
    said.textContent = input.value.trim() ? `${found.length} found${more}` : "";
  }

  input.addEventListener("input", show);
  box.addEventListener("keydown", (event) => {
    const stops = [input, ...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      stops[Math.max(0, Math.min(stops.length - 1, stops.indexOf(document.activeElement) + step))].focus();
    } else if (event.key === "Escape") {
      input.value = "";
      show();
      input.focus();
    }
  });
})();
