// Builds the form from the schema: the most important keys on top, all keys by section below.
import { element, get, put, same, without } from "./state.js";

const COUNTS = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 80, 100, 128, 160, 200];
const TIMES = ["1s", "2s", "5s", "10s", "15s", "20s", "30s", "1min", "2min", "5min", "10min", "15min", "30min", "1h", "2h", "6h"];
const RATES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 50, 64, 100];
const UNITS = { ms: 1, s: 1e3, min: 6e4, h: 3.6e6, d: 8.64e7 };
const STOPS = { count: [COUNTS.slice(1), "number"], interval: [TIMES, "duration"], rate: [RATES, "number"] };
const MAINTENANCE = /compact|maintenance|optimi|rewrite|vacuum|expire/i;

export const milliseconds = (value) => {
  if (typeof value === "number") return value;
  const found = /^\s*(\d+(?:\.\d+)?|\.\d+)(ms|s|min|h|d)\s*$/.exec(value ?? "");
  return found ? Number(found[1]) * UNITS[found[2]] : NaN;
};

export function spoken(ms) {
  for (const unit of ["d", "h", "min", "s"]) {
    const amount = ms / UNITS[unit];
    if (amount >= 1 && Math.abs(amount * 1000 - Math.round(amount * 1000)) < 1e-6 && (unit === "s" || Number.isInteger(amount))) return `${+amount.toFixed(3)}${unit}`;
  }
  return `${+ms.toPrecision(6)}ms`;
}

const isMaintenance = (name, cls) => MAINTENANCE.test(name) || Boolean(cls.periodic);

export class Form {
  // Calls `changed(tree, key, atOnce)` on every change; after a choice of `key`, other keys may have no effect.
  constructor(description, changed) {
    this.description = description;
    this.changed = changed;
    this.essentials = document.getElementById("essentials");
    this.sections = document.getElementById("sections");
    this.tree = {};
    this.written = {};
    this.shape = "";
    this.removed = {};
    this.opened = new Set();
  }

  // Shows a configuration. The focused control is not changed.
  show(tree) {
    this.tree = tree;
    const classes = Object.entries(tree.workload ?? {});
    const shape = JSON.stringify([classes.map(([name, cls]) => [name, this.kindOf(cls)?.key, runtimeKey(cls)]), tree.storage?.provider?.endsWith(".toml"), Boolean(tree.transaction?.inter_arrival), Object.keys(tree.parts ?? {})]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build();
    }
    for (const control of this.controls()) if (control !== document.activeElement) control.refresh?.(this.tree);
  }

  controls() {
    return [...this.essentials.querySelectorAll("[data-key]"), ...this.sections.querySelectorAll("[data-key]")];
  }

  set(key, value, { choice = false, atOnce = true } = {}) {
    const tree = value === undefined || value === "" ? without(this.tree, key) : put(this.tree, key, value);
    if (same(tree, this.tree) && !(key in this.written)) return;
    this.apply(tree, choice ? key : null, atOnce);
  }

  apply(tree, choiceKey = null, atOnce = true) {
    this.changed(tree, choiceKey, atOnce);
  }

  build() {
    const focused = document.activeElement?.id;
    this.essentials.replaceChildren(...this.groups());
    this.sections.replaceChildren(...this.allSections());
    if (focused) document.getElementById(focused)?.focus();
  }

  // ---- the most important keys

  groups() {
    const tree = this.tree;
    const classes = Object.entries(tree.workload ?? {});
    const groups = classes.filter(([name, cls]) => !isMaintenance(name, cls)).map(([name, cls]) => this.classGroup(name, cls));
    if (!classes.length) groups.push(this.transactionGroup());
    groups.push(this.placeGroup(), ...this.ownGroups(), this.retryGroup(), this.maintenanceGroup(classes.filter(([name, cls]) => isMaintenance(name, cls))));
    return groups;
  }

  group(title, ...rows) {
    return element("fieldset", { className: "group" }, element("legend", { textContent: title }), ...rows);
  }

