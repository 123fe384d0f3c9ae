// Renders results: a table by class, the comparison of A and B, the ranking of changes.
import { element } from "./state.js";

const COLUMNS = [
  ["success_rate", "success"],
  ["time_to_commit_p50_ms", "p50"],
  ["time_to_commit_p95_ms", "p95"],
  ["time_to_commit_p99_ms", "p99"],
  ["retries_per_txn", "retries/txn"],
  ["throughput_per_s", "commits"],
];
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

// A rate per second, or per hour if it is low.
const isLow = (perSecond) => perSecond > 0 && perSecond < 0.1;
const rate = (perSecond, hours = isLow(perSecond)) => (hours ? `${plain.format(3600 * perSecond)}/h` : `${plain.format(perSecond)}/s`);

// A metric of the comparison and its difference, rates in one unit.
const inHours = (row) => isLow(Math.max(row.a.mean, row.b.mean));
const valueOf = (row, side) => (row.metric === "throughput_per_s" && row[side].mean !== null ? rate(row[side].mean, inHours(row)) : row[side].text);
function changeOf(row) {
  if (row.metric !== "throughput_per_s" || !row.difference) return row.change || "–";
  const { difference, half_width: width } = row.difference;
  if (!inHours(row)) return row.change;
  const sign = difference > 0 ? "+" : difference < 0 ? "−" : "";
  return `${sign}${plain.format(+(3600 * Math.abs(difference)).toPrecision(3))}${width === null ? "" : ` ± ${plain.format(+(3600 * width).toPrecision(2))}`}/h`;
}

export const nameOf = (workloadClass) => (workloadClass === "all" ? "all classes" : workloadClass);

function cell(metric, label, metrics) {
  const found = metrics[metric];
  const made = element("td", { "data-label": label });
  if (!found) {
    made.append("–");
    return made;
  }
  if (metric === "throughput_per_s") {
    const offered = metrics.offered_per_s;
    made.append(element("span", { className: "mean", textContent: rate(found.mean) }), element("span", { className: "interval", textContent: `of ${rate(offered.mean)} offered` }));
    return made;
  }
  made.append(element("span", { className: "mean", textContent: found.text }));
  if (metric === "success_rate" && found.mean !== null) made.append(bar(found));
  if (found.interval) made.append(element("span", { className: "interval", textContent: found.interval }));
  return made;
}

// The share as a bar with its interval.
function bar({ mean, low, high }) {
  const made = element("span", { className: "share", "aria-hidden": "true" });
  const filled = element("span", { className: mean >= 0.99 ? "good" : mean >= 0.95 ? "fair" : "poor" });
  filled.style.width = `${Math.max(100 * mean, 0.5)}%`;
  made.append(filled);
  if (low !== null && high !== null) {
    const span = element("span", { className: "span" });
    span.style.left = `${100 * low}%`;
    span.style.width = `${Math.max(100 * (high - low), 0.4)}%`;
    made.append(span);
  }
  return made;
}

export function classesTable(classes) {
  const head = element("tr", {}, element("th", { scope: "col", textContent: "class" }), ...COLUMNS.map(([, label]) => element("th", { scope: "col", textContent: label })));
  const rows = classes.map((row) => {
    const name = element("th", { scope: "row" }, nameOf(row.name));
    if (row.operations.length) name.append(element("span", { className: "operation", textContent: row.operations.join(", ") }));
    return element("tr", { className: row.name === "all" ? "whole" : "" }, name, ...COLUMNS.map(([metric, label]) => cell(metric, label, row.metrics)));
  });
  const caption = element("caption", { className: "unseen", textContent: "Success and time to commit by class, with 95% intervals" });
  const scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Metrics by class" }, element("table", { className: "classes" }, caption, element("thead", {}, head), element("tbody", {}, ...rows)));
  const note = "p50, p95 and p99 are percentiles of the time to commit of all transactions that started committing. The time of an aborted transaction is infinite.";
  return element("div", {}, scroll, element("p", { className: "quiet", textContent: note }));
}

const SIGNS = { true: ["better", "▲ better"], false: ["worse", "▼ worse"], null: ["same", "not significant"] };

export function comparisonTable(found) {
  if (found.rows.length === 0) return element("p", { className: "lead", textContent: found.sentence });
  const head = element("tr", {}, ...["", "A", "B", "B − A (95% CI)", ""].map((text) => element("th", { scope: "col", textContent: text })));
  const classes = [...new Set(found.rows.map((row) => row.workload_class))];
  const bodies = classes.map((name) => {
    const rows = found.rows.filter((row) => row.workload_class === name).map((row) => {
      const [style, words] = row.better === null && row.significant ? ["same", "different"] : SIGNS[String(row.better)];
      return element("tr", { title: row.verdict }, element("th", { scope: "row", textContent: row.name }), element("td", { "data-label": "A", textContent: valueOf(row, "a") }), element("td", { "data-label": "B", textContent: valueOf(row, "b") }), element("td", { "data-label": "B − A (95% CI)", textContent: changeOf(row) }), element("td", { className: style, textContent: words }));
    });
    if (classes.length > 1) rows.unshift(element("tr", { className: "head" }, element("th", { scope: "rowgroup", colSpan: 5, textContent: nameOf(name) })));
    return element("tbody", {}, ...rows);
  });
  const table = element("table", { className: "compared" }, element("thead", {}, head), ...bodies);
  return element(
    "div",
    {},
    element("p", { className: "lead", textContent: found.sentence }),
    ...found.pairs.map((text) => element("p", { className: "quiet", textContent: text })),
    ...found.warnings.map((text) => element("p", { className: "quiet", textContent: text })),
    element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "B compared with A" }, table),
    element("p", { className: "quiet", textContent: `A and B are paired by seed (${found.seeds.length} ${found.seeds.length === 1 ? "seed" : "seeds"}). ${found.window}` }),
  );
}

export function rankingTable(found, use) {
  const head = element("tr", {}, ...["change", found.goal.words, "difference (simultaneous 95% CI)", "", ""].map((text) => element("th", { scope: "col", textContent: text })));
  const rows = found.rows.map((row) => {
    const [style, words] = SIGNS[String(row.significant ? row.better : null)];
    const button = element("button", { type: "button", textContent: "Apply", "aria-label": `Apply: ${row.words}` });
    button.addEventListener("click", () => use(found.trees[row.name]));
    const name = element("th", { scope: "row" }, row.words);
    if (row.note) name.append(element("span", { className: "operation", textContent: row.note }));
    return element("tr", { className: row.name === found.best ? "best" : "" }, name, element("td", { "data-label": found.goal.words, textContent: row.value?.text ?? "–" }), element("td", { "data-label": "difference (simultaneous 95% CI)", textContent: row.change || "–" }), element("td", { className: style, textContent: words }), element("td", {}, button));
  });
  const seeds = `All changes are simulated with the same ${found.seeds.length} seeds. Current ${found.goal.words}: ${found.present?.text ?? "unknown"}.`;
  return element(
    "div",
    {},
    element("p", { className: "lead", role: "status", textContent: found.sentence }),
    element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Changes" }, element("table", { className: "ranking" }, element("thead", {}, head), element("tbody", {}, ...rows))),
    element("p", { className: "quiet", textContent: found.final ? seeds : `${seeds} More seeds are running.` }),
  );
}
