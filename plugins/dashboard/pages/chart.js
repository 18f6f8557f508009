const NS = 'http://www.w3.org/2000/svg';
const WIDTH = 800;
const HEIGHT = 200;
const LEFT = 60;
const BOTTOM = 22;

/** Bars over days. The table beside it says the same to whoever does not see it. */
export function barChart(title, points) {
  const most = Math.max(1, ...points.map(({ value }) => value));
  const step = (WIDTH - LEFT) / Math.max(1, points.length);
  const scale = (value) => (value / most) * (HEIGHT - BOTTOM - 10);
  const svg = node('svg', { class: 'chart', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': title });
  const base = HEIGHT - BOTTOM;
  svg.append(node('line', { x1: LEFT, x2: WIDTH, y1: base, y2: base }));
  svg.append(label(most, 4, 14), label(0, 4, base));
  for (const [at, { day, value }] of points.entries()) {
    const height = scale(value);
    const bar = node('rect', { x: LEFT + at * step + 1, y: base - height, width: Math.max(1, step - 2), height });
    bar.append(node('title', {}, `${day}: ${value}`));
    svg.append(bar);
    if (at % Math.ceil(points.length / 8) === 0) svg.append(label(day.slice(5), LEFT + at * step, HEIGHT - 6));
  }
  return svg;
}

const label = (text, x, y) => node('text', { x, y }, String(text));

function node(name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}
