// The playground: looks up what was computed in advance, that is all answers, steps, rewards, Q and v. Here the states
// of a path are put together from its steps, the sentence is worded, and it is worked out where things are drawn.

// A packed column as a function of the line; null where there is no number. What is stored are the steps from one
// number to the next: typed arrays add them up as they were taken apart, around the corner where they are too far.
async function column({ unit, bytes, data }) {
  const text = atob(data);
  const packed = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const Numbers = { 1: Int8Array, 2: Int16Array, 4: Int32Array }[bytes];
  const numbers = new Numbers(await new Response(stream).arrayBuffer());
  for (let line = 1; line < numbers.length; line++) numbers[line] += numbers[line - 1];
  const missing = -(2 ** (8 * bytes - 1));
  const read = (line) => (numbers[line] === missing ? null : numbers[line] * unit);
  read.count = numbers.length;
  return read;
}

async function table(packed) {
  const columns = Object.entries(packed).map(async ([name, values]) => [name, await column(values)]);
  return Object.fromEntries(await Promise.all(columns));
}

async function tables(packed) {
  const made = Object.entries(packed).map(async ([name, columns]) => [name, await table(columns)]);
  return Object.fromEntries(await Promise.all(made));
}

// The steps of every point: lines first[point] to first[point + 1] of the table.
function firstLines(steps, points) {
  const first = new Array(points + 1).fill(steps.point.count);
  for (let line = steps.point.count - 1; line >= 0; line--) first[steps.point(line)] = line;
  return first;
}

