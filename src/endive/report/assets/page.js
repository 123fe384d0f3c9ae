"use strict";
// Draws the figures of the page from the data in it. Nothing is fetched.
(() => {
  const ALL = "all";
  const MOST_ROWS = 500;
  const ONLY_ERRORS = 1;
  const touch = matchMedia("(pointer: coarse)").matches;
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

  // Rows that pass: those of the chosen value of each filter, and of series that are not switched off.
  const valueOf = (filter, row) => (filter.of ? filter.of[row[filter.column]] : String(row[filter.column]));
  const passes = (state, row, but) =>
    state.filters.every((filter, place) => place === but || filter.chosen === null || valueOf(filter, row) === filter.chosen);
  const shown = (figure, state) =>
    state.rows.filter((row) => passes(state, row) && !(figure.series && state.hidden.has(row[figure.series.column])));

  const inFacet = (figure, rows, facet) => (facet === null ? rows : rows.filter((row) => String(row[figure.facet.column]) === facet));

  // Where fingers scroll the page, a drag must not move the chart.
  function withoutZoom(spec) {
    if (spec.params) spec.params = spec.params.filter((parameter) => parameter.name !== "zoom");
    (spec.layer ?? []).forEach(withoutZoom);
  }

  // How far bars of parts reach: the sums of their rows, and the longest interval beyond.
  function reaches(rows, by, [column, , high]) {
    const found = new Map();
    for (const row of rows) {
      const key = JSON.stringify(by.map((name) => row[name]));
      const [sum, beyond] = found.get(key) ?? [0, 0];
      found.set(key, [sum + (row[column] ?? 0), Math.max(beyond, (row[high] ?? 0) - (row[column] ?? 0))]);
    }
    return [...found.values()].map(([sum, beyond]) => ({ [column]: sum + beyond }));
  }

  function domain(rows, columns, scale) {
    const values = rows.flatMap((row) => columns.map((column) => row[column])).filter((v) => v !== null && (scale !== "log" || v > 0));
    let low = Math.min(...values), high = Math.max(...values);
    if (!values.length) return scale === "log" ? [1, 10] : [0, 1];
    if (scale === "linear") low = Math.min(low, 0);
    return low === high ? (scale === "log" ? [low / 2, high * 2] : [low, high + 1]) : [low, high];
  }

  async function update(figure, state) {
    const rows = shown(figure, state);
    state.section.querySelector(".none").hidden = rows.length > 0;
    for (const [facet, view, panel] of state.views) {
      const own = inFacet(figure, rows, facet);
      panel.hidden = facet !== null && !own.length;
      for (const [name, scale, columns] of figure.shared) {
        const spanned = figure.stacked ? reaches(rows, figure.stacked, columns) : rows;
        view.signal(name, domain(spanned, figure.stacked ? [columns[0]] : columns, scale));
      }
      await view.data("rows", own).runAsync();
    }
    fillTable(figure, state, rows);
  }

  function addFilters(figure, state, controls) {
    const selects = figure.filters.map((filter, place) => {
      const options = filter.values.includes(ALL) ? filter.values : [null, ...filter.values];
      state.filters.push({ ...filter, chosen: options.includes(ALL) ? ALL : null });
      const select = element("select", { id: `${figure.name}-filter-${place}` });
      for (const value of options) select.append(element("option", { value: value ?? "", textContent: value === null ? "every" : filter.words[value] }));
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
    if (!figure.series || figure.series.names.length < 2) return;
    const legend = element("div", { className: "legend" });
    if (figure.series.title) legend.append(element("span", { className: "legend-title", textContent: figure.series.title }));
    for (const [name, colour] of figure.series.names) {
      const swatch = element("i");
      swatch.style.background = colour;
      const button = element("button", { type: "button", title: "Show or hide" }, swatch, name);
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
      rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length} rows; the CSV file has all.` : "";
  }

  const quoted = (value) => (value === null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  function csv(figure, state) {
    const names = figure.columns.map((column) => column.name);
    return [names, ...state.rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  }

  function addDownload(figure, state) {
    const link = state.section.querySelector("a.download");
    link.addEventListener("click", () => {
      URL.revokeObjectURL(link.href);
      link.href = URL.createObjectURL(new Blob([csv(figure, state)], { type: "text/csv" }));
    });
  }

  async function draw(figure) {
    const section = document.getElementById(figure.name);
    const state = { rows: rowsOf(figure.rows), filters: [], hidden: new Set(), views: [], section };
    const controls = section.querySelector(".controls");
    addFilters(figure, state, controls);
    addLegend(figure, state, controls);
    addDownload(figure, state);
    section.querySelector("details.table").addEventListener("toggle", () => fillTable(figure, state, shown(figure, state)));
    const charts = section.querySelector(".charts");
    const facets = figure.facet ? figure.facet.values : [null];
    if (facets.length > 1) charts.classList.add([3, 5, 6, 9].includes(facets.length) ? "by-three" : "by-two");
    for (const facet of facets) {
      const place = element("div", { className: "chart" });
      const panel = facet === null ? place : element("div", {}, element("h4", { textContent: figure.facet.words[facet] }), place);
      charts.append(panel);
      const spec = structuredClone(figure.spec);
      if (touch) withoutZoom(spec);
      spec.datasets = { ...spec.datasets, rows: inFacet(figure, shown(figure, state), facet) };
      const embedded = await vegaEmbed(place, spec, { renderer: "svg", actions: false, logLevel: ONLY_ERRORS });
      state.views.push([facet, embedded.view, panel]);
    }
    await update(figure, state);
    section.dataset.drawn = "yes";
  }

  window.addEventListener("load", async () => {
    for (const figure of figures) {
      try {
        await draw(figure);
      } catch (error) {
        document.getElementById(figure.name).querySelector(".charts").textContent = `This chart could not be drawn: ${error.message}`;
        console.error(figure.name, error);
      }
    }
    document.body.dataset.drawn = "yes";
  });
})();
