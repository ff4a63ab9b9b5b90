// The what-if page: shows a row as a form, sends what is edited and asked to the server of this machine, and shows
// what comes back. Whatever is shown is put there as text; only the card is HTML, which the server has escaped.

const MILLISECONDS_STILL = 120; // after a key or a move of a slider, before the model is asked
const MOST_BARS = 8;

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value === "boolean") made[name] = value;
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const part = (name) => document.querySelector(`[data-part="${name}"]`);
const known = JSON.parse(document.getElementById("what-if").textContent);
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
const rounded = (number) => Number(number.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 });

// A tab keeps its name, and so its history, when the page is loaded anew.
const tab = (() => {
  const kept = sessionStorage.getItem("what-if tab") ?? crypto.randomUUID().replaceAll("-", "");
  sessionStorage.setItem("what-if tab", kept);
  return kept;
})();

let row = null; // as the server gave it
let edits = {}; // cells in the place of its own, by feature
let limits = {}; // locks, ranges and directions, by feature; they stay when another row is chosen
let latest = { row: 0, predict: 0, explain: 0, find: 0 }; // of each kind of question only the last one counts
let lastPython = "";

// ---- The server.

// What stands wrong, by kind of question: an answer of one kind must not wipe off the complaint about another.
const problems = new Map();

function complain(kind, sentence) {
  problems.delete(kind);
  if (sentence !== null) problems.set(kind, sentence); // the newest comes last
  const told = [...problems.values()].at(-1);
  part("problem").hidden = told === undefined;
  part("problem").textContent = told ?? "";
}

async function asked(address, sent) {
  let answer;
  try {
    const options = sent === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(sent) };
    answer = await fetch(address, options);
  } catch {
    throw new Error("The server does not answer. Was it stopped? Its terminal tells.");
  }
  if (answer.ok) return answer.json();
  if ((answer.headers.get("content-type") ?? "").startsWith("application/json")) throw new Error((await answer.json()).error);
  throw new Error(await answer.text());
}

// Asks, unless a later question of the same kind was put in the meantime: null then, and where something is wrong.
async function latestOf(kind, address, sent) {
  const mine = ++latest[kind];
  try {
    const told = await asked(address, sent);
    if (mine !== latest[kind]) return null;
    complain(kind, null);
    return told;
  } catch (error) {
    if (mine === latest[kind]) complain(kind, error.message);
    return null;
  }
}

// ---- Choosing a row.

let typing; // the wait for the next key of a search
async function find() {
  const text = document.getElementById("search").value;
  const found = await latestOf("find", `rows?search=${encodeURIComponent(text)}`);
  if (found === null) return;
  const box = document.getElementById("matches");
  const lines = found.rows.map((one) =>
    make("button", { type: "button", onclick: () => choose(one.row) }, make("b", {}, one.name), make("span", { "data-row": one.row }), make("span", { class: "told" }, one.told)),
  );
  const more = found.total > lines.length ? make("p", { class: "caption" }, `${lines.length} of ${found.total.toLocaleString("en")} rows; say more to see others.`) : null;
  box.replaceChildren(...(lines.length ? lines : [make("p", { class: "caption" }, "No such row.")]), ...(more ? [more] : []));
  box.hidden = false;
  const positions = found.rows.map((one) => one.row);
  const mine = latest.find;
  const answers = positions.length ? await asked("answers", positions).catch(() => []) : []; // without them the list is of use too
  if (mine !== latest.find) return;
  answers.forEach((answer, at) => (box.querySelector(`[data-row="${positions[at]}"]`).textContent = answer));
}

async function choose(position) {
  clearTimeout(typing); // a search that is under way would open the list again
  latest.find++;
  const told = await latestOf("row", `row/${position}`);
  if (told === null) return;
  row = told;
  edits = {};
  for (const kind of ["predict", "explain"]) { // of the row that was left
    latest[kind]++;
    complain(kind, null);
  }
  document.getElementById("matches").hidden = true;
  part("name").replaceChildren(row.name);
  part("carried").textContent = row.carried.map((one) => `${one.name}: ${one.shown}`).join(" · ");
  part("carried").hidden = row.carried.length === 0;
  part("found").hidden = true;
  part("waiting").textContent = "";
  showFields();
  showAnswer(row.answer, null, []);
}

// ---- The row as a form.

