// The chooser of chips: predicts a call on every chip that has the precision, from the numbers that chooser.py describes.
// It comes with charts.js, whose `unpacked` and `firstIsDrawn` it uses, in one bundle.

const CHOOSER_STYLE = `
  .chooser .choice { display: flex; flex-wrap: wrap; gap: 0.4rem 1rem; margin: 0.6rem 0; font-size: 0.9rem; }
  :is(.chooser, .chooser-line) select { font: inherit; max-width: 14rem; }
  .chooser .scroll { max-height: 24rem; overflow: auto; }
  .chooser table { width: 100%; font-size: 0.8rem; border-collapse: collapse; }
  .chooser thead { position: sticky; top: 0; z-index: 1; background: var(--page); text-align: left; }
  .chooser :is(th, td) { padding: 0.2rem 0.3rem; white-space: nowrap; vertical-align: middle; }
  .chooser tbody th { min-width: 8.5rem; font-weight: 400; text-align: left; white-space: normal; }
  .chooser tr.tied th::after { content: "\\00a0="; }
  .chooser tr.unranked { opacity: 0.7; }
  .chooser td:last-child { min-width: 6rem; white-space: normal; }
  .chooser td input { width: 3.4rem; padding: 0 0.1rem; border: 1px solid #8886; font: inherit; }
  .chooser .scale { display: flex; width: 9rem; height: 4px; overflow: hidden; }
  .chooser .scale i { flex: none; background: light-dark(#0072b2, #56b4e9); }
  .chooser :is(.legend, details, [role=status]) { font-size: 0.85rem; margin: 0.4rem 0; }
  .chooser .card p { margin: 0.3rem 0; }
  @media (max-width: 40rem) {
    .chooser thead { display: none; }
    .chooser tbody tr:not([hidden]) { display: grid; grid-template-columns: 1fr 1fr 1.2fr; padding: 0.3rem 0; border-bottom: 1px solid #8886; }
    .chooser tbody th { grid-column: 1 / -1; font-weight: 700; }
    .chooser tbody td { padding: 0.1rem 0.3rem; white-space: normal; }
    .chooser td::before { content: attr(data-title) " "; opacity: 0.75; }
    .chooser td[data-title^="90"]::before { content: none; }
    .chooser td input { width: 2.9rem; }
    .chooser .scale { width: 100%; }
  }
  @media print { .chooser, .chooser-line { display: none; } }`;

const PHASES = { inference: "forward pass", step: "training step" };
const KINDS = { all: "all chips", cpu: "CPUs", gpu: "GPUs", asic: "ASICs", soc: "systems on a chip", fpga: "FPGAs" };
const ORDERS = { likely: "likely time", cost: "cost", measured: "measured time" };
const UNTIMED = "\u00a0†"; // after the name of a chip that nobody timed, as in the chapter's table
const LAUNCHES = 6; // the place of the launches among a call's terms

const LEGEND = `A bar is the 90 % interval on a logarithmic scale, its middle the likely time. †: the fit has no timing of the chip or its die.
  =: cannot be told from the first, for their intervals overlap. Chips without an interval, or with too little memory,
  come last. Predicted and measured times are of eager mode with cuDNN's benchmark, under autocast at 16 bits and with
  convolutions in TF32 at fp32.`;

const COLUMNS = {
  likely: ["Likely", ({ likely }) => quantity(likely, "s", 2)],
  interval: ["90 % interval", ({ low, high }, scale) => (low ? `${interval(low, high)}${bar(low, high, scale)}` : "none")],
  least: ["Least", ({ least }) => quantity(least, "s", 2)],
  measured: ["Measured", ({ measured }) => (measured ? quantity(measured, "s", 3) : "–")],
  throughput: ["Inputs/s", ({ throughput }) => quantity(throughput, "", 2)],
  price: ["Price/h", null], // a field, which stays
  cost: ["per 10⁶", ({ cost }) => (cost ? quantity(cost, "", 2) : "–")],
  from: ["From", ({ lacks, from }) => lacks || from],
};

