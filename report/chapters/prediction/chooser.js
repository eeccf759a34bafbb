// The chooser of chips: predicts a call on every chip that has the precision, from the numbers that chooser.py describes.
// It comes with charts.js, whose `unpacked`, `phone` and `firstIsDrawn` it uses, in one bundle.

const CHOOSER_STYLE = `
  .chooser form { display: flex; flex-wrap: wrap; gap: 0.4rem 1rem; margin: 0.6rem 0; font-size: 0.9rem; }
  :is(.chooser, .chooser-line) select { font: inherit; max-width: 14rem; }
  .chooser .scroll { max-height: 34rem; overflow: auto; }
  .chooser:not(.compact) .all-rows, .chooser.compact :is(.card, tbody tr:nth-child(n + 7)) { display: none; }
  .chooser table { width: 100%; font-size: 0.8rem; border-collapse: collapse; }
  .chooser thead th { position: sticky; top: 0; z-index: 1; background: var(--page, #fff); text-align: left; }
  .chooser :is(th, td) { padding: 0.2rem 0.3rem; white-space: nowrap; vertical-align: middle; }
  .chooser tbody th { min-width: 8.5rem; font-weight: 400; text-align: left; white-space: normal; }
  .chooser td.number { text-align: right; }
  .chooser tr.tied th::after { content: "\\00a0="; }
  .chooser td input { width: 3.4rem; padding: 0 0.1rem; border: 1px solid #8886; font: inherit; }
  .chooser td:last-child { min-width: 6rem; white-space: normal; }
  .chooser thead button { padding: 0; border: 0; background: none; color: inherit; font: inherit; cursor: pointer; }
  .chooser [aria-sort="ascending"] button::after { content: " ↑"; }
  .chooser [aria-sort="descending"] button::after { content: " ↓"; }
  .chooser svg { display: block; overflow: visible; height: 14px; }
  .chooser .legend svg { display: inline-block; vertical-align: middle; }
  .chooser .legend, .chooser [role=status] { font-size: 0.85rem; margin: 0.4rem 0; }
  .chooser .least { stroke: light-dark(#009e73, #4fd1a5); stroke-width: 2; }
  .chooser .interval { stroke: light-dark(#56b4e9, #2f6f9a); stroke-width: 4; }
  .chooser .likely { fill: light-dark(#0072b2, #cfe8fb); }
  .chooser .likely.untimed { fill: var(--page, Canvas); stroke: light-dark(#0072b2, #cfe8fb); stroke-width: 1.5; }
  .chooser .measured { fill: none; stroke: light-dark(#d55e00, #ff9a5c); stroke-width: 1.8; }
  .chooser .tick { stroke: light-dark(#d8dde3, #3a424b); stroke-width: 1; }
  .chooser text { fill: currentColor; font-size: 10px; text-anchor: middle; }
  .chooser tr.unranked { opacity: 0.7; }
  .chooser tr.divider td { padding-top: 0.7rem; font-style: italic; white-space: normal; }
  .chooser .card { border: 1px solid #8886; border-radius: 4px; padding: 0.3rem 0.8rem; font-size: 0.9rem; }
  .chooser .card p { margin: 0.3rem 0; }
  @media (max-width: 40rem) {
    .chooser .wide { display: none; }
    .chooser tbody th { min-width: 5rem; overflow-wrap: anywhere; }
    .chooser :is(th, td) { padding-inline: 0.2rem; }
  }
  @media print { .chooser, .chooser-line { display: none; } }`;

const PHASES = { inference: "forward pass", step: "training step" };
const KINDS = { cpu: "CPUs", gpu: "GPUs", asic: "ASICs", soc: "systems on a chip", fpga: "FPGAs" };
const FROM = {
  fitted: (models) => `${models} models timed there`,
  scaled: (models) => `datasheet, fitted to ${models} timed there`,
  datasheet: () => "datasheet",
};
const SMALL = "memory too small";
const UNTIMED = "\u00a0†"; // after the name of a chip that nobody timed, as in the chapter's table

