// Images of one cell: truth, output, difference, superposition. Outputs are grey images (cell, row, column), coloured
// images (cell, row, column, channel) or vectors (cell, entry).
const VECTOR = { width: 320, height: 200, bars: 40, axis: "#80808080" };

// How images are displayed, as in the project's figures (core/images.py).
const scaleOf = (group) => ({ ...group.tone, upsideDown: group.row_0 !== "top" });

// Width and height of the image of an output.
const sidesOf = (shape) => (shape.length < 3 ? [VECTOR.width, VECTOR.height] : [shape[2], shape[1]]);

function pictureOf(numbers, cell) {
  const [, height, width, channels] = numbers.shape;
  const values = numbers.row(cell);
  return numbers.shape.length < 3 ? { vector: true, values } : { width, height, channels: channels ?? 1, values };
}

// Converts red, green, blue and optionally opacity, each from 0 to 1, to a pixel.
function pixelOf(shares) {
  if (shares.some(Number.isNaN)) return NOTHING;
  const [red, green, blue, alpha = 255] = shares.map((share) => Math.round(255 * clamp(share, 0, 1)));
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

const channelsAt = (picture, i) => picture.values.subarray(i * picture.channels, (i + 1) * picture.channels);

function paintPicture(canvas, picture, scale) {
  if (picture.vector) return paintVector(canvas, picture.values, scale.low, scale.high);
  const span = scale.high - scale.low;
  const share = (value) => clamp((value - scale.low) / span, 0, 1) ** scale.power;
  const grey = colourMap("grey");
  const colourAt =
    picture.channels > 1
      ? (i) => pixelOf(Array.from(channelsAt(picture, i), share))
      : (i) => shade(grey, share(picture.values[i]));
  paint(canvas, picture.width, picture.height, colourAt, scale.upsideDown);
}

// Draws a difference: red where the output is larger, blue where it is smaller. Coloured images show each channel around grey.
function paintDifference(canvas, picture, truth, scale) {
  const span = scale.high - scale.low;
  const differences = picture.values.map((value, i) => (value - truth.values[i]) / span);
  if (picture.vector) return paintVector(canvas, differences, -1, 1);
  const share = (value) => 0.5 + 0.5 * Math.sign(value) * Math.abs(value) ** scale.power;
  const map = colourMap("difference");
  const both = { ...picture, values: differences };
  const colourAt =
    picture.channels > 1
      ? (i) => pixelOf(Array.from(channelsAt(both, i).subarray(0, 3), share))
      : (i) => shade(map, share(differences[i]));
  paint(canvas, picture.width, picture.height, colourAt, scale.upsideDown);
}

// Draws a vector as bars from 0, or as a line if it has many entries.
function paintVector(canvas, values, low, high) {
  const { width, height, bars, axis } = VECTOR;
  const colour = colourOf(0);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const margin = 0.05 * (high - low);
  const y = (value) => height * (1 - (clamp(value, low, high) - low + margin) / (high - low + 2 * margin));
  const zero = y(clamp(0, low, high));
  const step = width / values.length;
  context.fillStyle = axis;
  context.fillRect(0, zero, width, 1);
  context.fillStyle = context.strokeStyle = colour;
  if (values.length <= bars) {
    values.forEach((value, i) => {
      if (!Number.isNaN(value)) context.fillRect((i + 0.1) * step, Math.min(y(value), zero), 0.8 * step, Math.abs(y(value) - zero));
    });
    return;
  }
  context.lineWidth = 2;
  context.beginPath();
  values.forEach((value, i) => context.lineTo((i + 0.5) * step, y(value)));
  context.stroke();
}

// The superposition S for a cell. On the input side, it is the sum over factors of the output for this value with the
// mean codes of the other factors. On the output side, it is the mean output of the training cells that share a value.
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
  if (!outputs || !group.loaded.held || group.loaded.drawn) return null;
  const size = outputs.codes.length / outputs.shape[0];
  const step = strides(group);
  const self = cellOf(group, at);
  const total = new Float64Array(size);
  let count = 0;
  for (let cell = 0; cell < outputs.shape[0]; cell++) {
    if (cell === self || stateOf(group, cell) !== "id") continue;
    if (!group.factors.some((factor, i) => Math.floor(cell / step[i]) % factor.size === at[i])) continue;
    for (let i = 0, j = cell * size; i < size; i++, j++) total[i] += outputs.table[outputs.codes[j]];
    count += 1;
  }
  return count ? total.map((value) => value / count) : null;
}

// Cosine of output and superposition, and the scale that minimizes their distance. Missing entries are ignored.
function compare(output, sum) {
  let both = 0;
  let own = 0;
  let other = 0;
  for (let i = 0; i < output.length; i++) {
    if (Number.isNaN(output[i]) || Number.isNaN(sum[i])) continue;
    both += output[i] * sum[i];
    own += output[i] * output[i];
    other += sum[i] * sum[i];
  }
  return {
    cosine: own > 0 && other > 0 ? both / Math.sqrt(own * other) : NaN,
    scale: other > 0 ? Math.max(0, both / other) : 0,
  };
}
