// Memories: the training outputs whose weighted sum is closest to an unseen output, with their weights and images.
const MOST_MEMORIES = 6;

async function loadMemories(model) {
  const about = model.panels.superposition?.memories;
  if (!about) return;
  try {
    const [of, cells, weights] = await Promise.all([loadIntegers(about.of), loadIntegers(about.cells), load(about.weights)]);
    const rows = new Map();
    of.forEach((cell, row) => rows.set(cell, row));
    model.loaded.memories = { rows, cells, weights, width: about.cells.shape[1] };
  } catch (error) {
    model.loaded.failed.memories = `This cannot be shown: ${error.message}.`;
  }
}

// Describes an unseen output: its class in words, the share explained by its best sum, and the parts of the sum, largest
// weight first. Null for other cells and for cells that were not analysed.
function memoriesOf(group, model, cell) {
  const found = model.loaded.memories;
  const row = found?.rows.get(cell);
  if (row === undefined) return null;
  const total = group.factors.reduce((product, factor) => product * factor.size, 1);
  const parts = [];
  for (let k = row * found.width; k < (row + 1) * found.width; k++) {
    const weight = found.weights.at(k);
    if (found.cells[k] >= 0 && found.cells[k] < total && weight > 0) parts.push({ cell: found.cells[k], weight });
  }
  const { words, word, explained } = model.panels.superposition.memories;
  return { words: words[word[row]], explained: explained[row], parts };
}

// The mean of a model's training outputs.
function trainedMean(group, model) {
  if (model.loaded.mean) return model.loaded.mean;
  const outputs = model.loaded.output;
  const size = outputs.codes.length / outputs.shape[0];
  const total = new Float64Array(size);
  let count = 0;
  for (let cell = 0; cell < outputs.shape[0]; cell++) {
    if (stateOf(group, cell) !== "id") continue;
    for (let i = 0, j = cell * size; i < size; i++, j++) total[i] += outputs.table[outputs.codes[j]];
    count += 1;
  }
  model.loaded.mean = total.map((value) => value / Math.max(1, count));
  return model.loaded.mean;
}

// The sum of the parts, plus multiples of the mean training output and, unless outputs are small, of a constant. The
// multiples minimize the distance to the output.
function bestSum(group, model, output, parts) {
  const outputs = model.loaded.output;
  const total = new Float64Array(output.length);
  for (const { cell, weight } of parts) outputs.row(cell).forEach((value, i) => (total[i] += weight * value));
  const known = [...total.keys()].filter((i) => !Number.isNaN(output[i]) && !Number.isNaN(total[i]));
  const directions = [trainedMean(group, model)];
  if (known.length >= model.panels.superposition.memories.small) directions.push(new Float64Array(output.length).fill(1));
  const dot = (a, b) => known.reduce((sum, i) => sum + a[i] * b[i], 0);
  const basis = [];
  for (const direction of directions) {
    const rest = basis.reduce((left, b) => {
      const along = dot(left, b);
      return left.map((value, i) => value - along * b[i]);
    }, direction);
    const norm = Math.sqrt(dot(rest, rest));
    if (norm > 1e-9 * Math.sqrt(dot(direction, direction))) basis.push(rest.map((value) => value / norm));
  }
  const left = output.map((value, i) => value - total[i]);
  for (const b of basis) {
    const along = dot(left, b);
    for (const i of known) total[i] += along * b[i];
  }
  return total;
}

// The panel: class, output, best sum, and the memories in the sum.
function memoriesPanel() {
  const panel = card("Memories");
  panel.root.id = "memories";
  const said = el("p", { class: "note", "data-text": true });
  const strip = el("div", { class: "strip scroller", tabindex: 0, role: "group", "aria-label": "Best sum and its memories" });
  panel.body.append(said, strip);

  function picture(group, title, values, like, more) {
    const canvas = el("canvas", { "aria-hidden": "true" });
    const root = el("div", { class: "field-map", role: "img", "aria-label": title }, canvas);
    paintPicture(canvas, { ...like, values }, group.scale);
    keepRatio(root, canvas.width, canvas.height);
    const lines = [title, ...more].map((text, i) => el(i ? "small" : "b", { "data-text": true }, text));
    return el("figure", {}, root, el("figcaption", {}, lines));
  }

  function reason(group, model, cell) {
    if (!group.ready) return "";
    if (stateOf(group, cell) !== "ood") return "Select a combination that was never trained on to see its memories.";
    const absent = model.missing.superposition || model.loaded.failed.memories || lacking(model, "outputs");
    if (!absent && group.loaded.drawn) return NOT_ALL;
    return absent || (model.panels.superposition?.memories ? "This combination is not in the sample that was analysed." : "The diagnosis files contain no memories.");
  }

  // Draws the panel of a model for the selected cell. Returns the memories to mark in the plane.
  function draw(group, model) {
    const cell = cellOf(group, state.at);
    const found = model.loaded.output && !group.loaded.drawn && memoriesOf(group, model, cell);
    if (!found) {
      said.textContent = reason(group, model, cell);
      strip.replaceChildren();
      return [];
    }
    const output = pictureOf(model.loaded.output, cell);
    const explained = found.explained === null ? "" : `; the best sum explains ${number(100 * found.explained, 2)} %`;
    said.textContent = `Output of ${model.name}: ${found.words}${explained}`;
    const shown = found.parts.slice(0, MOST_MEMORIES);
    const rest = found.parts.length - shown.length;
    const paint = (title, values, ...more) => picture(group, title, values, output, more);
    strip.replaceChildren(
      paint("output", output.values),
      found.parts.length ? paint("best sum", bestSum(group, model, output.values, found.parts)) : "",
      ...shown.map(({ cell: from, weight }) =>
        paint(`× ${number(weight, 2)}`, model.loaded.output.row(from), placeText(group, positions(group, from))),
      ),
      rest ? el("p", { class: "note", "data-text": true }, `and ${rest} lighter ${rest > 1 ? "ones" : "one"}`) : "",
    );
    return found.parts;
  }
  return { root: panel.root, draw };
}
