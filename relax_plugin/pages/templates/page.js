"use strict";

// Sorting: a button in each heading. Cells without a number stay at the end, whichever way the others go.
function sortBy(table, column, button) {
  const heading = button.parentElement;
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => row.cells[column].dataset.value;
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === undefined && y === undefined) {
      return a.cells[column].textContent.localeCompare(b.cells[column].textContent);
    }
    return Number(x) - Number(y);
  };
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const empty = rows.filter((row) => key(row) === "");
  const full = rows.filter((row) => key(row) !== "").sort(compare);
  body.append(...(down ? full.reverse() : full), ...empty);
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sortBy(table, column, button));
  });
}

// A box that has more than it shows says so: its edge fades, and a line above it tells which way to go.
function hint(box) {
  const told = element("p", "", "more");
  told.setAttribute("aria-hidden", "true");
  box.before(told);
  const update = () => {
    const hidden = box.scrollWidth - box.clientWidth;
    const [left, right] = [box.scrollLeft > 2, box.scrollLeft < hidden - 2];
    box.classList.toggle("more-left", left);
    box.classList.toggle("more-right", right);
    told.textContent = hidden > 2 ? (right ? "scroll sideways for more →" : "← scroll back") : "";
  };
  box.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(box);
  update();
}

// What is folded opens where a link leads into it, and for printing.
function openAround(target) {
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
}

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) openAround(target);
}

// The explorer: everything shown is text from the data, put in place as text.
function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function fill(select, names) {
  const kept = select.value;
  select.replaceChildren(...names.map((name, i) => new Option(name, i)));
  if (kept !== "" && Number(kept) < names.length) select.value = kept;
}

function line(cells, className) {
  const row = element("tr", undefined, className);
  cells.forEach((text, i) => row.append(element(i ? "td" : "th", text)));
  row.cells[0].scope = "row";
  return row;
}

function percent(share) {
  return `${(100 * share).toFixed(1)}%`;
}

function explorer(root) {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const [tasks, queries, methods] = ["task", "query", "method"].map((name) => part(name));

  function showAnswers(result) {
    const [before, after] = result.probability;
    const box = part("answers");
    box.replaceChildren();
    if (!result.valid) return;
    if (before === null || after === null) {
      box.append(element("span", `answer: ${result.before} → ${result.after}`));
      return;
    }
    for (const [when, share] of [["before", before], ["after", after]]) {
      const bar = element("span", undefined, "bar");
      bar.append(element("i"));
      bar.firstChild.style.width = percent(share);
      box.append(element("span", `probability of ${result.after} ${when}`), bar, element("span", percent(share)));
    }
  }

  function showChanges(task, position, result) {
    const changes = new Map(result.changes.map(([feature, to, way]) => [feature, [to, way]]));
    const order = task.features.map((_, i) => i).sort((a, b) => changes.has(b) - changes.has(a) || a - b);
    const query = task.queries[position];
    part("changes").replaceChildren(
      ...order.map((i) => {
        if (!changes.has(i)) return line([task.features[i], query[i], result.valid ? "=" : ""], "same");
        const [to, way] = changes.get(i);
        return line([task.features[i], query[i], `${way} ${to}`], "changed");
      }),
    );
  }

  function showMethods(task, position, chosen) {
    const shown = (number) => (number === null ? "–" : String(number));
    part("methods").replaceChildren(
      ...Object.entries(task.results).map(([method, results]) => {
        const result = results[position];
        const cells = result
          ? [result.valid ? "yes" : "no", shown(result.sparsity), shown(result.proximity), shown(result.rows)]
          : ["not asked", "–", "–", "–"];
        return line([method, ...cells], method === chosen ? "chosen" : "");
      }),
    );
  }

  function show() {
    const task = data[Number(tasks.value)];
    const position = Number(queries.value);
    const method = Object.keys(task.results)[Number(methods.value)];
    const result = task.results[method][position];
    part("title").textContent = `${task.task}, seed ${task.seed}, query ${task.instances[position]}: ${method}`;
    const unasked = { valid: false, sentence: "This method was not asked for this query.", changes: [], probability: [null, null] };
    part("sentence").textContent = (result || unasked).sentence;
    part("sentence").classList.toggle("unsolved", !(result || unasked).valid);
    showAnswers(result || unasked);
    showChanges(task, position, result || unasked);
    showMethods(task, position, method);
  }

  function showTask() {
    const task = data[Number(tasks.value)];
    fill(queries, task.instances.map(String));
    queries.value = String(task.typical);
    fill(methods, Object.keys(task.results));
    const all = task.total === task.instances.length;
    part("limit").textContent = all
      ? `All ${task.total} queries of seed ${task.seed}.`
      : `The first ${task.instances.length} of ${task.total} queries of seed ${task.seed}.`;
    part("limit").textContent += ` Query ${task.instances[task.typical]} is shown first, a typical one: the median by the features that the methods change.`;
    show();
  }

  function step(by) {
    const count = queries.options.length;
    queries.value = String((Number(queries.value) + by + count) % count);
    show();
  }

  fill(tasks, data.map((task) => task.task));
  tasks.addEventListener("change", showTask);
  queries.addEventListener("change", show);
  methods.addEventListener("change", show);
  part("previous").addEventListener("click", () => step(-1));
  part("next").addEventListener("click", () => step(1));
  root.hidden = false;
  showTask();
}

for (const box of document.querySelectorAll(".scroll")) hint(box);
for (const menu of document.querySelectorAll("nav details.menu")) {
  menu.addEventListener("click", (event) => {
    if (event.target.tagName === "A") menu.open = false;
  });
}
addEventListener("hashchange", openTarget);
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("main details:not([open])")) {
    folded.open = true;
    folded.dataset.printed = "";
  }
});
addEventListener("afterprint", () => {
  for (const folded of document.querySelectorAll("details[data-printed]")) {
    folded.open = false;
    delete folded.dataset.printed;
  }
});
openTarget();
const root = document.getElementById("explorer-tool");
if (root) explorer(root);