const isNumber = (field) => field.kind === "integer" || field.kind === "continuous";
const cellOf = (name) => (name in edits ? edits[name] : row.cells[name].cell);
const wordsOf = (field, cell) => {
  if (cell === null) return row.cells[field.name].foreign ? row.cells[field.name].shown : "missing";
  if (isNumber(field)) return rounded(cell);
  return field.categories.find((one) => one.value === cell)?.words ?? cell;
};

function showFields() {
  part("fields").replaceChildren(...known.fields.map((field, at) => fieldRow(field, at)));
  showResets();
}

function showResets() {
  part("reset").hidden = part("as-edited").hidden = Object.keys(edits).length === 0;
  part("free").hidden = Object.keys(limits).length === 0;
}

function fieldRow(field, at) {
  const id = `field-${at}`;
  const own = row.cells[field.name];
  if (field.kind === "derived" || field.kind === "carried") {
    const why = field.kind === "derived" ? `= ${field.formula}` : "reaches the model as it is";
    return make("div", { class: "one", "data-feature": field.name },
      make("span", { class: "words" }, field.words),
      make("div", { class: "value single" }, make("output", {}, own.shown)),
      make("span", {}), make("div", { class: "under" }, make("span", {}, why)));
  }
  const locked = field.fixed || limits[field.name]?.locked === true;
  const box = make("div", { class: "one", "data-feature": field.name });
  const lock = field.fixed
    ? make("span", { class: "fixed", title: "The command that started this page says so." }, "fixed")
    : make("label", { class: "lock" }, make("input", { type: "checkbox", checked: locked, "aria-label": `lock ${field.words}`,
        onchange: (event) => limited(field, { locked: event.target.checked || undefined }, box) }), "lock");
  box.append(make("label", { for: id }, field.words), control(field, id, box), lock, underneath(field, box));
  dress(field, box);
  return box;
}

// The control with which a cell is edited.
function control(field, id, box) {
  const cell = cellOf(field.name);
  const own = row.cells[field.name];
  if (!isNumber(field)) {
    const options = field.categories.map((one) => make("option", { value: `=${one.value}`, selected: one.value === cell }, one.words));
    if (field.may_be_missing || (own.cell === null && !own.foreign)) options.unshift(make("option", { value: "", selected: cell === null && !own.foreign }, "missing"));
    if (own.foreign) options.unshift(make("option", { value: "own", selected: !(field.name in edits) }, `${own.shown} (in no training row)`));
    const select = make("select", { id, onchange: () => edited(field, select.value === "own" ? undefined : select.value === "" ? null : select.value.slice(1), box) }, ...options);
    return make("div", { class: "value single" }, select);
  }
  const step = field.step ?? "any";
  const number = make("input", { type: "number", id, step, value: cell ?? "", placeholder: cell === null ? "missing" : "" });
  const low = Math.min(field.low, cell ?? field.low), high = Math.max(field.high, cell ?? field.high);
  const slider = make("input", { type: "range", min: low, max: high, step: field.step ?? (high - low) / 200, value: cell ?? (low + high) / 2, "aria-label": `${field.words}, from ${rounded(low)} to ${rounded(high)}`, tabindex: -1 });
  number.addEventListener("input", () => {
    if (number.value === "" && !number.validity.badInput) return edited(field, field.may_be_missing || row.cells[field.name].cell === null ? null : undefined, box);
    if (Number.isFinite(number.valueAsNumber)) {
      slider.value = number.value;
      edited(field, number.valueAsNumber, box);
    }
  });
  slider.addEventListener("input", () => {
    number.value = slider.value;
    edited(field, Number(slider.value), box);
  });
  return make("div", { class: "value" }, number, slider);
}

// What is below a control: what the cell was, and how it may change.
function underneath(field, box) {
  const was = make("span", { class: "was" }, "");
  if (field.fixed) return make("div", { class: "under" }, was);
  const details = make("details", { class: "limit" }, make("summary", {}, "limit"));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(limitControls(field, box));
  });
  return make("div", { class: "under" }, was, details);
}