// What a call takes on each chip: times in seconds; null where nothing is known. A chip is ranked if its prediction has
// an interval and its memory holds the call; `lacks` says what is missing to that.
function predictions(choices, chosen) {
  const { model, batch, precision, phase } = chosen;
  const { sort } = choices.models.find(({ id }) => id === model);
  const call = choices.calls[[model, batch, choices.widths[precision], phase]];
  if (!call) return [];
  const dot = (factors) => factors.reduce((sum, factor, at) => sum + factor * call.terms[at], 0);
  return (choices.rates[[precision, phase, sort]] ?? []).map(({ chip, weights, least: roof, host, from, factors, within }) => {
    const { name, kind, memory } = choices.devices[chip];
    const least = Math.max(dot(roof.slice(0, 3)), call.footprint * roof[3]);
    const likely = Math.max(least, Math.hypot((factors ? call.factor : 1) * dot(weights), host * call.terms[LAUNCHES]));
    const [factor, isUntimed] = [within[batch], from === "its datasheet"];
    return {
      chip, name, kind, from, isUntimed, likely, least,
      low: factor ? Math.max(least, likely / factor) : null,
      high: factor ? likely * factor : null,
      throughput: batch / likely,
      measured: choices.measured[[chip, model, batch, precision, phase]],
      cost: ((chosen[`price ${name}`] / 3600) * 1e6 * likely) / batch || undefined,
      lacks: memory && call.memory > memory ? "memory too small" : factor ? "" : "extrapolated",
    };
  });
}

function quantity(value, unit, digits) {
  const rounded = Number(value.toPrecision(digits));
  const step = unit ? Math.min(0, Math.floor(Math.log10(rounded) / 3)) : 0;
  const number = Number((rounded / 1000 ** step).toPrecision(digits));
  const text = number.toLocaleString("en", { minimumSignificantDigits: digits, maximumSignificantDigits: digits });
  return `${text} ${["", "m", "µ", "n"][-step]}${unit}`.trim();
}

const interval = (low, high) => `${quantity(low, "s", 2)} to ${quantity(high, "s", 2)}`;

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// The bar of an interval; what lies beyond the scale is cut off.
function bar(low, high, [first, last]) {
  const part = (from, to) => `${((100 * Math.log(to / from)) / (Math.log(last / first) || 1)).toFixed(1)}%`;
  return `<span class="scale" aria-hidden="true"><i style="margin-left: ${part(first, low)}; width: ${part(low, high)}"></i></span>`;
}