function drawing(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function signed(number) {
  return number === null ? "–" : (number < 0 ? "−" : "") + Math.abs(number).toFixed(3);
}

async function playground(root) {
  const data = JSON.parse(document.getElementById("play-data").textContent);
  const [across, up] = data.features;
  const size = [across.values.length, up.values.length];
  const points = size[0] * size[1];
  const [answers, steps, marks, begin] = await Promise.all([tables(data.answers), tables(data.steps), table(data.marks), table(data.start)]);
  for (const made of Object.values(steps)) made.first = firstLines(made, points);
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const plane = document.getElementById("plane");
  const sliders = [part("slider-0"), part("slider-1")];
  const training = part("training");
  const holds = [part("hold-0"), part("hold-1")];
  const label = plane.getAttribute("aria-label");
  const largest = {};
  let scale = null; // of the plane, in pixels; made anew when its width changes
  let moving = null; // what is drawn anew at every step
  let place = [Math.floor(data.first / size[1]), data.first % size[1]];

  const widthNow = () => Math.floor(plane.getBoundingClientRect().width);
  const pointAt = ([i, j]) => i * size[1] + j;
  // Which tables are shown: of the agent after so much training, with so many features held.
  const momentNow = () => data.moments[Number(training.value)];
  const heldNow = () => data.features.filter((_, i) => holds[i].checked).map(({ name }) => name);
  const keyed = (...words) => words.concat(heldNow()).join(" ");
  const shown = (feature, value) => value.toFixed(data.features[feature].decimals);

  // The plane: shading, boundary and marks, which stay, and a layer for what moves.

  function layOut() {
    const width = widthNow();
    const height = Math.round(Math.min(0.78 * width, 560));
    const box = { left: 44, right: width - 14, top: 12, bottom: height - 42 };
    const along = (values, from, to) => (value) =>
      from + ((value - values[0]) / (values[values.length - 1] - values[0])) * (to - from);
    // Half a cell more on each side: every point of the grid has its cell.
    const cell = [(box.right - box.left) / size[0], (box.bottom - box.top) / size[1]];
    scale = {
      ...box, width, height, cell,
      x: along(across.values, box.left + cell[0] / 2, box.right - cell[0] / 2),
      y: along(up.values, box.bottom - cell[1] / 2, box.top + cell[1] / 2),
    };
    plane.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plane.style.height = `${height}px`;
    moving = drawing("g", {});
    plane.replaceChildren(...shading(), boundary(), ...trainingMarks(), ...axes(), moving);
  }

  // What the model answers at the points themselves.
  function start(point) {
    return { answer: begin.answer(point), sure: 1 - begin.probability(point) };
  }

  function shading() {
    const levels = new Map();
    for (let j = 0; j < size[1]; j++) {
      for (let i = 0; i < size[0]; i++) {
        const { answer, sure } = start(pointAt([i, j]));
        const key = `${answer} ${Math.max(0, Math.round(10 * (2 * sure - 1)))}`;
        const [x, y] = [scale.left + i * scale.cell[0], scale.bottom - (j + 1) * scale.cell[1]];
        const square = `M${x.toFixed(2)} ${y.toFixed(2)}h${scale.cell[0].toFixed(2)}v${scale.cell[1].toFixed(2)}h${(-scale.cell[0]).toFixed(2)}z`;
        levels.set(key, (levels.get(key) || "") + square);
      }
    }
    return [...levels].map(([key, d]) => {
      const [answer, level] = key.split(" ");
      return drawing("path", { d, class: `class-${answer}`, "fill-opacity": 0.05 * level, "shape-rendering": "crispEdges" });
    });
  }

  function boundary() {
    let d = "";
    const answer = (i, j) => start(pointAt([i, j])).answer;
    for (let i = 0; i < size[0]; i++) {
      for (let j = 0; j < size[1]; j++) {
        const [x, y] = [scale.left + (i + 1) * scale.cell[0], scale.bottom - (j + 1) * scale.cell[1]];
        if (i + 1 < size[0] && answer(i, j) !== answer(i + 1, j)) d += `M${x.toFixed(1)} ${y.toFixed(1)}v${scale.cell[1].toFixed(1)}`;
        if (j + 1 < size[1] && answer(i, j) !== answer(i, j + 1)) d += `M${x.toFixed(1)} ${y.toFixed(1)}h${(-scale.cell[0]).toFixed(1)}`;
      }
    }
    return drawing("path", { d, class: "boundary" });
  }

  // Triangles and circles, so that the classes can be told apart without colours.
  function mark(answer, x, y, r) {
    return answer === 0
      ? `M${x} ${y - r}l${r} ${1.75 * r}h${-2 * r}z`
      : `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  }

  function trainingMarks() {
    return [0, 1].map((answer) => {
      let d = "";
      for (let line = 0; line < marks.answer.count; line++) {
        if (marks.answer(line) !== answer) continue;
        d += mark(answer, scale.x(marks[across.name](line)).toFixed(1) * 1, scale.y(marks[up.name](line)).toFixed(1) * 1, 2.2);
      }
      return drawing("path", { d, class: `mark class-${answer}` });
    });
  }

  function axes() {
    const { left, right, top, bottom } = scale;
    const made = [drawing("rect", { x: left, y: top, width: right - left, height: bottom - top, class: "frame" })];
    const ticks = (feature) => feature.values.filter((value) => value % 20 === 0 || (feature === up && value % 10 === 0));
    for (const value of ticks(across)) {
      made.push(drawing("text", { x: scale.x(value), y: bottom + 16, "text-anchor": "middle" }, value));
    }
    for (const value of ticks(up)) {
      made.push(drawing("text", { x: left - 7, y: scale.y(value) + 4, "text-anchor": "end" }, value));
    }
    made.push(drawing("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, `${across.name} (${across.unit})`));
    const turned = `translate(14 ${(top + bottom) / 2}) rotate(-90)`;
    made.push(drawing("text", { transform: turned, "text-anchor": "middle" }, `${up.name} (${up.unit})`));
    return made;
  }

  function arrow(from, to, name, head) {
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
    if (length < 1) return [];
    const [dx, dy] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
    const back = Math.min(head, length);
    const neck = [to[0] - dx * back, to[1] - dy * back];
    const wing = 0.45 * back;
    const d = `M${to[0]} ${to[1]}L${neck[0] - dy * wing} ${neck[1] + dx * wing}L${neck[0] + dy * wing} ${neck[1] - dx * wing}z`;
    return [
      drawing("path", { d: `M${from[0]} ${from[1]}L${neck[0]} ${neck[1]}`, class: `${name}-line` }),
      drawing("path", { d, class: `${name}-head` }),
    ];
  }

  function drawPath(now, states, greedy) {
    const pixel = ([x, y]) => [scale.x(x), scale.y(y)];
    const made = [];
    const way = states.map(({ values }) => pixel(values));
    const home = way[0];
    if (greedy?.found(now)) {
      const end = pixel([greedy[across.name](now), greedy[up.name](now)]);
      made.push(drawing("path", { d: `M${home[0]} ${home[1]}L${end[0]} ${end[1]}`, class: "greedy-line" }));
      made.push(drawing("path", { d: `M${end[0]} ${end[1] - 7}l7 7l-7 7l-7-7z`, class: "greedy-head" }));
    }
    const met = states[states.length - 1].met;
    for (let i = 1; i < way.length; i++) {
      const [from, to] = [way[i - 1], way[i]];
      made.push(...arrow(from, to, met ? "path" : "own", met ? 13 : 8));
      const flat = from[1] === to[1];
      const middle = [(from[0] + to[0]) / 2 + (flat ? 0 : 8), (from[1] + to[1]) / 2 + (flat ? -8 : 4)];
      made.push(drawing("text", { x: middle[0], y: middle[1], class: "number", "text-anchor": flat ? "middle" : "start" }, i));
    }
    if (way.length > 1 && !met) {
      const [x, y] = way[way.length - 1];
      made.push(drawing("path", { d: `M${x - 6} ${y - 6}l12 12m0-12l-12 12`, class: "failed" }));
    }
    made.push(drawing("circle", { cx: home[0], cy: home[1], r: 17, class: "halo" }));
    made.push(drawing("circle", { cx: home[0], cy: home[1], r: 7.5, class: "point" }));
    moving.replaceChildren(...made);
  }

  // The tables beside it.

  // The states of a path: values, answer, and the line of the step that led there and of the one that leaves.
  function statesOf(path, now) {
    const made = [{ values: [across.values[place[0]], up.values[place[1]]], answer: begin.answer(now), probability: begin.probability(now) }];
    for (let line = path ? path.first[now] : 0; path && line < path.first[now + 1]; line++) {
      const { feature } = data.actions[path.action(line)];
      const values = [...made[made.length - 1].values];
      values[feature] = path.to(line);
      made[made.length - 1].leaves = line;
      made.push({ values, feature, led: line, answer: path["answer after"](line), probability: path["probability after"](line), met: path.goal(line) === 1 });
    }
    return made;
  }

  // What the answer took comes first, then the answer.
  function showSentence(now, states, own, greedy) {
    const before = data.classes[states[0].answer];
    let cost = "No model rows: there is nothing to look for";
    let text = `Both features are held: nothing may change, and the answer stays ${before}.`;
    if (own) {
      const theirs = `greedy search took ${greedy.rows(now)}${greedy.found(now) ? "" : " and found nothing"}`;
      cost = `${own.rows(now)} model rows; ${theirs}`;
      text = `The agent finds nothing here: there is no room to move, and the answer stays ${before}.`;
    }
    if (states.length > 1) {
      const last = states[states.length - 1];
      const changes = states.slice(1).map(({ feature, values }) =>
        `${data.features[feature].name} were ${shown(feature, values[feature])} instead of ${shown(feature, states[0].values[feature])}`);
      const known = changes.join(" and ");
      text = last.met
        ? `If ${known}, the answer would be ${data.classes[last.answer]} instead of ${before}.`
        : `The agent finds nothing here: even if ${known}, the answer would still be ${data.classes[last.answer]}.`;
    }
    part("cost").textContent = cost;
    part("sentence").textContent = text;
    part("sentence").classList.toggle("unsolved", !own?.found(now));
  }

  // Few columns and many lines: that fits on a phone too.
  function fillTable(name, headings, lines) {
    const top = element("tr");
    headings.forEach((text) => top.append(element("th", text)));
    for (const cell of top.cells) cell.scope = "col";
    const [head, body] = [element("thead"), element("tbody")];
    head.append(top);
    body.append(...lines);
    part(name).replaceChildren(head, body);
  }

  function showSteps(path, states) {
    const taken = states.slice(1);
    const headings = taken.map(({ feature, values }, i) => `${i + 1}. ${data.features[feature].name} to ${shown(feature, values[feature])}`);
    const rewards = (read) => ["", ...taken.map(({ led }) => signed(read(led)))];
    fillTable("steps", ["", "start", ...headings], [
      line(["answer", ...states.map(({ answer }) => data.classes[answer])]),
      line([`chance of ${data.classes[1 - states[0].answer]}`, ...states.map(({ probability }) => percent(probability))]),
      line(["goal met", ...rewards((at) => path.goal(at))]),
      line(["−λ · farther", ...rewards((at) => path.reward(at) - path.goal(at))]),
      line(["= reward", ...rewards((at) => path.reward(at))], "chosen"),
    ]);
  }

  // Bars of one length for the same Q everywhere, so that points can be compared.
  function extentOf(trained) {
    if (!largest[trained]) {
      const path = steps[trained];
      const ends = [0, 0];
      for (const { name } of data.actions) {
        const read = path[`Q ${name}`];
        for (let line = 0; line < read.count; line++) {
          ends[0] = Math.min(ends[0], read(line) ?? 0);
          ends[1] = Math.max(ends[1], read(line) ?? 0);
        }
      }
      largest[trained] = ends;
    }
    return largest[trained];
  }

  function showStates(path, states) {
    const [low, high] = extentOf(String(momentNow().trained));
    const share = (value) => (100 * (value - low)) / (high - low);
    const made = states.filter(({ leaves }) => leaves !== undefined).map(({ leaves, values }, i) => {
      const box = element("div");
      const where = values.map((value, feature) => `${data.features[feature].name} ${shown(feature, value)}`).join(", ");
      box.append(element("h3", `${i === 0 ? "At the start" : `After step ${i}`}: ${where}`));
      const list = element("div", undefined, "actions");
      data.actions.forEach(({ name, feature }, position) => {
        const [q, v] = [path[`Q ${name}`](leaves), path[`v ${name}`](leaves)];
        const chosen = path.action(leaves) === position ? "chosen" : "";
        list.append(element("span", name, chosen));
        if (q === null) {
          const changed = states.slice(1, i + 1).some((state) => state.feature === feature);
          list.append(element("span", holds[feature].checked ? "held" : changed ? "changed already" : "no room", "off"));
          return;
        }
        const bar = element("span", undefined, `q ${chosen}`);
        bar.style.setProperty("--zero", `${share(0)}%`);
        bar.append(element("i"));
        bar.firstChild.style.left = `${share(Math.min(q, 0))}%`;
        bar.firstChild.style.width = `${share(Math.max(q, 0)) - share(Math.min(q, 0))}%`;
        list.append(bar, element("span", `Q ${signed(q)}`, `number ${chosen}`), element("span", `v ${v.toFixed(2)}`, "number"));
      });
      box.append(list);
      return box;
    });
    part("states").replaceChildren(...made);
  }

  function showMethods(now, ...asked) {
    const told = (read) => asked.map((method) => (method.found(now) ? read(method) : "–"));
    fillTable("methods", ["", "the agent", "greedy search"], asked.some((method) => !method) ? [] : [
      line(["model rows", ...asked.map((method) => method.rows(now))], "chosen"),
      line(["found", ...asked.map((method) => (method.found(now) ? "yes" : "no"))]),
      ...data.features.map(({ name }, i) => line([name, ...told((found) => shown(i, found[name](now)))])),
      line(["L0, changes", ...told((found) => found.L0(now))]),
      line(["L1, distance", ...told((found) => found.L1(now).toFixed(2))]),
    ]);
  }

  function show() {
    const [now, moment] = [pointAt(place), momentNow()];
    // With both features held there is no table: nothing was asked.
    const path = steps[keyed(moment.trained)];
    const [own, greedy] = [answers[keyed("policy", moment.trained)], answers[keyed("greedy")]];
    const states = statesOf(path, now);
    drawPath(now, states, greedy);
    showSentence(now, states, own, greedy);
    showSteps(path, states);
    showStates(path, states);
    showMethods(now, own, greedy);
    const said = Number(training.value) === data.kept ? `${moment.name} (kept)` : moment.name;
    part("moment").textContent = said;
    training.setAttribute("aria-valuetext", said);
    place.forEach((position, i) => {
      sliders[i].value = String(position);
      sliders[i].setAttribute("aria-valuetext", shown(i, data.features[i].values[position]));
      part(`value-${i}`).textContent = shown(i, data.features[i].values[position]);
    });
    const where = data.features.map(({ name, values }, i) => `${name} ${shown(i, values[place[i]])}`).join(", ");
    plane.setAttribute("aria-label", `${label}. The point: ${where}`);
    plane.dataset.point = String(now);
  }

  // Moving the point: by pointer, by keys, by the sliders.

  function moveTo(next) {
    const inside = next.map((position, i) => Math.max(0, Math.min(size[i] - 1, position)));
    if (inside.every((position, i) => position === place[i])) return;
    place = inside;
    show();
  }

  function follow(event) {
    const box = plane.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - scale.left, scale.bottom - (event.clientY - box.top)];
    moveTo([Math.floor(x / scale.cell[0]), Math.floor(y / scale.cell[1])]);
  }

  plane.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    plane.setPointerCapture(event.pointerId);
    plane.focus({ preventScroll: true });
    follow(event);
    event.preventDefault();
  });
  plane.addEventListener("pointermove", (event) => {
    if (plane.hasPointerCapture(event.pointerId)) follow(event);
  });
  plane.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!way || event.ctrlKey || event.altKey || event.metaKey) return;
    const by = event.shiftKey ? 10 : 1;
    moveTo(place.map((position, i) => position + by * way[i]));
    event.preventDefault();
  });
  sliders.forEach((slider, i) => {
    slider.max = String(size[i] - 1);
    slider.addEventListener("input", () => moveTo(place.map((position, j) => (i === j ? Number(slider.value) : position))));
  });
  training.max = String(data.moments.length - 1);
  training.value = String(data.kept);
  training.addEventListener("input", show);
  for (const hold of holds) {
    hold.checked = false; // a browser that comes back to the page may remember another choice
    hold.addEventListener("change", show);
  }

  data.classes.forEach((name, answer) => {
    const swatch = drawing("svg", { class: "swatch", viewBox: "0 0 28 12", "aria-hidden": "true" });
    swatch.append(drawing("path", { d: "M0 0h28v12h-28z", class: `class-${answer}`, "fill-opacity": 0.5 }), drawing("path", { d: mark(answer, 14, 6, 3), class: `class-${answer}` }));
    part(`class-${answer}`).append(swatch, name);
  });
  root.hidden = false;
  // Called at once, and whenever the plane gets another width; it has none while the page is not laid out.
  new ResizeObserver(() => {
    if (widthNow() === 0 || (scale !== null && widthNow() === scale.width)) return;
    layOut();
    show();
  }).observe(plane);
}

playground(document.getElementById("play"));
