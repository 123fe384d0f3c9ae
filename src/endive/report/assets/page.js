"use strict";
// Draws the figures of the page from the data in it. Nothing is fetched.
(() => {
  const ALL = "all";
  const MOST_ROWS = 500;
  const ONLY_ERRORS = 1;
  const touch = matchMedia("(pointer: coarse)").matches;
  const fitted = [];
  const figures = JSON.parse(document.getElementById("figures").textContent);

  const decoded = (column) => Array.isArray(column) ? column : column.codes.map((code) => (code < 0 ? null : column.values[code]));

  function rowsOf(columns) {
    const names = Object.keys(columns);
    const values = names.map((name) => decoded(columns[name]));
    return values[0].map((_, row) => Object.fromEntries(names.map((name, column) => [name, values[column][row]])));
  }

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // Returns the rows that match all filters, without hidden series.
  const valueOf = (filter, row) => (filter.of ? filter.of[row[filter.column]] : String(row[filter.column]));
  const passes = (state, row, but) =>
    state.filters.every((filter, place) => place === but || filter.chosen === null || valueOf(filter, row) === filter.chosen);
  const shown = (figure, state) =>
    state.rows.filter((row) => passes(state, row) && !(figure.series && state.hidden.has(row[figure.series])));

  const inFacet = (figure, rows, value) => (value === null ? rows : rows.filter((row) => String(row[figure.facet]) === value));

  // On touch screens, a drag scrolls the page and must not move the chart.
  function withoutZoom(spec) {
    if (spec.params) spec.params = spec.params.filter((parameter) => parameter.name !== "zoom");
    (spec.layer ?? []).forEach(withoutZoom);
  }

  async function update(figure, state) {
    const rows = shown(figure, state);
    state.section.querySelector(".none").hidden = rows.length > 0;
    fillTable(figure, state, rows); // before the charts, which are drawn one after the other
    for (const [value, view, panel] of state.views) {
      const own = inFacet(figure, rows, value);
      panel.hidden = value !== null && !own.length;
      await view.data("rows", own).resize().runAsync(); // new labels have to fit as well
    }
  }

  function addFilters(figure, state, controls) {
    const selects = figure.filters.map((filter, place) => {
      const options = filter.values.includes(ALL) ? filter.values : [null, ...filter.values];
      state.filters.push({ ...filter, chosen: options.includes(ALL) ? ALL : null });
      const select = element("select", { id: `${figure.name}-filter-${place}` });
      for (const value of options) select.append(element("option", { value: value ?? "", textContent: value === null ? "all" : filter.words[value] }));
      select.value = state.filters[place].chosen ?? "";
      select.addEventListener("change", () => {
        state.filters[place].chosen = select.value === "" ? null : select.value;
        disableEmpty();
        update(figure, state);
      });
      controls.append(element("span", {}, element("label", { htmlFor: select.id, textContent: `${filter.title} ` }), select));
      return select;
    });
    const disableEmpty = () => selects.forEach((select, place) => {
      const possible = new Set(state.rows.filter((row) => passes(state, row, place)).map((row) => valueOf(state.filters[place], row)));
      for (const option of select.options) option.disabled = option.value !== "" && !possible.has(option.value);
    });
    disableEmpty();
  }

  function addLegend(figure, state, controls) {
    const { title, entries } = figure.legend;
    if (!entries.length) return;
    const legend = element("div", { className: "legend" });
    if (title) legend.append(element("span", { className: "legend-title", textContent: title }));
    for (const { name, colour, glyph, series } of entries) {
      const sign = element("i", { textContent: colour.startsWith("url") ? "" : glyph });
      if (colour.startsWith("url")) sign.append(hatched(colour));
      else sign.style.color = colour;
      sign.setAttribute("aria-hidden", "true");
      if (!series) {
        legend.append(element("span", {}, sign, name));
        continue;
      }
      const button = element("button", { type: "button", title: "Show or hide" }, sign, whole(name));
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
        button.setAttribute("aria-pressed", String(!state.hidden.has(name)));
        update(figure, state);
      });
      legend.append(button);
    }
    controls.append(legend);
  }

  function hatched(fill) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ width: 16, height: 16, fill, stroke: "currentColor" })) box.setAttribute(name, value);
    svg.append(box);
    return svg;
  }

  const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
  const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 2 });
  const cell = (value, column) =>
    value === null ? "–" : typeof value !== "number" ? value : (column.percent ? percent : plain).format(value);

  function fillTable(figure, state, rows) {
    const place = state.section.querySelector(".scroll");
    if (!state.section.querySelector("details.table").open) return;
    const head = element("tr", {}, ...figure.columns.map((c) => element("th", { className: c.number ? "number" : "", textContent: c.title, scope: "col" })));
    const body = rows.slice(0, MOST_ROWS).map((row) =>
      element("tr", {}, ...figure.columns.map((c) => element("td", { className: c.number ? "number" : "", textContent: cell(row[c.name], c) }))));
    place.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
    state.section.querySelector(".more").textContent =
      rows.length > MOST_ROWS ? `The table shows the first ${MOST_ROWS} of ${rows.length} rows. The CSV file contains all rows.` : "";
  }

  const quoted = (value) => (value === null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  function csv(figure, state) {
    const names = figure.columns.map((column) => column.name);
    return [names, ...state.rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  }

  // Makes a link save the text of a function when it is clicked.
  function saves(link, type, text) {
    link?.addEventListener("click", () => {
      URL.revokeObjectURL(link.href);
      link.href = URL.createObjectURL(new Blob([text()], { type }));
    });
  }

  // Keeps a name and its value on one line: "skew = 0.8".
  const whole = (text) => text.replaceAll(" = ", "\u00a0=\u00a0");

  async function draw(figure) {
    const section = document.getElementById(figure.name);
    const state = { rows: rowsOf(figure.rows), filters: [], hidden: new Set(), views: [], section };
    const controls = section.querySelector(".controls");
    addFilters(figure, state, controls);
    addLegend(figure, state, controls);
    saves(section.querySelector("a.download"), "text/csv", () => csv(figure, state));
    section.querySelector("details.table").addEventListener("toggle", () => fillTable(figure, state, shown(figure, state)));
    const charts = section.querySelector(".charts");
    const number = figure.panels.length;
    if (number > 1) charts.classList.add(number === 2 || number === 4 ? "by-two" : "by-three");
    for (const { value, spec } of figure.panels) {
      const place = element("div", { className: "chart" });
      const panel = value === null ? place : element("div", {}, element("h4", { textContent: whole(value) }), place);
      charts.append(panel);
      const own = structuredClone(figure.specs[spec]);
      if (touch) withoutZoom(own);
      own.datasets = { ...own.datasets, rows: inFacet(figure, shown(figure, state), value) };
      const embedded = await vegaEmbed(place, own, { renderer: "svg", actions: false, ast: true, logLevel: ONLY_ERRORS });
      state.views.push([value, embedded.view, panel]);
      fitted.push(embedded.view);
    }
    await update(figure, state);
    section.dataset.drawn = "yes";
  }

  // A new width moves the numbers at the ends of bars, so charts are fitted again when the width no longer changes.
  let waiting = null;
  function fitAgain() {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      for (const view of fitted) await view.resize().runAsync();
      document.body.dataset.fitted = String(innerWidth);
    }, 200);
  }

  async function drawAll(chosen) {
    for (const figure of chosen) {
      try {
        await draw(figure);
      } catch (error) {
        document.getElementById(figure.name).querySelector(".charts").textContent = `The chart cannot be drawn: ${error.message}`;
        console.error(figure.name, error);
      }
    }
  }

  // Figures in closed details have no width, so they are drawn when the details open: by a click, a link or printing.
  const more = document.getElementById("more-figures");
  const later = figures.filter((figure) => more?.contains(document.getElementById(figure.name)));
  let drawn = null;
  const drawLater = () => (drawn ??= drawAll(later).then(() => { more.dataset.drawn = "yes"; }));
  function openFor(hash) {
    const target = hash.length > 1 && document.getElementById(hash.slice(1));
    if (!target || !more?.contains(target)) return;
    more.open = true;
    drawLater().then(() => target.scrollIntoView());
  }

  saves(document.querySelector("a.file"), "application/toml", () => document.getElementById("repeat-file").textContent);
  window.addEventListener("load", async () => {
    await drawAll(figures.filter((figure) => !later.includes(figure)));
    document.body.dataset.drawn = "yes";
    more?.addEventListener("toggle", () => { if (more.open) drawLater(); });
    window.addEventListener("resize", fitAgain);
    window.addEventListener("hashchange", () => openFor(location.hash));
    for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", () => openFor(link.hash));
    openFor(location.hash);
  });
})();
