// Turns each figure's picture into an interactive chart. The picture stays for print and for readers without
// JavaScript. `vegaEmbed` and `lodashDebounce` come with the bundle that holds this code; nothing is fetched.

const OPTIONS = {
  renderer: "svg",
  tooltip: { theme: window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" },
  ast: true, // expressions are interpreted: the page's policy lets no code be made from text
  actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
};
const ACTIONS_WIDTH = 40; // the menu's button, right of the chart

const style = document.createElement("style");
style.textContent = `
  .chart-view { overflow-x: auto; max-width: 100%; text-align: left; }
  .chart-view .vega-bindings { font-size: 0.85em; margin-top: 0.3em; }
  .chart-data { display: block; width: fit-content; margin-left: auto; font-size: 0.8em; }
  #vg-tooltip-element:not(.dark-theme) td.key { color: #595959; }
  .chart-said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  @media screen { .chart-drawn { display: none !important; } }
  @media print { .chart-view, .chart-data { display: none !important; } }`;
document.head.append(style);

// Vega shows its tooltips in an element of this name where there is one. It is for the eye: to a reader of the screen
// a mark's description is said (byKeyboard).
const tooltip = document.createElement("div");
tooltip.id = "vg-tooltip-element";
tooltip.className = "vg-tooltip";
tooltip.setAttribute("aria-hidden", "true");
document.body.append(tooltip);

// The parts of a specification that are drawn: itself, or the panels set side by side.
function panels(specification) {
  return specification.concat ?? [specification];
}

// For a column narrower than the paper: panels one below the other, each with the names of its rows, no names beside
// marks (they were placed for the paper's width; tooltips tell them), legends of few columns.
function narrowed(specification, excess) {
  const copy = structuredClone(specification);
  if (copy.concat) copy.columns = 1;
  for (const panel of panels(copy)) {
    panel.width = Math.max(120, panel.width - excess);
    panel.layer = panel.layer?.filter((layer) => layer.description !== "labels");
    if (panel.encoding?.y?.axis) panel.encoding.y.axis.labels = true;
  }
  copy.config.legend.layout = { top: { direction: "vertical", anchor: "start" } };
  JSON.stringify(copy, (key, value) => {
    if (key === "legend" && value) value.columns = 3;
    return value;
  });
  return copy;
}

// What Vega leaves to be said of a chart: its menu has a picture for a name, and groups of marks have a role but none.
function named(view) {
  view.querySelector("summary")?.setAttribute("aria-label", "Save this chart");
  for (const group of view.querySelectorAll("g[role=graphics-symbol]:not([aria-label])")) {
    group.removeAttribute("role");
    group.removeAttribute("aria-roledescription");
  }
}

async function draw(chart) {
  const room = chart.view.parentElement.clientWidth - ACTIONS_WIDTH;
  const width = () => chart.view.querySelector("svg.marks").getBoundingClientRect().width;
  chart.result?.finalize();
  chart.result = await vegaEmbed(chart.view, chart.specification, OPTIONS);
  named(chart.view);
  if (width() <= room) return;
  // What surrounds the plot (axes, names of rows) is known once it is drawn.
  for (let pass = 0, excess = 0; pass < 2 && (pass === 0 || width() > room); pass += 1) {
    chart.result.finalize();
    excess += pass === 0 && chart.specification.concat ? 0 : Math.ceil(width() - room);
    chart.result = await vegaEmbed(chart.view, narrowed(chart.specification, excess), OPTIONS);
    named(chart.view);
  }
}

// The data that a figure's marks show, as CSV: the tables that its specification names (report/charts/figure_data.py).
function csv({ datasets, usermeta }) {
  const records = usermeta.tables.flatMap(({ data, about, columns }) =>
    datasets[data].map((row) => {
      const cells = Object.entries(row).map(([field, value]) => [columns[field] ?? field, value]);
      return { ...about, ...Object.fromEntries(cells) };
    }),
  );
  const headings = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const lines = [headings, ...records.map((record) => headings.map((heading) => record[heading]))];
  return lines.map((line) => `${line.map(csvCell).join(",")}\n`).join("");
}

function csvCell(value) {
  // A text that a spreadsheet would run as a formula gets an apostrophe before it.
  const text = typeof value === "string" ? value.replace(/^[=+\-@\t\r]/, "'$&") : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Made here, so that the page holds the data once and has no dead link where no script runs.
function linkToData(element, specification) {
  const link = document.createElement("a");
  const name = element.closest("[id^=fig-]")?.id ?? specification.name;
  link.className = "chart-data";
  link.textContent = "data";
  link.setAttribute("aria-label", `Data of ${name} as CSV`);
  link.download = `${name}.csv`;
  link.href = URL.createObjectURL(new Blob([csv(specification)], { type: "text/csv" }));
  element.after(link);
}

// The marks that tell something where the pointer is, each text once: a point and the name beside it tell the same.
function telling(view) {
  const texts = new Set();
  return [...view.querySelectorAll("svg.marks .role-mark [aria-label]")].filter((mark) => {
    const text = JSON.stringify(mark.__data__?.tooltip ?? null); // the scene's item, as Vega's own handlers find it
    return text !== "null" && !texts.has(text) && texts.add(text);
  });
}

// Arrow keys go from mark to mark and show what the pointer would; a reader of the screen hears the mark's description.
function byKeyboard(view) {
  const said = document.createElement("div");
  said.className = "chart-said";
  said.setAttribute("role", "status");
  view.after(said);
  view.tabIndex = 0;
  let at = -1;
  let shown = null;
  const leave = () => {
    shown?.dispatchEvent(new PointerEvent("pointerout", { bubbles: true }));
    shown = null;
    said.textContent = "";
  };
  view.addEventListener("blur", leave);
  view.addEventListener("keydown", (event) => {
    if (event.target !== view) return;
    const marks = telling(view);
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape") leave();
    if (next === undefined || !marks.length) return;
    event.preventDefault();
    leave();
    at = (next + marks.length) % marks.length;
    shown = marks[at];
    const { left, top, width, height } = shown.getBoundingClientRect();
    const place = { bubbles: true, clientX: left + width / 2, clientY: top + height / 2 };
    for (const kind of ["pointerover", "pointermove"]) shown.dispatchEvent(new PointerEvent(kind, place));
    said.textContent = shown.getAttribute("aria-label");
  });
}

// The specification that a script element holds: gzipped JSON in base64.
async function unpacked(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function start(element, picture) {
  const chart = { specification: await unpacked(element), view: document.createElement("div") };
  linkToData(element, chart.specification);
  chart.view.className = "chart-view";
  picture.before(chart.view);
  try {
    await draw(chart);
    chart.view.setAttribute("role", "figure");
    chart.view.setAttribute("aria-label", chart.specification.description);
    picture.classList.add("chart-drawn");
    byKeyboard(chart.view);
  } catch (problem) {
    console.error(`The chart ${chart.specification.name} cannot be drawn:`, problem);
    chart.view.remove();
    return;
  }
  let drawnFor = chart.view.parentElement.clientWidth;
  window.addEventListener(
    "resize",
    lodashDebounce(() => {
      const now = chart.view.parentElement.clientWidth;
      if (now === drawnFor || now === 0) return; // 0 while the page is being printed
      drawnFor = now;
      draw(chart).catch((problem) => console.error(problem));
    }, 200),
  );
}

async function startAll() {
  // Vega measures texts as it draws: the charts' font must be there before.
  await Promise.all(["normal", "bold"].map((weight) => document.fonts.load(`${weight} 11px "Roofwright Sans"`)));
  let picture = null;
  for (const element of document.querySelectorAll("img, svg, script.chart")) {
    if (element.matches("script.chart")) {
      if (picture) await start(element, picture);
      else console.error("A chart has no picture before it.");
      picture = null;
    } else if (!element.closest(".chart-view")) {
      picture = element;
    }
  }
  document.documentElement.dataset.charts = "drawn";
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
else startAll();