// A name without its library, capitals and marks: mobilenet_v2 and MobileNet-v2 are one.
const folded = (name) => name.replace(/^.*:/, "").toLowerCase().replace(/[^a-z0-9]/g, "");

// The model that somebody may mean by a name; undefined if there is none.
function modelCalled(models, name) {
  const fits = (known) => known === name || (name && folded(known) === folded(name));
  return models.find(({ id }) => id === name) ?? models.find((model) => fits(model.id) || fits(model.name));
}

// What a call takes on each chip: times in seconds; null where nothing is known. A chip is ranked if its prediction has
// an interval and its memory holds the call; `lacks` says what is missing to that.
function predictions(choices, chosen) {
  const model = choices.models.findIndex(({ id }) => id === chosen.model);
  const { sort } = choices.models[model];
  const batch = choices.batches.indexOf(Number(chosen.batch));
  const width = choices.widths[chosen.precision];
  const call = choices.calls.find((c) => c[0] === model && c[1] === batch && c[2] === width && c[3] === chosen.phase);
  if (!call) return [];
  const [, , , , terms, footprint, memory, ofNetwork] = call;
  const timed = new Map(
    choices.measured
      .filter((m) => m[1] === model && m[2] === batch && m[3] === chosen.precision && m[4] === chosen.phase)
      .map((m) => [m[0], { seconds: m[5] * 1e-6, copied: m[6] }]),
  );
  const key = `${chosen.precision} ${chosen.phase}`;
  const served = (["language", "decoding"].includes(sort) && choices.rates[`${key} served`]) || [];
  const placed = new Set(served.map(([place]) => place));
  return [...served, ...(choices.rates[key] ?? []).filter(([place]) => !placed.has(place))].map(
    ([place, convolutionRate, rate, bandwidth, coefficients, host, basis, models, within, hasFactors]) => {
      const chip = choices.devices[place];
      const rates = [convolutionRate, convolutionRate, rate, bandwidth, bandwidth, bandwidth, 1, 1, bandwidth];
      const times = terms.map((term, at) => term / rates[at]);
      const work = (hasFactors ? ofNetwork : 1) * times.reduce((sum, time, at) => sum + coefficients[at] * time, 0);
      const likely = Math.hypot(work, host * terms[6]) * 1e-6;
      const least = Math.min(likely, Math.max(times[0] + times[1] + times[2], footprint / bandwidth) * 1e-6);
      const factor = within[sort]?.[batch];
      const isChecked = factor !== undefined;
      const isTooLarge = Boolean(chip.memory && memory > chip.memory);
      const lacks = isTooLarge ? SMALL : isChecked ? "" : "extrapolated";
      const isUntimed = basis === "datasheet";
      const perSecond = Number(chosen.batch) / likely;
      return {
        chip: chip.name,
        isUntimed,
        // A chip that nobody timed stands where it surely is, not by chance before one that was timed
        surely: isUntimed && isChecked ? factor * likely : likely,
        kind: chip.kind,
        least,
        likely,
        low: isChecked ? likely / factor : null,
        high: isChecked ? factor * likely : null,
        throughput: perSecond,
        perWatt: chip.power ? perSecond / chip.power : null,
        measured: timed.get(place)?.seconds ?? null,
        copied: timed.get(place)?.copied ?? false,
        lacks,
        from: lacks || FROM[basis](models),
      };
    },
  );
}

const COLUMNS = [
  { key: "chip", title: "Chip" },
  { key: "least", title: "Least", unit: "s", digits: 2 },
  { key: "likely", title: "Likely", unit: "s", digits: 2 },
  { key: "interval", title: "90 % interval", wide: true, sorts: false },
  { key: "picture", title: "Time", sorts: false },
  { key: "measured", title: "Measured", unit: "s", digits: 3 },
  { key: "throughput", title: "Inputs/s", unit: "", digits: 2, wide: true, sorts: false },
  { key: "perWatt", title: "Inputs/s/W", unit: "", digits: 2, wide: true, descends: true },
  { key: "price", title: "Price/h", wide: true, sorts: false },
  { key: "cost", title: "per 10⁶", unit: "", digits: 2, wide: true },
  { key: "from", title: "From", wide: true },
];

