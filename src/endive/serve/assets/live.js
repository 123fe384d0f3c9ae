// The page shows the answer to the last question, or marks an earlier answer as outdated.
import { classesTable, comparisonTable, rankingTable } from "./answer.js";
import { draw, listenForCopies } from "./charts.js";
import { Form } from "./form.js";
import { element, readAddress, same, writeAddress } from "./state.js";

const $ = (id) => document.getElementById(id);
const TYPING_MS = 250;
const SLIDING_MS = 40;
const AGAIN_MS = 2000;
const tab = crypto.randomUUID();
let sent = 0; // requests of this tab: the server ignores those that arrive after a later one

const state = { tree: null, a: null };
let form = null;
let asked = 0; // number of the last question; events of earlier ones are ignored
let answered = null; // the configuration of the results
let asking = null;
let helping = null;
let timer = 0;
let toml = "";

// ---- requests to the server

class Refused extends Error {
  constructor(status, body) {
    super(body.error ?? "The server rejected the request.");
    this.status = status;
    this.problems = body.problems ?? [];
  }
}

async function request(path, body, signal) {
  let response;
  try {
    const options = body === undefined ? {} : { method: "POST", body: JSON.stringify({ tab, number: (sent += 1), ...body }), headers: { "Content-Type": "application/json" } };
    response = await fetch(path, { ...options, signal });
  } catch (error) {
    if (error.name !== "AbortError") gone("The server does not respond, so the results below are outdated. Run `endive serve` again and open the address that the command prints.");
    throw error;
  }
  if (response.status === 401) gone("The server was restarted. Open the address that `endive serve` printed. To keep this configuration, append the URL of this page from # on.");
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

// Calls `take` for each event. Ends when the stream does; an end before `done` is an error of the connection.
async function stream(path, body, signal, last, take) {
  const response = await request(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let ended = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const event = JSON.parse(line);
        ended ||= last(event);
        take(event);
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (!ended && !signal.aborted) {
    gone("The server closed the connection before the response was complete.");
    throw new Error("the response ended early");
  }
}

let waiting = 0;
function gone(text) {
  $("gone").hidden = false;
  $("gone").querySelector("span").textContent = text;
  busy(false, "no response", true);
  clearTimeout(waiting);
  waiting = setTimeout(again, AGAIN_MS);
}

async function again() {
  clearTimeout(waiting);
  try {
    const response = await fetch("/api/form");
    if (!response.ok) throw new Error("refused");
    $("gone").hidden = true;
    if (form === null) await begin();
    else ask();
  } catch {
    waiting = setTimeout(again, AGAIN_MS);
  }
}

// ---- asking

function change(tree, choiceKey, atOnce) {
  state.tree = tree;
  if (!same(started, tree)) $("start").value = "";
  form.show(tree);
  writeAddress(state);
  stale();
  asked += 1; // pending answers are outdated
  asking?.abort();
  clearTimeout(timer);
  timer = setTimeout(() => ask(choiceKey), atOnce ? SLIDING_MS : TYPING_MS);
}

function stale() {
  document.body.dataset.state = "asking";
  document.body.dataset.stale = String(answered === null || !same(answered, [state.tree, state.a, form.written]));
  $("results").setAttribute("aria-busy", "true");
}

async function ask(changed = null) {
  clearTimeout(timer);
  asking?.abort();
  asking = new AbortController();
  asked += 1;
  const mine = asked;
  const question = [structuredClone(state.tree), state.a, { ...form.written }];
  stale();
  busy(true, "simulating…");
  try {
    const body = { tree: state.tree, a: state.a, changed, written: form.written };
    await stream("/api/ask", body, asking.signal, (event) => ["done", "stopped", "failed"].includes(event.kind), (event) => {
      if (mine === asked) show(event, question);
    });
    if (mine === asked) document.body.dataset.state = "answered";
  } catch (error) {
    if (mine !== asked || error.name === "AbortError") return;
    if (error instanceof Refused && error.status === 422) refuse(error);
    else if (error instanceof Refused && error.status !== 401) busy(false, error.message);
    else if (!(error instanceof Refused) && $("gone").hidden) busy(false, `error in this page: ${error.message}`);
    document.body.dataset.state = "answered";
  }
}

function refuse(error) {
  const problems = error.problems.length ? error.problems : [{ key: "", message: error.message }];
  form.complain(problems);
  $("problems").hidden = false;
  $("problems").replaceChildren(
    element("p", { className: "lead", textContent: "The configuration is not valid:" }),
    element("ul", {}, ...problems.map(({ key, message }) => element("li", {}, key ? element("code", { textContent: key }) : null, ` ${message}`))),
  );
  busy(false, "not simulated", true);
  $("results").setAttribute("aria-busy", "false");
}

function show(event, question) {
  const take = { accepted, answer: showAnswer, figure: showFigure, comparison: showComparison, done: finished, failed: broken, stopped }[event.kind];
  take(event, question);
}

function accepted(event, question) {
  $("problems").hidden = true;
  form.complain([]);
  toml = event.toml;
  const left = Object.keys(form.written).length > 0 || event.left_out.length > 0;
  if (left) {
    // the server has parsed TOML values, or removed keys without effect
    form.written = {};
    state.tree = event.tree;
    question[0] = event.tree;
    question[2] = {};
    writeAddress(state);
    form.show(state.tree);
  }
  basis(event);
  warnings.configuration = [...event.left_out.map((key) => `${key} was removed, because the key has no effect in this configuration.`), ...event.warnings];
  if (event.compiling) busy(true, "simulating; the engine for this configuration is being compiled…");
}

const warnings = { configuration: [], answer: [] };
function showWarnings() {
  const all = [...warnings.answer, ...warnings.configuration];
  $("warnings").hidden = all.length === 0;
  $("warnings").replaceChildren(...all.map((text) => element("p", { textContent: text })));
}

function showAnswer(event, question) {
  answered = question;
  document.body.dataset.stale = "false";
  document.body.dataset.state = "refining";
  $("results").dataset.seeds = String(event.seeds.length);
  const sentence = together(event.sentence);
  if ($("sentence").textContent !== sentence) $("sentence").textContent = sentence;
  $("classes").replaceChildren(classesTable(event.classes));
  warnings.answer = event.warnings;
  showWarnings();
  const seeds = event.seeds.length === 1 ? "1 seed" : `${event.seeds.length} seeds`;
  const preview = event.preview ? "preview (shorter run); " : "";
  busy(!event.final, `${preview}${seeds}${event.final ? "" : ", refining…"}`);
  $("basis").querySelector("ul").replaceChildren(
    ...[`${seeds} (${event.seeds[0]}${event.seeds.length > 1 ? ` to ${event.seeds.at(-1)}` : ""}). ${event.window}`, "All intervals are 95% confidence intervals.", ...assumed].map((text) => element("li", { textContent: text })),
  );
  repeat(event.seeds.length);
  if (!state.a) $("against").hidden = true;
}

let assumed = [];
function basis(event) {
  assumed = event.assumed;
}

function repeat(seeds) {
  const code = state.tree.parts ? " --allow-code" : "";
  const lines = ["# live.toml: the text of “Copy as TOML”", `endive run live.toml --seed 0${code}`];
  if (seeds > 1) lines.push(`endive compare live.toml other.toml --seeds ${seeds}${code}`);
  $("basis").querySelector("pre").textContent = lines.join("\n");
}

// Keep a percentile, its number and its unit on one line.
const together = (text) => text.replace(/(\d) (ms|s|min)/g, "$1\u00a0$2").replace(/(p\d\d) (?=\d)/g, "$1\u00a0");

function showFigure(event) {
  return draw(event.name, event.figure);
}

function showComparison(event) {
  $("against").hidden = false;
  $("comparison").replaceChildren(comparisonTable(event));
}

function finished() {
  busy(false, $("status").querySelector(".text").textContent.replace(", refining…", ""));
  $("results").setAttribute("aria-busy", "false");
}

function broken(event) {
  $("problems").hidden = false;
  $("problems").replaceChildren(element("p", { className: "lead", textContent: event.error }));
  busy(false, "not simulated");
}

// This page sent no other question, so the server ended.
function stopped() {
  gone("The server closed the connection before the response was complete.");
}

function busy(working, text, wrong = false) {
  $("status").dataset.busy = String(working);
  $("status").dataset.wrong = String(wrong);
  if ($("status").querySelector(".text").textContent !== text) $("status").querySelector(".text").textContent = text;
}

// ---- rank changes

async function help() {
  helping?.abort();
  helping = new AbortController();
  const mine = helping;
  const of = structuredClone(state.tree);
  const [metric, ...cls] = $("goal").value.split("|");
  const goal = metric ? { metric, workload_class: cls.join("|") || "all" } : {};
  const place = $("ranking");
  place.replaceChildren(element("p", { className: "quiet", textContent: "Listing changes…" }));
  $("help").disabled = true;
  try {
    await stream("/api/help", { tree: of, ...goal }, mine.signal, (event) => event.kind === "failed" || (event.kind === "ranking" && event.final), (event) => {
      if (mine !== helping) return;
      if (event.kind === "changes") place.replaceChildren(element("p", { className: "quiet", textContent: `Simulating ${event.changes.length} changes…` }), element("progress", { max: 1, value: 0, "aria-label": "Changes simulated" }));
      if (event.kind === "progress") place.querySelector("progress")?.setAttribute("value", event.done / event.of);
      if (event.kind === "failed") place.replaceChildren(element("p", { textContent: event.error }));
      if (event.kind === "ranking") {
        place.replaceChildren(rankingTable(event, use));
        if (!same(of, state.tree)) outdated();
        place.dataset.final = String(event.final);
      }
    });
  } catch (error) {
    if (error instanceof Refused) place.replaceChildren(element("p", { textContent: error.message }));
  } finally {
    if (mine === helping) $("help").disabled = false;
  }
}

function outdated() {
  const place = $("ranking");
  if (place.querySelector("table") && !place.querySelector(".outdated")) place.prepend(element("p", { className: "outdated", textContent: "This ranking is for an earlier configuration. Rank the changes again." }));
}

// Applies a change; the current configuration becomes A.
function use(tree) {
  state.a = state.tree;
  pinned();
  change(tree, null, true);
  outdated();
  $("answer").focus();
}

// ---- comparison of A and B

function pinned() {
  $("pin").textContent = state.a ? "Replace A" : "Pin as A";
  $("pin").setAttribute("aria-pressed", String(Boolean(state.a)));
  if (!state.a) {
    $("against").hidden = true;
    $("comparison").replaceChildren();
  } else {
    $("against").hidden = false;
    $("comparison").replaceChildren(element("p", { className: "quiet", textContent: "B is the configuration in the form. Change a setting of B to compare B with A." }));
  }
}

// ---- files

function name(title, about, button) {
  const dialog = $("naming");
  dialog.querySelector("h2").textContent = title;
  dialog.querySelector(".about").textContent = about;
  dialog.querySelector(".error").textContent = "";
  dialog.querySelector("[value=ok]").textContent = button;
  $("name").value ||= "live";
  dialog.showModal();
  $("name").select();
  return dialog;
}

function onName(work) {
  const dialog = $("naming");
  const inner = dialog.querySelector("form");
  inner.onsubmit = async (event) => {
    event.preventDefault();
    try {
      await work($("name").value.trim());
      dialog.close();
    } catch (error) {
      dialog.querySelector(".error").textContent = error.message;
    }
  };
}

function save() {
  name("Save as study", "Writes a sweep over multiples of the current load to the working directory of `endive serve`.", "Save");
  onName(async (chosen) => {
    const found = await (await request("/api/study", { tree: state.tree, name: chosen })).json();
    busy(false, `saved as ${found.file}; run it with: ${found.commands[0]}`);
  });
}

function report() {
  name("Open report", "Saves the study, runs it on Spark in the background (about 1 min), and links to its report.", "Run");
  onName(async (chosen) => follow(await (await request("/api/report", { tree: state.tree, name: chosen })).json()));
}

async function follow(found) {
  const place = $("status").querySelector(".report") ?? $("status").appendChild(element("span", { className: "report" }));
  for (;;) {
    if (found.state === "done") {
      place.replaceChildren(element("a", { href: `/report/${found.name}`, target: "_blank", textContent: `Open report ${found.name}` }));
      return;
    }
    place.textContent = found.state === "failed" ? `The report failed: ${found.line}` : `Report ${found.name}: ${found.line}`;
    if (found.state === "failed") return;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    found = await (await request(`/api/report/${found.name}`)).json();
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(toml);
    $("copy").textContent = "Copied";
    setTimeout(() => { $("copy").textContent = "Copy as TOML"; }, 1500);
  } catch {
    $("text").querySelector("textarea").value = toml;
    $("text").showModal();
    $("text").querySelector("textarea").select();
  }
}

// ---- start

let started = null; // the preset, unchanged
async function startFrom(chosen) {
  asked += 1; // pending answers are outdated
  const mine = asked;
  asking?.abort();
  clearTimeout(timer);
  stale();
  document.body.dataset.stale = "true";
  let tree;
  try {
    ({ tree } = await (await request(`/api/starts/${encodeURIComponent(chosen)}`)).json());
  } catch (error) {
    if (mine !== asked) return;
    busy(false, error.message);
    document.body.dataset.state = "answered";
    return;
  }
  if (mine !== asked) return; // the form was changed meanwhile
  started = tree;
  form.written = {};
  form.removed = {};
  $("ranking").replaceChildren();
  change(tree, null, true);
}

function fillStarts(starts) {
  const groups = [...new Set(starts.map((start) => start.group))];
  $("start").replaceChildren(
    element("option", { value: "", textContent: "custom", hidden: true }),
    ...groups.map((group) => element("optgroup", { label: group }, ...starts.filter((start) => start.group === group).map((start) => element("option", { value: start.name, textContent: start.title, title: start.about })))),
  );
}

function listen() {
  $("start").addEventListener("change", () => startFrom($("start").value));
  $("pin").addEventListener("click", () => { state.a = structuredClone(state.tree); pinned(); change(state.tree, null, true); });
  $("unpin").addEventListener("click", () => { state.a = null; pinned(); change(state.tree, null, true); $("pin").focus(); });
  $("back").addEventListener("click", () => change(state.a, null, true));
  $("copy").addEventListener("click", copy);
  listenForCopies();
  $("save").addEventListener("click", save);
  $("report").addEventListener("click", report);
  $("help").addEventListener("click", help);
  $("gone").querySelector("button").addEventListener("click", again);
  $("naming").querySelector("[value=cancel]").addEventListener("click", () => $("naming").close());
  $("text").querySelector("button").addEventListener("click", () => $("text").close());
  $("form").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => {
    const found = readAddress();
    if (!found || same(found, state)) return;
    state.a = found.a ?? null;
    pinned();
    change(found.tree, null, true);
  });
}

function fillGoals(goals) {
  for (const { value, label } of goals) $("goal").append(element("option", { value: `${value}|all`, textContent: label }));
}

async function begin() {
  const description = await (await request("/api/form")).json();
  form = new Form(description, change);
  fillStarts(description.starts);
  fillGoals(description.goals);
  const found = readAddress();
  if (found) {
    state.a = found.a ?? null;
    state.tree = found.tree;
  } else {
    const { tree } = await (await request(`/api/starts/${encodeURIComponent(description.starts[0].name)}`)).json();
    state.tree = tree;
    started = tree;
    $("start").value = description.starts[0].name;
  }
  pinned();
  form.show(state.tree);
  writeAddress(state);
  await ask();
}

listen();
begin().catch((error) => { if ($("gone").hidden) busy(false, error.message); });