  classGroup(name, cls) {
    const key = `workload.${name}`;
    return this.group(name, this.arrivals(key, cls), ...this.arrivalFields(key, cls), this.operation(key), this.runtime(key, cls));
  }

  transactionGroup() {
    const rows = this.arrivalFields("transaction", this.tree.transaction ?? {});
    rows.push(this.runtime("transaction", this.tree.transaction ?? {}));
    return this.group("transactions", ...rows);
  }

  // Returns the arrival kind of a class, or nothing if it takes its arrivals from [transaction].
  kindOf(cls) {
    return this.description.arrivals.find((kind) => cls[kind.key] !== undefined);
  }

  arrivals(key, cls) {
    const kind = this.kindOf(cls);
    const offered = this.description.arrivals.filter((each) => Object.keys(each.example).length || each === kind);
    const options = offered.map((each) => ({ value: each.key, label: each.label }));
    if (!kind) options.unshift({ value: "", label: "inherited from [transaction]" });
    return this.row(`${key}.arrivals`, "arrivals", this.select(`${key}.arrivals`, options, () => this.kindOf(get(this.tree, key) ?? {})?.key ?? "", (value) => this.changeArrivals(key, value)));
  }

  changeArrivals(key, name) {
    const cls = structuredClone(get(this.tree, key));
    for (const kind of this.description.arrivals) for (const each of kind.keys) delete cls[each];
    for (const each of ["start_ms", "end_ms"]) delete cls[each];
    const kind = this.description.arrivals.find((each) => each.key === name);
    this.apply(put(this.tree, key, { ...structuredClone(kind?.example ?? {}), ...cls }), kind ? `${key}.${name}` : key);
  }

  arrivalFields(key, cls) {
    const controls = this.kindOf(cls)?.controls.filter((each) => get(cls, each.path) !== undefined) ?? [];
    return controls.map((each) => this.slider(`${key}.${each.path}`, each.label, ...STOPS[each.quantity]));
  }

  operation(key) {
    return this.row(`${key}.operation`, "operation", this.choice(`${key}.operation`, this.description.operations, "several operations"));
  }

  runtime(key, cls) {
    const own = runtimeKey(cls) ?? (key === "transaction" ? "mean" : null);
    return own ? this.slider(`${key}.runtime.${own}`, own === "value" ? "job duration" : `job duration (${own})`, TIMES, "duration") : null;
  }

  placeGroup() {
    const tables = this.slider("catalog.num_tables", "tables", COUNTS.slice(1), "number", 1);
    return this.group(
      "object store and catalog",
      this.row("storage.provider", "object store", this.choice("storage.provider", this.description.stores, null)),
      this.row("catalog.type", "catalog", this.catalog()),
      tables,
    );
  }

  catalog() {
    const own = this.tree.parts?.catalog;
    if (!own) return this.choice("catalog.type", this.description.catalogs, "catalog file (default)");
    const select = this.select("catalog.type", [{ value: "", label: `custom: ${ownName(own)}` }], () => "", () => {});
    select.disabled = true;
    return select;
  }

  // Numeric options of custom components: from an eighth to eight times the value of the file.
  ownGroups() {
    return Object.entries(this.description.parts).flatMap(([kind, part]) => {
      const numbers = Object.entries(part.options ?? {}).filter(([, value]) => typeof value === "number");
      if (!this.tree.parts?.[kind] || !numbers.length) return [];
      const rows = numbers.map(([name, value]) => this.slider(`parts.${kind}.options.${name}`, name.replaceAll("_", " "), around(value), "number"));
      return [this.group(ownName(part), ...rows)];
    });
  }

  retryGroup() {
    const retries = this.slider("transaction.retry", "retries", COUNTS.slice(0, 19), "number", this.tree.transaction?.retry_policy === "iceberg" ? 4 : 10);
    return this.group("retries and backoff", retries, this.row("transaction.commit_path", "client", this.choice("transaction.commit_path", this.description.clients, `${this.description.clients[0].label} (default)`)));
  }

