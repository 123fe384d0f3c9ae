// Draws figures of the server with Vega. If only the data of a figure changes, its chart is reused.
import { copyPicture } from "./picture.js";
import { element } from "./state.js";

const ONLY_ERRORS = 1;
const MOST_ROWS = 200;
const NARROW = 520;
const drawn = new Map();
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 2 });

const decoded = (column) => (Array.isArray(column) ? column : column.codes.map((code) => (code < 0 ? null : column.values[code])));

function rowsOf(columns) {
  const names = Object.keys(columns);
  const values = names.map((name) => decoded(columns[name]));
  return values[0].map((_, row) => Object.fromEntries(names.map((name, column) => [name, values[column][row]])));
}

// No zooming by pointer: a drag would interfere with the next answer.
function withoutZoom(spec) {
  if (spec.params) spec.params = spec.params.filter((parameter) => parameter.name !== "zoom");
  (spec.layer ?? []).forEach(withoutZoom);
}

// Text beside lanes takes their space; the table below contains it as well.
function withoutWords(spec) {
  if (spec.layer && spec.layer.length > 2) spec.layer = spec.layer.filter((layer) => (layer.mark?.type ?? layer.mark) !== "text" || layer.encoding?.x?.value !== "width");
}

// Draws one figure after the other; if several are waiting, only the last is drawn.
export function draw(name, figure) {
  const entry = drawn.get(name) ?? { waiting: null, busy: null, spec: "", view: null };
  drawn.set(name, entry);
  entry.waiting = { figure };
  entry.busy ??= work(name, entry).finally(() => { entry.busy = null; });
  return entry.busy;
}

export function listenForCopies() {
  for (const button of document.querySelectorAll("button.picture")) {
    const figure = button.closest("figure");
    button.addEventListener("click", () => { if (drawn.get(figure.id)?.view) copyPicture(figure, drawn.get(figure.id).view); });
  }
}

async function work(name, entry) {
  while (entry.waiting) {
    const { figure } = entry.waiting;
    entry.waiting = null;
    const place = document.getElementById(name);
    place.hidden = figure === null;
    if (figure === null) continue;
    try {
      await drawOne(place, entry, figure);
    } catch (error) {
      place.querySelector(".chart").textContent = `Cannot draw this chart: ${error.message}`;
      entry.spec = "";
      console.error(name, error);
    }
  }
}

async function drawOne(place, entry, figure) {
  const rows = rowsOf(figure.rows);
  const spec = structuredClone(figure.specs[0]);
  withoutZoom(spec);
  if (place.clientWidth < NARROW) withoutWords(spec);
  place.querySelector(".note").textContent = [figure.about, ...figure.notes].filter(Boolean).join(" ");
  legend(place.querySelector(".legend"), figure);
  caption(place.querySelector("figcaption"), figure, rows);
  const text = JSON.stringify(spec);
  if (entry.view && entry.spec === text) {
    await entry.view.data("rows", rows).runAsync();
  } else {
    entry.view?.finalize();
    spec.datasets = { ...spec.datasets, rows };
    const options = { renderer: "svg", actions: false, ast: true, logLevel: ONLY_ERRORS, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
    const embedded = await window.vegaEmbed(place.querySelector(".chart"), spec, options);
    entry.view = embedded.view;
    entry.spec = text;
  }
  place.dataset.drawn = String(Number(place.dataset.drawn ?? 0) + 1);
}

function legend(place, figure) {
  place.replaceChildren(...figure.legend.entries.map(({ name, colour, glyph }) => {
    const sign = element("i", { textContent: glyph, "aria-hidden": "true" });
    sign.style.color = colour;
    return element("span", {}, sign, name);
  }));
}

function caption(place, figure, rows) {
  const open = place.querySelector("details")?.open ?? false;
  const head = element("tr", {}, ...figure.columns.map((column) => element("th", { scope: "col", className: column.number ? "number" : "", textContent: column.title })));
  const cell = (value, column) => (value === null || value === undefined ? "–" : typeof value !== "number" ? value : (column.percent ? percent : plain).format(value));
  const body = rows.slice(0, MOST_ROWS).map((row) => element("tr", {}, ...figure.columns.map((column) => element("td", { className: column.number ? "number" : "", textContent: cell(row[column.name], column) }))));
  const numbers = element("details", { open }, element("summary", { textContent: "Data" }), element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `${figure.title}, data` }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body))));
  place.replaceChildren(figure.definition, numbers);
}