function limitControls(field, box) {
  const said = limits[field.name] ?? {};
  const controls = make("div", { class: "limits" });
  if (isNumber(field)) {
    for (const [end, words] of [["low", "from"], ["high", "to"]]) {
      const input = make("input", { type: "number", step: field.step ?? "any", value: said[end] ?? "", placeholder: rounded(field[end]), "aria-label": `${field.words} ${words}` });
      input.addEventListener("input", () => limited(field, { [end]: Number.isFinite(input.valueAsNumber) ? input.valueAsNumber : undefined }, box));
      controls.append(make("div", { class: "field" }, make("span", {}, words), input));
    }
  } else {
    const allowed = field.categories.filter((one) => one.allowed);
    const boxes = allowed.map((one) => make("input", { type: "checkbox", value: one.value, checked: said.categories?.includes(one.value) ?? true }));
    const tell = () => {
      const chosen = boxes.filter((one) => one.checked).map((one) => one.value);
      limited(field, { categories: chosen.length === allowed.length ? undefined : chosen }, box);
    };
    boxes.forEach((one, at) => {
      one.addEventListener("change", tell);
      controls.append(make("label", { class: "choice" }, one, allowed[at].words));
    });
  }
  if (field.ordered) {
    const choices = [["", "up or down"], ["up", "only up"], ["down", "only down"]].filter(([way]) => field.direction === null || way === "" || way === { increase: "up", decrease: "down" }[field.direction]);
    const names = field.direction === null ? choices : [["", { increase: "only up", decrease: "only down" }[field.direction]]];
    const select = make("select", { "aria-label": `direction of ${field.words}`, onchange: () => limited(field, { direction: select.value || undefined }, box) },
      ...names.map(([way, words]) => make("option", { value: way, selected: (said.direction ?? "") === way }, words)));
    controls.append(make("div", { class: "field" }, make("span", {}, "direction"), select));
  }
  return controls;
}

// How a field looks, given what is edited and limited.
function dress(field, box) {
  const said = limits[field.name] ?? {};
  const isEdited = field.name in edits;
  box.classList.toggle("edited", isEdited);
  box.classList.toggle("locked", said.locked === true || field.fixed);
  const was = box.querySelector(".was");
  const undo = () => { restore(field, box); };
  was.replaceChildren(...(isEdited ? [`was ${row.cells[field.name].shown} `, make("button", { type: "button", class: "plain", onclick: undo }, "undo")] : []));
  const details = box.querySelector(".limit");
  if (details === null) return;
  const told = [];
  if (said.low !== undefined || said.high !== undefined) told.push(`${said.low === undefined ? "up" : rounded(said.low)} to ${said.high === undefined ? "any" : rounded(said.high)}`);
  if (said.categories !== undefined) told.push(said.categories.length ? `only ${said.categories.map((one) => wordsOf(field, one)).join(", ")}` : "nothing chosen: lock it");
  if (said.direction !== undefined || field.direction) told.push(said.direction === "up" || field.direction === "increase" ? "only up" : "only down");
  details.hidden = said.locked === true;
  details.classList.toggle("said", told.length > 0);
  details.querySelector("summary").textContent = told.length ? `limit: ${told.join(", ")}` : "limit";
}

function restore(field, box) {
  delete edits[field.name];
  box.replaceWith(fieldRow(field, known.fields.indexOf(field)));
  showResets();
  predictSoon();
}

function edited(field, cell, box) {
  if (cell === undefined || (cell === row.cells[field.name].cell && !row.cells[field.name].foreign)) delete edits[field.name];
  else edits[field.name] = cell;
  dress(field, box);
  showResets();
  predictSoon();
}

function limited(field, change, box) {
  const said = { ...limits[field.name], ...change };
  for (const name of Object.keys(said)) if (said[name] === undefined) delete said[name];
  if (Object.keys(said).length) limits[field.name] = said;
  else delete limits[field.name];
  dress(field, box);
  showResets();
}

// ---- The model's answer.

let pause;
function predictSoon() {
  clearTimeout(pause);
  latest.predict++; // what is on its way is about another row by now
  pause = setTimeout(predict, MILLISECONDS_STILL);
}

async function predict() {
  if (row === null) return;
  const told = await latestOf("predict", "predict", { row: row.row, cells: edits, goal: goal(), tab });
  if (told === null) return;
  for (const [name, shown] of Object.entries(told.derived)) document.querySelector(`[data-feature="${CSS.escape(name)}"] output`).textContent = shown;
  showAnswer(told.answer, told.met, told.notes);
  showHistory();
}

