// Draws the results of the engine on canvases.
"use strict";

const css = (colour) => `rgb(${colour[0]} ${colour[1]} ${colour[2]})`;
const ink = () => getComputedStyle(document.body).color;

/** Draws one pixel per item. */
function drawPicture(canvas, look, pixels) {
  canvas.width = look.width;
  canvas.height = look.height;
  const image = new ImageData(new Uint8ClampedArray(pixels.buffer, pixels.byteOffset, pixels.length), look.width, look.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Minimum and maximum of the numbers in each column of pixels. */
function columnsOf(values, width) {
  const wide = Math.max(1, Math.min(width, values.length));
  const columns = [];
  for (let k = 0; k < wide; k += 1) {
    let low = Infinity;
    let high = -Infinity;
    const end = Math.max(Math.floor((k + 1) * values.length / wide), Math.floor(k * values.length / wide) + 1);
    for (let i = Math.floor(k * values.length / wide); i < end; i += 1) {
      if (values[i] < low) low = values[i];
      if (values[i] > high) high = values[i];
    }
    columns.push([low, high]);
  }
  return columns;
}

/** Draws numbers as a line that spans from the minimum to the maximum of each column of pixels. */
function drawLine(canvas, values, low, high, log, mark) {
  const [wide, high_] = [canvas.width, canvas.height];
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, wide, high_);
  const scale = log ? Math.log : (x) => x;
  const [bottom, top] = [scale(low), scale(high)];
  const y = (x) => {
    const share = top > bottom ? (scale(x) - bottom) / (top - bottom) : 0.5;
    return high_ - 2 - Math.min(1, Math.max(0, share)) * (high_ - 4);
  };
  const columns = columnsOf(values, wide);
  const step = wide / columns.length;
  context.strokeStyle = ink();
  context.lineWidth = 1.5;
  context.beginPath();
  let drawn = false;
  columns.forEach(([from, to], k) => {
    if (from > to || (log && to <= 0)) { drawn = false; return; }
    const x = (k + 0.5) * step;
    if (drawn) context.lineTo(x, y(from)); else context.moveTo(x, y(from));
    context.lineTo(x, y(to) - (from === to && !drawn ? 1 : 0));
    drawn = true;
  });
  context.stroke();
  if (mark !== null) {
    context.globalAlpha = 0.6;
    context.fillStyle = ink();
    context.fillRect((mark + 0.5) * wide / values.length - 1, 0, 2, high_);
    context.globalAlpha = 1;
  }
}

function drawLegend(bar, histogram, legend) {
  const context = bar.getContext("2d");
  const gradient = context.createLinearGradient(0, 0, bar.width, 0);
  legend.colours.forEach((colour, k) => gradient.addColorStop(k / (legend.colours.length - 1), css(colour)));
  context.fillStyle = gradient;
  context.fillRect(0, 0, bar.width, bar.height);
  const bars = histogram.getContext("2d");
  bars.clearRect(0, 0, histogram.width, histogram.height);
  const most = Math.max(1, ...legend.bars);
  const wide = histogram.width / legend.bars.length;
  bars.fillStyle = ink();
  legend.bars.forEach((count, k) => {
    const high = count === 0 ? 0 : Math.max(1, count / most * histogram.height);
    bars.fillRect(k * wide, histogram.height - high, wide - 1, high);
  });
}

/** Kinds of chunks that are not stored, with colours safe for colour blindness. */
const SPECIAL = { "-1": ["zeros", [86, 180, 233]], "-2": ["NaN", [230, 159, 0]], "-3": ["not set", [204, 121, 167]], "-4": ["damaged", [213, 94, 0]] };

/** Draws chunks row by row; darker ones store more bytes. */
function drawChunks(canvas, sizes, grid, whole) {
  const [rows, columns] = grid;
  const side = Math.max(1, Math.min(32, Math.floor(960 / columns)));
  canvas.width = columns * side;
  canvas.height = rows * side;
  const context = canvas.getContext("2d");
  sizes.forEach((size, k) => {
    const special = SPECIAL[size];
    const light = Math.round(245 - 215 * Math.min(1, size / Math.max(1, whole)));
    context.fillStyle = special ? css(special[1]) : css([light, light, light]);
    const gap = side > 3 ? 1 : 0;
    context.fillRect(k % columns * side, Math.floor(k / columns) * side, side - gap, side - gap);
  });
}

/** Draws an axis: its title, and as many labels as fit without touching each other. */
function drawAxis(element, edge, isDown) {
  const { title, marks } = edge ?? { title: "", marks: [] };
  const box = element.getBoundingClientRect();
  const longest = Math.max(0, ...marks.map(([, text]) => [...text].length));
  // Digits are about half as wide as the line height.
  const room = isDown ? 16 : 12 + 7 * longest;
  const apart = marks.length < 2 ? Infinity : Math.abs(marks[1][0] - marks[0][0]) * (isDown ? box.height : box.width);
  const every = Math.max(1, Math.ceil(room / Math.max(1, apart)));
  const name = document.createElement("strong");
  name.textContent = title;
  name.title = title;
  const texts = marks.filter((_, k) => k % every === 0).map(([place, text]) => {
    const span = document.createElement("span");
    span.textContent = text;
    span.style[isDown ? "top" : "left"] = `${100 * place}%`;
    return span;
  });
  element.replaceChildren(name, ...texts);
  if (isDown) element.style.width = marks.length === 0 ? "" : `calc(${Math.min(20, longest)}ch + 2.2em)`;
}