  maintenanceGroup(classes) {
    const absent = Object.keys(this.removed).filter((name) => !get(this.tree, `workload.${name}`));
    if (!classes.length && !absent.length) absent.push("compaction");
    const rows = classes.flatMap(([name, cls]) => {
      const key = `workload.${name}`;
      const off = this.toggle(name, name, () => Boolean(get(this.tree, key)), () => this.dropClass(name));
      return [off, ...this.arrivalFields(key, cls), this.operation(key), this.runtime(key, cls)];
    });
    return this.group("maintenance", ...rows, ...absent.map((name) => this.toggle(name, name, () => false, () => this.addClass(name))));
  }

  // Restore a class that was switched off, or add a compaction.
  addClass(name) {
    const iceberg = ["iceberg", "pyiceberg"].includes(this.tree.transaction?.commit_path);
    const cls = this.removed[name] ?? { periodic: { interval_ms: "10min", phase_ms: "5min" }, operation: iceberg ? "rewrite_files" : "validated_overwrite", runtime: { median: "2min", sigma: 0.3 } };
    delete this.removed[name];
    let tree = this.tree;
    if (!Object.keys(tree.workload ?? {}).length) tree = put(tree, "workload.ingest", {});
    this.apply(put(tree, `workload.${name}`, cls), `workload.${name}.periodic`);
  }

  dropClass(name) {
    const others = Object.keys(this.tree.workload).filter((each) => each !== name);
    if (!others.length) return;
    this.removed[name] = this.tree.workload[name];
    this.apply(without(this.tree, `workload.${name}`), "workload");
  }

  // ---- controls

  row(key, label, ...controls) {
    const id = idOf(key);
    return element("div", { className: "row", "data-row": key }, element("label", { htmlFor: id, textContent: label }), ...controls, element("p", { className: "error", id: `${id}-error` }));
  }

  mark(control, key) {
    control.id = idOf(key);
    control.dataset.key = key;
    control.setAttribute("aria-describedby", `${control.id}-error`);
    return control;
  }

  select(key, options, read, write) {
    const select = this.mark(element("select", {}, ...options.map((each) => element("option", { value: String(each.value), textContent: each.label }))), key);
    select.refresh = () => { select.value = String(read() ?? ""); };
    select.addEventListener("change", () => write(select.value));
    return select;
  }

  choice(key, options, none) {
    const shown = none === null ? [...options] : [{ value: "", label: none }, ...options];
    const own = get(this.tree, key);
    if (typeof own === "string" && !shown.some((each) => each.value === own)) shown.push({ value: own, label: own.split("/").at(-1) });
    return this.select(key, shown, () => get(this.tree, key), (value) => this.set(key, value === "" ? undefined : value, { choice: true }));
  }

  toggle(name, label, read, write) {
    const box = this.mark(element("input", { type: "checkbox", className: "switch", role: "switch" }), `switch.${name}`);
    box.refresh = () => { box.checked = read(); };
    box.addEventListener("change", write);
    return element("div", { className: "row toggle" }, element("label", { htmlFor: box.id, textContent: label }), box);
  }

  // Adds a field for a number or a duration, with a slider.
  slider(key, label, stops, kind, fallback) {
    const input = this.mark(element("input", { type: "text", inputMode: kind === "number" ? "decimal" : "text", spellcheck: false, className: "value" }), key);
    const range = element("input", { type: "range", min: 0, max: stops.length - 1, step: 1, "aria-label": `${label}, slider` });
    const size = (value) => (kind === "number" ? Number(value) : milliseconds(value));
    const nearest = (value) => stops.reduce((best, stop, place) => (Math.abs(Math.log((size(stop) + 0.5) / (value + 0.5))) < Math.abs(Math.log((size(stops[best]) + 0.5) / (value + 0.5))) ? place : best), 0);
    const follow = (value) => {
      if (Number.isFinite(size(value))) range.value = nearest(size(value));
      range.setAttribute("aria-valuetext", String(value));
    };
    input.refresh = () => {
      const value = get(this.tree, key) ?? fallback ?? "";
      input.value = kind === "duration" && typeof value === "number" ? spoken(value) : String(value);
      follow(value === "" ? stops[0] : value);
    };
    input.addEventListener("input", () => {
      follow(input.value);
      this.set(key, typed(input.value, kind), { atOnce: false });
    });
    input.addEventListener("change", () => this.set(key, typed(input.value, kind)));
    range.addEventListener("input", () => {
      const stop = stops[range.value];
      input.value = String(stop);
      range.setAttribute("aria-valuetext", String(stop));
      this.set(key, stop);
    });
    const made = this.row(key, label, input, range);
    made.classList.add("slider");
    return made;
  }

