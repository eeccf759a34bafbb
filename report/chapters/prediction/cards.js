// A network's card: what an input asks for, its place under the roof, its latencies, and what to try first (cards.py).
// It comes with chooser.js, which shows it, in one bundle.

const REMEDIES = { kept_memory: "keeping freed memory", channels_last: "channels last", compile: "torch.compile" };

function large(value) {
  const step = Math.max(0, Math.floor(Math.log10(value) / 3));
  return `${quantity(value / 1000 ** step, "", 3)} ${["", "k", "M", "G", "T"][step]}`;
}

// The place of an intensity under the roof of the machine at hand; within a tenth of the ridge point it is at it.
function underRoof(intensity, ridge, machine) {
  if (!ridge) return "";
  const ratio = intensity / ridge;
  const [side, bound] = ratio > 1.1 ? ["above", "compute-bound"] : ratio < 0.9 ? ["below", "memory-bound"] : ["at", "bound by both"];
  return `, ${side} the ridge point of the ${machine} (${quantity(ridge, "", 2)} FLOP/B): ${bound} there`;
}

function card(model, machine) {
  const { asks, times, advice } = model;
  const said = [];
  if (asks) {
    const [parameters, flop, byte] = [asks.parameter_count, asks.forward_flop, asks.traffic_byte].map((n) => large(n));
    const intensity = `${quantity(asks.traffic_intensity, "", 2)} FLOP/B${underRoof(asks.traffic_intensity, model.ridge, machine)}`;
    said.push([`${parameters} parameters. One input takes ${flop}FLOP and moves ${byte}B layer by layer at fp32: ${intensity}.`]);
  }
  const best = times.reduce((first, row) => (first && first.latency_s / first.batch <= row.latency_s / row.batch ? first : row), null);
  for (const row of times.filter((each) => each === times[0] || each === best)) {
    const range = row.latency_low_s === null ? "" : ` (${interval(row.latency_low_s, row.latency_high_s)})`;
    const share = row.attained === null ? "" : `, ${quantity(100 * row.attained, "", 2)} % of its roof`;
    const most = row === best && times.length > 1 ? ": most inputs a second" : "";
    said.push([`${machine}, fp32, batch ${row.batch}: ${quantity(row.latency_s, "s", 3)}${range}${share}${most}.`]);
  }
  if (advice) {
    const remedy = REMEDIES[advice.remedy] ?? advice.remedy;
    if (advice.gain) said.push([`Try first: ${remedy}, measured to be ${quantity(advice.gain, "", 2)} times as fast as batch ${times[0].batch}.`]);
    else said.push([`Try first: ${remedy}, because ${advice.why}. To test it: `, made("code", {}, `python -m measure ${advice.flags}`)]);
  }
  const element = made("div", { id: `card-${model.id}`, class: "card", "data-card": model.name });
  const heading = [made("strong", {}, model.name), model.name === model.id ? "" : ` (${model.id})`, model.family ? `, ${model.family}` : ""];
  element.append(...[heading, ...said].map((parts) => made("p", {}, ...parts)));
  return element;
}
