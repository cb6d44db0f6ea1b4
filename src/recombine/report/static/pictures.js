// Pictures of one cell: truth, output, difference, superposition.

// How pictures are shown. Brightness as in the project's figures: from 0 (or the darkest truth) to the brightest truth, as its square root, which
// shows what a failing decoder leaves; linear where the background is bright.
function brightness(group) {
  const sources = group.loaded.truth ? [group.loaded.truth] : group.models.map((m) => m.loaded.output).filter(Boolean);
  const ranges = sources.map((source) => source.range);
  const low = Math.min(0, ...ranges.map((r) => r[0]));
  const high = Math.max(low + 1e-9, ...ranges.map((r) => r[1]));
  let sum = 0;
  let count = 0;
  for (const source of sources) {
    for (let i = 0; i < source.codes.length; i += 7) {
      sum += source.at(i);
      count += 1;
    }
  }
  return { low, high, power: count && sum / count > (low + high) / 2 ? 1 : 0.5, upsideDown: group.row_0 !== "top" };
}

function pictureOf(numbers, cell) {
  const [, height, width] = numbers.shape;
  return { width, height, values: numbers.row(cell) };
}

function paintPicture(canvas, picture, scale) {
  const grey = colourMap("grey");
  const span = scale.high - scale.low;
  const colourAt = (i) => shade(grey, Math.max(0, (picture.values[i] - scale.low) / span) ** scale.power);
  paint(canvas, picture.width, picture.height, colourAt, scale.upsideDown);
}

function paintDifference(canvas, picture, truth, scale) {
  const map = colourMap("difference");
  const span = scale.high - scale.low;
  const colourAt = (i) => {
    const share = (picture.values[i] - truth.values[i]) / span;
    return shade(map, 0.5 + 0.5 * Math.sign(share) * Math.abs(share) ** scale.power);
  };
  paint(canvas, picture.width, picture.height, colourAt, scale.upsideDown);
}

// S for a cell: on the input side the sum over factors of the output for this value beside the others' mean codes, on
// the output side the mean of the model's outputs for all trained cells that share a value with it.
function superpose(group, model, at, side) {
  return side === 0 ? fromMeanCodes(group, model, at) : fromOutputs(group, model, at);
}

function fromMeanCodes(group, model, at) {
  if (!model.loaded.alone) return null;
  const rows = model.loaded.alone.map((part, axis) => part.row(at[axis]));
  return rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0));
}

function fromOutputs(group, model, at) {
  const outputs = model.loaded.output;
  const held = group.loaded.held;
  if (!outputs || !held) return null;
  const size = outputs.codes.length / outputs.shape[0];
  const step = strides(group);
  const self = cellOf(group, at);
  const total = new Float64Array(size);
  let count = 0;
  for (let cell = 0; cell < outputs.shape[0]; cell++) {
    if (cell === self || held.at(cell) > 0.5) continue;
    if (!group.factors.some((factor, i) => Math.floor(cell / step[i]) % factor.size === at[i])) continue;
    for (let i = 0, j = cell * size; i < size; i++, j++) total[i] += outputs.table[outputs.codes[j]];
    count += 1;
  }
  return count ? total.map((value) => value / count) : null;
}

// Cosine of output and superposition, and the scale that brings them closest.
function compare(output, sum) {
  let both = 0;
  let own = 0;
  let other = 0;
  for (let i = 0; i < output.length; i++) {
    both += output[i] * sum[i];
    own += output[i] * output[i];
    other += sum[i] * sum[i];
  }
  return {
    cosine: own > 0 && other > 0 ? both / Math.sqrt(own * other) : NaN,
    scale: other > 0 ? Math.max(0, both / other) : 0,
  };
}
