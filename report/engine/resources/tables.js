"use strict";
// Tables sort by a column's head. A long one scrolls below its head.
(() => {
  const FEWEST_ROWS = 5;
  const LONG = 25;
  const PREFIXES = { p: 1e-12, n: 1e-9, µ: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
  const UNIT = /^(?:s|B|W|J|Hz|FLOP|(?:B|FLOP)\/(?:s|B|W)|)$/;
  const NUMBER = /^[^\d\p{L}−-]{0,2}([−-]?\d[\d,.]*)(?: ?([^\s\d(]+))?/u;

  // The value of a cell that begins with a number, in the unit without its prefix; null of another.
  function value(text) {
    const found = NUMBER.exec(text.replace(/\s/g, " ").trim());
    if (!found) return null;
    const unit = found[2] ?? "";
    const scale = unit && UNIT.test(unit.slice(1)) ? PREFIXES[unit[0]] : undefined;
    return Number(found[1].replaceAll(",", "").replace("−", "-")) * (UNIT.test(unit) ? 1 : (scale ?? 1));
  }

  const text = (row, at) => row.cells[at]?.textContent.trim() ?? "";

  function sortable(table) {
    const head = table.tHead?.rows;
    const body = table.tBodies[0];
    if (head?.length !== 1 || table.tBodies.length !== 1 || body.rows.length < FEWEST_ROWS) return;
    const rows = [...body.rows];
    // A row of its first cell alone says what a table leaves out; one without a first cell belongs to those above.
    const last = rows.filter((row) => text(row, 0) && ![...row.cells].some((cell, at) => at && cell.textContent.trim()));
    const sorted = rows.filter((row) => !last.includes(row));
    if (sorted.some((row) => !text(row, 0))) return;
    for (const [at, cell] of [...head[0].cells].entries()) {
      if (!cell.textContent.trim() || cell.querySelector("a")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", () => {
        const filled = sorted.filter((row) => !/^[–—]?$/.test(text(row, at)));
        const values = new Map(filled.map((row) => [row, value(text(row, at))]));
        const numeric = filled.filter((row) => values.get(row) !== null).length > filled.length / 2;
        // Of numbers the greatest first, of words the first of the alphabet; then the other way, then as printed.
        const ways = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
        const way = ways[ways.indexOf(cell.getAttribute("aria-sort")) + 1];
        for (const other of head[0].cells) other.removeAttribute("aria-sort");
        let order = sorted;
        if (way) {
          cell.setAttribute("aria-sort", way);
          const compare = numeric
            ? (a, b) => (values.get(a) ?? -Infinity) - (values.get(b) ?? -Infinity)
            : (a, b) => text(a, at).localeCompare(text(b, at), "en", { numeric: true });
          const sign = way === "ascending" ? 1 : -1;
          order = [...filled.sort((a, b) => sign * compare(a, b)), ...sorted.filter((row) => !values.has(row))];
        }
        body.append(...order, ...last);
      });
    }
  }

  for (const table of document.querySelectorAll("figure.table table")) {
    sortable(table);
    if ((table.tBodies[0]?.rows.length ?? 0) > LONG) table.closest(".scroll")?.classList.add("long");
  }
})();