function showAnswer(answer, met, notes) {
  const meter = part("meter");
  const before = row.answer;
  if (answer.probabilities !== null) {
    const order = answer.probabilities.map((one, at) => at);
    if (order.length > MOST_BARS) order.sort((a, b) => Math.max(answer.probabilities[b].probability, before.probabilities[b].probability) - Math.max(answer.probabilities[a].probability, before.probabilities[a].probability));
    meter.replaceChildren(make("span", { class: "says" }, "The model answers ", make("b", {}, answer.answer)), ...order.slice(0, MOST_BARS).flatMap((at) => bar(answer.probabilities[at], before.probabilities[at].probability, answer.answer)));
  } else {
    const moved = answer.number === null ? (answer.answer === before.answer ? "" : ` (was ${before.answer})`) : difference(answer.number - before.number, rounded);
    meter.replaceChildren(make("span", { class: "says" }, "The model answers"), make("div", { class: "whole" }, make("b", {}, answer.number === null ? answer.answer : rounded(answer.number)), make("span", { class: "moved" }, moved)));
  }
  part("name").querySelector(".met")?.remove();
  if (met !== null) part("name").append(make("span", { class: `met ${met ? "yes" : "no"}` }, met ? "the wanted answer" : "not yet the wanted answer"));
  part("notes").replaceChildren(...notes.map((note) => make("li", {}, note)));
  part("notes").hidden = notes.length === 0;
}

function bar(one, before, chosen) {
  const inner = make("i");
  inner.style.width = `${100 * one.probability}%`;
  const mark = make("b", { title: `for the row itself: ${percent(before)}` });
  mark.style.left = `${100 * before}%`;
  const own = one.answer === chosen;
  return [
    make("span", { class: own ? "own" : "" }, one.answer),
    make("div", { class: "bar" }, inner, mark),
    make("span", { class: own ? "own amount" : "amount" }, percent(one.probability), make("span", { class: "moved" }, difference(100 * (one.probability - before), (n) => n.toFixed(0)))),
  ];
}

const difference = (change, words) => (Math.abs(change) < 1e-9 || words(Math.abs(change)) === "0" ? "" : ` (${change > 0 ? "+" : "−"}${words(Math.abs(change))})`);

// ---- What is wanted.

const numberIn = (id) => {
  const value = document.getElementById(id).valueAsNumber;
  return Number.isFinite(value) ? value : null;
};

function goal() {
  if (known.classes !== null) {
    const label = document.getElementById("goal-label").value;
    const least = known.probabilities ? numberIn("min-probability") : null;
    const wanted = label === "" ? { kind: "flip" } : { kind: "to", label: label.slice(1) };
    return least === null ? wanted : { ...wanted, min_probability: least / 100 };
  }
  const kind = document.getElementById("goal-kind").value;
  if (kind === "between") return { kind, low: numberIn("goal-low"), high: numberIn("goal-high") };
  return { kind: "shift", delta: numberIn("goal-delta"), direction: kind };
}

function showWishes() {
  const classes = known.classes !== null;
  part("goal-of-classes").hidden = !classes;
  part("goal-probability").hidden = !classes || !known.probabilities;
  part("goal-of-numbers").hidden = classes;
  const select = document.getElementById("goal-label");
  if (classes) select.replaceChildren(make("option", { value: "" }, "another one"), ...known.classes.map((one) => make("option", { value: `=${one.value}`, selected: known.goal.label === one.value }, one.words)));
  if (known.goal.min_probability !== null) document.getElementById("min-probability").value = 100 * known.goal.min_probability;
  const kind = document.getElementById("goal-kind");
  if (known.goal.kind === "shift" || known.goal.kind === "between") kind.value = known.goal.direction ?? "between";
  for (const name of ["delta", "low", "high"]) document.getElementById(`goal-${name}`).value = known.goal[name] ?? "";
  const switchKind = () => {
    const between = kind.value === "between";
    part("goal-delta").hidden = classes || between;
    part("goal-low").hidden = part("goal-high").hidden = classes || !between;
  };
  kind.addEventListener("change", switchKind);
  switchKind();
  const most = document.getElementById("max-changes");
  most.max = known.features;
  most.value = known.most_changes;
  document.getElementById("plausible").value = known.plausible;
  part("wish").addEventListener("change", () => { if (Object.keys(edits).length) predictSoon(); });
}