  // ---- all keys

  allSections() {
    const made = this.description.sections.map((section) => this.section(section.title, section.name, section.fields));
    for (const name of Object.keys(this.tree.workload ?? {})) made.push(this.section(`Class ${name}`, `workload.${name}`, this.description.class));
    return made;
  }

  section(title, prefix, fields) {
    const count = element("span", { className: "count" });
    const details = element("details", { className: "section" }, element("summary", {}, title, " ", count));
    const body = element("div", { className: "fields" });
    details.append(body);
    details.open = this.opened.has(prefix);
    const fill = () => {
      if (!body.childElementCount) body.append(...fields.map((field) => this.field(`${prefix}.${field.path}`, prefix, field)));
      for (const control of body.querySelectorAll("[data-key]")) control.refresh?.();
    };
    details.addEventListener("toggle", () => {
      details.open ? this.opened.add(prefix) : this.opened.delete(prefix);
      if (details.open) fill();
    });
    details.fill = fill;
    details.dataset.prefix = prefix;
    count.dataset.key = `count.${prefix}`;
    count.refresh = () => {
      const given = leaves(get(this.tree, prefix));
      count.textContent = given ? `${given} ${given === 1 ? "key" : "keys"} set` : "";
    };
    if (details.open) fill();
    return details;
  }

  field(key, prefix, field) {
    if (field.kind === "table") {
      const inside = element("fieldset", { className: "table" }, element("legend", { textContent: field.label }), element("p", { className: "description", textContent: field.description }));
      inside.append(...field.fields.map((each) => this.field(`${prefix}.${each.path}`, prefix, each)));
      return inside;
    }
    const id = `all-${idOf(key)}`;
    const control = this.control(key, field);
    control.id = id;
    control.dataset.key = key;
    control.setAttribute("aria-describedby", `${id}-about ${id}-error`);
    const about = [field.description, bounds(field)].filter(Boolean).join(" ");
    return element(
      "div",
      { className: "row all", "data-row": key },
      element("label", { htmlFor: id, textContent: field.label }),
      control,
      element("p", { className: "description", id: `${id}-about` }, about, " ", element("code", { textContent: key })),
      element("p", { className: "error", id: `${id}-error` }),
    );
  }

  control(key, field) {
    const placeholder = field.default === null || field.default === undefined ? "" : String(field.default);
    if (field.kind === "choice") {
      const none = placeholder ? `${placeholder} (default)` : "default";
      return this.plainSelect(key, field.options, none);
    }
    if (field.kind === "switch") {
      return this.plainSelect(key, [{ value: true, label: "yes" }, { value: false, label: "no" }], `${field.default ? "yes" : "no"} (default)`, (text) => text === "true");
    }
    const input = element("input", { type: "text", spellcheck: false, placeholder, inputMode: field.kind === "number" ? "decimal" : "text" });
    input.refresh = () => {
      const value = this.written[key] ?? get(this.tree, key);
      input.value = value === undefined ? "" : field.kind === "toml" && typeof value === "object" ? toml(value) : String(value);
    };
    const change = (atOnce) => {
      if (field.kind === "toml") return this.write(key, input.value, atOnce);
      return this.set(key, typed(input.value, field.kind), { atOnce });
    };
    input.addEventListener("input", () => change(false));
    input.addEventListener("change", () => change(true));
    return input;
  }