async function startChooser(place) {
  await firstIsDrawn; // a reader sees that before this
  const choices = await unpacked(place.querySelector("script"));
  document.head.append(made("style", {}, CHOOSER_STYLE));
  const choice = made("div", { class: "choice" });
  for (const [name, title, values, preset] of [
    ["model", "Network", choices.models.map((model) => [model.id, model.name]), "resnet50"],
    ["batch", "Batch size", choices.batches.map((batch) => [batch, batch]), "64"],
    ["precision", "Precision", Object.keys(choices.widths).map((name) => [name, name]), "fp16"],
    ["phase", "Pass", Object.entries(PHASES)],
    ["kind", "Chips", Object.entries(KINDS).filter(([kind]) => kind === "all" || choices.devices.some((each) => each.kind === kind))],
    ["order", "Sort by", Object.entries(ORDERS)],
  ]) {
    const select = made("select", { name, "aria-label": title });
    for (const [value, text] of values) select.add(new Option(text, value, false, String(value) === preset));
    choice.append(made("label", {}, `${title} `, select));
  }
  const details = made("details");
  details.innerHTML = `<summary>The network's card</summary>${choices.cards}`;
  const status = made("p", { role: "status" });
  const heads = ["Chip", ...Object.values(COLUMNS).map(([title]) => title)].map((title) => made("th", { scope: "col" }, title));
  // The row of a chip, whose price of an hour stays while its other cells change
  const lines = choices.devices.map(({ name }) => {
    const head = made("th", { scope: "row" });
    const cells = Object.fromEntries(Object.entries(COLUMNS).map(([key, [title]]) => [key, made("td", { "data-title": title })]));
    const field = { type: "number", min: 0, step: "any", name: `price ${name}`, "aria-label": `Price of an hour of ${name}` };
    cells.price.append(made("input", field));
    return { line: made("tr", {}, head, ...Object.values(cells)), head, cells };
  });
  const body = made("tbody", {}, ...lines.map(({ line }) => line));
  const region = { class: "scroll", role: "region", tabindex: "0", "aria-label": "Predicted latencies by chip" };
  const table = made("div", region, made("table", {}, made("thead", {}, made("tr", {}, ...heads)), body));
  const form = made("form", { "aria-label": "Choose a call" }, choice, status, made("p", { class: "legend" }, LEGEND), table, details);
  place.append(form);

  // The chooser's question in one line, where the page opens
  const answer = made("span", { role: "status" });
  const copies = ["model", "batch", "kind"].map((name) => form.elements[name].cloneNode(true));
  for (const copy of copies) {
    copy.addEventListener("change", () => {
      form.elements[copy.name].value = copy.value;
      update(true);
    });
  }
  const [model, batch, kind] = copies;
  const there = made("a", { href: `#${place.id}` }, "All chips");
  const question = made("p", {}, "How fast is ", model, " at batch ", batch, " on ", kind, "? ", answer, " ", there);
  document.querySelector(".chooser-line")?.replaceChildren(question);

  function update(changed) {
    const filled = [...new FormData(form)].filter(([, value]) => value);
    const chosen = Object.fromEntries(filled);
    const rows = predictions(choices, chosen).filter((row) => ["all", row.kind].includes(chosen.kind));
    // Whatever the order, those that cannot be ranked are last, and what is not known is after what is
    const sortBy = (key) => rows.sort((one, other) =>
      Boolean(one.lacks) - Boolean(other.lacks) || (one[key] ?? Infinity) - (other[key] ?? Infinity) || 0);
    const ranked = sortBy("likely").filter(({ lacks }) => !lacks);
    // A few of the chips have no first among them: the others may be faster
    const first = 2 * ranked.length > rows.length ? ranked[0] : null;
    const rivals = ranked.filter((row) => first && row !== first && row.low <= first.high);
    // The scale ends with the middle interval: the slower half of the chips would press the faster into one corner
    const scale = [Math.min(...ranked.map(({ low }) => low)), ranked[ranked.length >> 1]?.high];
    sortBy(chosen.order);
    const focused = document.activeElement; // a row that moves loses the focus
    const { rate } = choices.models.find(({ id }) => id === chosen.model);
    heads[1 + Object.keys(COLUMNS).indexOf("throughput")].textContent = rate;
    for (const { line, cells } of lines) {
      line.hidden = true; // it keeps its price
      cells.throughput.dataset.title = rate;
    }
    body.prepend(...rows.map((row) => {
      const { line, head, cells } = lines[row.chip];
      line.className = row.lacks ? "unranked" : rivals.includes(row) ? "tied" : "";
      line.hidden = false;
      head.textContent = row.name + (row.isUntimed ? UNTIMED : "");
      for (const [key, [, shown]] of Object.entries(COLUMNS)) if (shown) cells[key].innerHTML = shown(row, scale);
      return line;
    }));
    focused.focus({ preventScroll: true });
    for (const card of details.querySelectorAll(".card")) card.hidden = card.id !== `card-${chosen.model}`;
    for (const copy of copies) copy.value = chosen[copy.name];
    const middle = rows[rows.length >> 1];
    answer.textContent = first
      ? `Likely ${quantity(first.likely, "s", 2)} (${interval(first.low, first.high)}) on the ${first.name}, likely the fastest of ${ranked.length} chips.`
      : middle
        ? `A typical one likely takes ${quantity(middle.likely, "s", 2)}; too few were timed at such a call to rank them.`
        : "Nothing is known of such a call.";
    const [network, pass] = [form.elements.model.selectedOptions[0].text, PHASES[chosen.phase]];
    const left = rows.length - ranked.length;
    const tied = first ? ` ${rivals.length} of these cannot be told from it (=); ${left} more are not ranked.` : "";
    status.textContent = `${network}, batch size ${chosen.batch}, ${chosen.precision}, ${pass}: ${answer.textContent}${tied}`;
    if (changed) history.replaceState(null, "", `#${place.id}?${new URLSearchParams(filled)}`);
  }

  // A link with a choice is that choice; one to a model's card, such as those of the page's search, chooses the model.
  function follow() {
    const card = document.getElementById(location.hash.slice(1))?.closest(".card");
    const [, query] = location.hash.split(`#${place.id}?`);
    if (!card && query === undefined) return;
    for (const [name, value] of new URLSearchParams(card ? { model: card.id.replace("card-", "") } : query)) {
      const field = form.elements.namedItem(name) ?? {};
      const before = field.value;
      field.value = value;
      if (field.value !== value) field.value = before; // which the field does not offer
    }
    update(false);
    if (card) details.open = true;
    (card ?? form).scrollIntoView({ block: card ? "center" : "start" });
  }

  form.addEventListener("change", () => update(true));
  form.addEventListener("submit", (event) => event.preventDefault());
  update(false);
  follow();
  window.addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => event.target.closest('a[href^="#card-"]') && setTimeout(follow));
  place.dataset.chooser = "drawn";
}

for (const place of document.querySelectorAll(".chooser")) startChooser(place);
