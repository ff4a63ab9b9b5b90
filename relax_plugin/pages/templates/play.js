// The playground: looks up what was computed in advance, that is all answers, steps, rewards, Q and v. Here the states
// of a path are put together from its steps, the sentence is worded, and it is worked out where things are drawn.

// A packed column as a function of the line; null where there is no number.
function column({ unit, bytes, data }) {
  const text = atob(data);
  const raw = Uint8Array.from(text, (character) => character.charCodeAt(0)).buffer;
  const Numbers = { 1: Int8Array, 2: Int16Array, 4: Int32Array }[bytes];
  const numbers = new Numbers(raw);
  const missing = -(2 ** (8 * bytes - 1));
  const read = (line) => (numbers[line] === missing ? null : numbers[line] * unit);
  read.count = numbers.length;
  return read;
}

function table(packed) {
  return Object.fromEntries(Object.entries(packed).map(([name, values]) => [name, column(values)]));
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

function playground(root) {
  const data = JSON.parse(document.getElementById("play-data").textContent);
  const [across, up] = data.features;
  const size = [across.values.length, up.values.length];
  const points = size[0] * size[1];
  const answers = Object.fromEntries(Object.entries(data.answers).map(([name, packed]) => [name, table(packed)]));
  const marks = table(data.marks);
  const steps = {};
  for (const [agent, packed] of Object.entries(data.steps)) {
    const made = table(packed);
    steps[agent] = { ...made, first: firstLines(made, points) };
  }
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const plane = document.getElementById("plane");
  const sliders = [part("slider-0"), part("slider-1")];
  const label = plane.getAttribute("aria-label");
  const largest = {};
  let scale = null; // of the plane, in pixels; made anew when its width changes
  let moving = null; // what is drawn anew at every step
  let place = [Math.floor(data.first / size[1]), data.first % size[1]];

  const widthNow = () => Math.floor(plane.getBoundingClientRect().width);
  const pointAt = ([i, j]) => i * size[1] + j;
  const agentNow = () => root.querySelector("input[name=agent]:checked").value;
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

  // What the model answers at the points themselves: the first state of every path.
  function start(point) {
    const { first, answer, probability } = steps.after;
    return { answer: answer(first[point]), sure: 1 - probability(first[point]) };
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

  function drawPath(now, states) {
    const pixel = ([x, y]) => [scale.x(x), scale.y(y)];
    const made = [];
    const greedy = answers.greedy;
    const home = pixel(states[0].values);
    if (greedy.found(now)) {
      const end = pixel([greedy[across.name](now), greedy[up.name](now)]);
      made.push(drawing("path", { d: `M${home[0]} ${home[1]}L${end[0]} ${end[1]}`, class: "greedy-line" }));
      made.push(drawing("path", { d: `M${end[0]} ${end[1] - 7}l7 7l-7 7l-7-7z`, class: "greedy-head" }));
    }
    for (let i = 1; i < states.length; i++) {
      const [from, to] = [pixel(states[i - 1].values), pixel(states[i].values)];
      made.push(...arrow(from, to, "path", 13));
      const flat = from[1] === to[1];
      const middle = [(from[0] + to[0]) / 2 + (flat ? 0 : 8), (from[1] + to[1]) / 2 + (flat ? -8 : 4)];
      made.push(drawing("text", { x: middle[0], y: middle[1], class: "number", "text-anchor": flat ? "middle" : "start" }, i));
    }
    const last = states[states.length - 1];
    if (!last.met) {
      const [x, y] = pixel(last.values);
      made.push(drawing("path", { d: `M${x - 6} ${y - 6}l12 12m0-12l-12 12`, class: "failed" }));
    }
    made.push(drawing("circle", { cx: home[0], cy: home[1], r: 17, class: "halo" }));
    made.push(drawing("circle", { cx: home[0], cy: home[1], r: 7.5, class: "point" }));
    moving.replaceChildren(...made);
  }

  // The tables beside it.

  // The states of a path: values, answer, and the line of the step that led there and of the one that leaves.
  function statesOf(path, now) {
    const made = [{ values: [across.values[place[0]], up.values[place[1]]], answer: path.answer(path.first[now]) }];
    made[0].probability = path.probability(path.first[now]);
    for (let line = path.first[now]; line < path.first[now + 1]; line++) {
      const { feature } = data.actions[path.action(line)];
      const values = [...made[made.length - 1].values];
      values[feature] = path.to(line);
      made[made.length - 1].leaves = line;
      made.push({ values, feature, led: line, answer: path["answer after"](line), probability: path["probability after"](line), met: path.goal(line) === 1 });
    }
    return made;
  }

  function showSentence(states) {
    const [begin, end] = [states[0], states[states.length - 1]];
    const changes = states.slice(1).map(({ feature, values }) =>
      `${data.features[feature].name} were ${shown(feature, values[feature])} instead of ${shown(feature, begin.values[feature])}`);
    const [before, after] = [data.classes[begin.answer], data.classes[end.answer]];
    const text = end.met
      ? `If ${changes.join(" and ")}, the answer would be ${after} instead of ${before}.`
      : `The agent finds nothing here: even if ${changes.join(" and ")}, the answer would still be ${after}.`;
    part("sentence").textContent = text;
    part("sentence").classList.toggle("unsolved", !end.met);
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
      line(["goal met", ...rewards(path.goal)]),
      line(["−λ · farther", ...rewards(path.distance)]),
      line(["= reward", ...rewards(path.reward)], "chosen"),
      line(["shaping", ...rewards(path.shaping)]),
    ]);
  }

  // Bars of one length for the same Q everywhere, so that points can be compared.
  function extentOf(agent) {
    if (!largest[agent]) {
      const path = steps[agent];
      const ends = [0, 0];
      for (const { name } of data.actions) {
        const read = path[`Q ${name}`];
        for (let line = 0; line < read.count; line++) {
          ends[0] = Math.min(ends[0], read(line) ?? 0);
          ends[1] = Math.max(ends[1], read(line) ?? 0);
        }
      }
      largest[agent] = ends;
    }
    return largest[agent];
  }

  function showStates(agent, path, states) {
    const [low, high] = extentOf(agent);
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
          list.append(element("span", states.slice(1, i + 1).some((state) => state.feature === feature) ? "changed already" : "no room", "off"));
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

  function showMethods(agent, now) {
    const keys = [`${agent} policy`, `${agent} refined`, "greedy"];
    const told = (read) => keys.map((key) => (answers[key].found(now) ? read(answers[key]) : "–"));
    fillTable("methods", ["", "the agent’s steps", "refined", "greedy search"], [
      line(["found", ...keys.map((key) => (answers[key].found(now) ? "yes" : "no"))]),
      ...data.features.map(({ name }, i) => line([name, ...told((found) => shown(i, found[name](now)))])),
      line(["L0, changes", ...told((found) => found.L0(now))]),
      line(["L1, distance", ...told((found) => found.L1(now).toFixed(2))]),
      line(["change first", ...told((found) => data.features[found.first(now)]?.name ?? "–")]),
      line(["chance then", ...told((found) => (found.between(now) === null ? "–" : percent(found.between(now))))]),
      line(["model rows", ...keys.map((key) => answers[key].rows(now))]),
    ]);
  }

  function show() {
    const [agent, now] = [agentNow(), pointAt(place)];
    const states = statesOf(steps[agent], now);
    drawPath(now, states);
    showSentence(states);
    showSteps(steps[agent], states);
    showStates(agent, steps[agent], states);
    showMethods(agent, now);
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
  for (const choice of root.querySelectorAll("input[name=agent]")) choice.addEventListener("change", show);

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