function quantity(value, unit, digits) {
  const rounded = Number(value.toPrecision(digits));
  const step = unit ? Math.min(0, Math.floor(Math.log10(rounded) / 3)) : 0;
  const number = Number((rounded / 1000 ** step).toPrecision(digits));
  const text = number.toLocaleString("en", { minimumSignificantDigits: digits, maximumSignificantDigits: digits });
  return `${text} ${["", "m", "µ", "n"][-step]}${unit}`.trim();
}

function interval(low, high) {
  const [first, last] = [low, high].map((time) => quantity(time, "s", 2));
  const [number, unit] = first.split(" ");
  return `${last.endsWith(` ${unit}`) ? number : first} to ${last}`;
}

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function drawn(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const diamond = (x) => ({ class: "measured", d: `M${x - 5},7 L${x},2 L${x + 5},7 L${x},12 Z` });

function svgOf(width) {
  return drawn("svg", { viewBox: `0 0 ${width} 14`, width, "aria-hidden": "true" });
}

// A row's times on the scale of the ranked rows; what lies beyond it is an arrow at its end. The table has the numbers.
function picture(row, { at: place, ticks, width }) {
  const svg = svgOf(width);
  const at = (time) => Math.min(width - 6, Math.max(6, place(time)));
  const isWithin = (time) => place(time) >= 0 && place(time) <= width;
  const likely = row.isUntimed ? "likely untimed" : "likely";
  for (const time of ticks) svg.append(drawn("line", { class: "tick", x1: at(time), x2: at(time), y1: -4, y2: 18 }));
  if (row.low !== null) svg.append(drawn("line", { class: "interval", x1: at(row.low), x2: at(row.high), y1: 7, y2: 7 }));
  if (isWithin(row.least)) svg.append(drawn("line", { class: "least", x1: at(row.least), x2: at(row.least), y1: 1, y2: 13 }));
  if (isWithin(row.likely)) svg.append(drawn("circle", { class: likely, cx: at(row.likely), cy: 7, r: 3.5 }));
  else if (place(row.likely) > width) svg.append(drawn("path", { class: likely, d: `M${width - 9},2 L${width},7 L${width - 9},12 Z` }));
  if (row.measured !== null && isWithin(row.measured)) svg.append(drawn("path", diamond(at(row.measured))));
  return svg;
}

const group = ({ lacks }) => (lacks === SMALL ? 2 : lacks ? 1 : 0);

// Logarithmic, from the shortest time shown to the end of the middle interval: the slower half of the chips would press
// the faster into one corner. Least times do not count, for some lie decades below. Ticks have room for their texts.
function scaleOf(rows) {
  const width = phone.matches ? 90 : 180;
  const ranked = rows.filter((row) => !row.lacks);
  const fastest = [...(ranked.length ? ranked : rows)].sort((a, b) => a.likely - b.likely);
  const shown = fastest.slice(0, Math.max(8, Math.ceil(ranked.length / 2)));
  const first = Math.min(...shown.flatMap((row) => [row.low ?? row.likely, row.measured ?? Infinity]));
  const [from, to] = [first, Math.max(...shown.map((row) => row.high ?? row.likely))].map(Math.log);
  const at = (time) => Number((6 + ((width - 12) * (Math.log(time) - from)) / (to - from || 1)).toFixed(1));
  const ticks = [first];
  for (let decade = Math.floor(from / Math.LN10); decade <= to / Math.LN10; decade += 1) {
    for (const time of [1, 2, 5].map((step) => Number(`${step}e${decade}`))) {
      if (at(time) - at(ticks.at(-1)) > 44 && at(time) < width - 6) ticks.push(time);
    }
  }
  return { at, ticks, width };
}

// The texts of the ticks, for the head of the column.
function axisOf({ at, ticks, width }) {
  const svg = svgOf(width);
  for (const time of ticks) {
    const text = drawn("text", { x: Math.min(width - 12, Math.max(15, at(time))), y: 11 });
    text.append(quantity(time, "s", time === ticks[0] ? 2 : 1));
    svg.append(text);
  }
  return svg;
}

function legend() {
  const entries = [
    [["line", { class: "least", x1: 14, x2: 14, y1: 1, y2: 13 }], "least time by the roof"],
    [["circle", { class: "likely", cx: 14, cy: 7, r: 3.5 }], "likely time"],
    [["circle", { class: "likely untimed", cx: 14, cy: 7, r: 3.5 }], "of a chip that nobody timed (†), ranked by the end of its interval"],
    [["line", { class: "interval", x1: 2, x2: 26, y1: 7, y2: 7 }], "90 % interval"],
    [["path", diamond(14)], "measured (‡ with the copy of the input)"],
  ];
  const line = made("p", { class: "legend" });
  for (const [[tag, attributes], text] of entries) {
    const svg = svgOf(28);
    svg.append(drawn(tag, attributes));
    line.append(svg, ` ${text} `);
  }
  return line;
}

// The chooser's question in one line, where the page opens: its selects are the chooser's own, by name.
function shortForm(line, selects, section) {
  const copies = ["model", "batch", "kind"].map((name) => {
    const original = selects.find((select) => select.name === name);
    const copy = original.cloneNode(true);
    copy.setAttribute("aria-label", original.labels[0].firstChild.textContent.trim());
    copy.addEventListener("change", () => {
      original.value = copy.value;
      original.dispatchEvent(new Event("change", { bubbles: true }));
    });
    return copy;
  });
  const [model, batch, kind] = copies;
  const answer = made("span", { role: "status" });
  const all = made("a", { href: `#${section}` }, "All chips");
  line.replaceChildren(made("p", {}, "How fast is ", model, " at batch ", batch, " on ", kind, "? ", answer, " ", all, "."));
  return (chosen, fastest, count, unranked) => {
    for (const copy of copies) copy.value = chosen[copy.name];
    answer.textContent = fastest
      ? `Likely ${quantity(fastest.likely, "s", 2)} (${interval(fastest.low, fastest.high)}) on the ${fastest.chip}, the fastest of ${count}.`
      : `${unranked}.`;
  };
}

// What a million inputs cost at a price for an hour, in the reader's currency; null without a price.
const costOf = (price, { throughput }) => (price ? ((price / 3600) * 1e6) / throughput : null);

function filledCell(column, row, scale) {
  const cell = made(column.key === "chip" ? "th" : "td", column.key === "chip" ? { scope: "row" } : {});
  if (column.wide) cell.className = "wide";
  const value = row[column.key];
  if (column.key === "picture") {
    cell.append(picture(row, scale));
  } else if (column.key === "interval") {
    cell.append(row.low === null ? "none" : interval(row.low, row.high));
  } else if (column.key === "price") {
    const label = `Price of an hour of ${row.chip}`;
    const input = made("input", { type: "number", min: 0, step: "any", "aria-label": label, "data-chip": row.chip });
    if (value) input.value = value;
    cell.append(input);
  } else if (column.digits) {
    cell.classList.add("number");
    if (value === null) cell.append("–");
    else cell.append(made("data", { value }, quantity(value, column.unit, column.digits)));
    if (column.key === "measured" && row.copied) cell.append(" ‡");
  } else {
    cell.append(value);
    if (column.key === "chip" && row.isUntimed) cell.append(UNTIMED);
  }
  return cell;
}

async function startChooser(place) {
  await firstIsDrawn; // a reader sees that before this
  const choices = await unpacked(place.querySelector("script"));
  document.head.append(made("style", {}, CHOOSER_STYLE));
  const names = Object.fromEntries(choices.models.map(({ id, name }) => [id, name]));
  const precisions = Object.keys(choices.widths).filter((name) => choices.rates[`${name} inference`]);
  // Only networks whose sort of input was timed somewhere are asked about; a paper without timings has all.
  const holds = Object.values(choices.rates).flatMap((rows) => rows.map((row) => row.at(-1)));
  const checked = choices.models.filter(({ sort }) => holds.some((batches) => Object.keys(batches[sort] ?? {}).length));
  const offered = (checked.length ? checked : choices.models).map(({ id }) => id);
  const options = {
    model: ["Network", offered, "resnet50", names],
    batch: ["Batch size", choices.batches.map(String), "64"],
    precision: ["Precision", precisions, "fp16"],
    phase: ["Pass", Object.keys(PHASES), "inference", PHASES],
    kind: ["Chips", ["all", ...new Set(choices.devices.map((device) => device.kind))], "all", { all: "all chips", ...KINDS }],
  };
  const form = made("form", { "aria-label": "Choose a call" });
  const selects = Object.entries(options).map(([name, [title, values, preset, called]]) => {
    const select = made("select", { name });
    for (const value of values) select.append(made("option", { value }, called?.[value] ?? value));
    select.value = values.includes(preset) ? preset : values[0];
    form.append(made("label", {}, `${title} `, select));
    return select;
  });
  const status = made("p", { role: "status" });
  const head = made("tr");
  const body = made("tbody");
  const table = made("table", {}, made("thead", {}, head), body);
  const region = { class: "scroll", role: "region", tabindex: "0", "aria-label": "Predicted latencies by chip" };
  const cards = choices.models.map((model) => card(model, choices.machine));
  const all = made("button", { type: "button", class: "all-rows" }, "Show all chips, and the network's card");
  const unfold = () => place.classList.remove("compact");
  all.addEventListener("click", () => {
    unfold();
    form.querySelector("select").focus(); // the focus must not be lost with the button
  });
  place.classList.add("compact"); // until it is used
  place.append(form, ...cards, status, legend(), made("div", region, table), all);
  const sortable = COLUMNS.filter((column) => column.sorts !== false).map((column) => column.key);
  let sort = "likely";
  let turned = false;
  const timeHead = made("span");
  const prices = new Map(); // of an hour of a chip, as the reader fills them in

  for (const column of COLUMNS) {
    const cell = made("th", { scope: "col", ...(column.wide ? { class: "wide" } : {}) });
    if (column.sorts === false) {
      cell.append(column.title);
      if (column.key === "picture") cell.append(timeHead);
    } else {
      cell.dataset.sorts = column.key;
      const button = made("button", { type: "button" }, column.title);
      button.addEventListener("click", () => {
        turned = sort === column.key && !turned;
        sort = column.key;
        update(true);
      });
      cell.append(button);
    }
    head.append(cell);
  }

  const section = place.closest("section[id]")?.id ?? place.id;
  const line = document.querySelector(".chooser-line");
  const say = line && shortForm(line, selects, section);

  function update(changed) {
    const chosen = Object.fromEntries(selects.map((select) => [select.name, select.value]));
    const rows = predictions(choices, chosen).filter((row) => chosen.kind === "all" || row.kind === chosen.kind);
    for (const row of rows) {
      row.price = prices.get(row.chip) ?? null;
      row.cost = costOf(row.price, row);
    }
    const ranked = rows.filter((row) => !row.lacks);
    // A few of the chips have no first among them: the others may be faster
    const isRanking = 2 * ranked.length > rows.length;
    const fastest = isRanking ? ranked.reduce((best, row) => (best && best.surely <= row.surely ? best : row)) : null;
    const rivals = new Set(ranked.filter((row) => isRanking && row !== fastest && row.low <= fastest.high));
    const column = COLUMNS.find(({ key }) => key === sort);
    const descends = Boolean(column.descends) !== turned;
    rows.sort((a, b) => {
      // Whatever the column: those that cannot be ranked, and then those that cannot hold the call, are last
      if (group(a) !== group(b)) return group(a) - group(b);
      const [one, other] = [a, b].map((row) => (sort === "likely" ? row.surely : row[sort]));
      if (one === null || other === null) return (one === null) - (other === null);
      const order = typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other;
      return descends ? -order : order;
    });
    for (const cell of head.cells) {
      if (cell.dataset.sorts === sort) cell.setAttribute("aria-sort", descends ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    const scale = scaleOf(rows);
    timeHead.replaceChildren(axisOf(scale));
    const lines = rows.map((row) => {
      const marks = row.lacks ? { class: "unranked" } : rivals.has(row) ? { class: "tied" } : {};
      return made("tr", marks, ...COLUMNS.map((each) => filledCell(each, row, scale)));
    });
    const first = rows.findIndex((row) => row.lacks);
    if (first >= 0) {
      const why = made("td", { colspan: COLUMNS.length }, "Not ranked: too little memory, or nothing timed to check the prediction by");
      lines.splice(first, 0, made("tr", { class: "divider" }, why));
    }
    body.replaceChildren(...lines);
    for (const element of cards) element.hidden = element.id !== `card-${chosen.model}`;
    const call = `${names[chosen.model]}, batch size ${chosen.batch}, ${chosen.precision}, ${PHASES[chosen.phase]}`;
    const middle = rows.map((row) => row.likely).sort((one, other) => one - other)[rows.length >> 1];
    const unranked = middle
      ? `A typical one likely takes ${quantity(middle, "s", 2)}; too few were timed at such a call to rank them`
      : "Nothing is known of such a call";
    const best = fastest
      ? `${ranked.length} of ${rows.length} chips are ranked; first is the ${fastest.chip}, likely ${quantity(fastest.likely, "s", 2)}; the intervals of ${rivals.size} others (=) overlap with its own`
      : unranked;
    say?.(chosen, fastest, ranked.length, unranked);
    status.textContent = `${call}: ${best}.`;
    if (!changed) return;
    unfold();
    const address = new URLSearchParams({ ...chosen, sort, ...(turned ? { order: "reversed" } : {}) });
    for (const [chip, price] of prices) address.append("price", `${price} ${chip}`);
    history.replaceState(null, "", `#${place.id}?${address}`);
  }

  // A link with a choice is that choice; one to a model's card, such as those of the page's search, chooses the model.
  function follow() {
    const target = location.hash.slice(1);
    const isCard = target.startsWith("card-");
    if (!isCard && !target.startsWith(`${place.id}?`)) return;
    const asked = new URLSearchParams(isCard ? target.replace("card-", "model=") : target.slice(place.id.length + 1));
    const model = modelCalled(choices.models, asked.get("model") ?? "");
    if (!model) return;
    unfold();
    asked.set("model", model.id);
    for (const select of selects) {
      const value = asked.get(select.name);
      if ([...select.options].some((option) => option.value === value)) select.value = value;
    }
    for (const given of asked.getAll("price")) prices.set(given.slice(given.indexOf(" ") + 1), Number.parseFloat(given) || 0);
    if (sortable.includes(asked.get("sort"))) [sort, turned] = [asked.get("sort"), asked.get("order") === "reversed"];
    update(false);
    if (!isCard) return form.scrollIntoView();
    for (const card of cards) card.hidden = card.id !== `card-${model.id}`; // that of a network that is not offered too
    cards.find((card) => !card.hidden).scrollIntoView({ block: "center" });
  }

  form.addEventListener("change", () => update(true));
  body.addEventListener("change", ({ target }) => {
    prices.set(target.dataset.chip, Number.parseFloat(target.value) || 0);
    const next = document.activeElement?.dataset?.chip ?? target.dataset.chip;
    update(true);
    body.querySelector(`[data-chip="${CSS.escape(next)}"]`)?.focus(); // the rows are made anew
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  update(false);
  follow();
  window.addEventListener("hashchange", follow);
  phone.addEventListener("change", () => update(false));
  document.addEventListener("click", (event) => event.target.closest('a[href^="#card-"]') && setTimeout(follow));
  place.dataset.chooser = "drawn";
}

for (const place of document.querySelectorAll(".chooser")) startChooser(place);
