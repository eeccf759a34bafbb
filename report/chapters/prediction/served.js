// The chooser of served language models: shows the predictions that served.py has made. It uses functions of chooser.js.

const servedLegend = (prompt, answer) => `Prompts of ${prompt.toLocaleString("en")} tokens, answers of
  ${answer.toLocaleString("en")}; all GPUs share each matrix. A range is the 90\u00a0% interval. Where it is missing, nobody
  timed servers of such chips, and the time is extrapolated. Chips that hold too few requests come last; those whose
  memory does not hold the weights, or without such units, are left out.`;

const SERVED_COLUMNS = {
  "First token": ([, first]) => withInterval(first),
  "Each further": ([, , further]) => withInterval(further),
  "Tokens/s": ([, , , rate]) => quantity(rate, "", 2),
  "Requests that fit": ([, , , , most, fits]) => `${(most ?? "?").toLocaleString("en")}${fits === false ? ": too few" : ""}`,
};

const SERVED_STYLE = `
  @media (max-width: 40rem) {
    .served :is(table, tbody) { display: block; }
    .served tbody tr:not([hidden]) { grid-template-columns: 1fr; }
  }`;

const withInterval = ([likely, low, high]) => `${quantity(likely, "s", 2)} ${low ? `(${interval(low, high)})` : "(extrapolated)"}`;

async function startServed(place) {
  await firstIsDrawn; // a reader sees that before this
  const { fields, rows, prompt, answer } = await unpacked(place.querySelector("script"));
  document.head.append(made("style", {}, CHOOSER_STYLE.replaceAll(".chooser", ".served") + SERVED_STYLE));
  const choice = made("div", { class: "choice" });
  for (const [name, title, values, preset] of fields) {
    const select = made("select", { name, "aria-label": title });
    for (const [value, text] of values) select.add(new Option(text, value, false, value === preset));
    choice.append(made("label", {}, `${title} `, select));
  }
  const status = made("p", { role: "status" });
  const heads = ["Chip", ...Object.keys(SERVED_COLUMNS)].map((title) => made("th", { scope: "col" }, title));
  const body = made("tbody");
  const region = { class: "scroll", role: "region", tabindex: "0", "aria-label": "Predicted tokens by chip" };
  const table = made("div", region, made("table", {}, made("thead", {}, made("tr", {}, ...heads)), body));
  const legend = made("p", { class: "legend" }, servedLegend(prompt, answer));
  const form = made("form", { "aria-label": "Choose a served model" }, choice, status, legend, table);
  place.append(form);

  function update() {
    const found = rows[fields.map(([name]) => form.elements[name].value).join()] ?? [];
    const first = found.find(([, , further, , , fits]) => further[1] && fits !== false);
    const isTied = (row) => first && row !== first && row[2][1] && row[2][1] <= first[2][2];
    body.replaceChildren(...found.map((row) => {
      const cells = Object.entries(SERVED_COLUMNS).map(([title, shown]) => made("td", { "data-title": title }, shown(row)));
      const name = row[0] + (isTied(row) ? "\u00a0=" : "");
      return made("tr", row[2][1] ? {} : { class: "unranked" }, made("th", { scope: "row" }, name), ...cells);
    }));
    const tied = found.filter(isTied).length;
    status.textContent = first
      ? `A token likely takes ${withInterval(first[2])} on the ${first[0]}; ${tied} chips cannot be told from it (=).`
      : found.length
        ? "No chip here has an interval and enough memory."
        : "No chip here holds the weights on so many GPUs.";
  }

  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  update();
  place.dataset.served = "drawn";
}

for (const place of document.querySelectorAll(".served")) startServed(place);