  // Values other than numbers and words are sent as text and parsed by the server.
  write(key, text, atOnce) {
    delete this.written[key];
    if (text.trim() === "") return this.set(key, undefined, { atOnce });
    this.written[key] = text;
    return this.apply(this.tree, null, atOnce);
  }

  plainSelect(key, options, none, read = (text) => text) {
    const shown = [{ value: "", label: none }, ...options];
    const own = get(this.tree, key);
    if (typeof own === "string" && !shown.some((each) => each.value === own)) shown.push({ value: own, label: own });
    const select = element("select", {}, ...shown.map((each) => element("option", { value: String(each.value), textContent: each.label })));
    select.refresh = () => { select.value = String(get(this.tree, key) ?? ""); };
    select.addEventListener("change", () => this.set(key, select.value === "" ? undefined : read(select.value), { choice: true }));
    return select;
  }

  // ---- errors

  // Shows errors at their fields, and opens the section of a field that is not on top.
  complain(problems) {
    for (const row of document.querySelectorAll("[data-row]")) row.classList.remove("wrong");
    for (const error of document.querySelectorAll("#form .error")) error.textContent = "";
    for (const control of this.controls()) control.removeAttribute("aria-invalid");
    for (const { key, message } of problems) {
      let rows = this.rowsOf(key);
      if (!rows.length && key) {
        const section = [...this.sections.querySelectorAll("details")].find((each) => key === each.dataset.prefix || key.startsWith(`${each.dataset.prefix}.`));
        if (section) {
          section.open = true;
          section.fill();
          rows = this.rowsOf(key);
        }
      }
      for (const row of rows) {
        row.classList.add("wrong");
        row.querySelector(".error").textContent = message;
        row.querySelector("[data-key]")?.setAttribute("aria-invalid", "true");
      }
    }
  }

  rowsOf(key) {
    const all = [...document.querySelectorAll("[data-row]")];
    const exact = all.filter((row) => row.dataset.row === key);
    return exact.length ? exact : all.filter((row) => key && row.dataset.row.startsWith(`${key}.`)).slice(0, 1);
  }
}

const idOf = (key) => `f-${key.replaceAll(".", "-")}`;

// Stops of a slider for any number.
function around(value) {
  if (value <= 0) return value === 0 ? COUNTS : [value];
  const stops = [0.125, 0.25, 0.5, 1, 2, 4, 8].map((times) => times * value);
  return Number.isInteger(value) ? [...new Set(stops.map((stop) => Math.max(1, Math.round(stop))))] : stops;
}

const ownName = (part) => part.code.split(":").at(-1);

function runtimeKey(cls) {
  return ["median", "mean", "value"].find((each) => cls.runtime && cls.runtime[each] !== undefined) ?? null;
}

function leaves(node) {
  if (node === undefined) return 0;
  if (node === null || typeof node !== "object" || Array.isArray(node)) return 1;
  return Object.values(node).reduce((sum, each) => sum + leaves(each), 0);
}

// Returns the typed value: a number, or the text, which the server checks.
function typed(text, kind) {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  if (kind === "text") return trimmed;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed) : trimmed;
}

function bounds(field) {
  const parts = [];
  if (field.above !== undefined) parts.push(`above ${field.above}`);
  if (field.min !== undefined) parts.push(`at least ${field.min}`);
  if (field.max !== undefined && field.max < 1e9) parts.push(`at most ${field.max.toLocaleString("en")}`);
  const range = parts.length ? `Must be ${parts.join(" and ")}.` : "";
  const unit = field.unit ? `Unit: ${field.unit}.` : field.kind === "toml" ? "Enter the value as TOML." : "";
  const given = field.default !== null && field.default !== undefined ? `Default: ${field.default}.` : "";
  return [range, unit, given].filter(Boolean).join(" ");
}

function toml(value) {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (value && typeof value === "object") return `{ ${Object.entries(value).map(([key, each]) => `${key} = ${toml(each)}`).join(", ")} }`;
  return JSON.stringify(value);
}