async function ask(event) {
  event.preventDefault();
  if (row === null) return;
  const question = {
    row: row.row, cells: edits, features: limits, goal: goal(), n: numberIn("n") ?? 1, max_changes: numberIn("max-changes"),
    plausible: document.getElementById("plausible").value, tab,
  };
  part("waiting").textContent = "Asking the model …";
  part("ask").disabled = part("ask-too").disabled = true;
  // The first alternative is there long before several are: it is shown in the meantime, and stays the first.
  const first = question.n > 1 ? await latestOf("explain", "explain", { ...question, n: 1, keep: false }) : null;
  if (first !== null) {
    showFound(first);
    lookAt(event);
    part("waiting").textContent = "Looking for further alternatives …";
  }
  const told = question.n === 1 || first !== null ? await latestOf("explain", "explain", question) : null;
  if (told !== null) {
    showFound(told);
    if (first === null) lookAt(event);
    showHistory();
  }
  part("ask").disabled = part("ask-too").disabled = false;
  part("waiting").textContent = "";
}

// Who asks at the top of a phone does not see what comes at its bottom.
function lookAt(event) {
  if (event.submitter === part("ask-too")) document.querySelector(".found").scrollIntoView();
}

function showFound(told) {
  part("card").innerHTML = told.card;
  part("tries").replaceChildren(...told.alternatives.flatMap((one, at) => one.found && one.changes.length
    ? [make("button", { type: "button", onclick: () => tryOut(one) }, told.alternatives.length > 1 ? `Put alternative ${at + 1} into the form` : "Put it into the form")] : []));
  part("cost").textContent = `The model was asked about ${told.rows_queried} rows, in ${told.seconds.toFixed(2)} s.`;
  part("python").textContent = lastPython = told.python;
  part("found").dataset.alternatives = told.alternatives.length;
  part("found").hidden = false;
}

function tryOut(alternative) {
  for (const { feature, cell } of alternative.changes) {
    if (cell === row.cells[feature].cell) delete edits[feature];
    else edits[feature] = cell;
  }
  showFields();
  predictSoon();
}

// ---- What was tried.

async function showHistory() {
  const entries = await asked(`history?tab=${tab}`).catch(() => null);
  if (entries === null) return; // said where the answer itself is missing
  const box = part("history");
  const line = (one) => {
    const edits = Object.entries(one.edited).map(([name, cell]) => `${name} = ${cell}`).join(", ");
    if (one.kind === "tried") return `${one.row} with ${edits}: ${answerIn(one.after)}`;
    const found = one.alternatives.filter((slot) => slot.found);
    const changes = found.map((slot) => slot.changes.map((change) => `${change.label} ${change.from_label} → ${change.to_label}`).join(", ") || "nothing has to change");
    return `${one.row}${edits ? ` with ${edits}` : ""}: ${changes.length ? changes.join("; or ") : one.alternatives[0].status}`;
  };
  box.replaceChildren(...entries.toReversed().map((one) => make("li", { value: one.number }, make("b", {}, one.kind === "tried" ? "by hand " : "asked "), line(one))));
  part("nothing-tried").hidden = entries.length > 0;
  part("downloads").hidden = entries.length === 0;
}

const answerIn = (one) => (one.probability === null ? one.answer : `${one.answer} (${percent(one.probability)})`);

// ---- Everything together.

function start() {
  part("row-word").textContent = known.row_word === "Row" ? "number" : known.row_word;
  part("rules").replaceChildren(...(known.rules.length ? [make("p", { class: "caption" }, `Every alternative keeps: ${known.rules.join("; ")}.`)] : []));
  showWishes();
  const search = document.getElementById("search");
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(find, MILLISECONDS_STILL); });
  search.addEventListener("focus", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") document.querySelector("#matches button")?.click();
    if (event.key === "Escape") document.getElementById("matches").hidden = true;
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".choose")) document.getElementById("matches").hidden = true; });
  const beside = (by) => choose(row === null ? 0 : (row.row + by + known.rows) % known.rows);
  part("previous").addEventListener("click", () => beside(-1));
  part("next").addEventListener("click", () => beside(1));
  part("random").addEventListener("click", () => choose(Math.floor(Math.random() * known.rows)));
  part("reset").addEventListener("click", () => { edits = {}; showFields(); predictSoon(); });
  part("free").addEventListener("click", () => { limits = {}; showFields(); });
  part("wish").addEventListener("submit", ask);
  part("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(`${known.setup}\n\n${lastPython}\n`);
    part("copy").textContent = "Copied";
  });
  part("download-csv").href = `history.csv?tab=${tab}`;
  part("download-json").href = `history.json?tab=${tab}`;
  showHistory();
  choose(0);
}

start();
