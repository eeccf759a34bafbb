// Turns each figure's picture into an interactive chart. The picture stays for print and for readers without
// JavaScript. `vegaEmbed` and `lodashDebounce` come with the bundle that holds this code; nothing is fetched.

const OPTIONS = {
  renderer: "svg",
  tooltip: { theme: getComputedStyle(document.body).colorScheme === "dark" ? "dark" : "light" }, // the page's own
  ast: true, // expressions are interpreted: the page's policy lets no code be made from text
};
const ACTIONS = { export: { svg: true, png: true }, source: false, compiled: false, editor: false };
const ACTIONS_WIDTH = 40; // the menu's button, right of the chart; a phone has no room for it
const SIDE_BY_SIDE = 190; // a panel that would be narrower is set below the others
const phone = window.matchMedia("(max-width: 40rem)");

const style = document.createElement("style");
style.textContent = `
  .chart-view { overflow-x: auto; max-width: 100%; text-align: left; vertical-align: top; }
  .chart-view svg.marks { display: block; } /* no room for the letters of a line below it */
  .chart-view .vega-bindings { display: flex; flex-wrap: wrap; gap: 0.2em 1em; font-size: 0.85em; margin-top: 0.3em; }
  .chart-view .vega-bind label { display: flex; align-items: center; gap: 0.3em; }
  .chart-view .vega-bindings:empty { display: none; }
  .chart-data { margin-left: 0.6em; }
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

function layers(view) {
  return view.layer ? view.layer.flatMap(layers) : [view];
}

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  ruler.font = '11px "Roofwright Sans", Arial, sans-serif'; // theme.TICK_SIZE
  return ruler.measureText(text).width;
}

// Breaks a title between words into lines of a width, so that a narrow panel needs no more room than its axis.
function lines(title, width) {
  return title.split(" ").reduce((found, word) => {
    const longer = `${found.at(-1)} ${word}`;
    return found.length && textWidth(longer) <= width ? [...found.slice(0, -1), longer] : [...found, word];
  }, []);
}

// Keeps the names of points that have room where a panel is `share` of its width: each at its place, or nearer its point.
// The narrower the panel, the more room there is between two names.
function thinned(rows, share, width) {
  const marks = rows.map(({ at, down }) => [at * share - 4, down - 4, at * share + 4, down + 4]);
  const taken = [];
  const apart = 24 * (1 - share);
  const clear = ([left, top, right, bottom], boxes) =>
    boxes.every((box) => box[0] >= right || left >= box[2] || box[1] >= bottom || top >= box[3]);
  return rows.flatMap((row, index) => {
    const beside = row.width / 2 + 8;
    const places = [[row.dx, row.dy, row.ex, row.ey], [beside, 0, 0, 0], [-beside, 0, 0, 0], [0, -12, 0, 0], [0, 12, 0, 0]];
    for (const [dx, dy, ex, ey] of places) {
      const [x, y] = [row.at * share + dx, row.down + dy];
      const box = [x - row.width / 2, y - 6, x + row.width / 2, y + 6];
      if (box[0] < 0 || box[2] > width || y < 6) continue;
      if (!clear(box, taken) || !clear(box, marks.filter((_, other) => other !== index))) continue;
      taken.push([box[0] - apart, box[1] - apart / 3, box[2] + apart, box[3] + apart / 3]);
      return [{ ...row, dx, dy, ex, ey }];
    }
    return [];
  });
}

// For a column narrower than the paper: panels at most `width` wide in so many columns, each with its own axes; names
// that have room; legends of as many columns as fit. Without `room` no legends, so that a drawing shows the panels' size.
function narrowed(specification, columns, width, room) {
  const copy = structuredClone(specification);
  if (copy.concat) copy.columns = columns;
  if (!room) delete copy.title; // it may be wider than a panel
  const thin = new Set();
  for (const panel of panels(copy)) {
    const share = Math.min(1, width / panel.width);
    panel.width *= share;
    for (const { data, mark, encoding } of layers(panel)) {
      const rows = copy.datasets[data?.name];
      if (rows?.[0]?.ex !== undefined && !thin.has(data.name)) {
        thin.add(data.name);
        const networks = [...new Set(rows.map((row) => row.network))]; // of which the reader sees one
        copy.datasets[data.name] = networks.flatMap((network) =>
          thinned(rows.filter((row) => row.network === network), share, panel.width));
      }
      if (mark.angle) mark.angle = (Math.atan(Math.tan((mark.angle * Math.PI) / 180) / share) * 180) / Math.PI;
      for (const channel of [encoding.x, encoding.y]) {
        const isNameless = channel?.type === "quantitative" && !channel.axis?.description; // its numbers say nothing
        if (channel?.axis?.labels !== false || isNameless) continue;
        delete channel.axis.labels;
        if (channel.type === "quantitative") delete channel.axis.ticks;
        channel.title = channel.axis.description || null;
      }
      if (typeof encoding.x?.title === "string") encoding.x.title = lines(encoding.x.title, panel.width + 40); // and its ends
      for (const channel of [encoding.color, encoding.shape]) {
        if (!room && channel) channel.legend = null;
        if (!channel?.legend) continue;
        const longest = Math.max(...channel.legend.values.map(textWidth));
        Object.assign(channel.legend, { columns: Math.max(1, Math.floor(room / (longest + 34))), titleOrient: "top" });
      }
    }
  }
  return copy;
}

// Hides what a narrower panel has no room for: a text across its edge, and one upon another that came before it.
function cleared(view) {
  for (const plot of view.querySelectorAll("svg.marks path.background")) {
    const { left, right } = plot.getBoundingClientRect();
    const taken = [];
    for (const text of plot.parentElement.querySelectorAll(":scope > g > .mark-text.role-mark text")) {
      if (text.getAttribute("transform")?.includes("rotate")) continue;
      const box = text.getBoundingClientRect();
      const crosses = (edge) => box.left < edge - 1 && box.right > edge + 1;
      const covers = (other) => box.left < other.right && box.right > other.left && box.top + 2 < other.bottom && box.bottom - 2 > other.top;
      if (crosses(left) || crosses(right) || taken.some(covers)) text.style.visibility = "hidden";
      else taken.push(box);
    }
  }
}

// What Vega leaves to be said of a chart: its menu has a picture for a name, and groups of marks have a role but none.
function named(view) {
  view.querySelector("summary")?.setAttribute("aria-label", "Save this chart");
  for (const group of view.querySelectorAll("g[role=graphics-symbol]:not([aria-label])")) {
    group.removeAttribute("role");
    group.removeAttribute("aria-roledescription");
  }
}

// A chart may be as wide as its figure: the caption gives way, where it stands beside the chart.
function widthFor({ view }) {
  return (view.closest("figure") ?? view.parentElement).clientWidth;
}

async function draw(chart) {
  chart.drawnFor = widthFor(chart);
  const room = chart.drawnFor - (phone.matches ? 0 : ACTIONS_WIDTH);
  const width = () => chart.view.querySelector("svg.marks").getBoundingClientRect().width;
  const embed = async (specification) => {
    const before = chart.result?.view; // whose choices stay: of the controls below, and of what was picked in a legend
    const params = specification.params?.map((param) => ({ ...param, ...(before && { value: before.signal(param.name) }) }));
    const { data } = before?.getState({ signals: () => false, data: (name) => name.endsWith("_store") }) ?? { data: {} };
    before?.finalize();
    const options = { ...OPTIONS, actions: phone.matches ? false : ACTIONS };
    chart.result = await vegaEmbed(chart.view, { ...specification, ...(params && { params }) }, options);
    if (Object.values(data).some((picked) => picked.length)) await chart.result.view.setState({ data }).runAsync();
    named(chart.view);
  };
  await embed(chart.specification);
  if (width() <= room) return;
  const redraw = (...size) => embed(narrowed(chart.specification, ...size));
  // What surrounds a plot (axes, names of rows) is known once it is drawn.
  const widest = Math.max(...panels(chart.specification).map((panel) => panel.width));
  await redraw(1, widest, 0);
  const around = width() - widest;
  const gap = chart.specification.spacing ?? 0;
  const sized = (columns) => Math.floor((room + gap) / columns) - gap - around;
  let columns = chart.specification.columns ?? 1;
  while (columns > 1 && sized(columns) < Math.min(SIDE_BY_SIDE, widest)) columns -= 1;
  const panel = Math.max(60, Math.min(widest, sized(columns)));
  await redraw(columns, panel, room - around);
  // A last tick's label; a narrower axis may choose another
  for (let size = panel, tries = 0; width() > room && tries < 3; tries += 1) {
    size = Math.max(60, size - Math.ceil((width() - room) / columns));
    await redraw(columns, size, room - around);
  }
  cleared(chart.view);
}

// The data that a figure's marks show, as CSV: the tables that its specification names (report/figure_files.py).
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
  const name = element.closest("[id^=fig-], [id^=suppfig-]")?.id.replace("supp", "") ?? specification.name; // as in the chapter
  link.className = "chart-data";
  link.textContent = "data";
  link.setAttribute("aria-label", `Data of ${name} as CSV`);
  link.download = `${name}.csv`;
  link.href = URL.createObjectURL(new Blob([csv(specification)], { type: "text/csv" }));
  (element.closest("figure")?.querySelector("figcaption p, figcaption") ?? element.parentElement).append(link);
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

// Draws the chart of a script element in the place of its picture; returns it, null where that fails.
async function start(element, picture) {
  const chart = { specification: await unpacked(element), view: document.createElement("div") };
  linkToData(element, chart.specification);
  chart.view.className = "chart-view";
  picture.before(chart.view);
  try {
    await draw(chart);
  } catch (problem) {
    console.error(`The chart ${chart.specification.name} cannot be drawn:`, problem);
    chart.view.remove();
    return null;
  }
  chart.view.setAttribute("role", "figure");
  chart.view.setAttribute("aria-label", chart.specification.description);
  picture.classList.add("chart-drawn");
  byKeyboard(chart.view);
  return chart;
}

let letOthersBegin;
const firstIsDrawn = new Promise((resolve) => { letOthersBegin = resolve; }); // for what can wait until then

const idle = window.requestIdleCallback ?? setTimeout;
const waiting = new Map(); // what is to be drawn: an element of the page, and the function that draws there
const queues = { near: [], far: [] };
let isDrawing = false;

async function drawQueued() {
  if (isDrawing) return;
  isDrawing = true;
  while (queues.near.length || queues.far.length) {
    const place = queues.near.shift() ?? queues.far.shift();
    const drawThere = waiting.get(place);
    if (!waiting.delete(place)) continue; // it was in both
    for (const watch of watches) watch.unobserve(place);
    await drawThere();
    letOthersBegin();
    await new Promise((resolve) => (queues.near.length ? setTimeout : idle)(resolve));
  }
  isDrawing = false;
  letOthersBegin();
  document.documentElement.dataset.charts = "drawn";
}

// What is near the reader is drawn first, and the rest when the page is idle. What is folded away waits until it is
// unfolded.
const watches = Object.entries({ near: "100%", far: "1000000px" }).map(([name, margin]) => {
  const seen = (entries) => {
    queues[name].push(...entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
    drawQueued();
  };
  return new IntersectionObserver(seen, { rootMargin: margin });
});

function drawInTurn(place, drawThere) {
  waiting.set(place, drawThere);
  for (const watch of watches) watch.observe(place);
}

async function startAll() {
  // Vega measures texts as it draws: the charts' font must be there before.
  await Promise.all(["normal", "bold"].map((weight) => document.fonts.load(`${weight} 11px "Roofwright Sans"`)));
  const charts = [];
  let picture = null;
  for (const element of document.querySelectorAll("img, svg, script.chart")) {
    if (element.matches("script.chart")) {
      const place = picture;
      if (place) drawInTurn(place, () => start(element, place).then((chart) => chart && charts.push(chart)));
      else console.error("A chart has no picture before it.");
      picture = null;
    } else if (!element.closest(".chart-view")) {
      picture = element;
    }
  }
  if (!waiting.size) drawQueued();
  window.addEventListener(
    "resize",
    lodashDebounce(() => {
      for (const chart of charts) {
        const now = widthFor(chart); // 0 while it is folded away, or the page is being printed
        if (now && now !== chart.drawnFor) drawInTurn(chart.view, () => draw(chart).catch((problem) => console.error(problem)));
      }
    }, 200),
  );
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
else startAll();
