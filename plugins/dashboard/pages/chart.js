import { h, number } from './dom.js';

/** The charting package is fetched only when a plot is shown. */
const LIBRARY = '/dashboard/uplot.js';
const HEIGHT = 260;
const HALF_DAY_S = 43_200;
/** Steps of the axes: integers only. */
const STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/** Loads `drawUsage`: days as bars of credits and a line of requests. */
export async function loadPlots() {
  const { default: UPlot } = await import(LIBRARY);
  return (place, title, points) => drawUsage(UPlot, place, title, points);
}

/** The table next to the plot has the same data for screen readers. Returns the function that removes the plot. */
function drawUsage(UPlot, place, title, points) {
  const picture = h('div', { class: 'chart', role: 'img', 'aria-label': title });
  place.replaceChildren(picture);
  const data = [
    points.map(({ day }) => Date.parse(day) / 1_000),
    points.map(({ credits }) => credits),
    points.map(({ requests }) => requests),
  ];
  const plot = new UPlot({ ...options(UPlot), width: picture.clientWidth, height: HEIGHT }, data, picture);
  const resized = new ResizeObserver(() => {
    const width = picture.clientWidth;
    if (width !== plot.width) plot.setSize({ width, height: HEIGHT });
  });
  resized.observe(picture);
  // A canvas does not follow style changes automatically.
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const repaint = () => plot.redraw();
  dark.addEventListener('change', repaint);
  return () => {
    dark.removeEventListener('change', repaint);
    resized.disconnect();
    plot.destroy();
  };
}

function options(UPlot) {
  const series = (label, more) => ({ label, scale: label, value: (_plot, value) => number(value), ...more });
  const axis = (more) => ({ stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ...more });
  const count = (scale, more) => axis({ scale, label: scale, size: 64, incrs: STEPS, values: compact, ...more });
  const fromZero = { range: (_plot, _least, most) => [0, Math.max(1, most * 1.1)] };
  return {
    tzDate: (unixS) => UPlot.tzDate(new Date(unixS * 1_000), 'Etc/UTC'),
    // Bars are centered on their days: the first and last need space for half a bar.
    scales: {
      x: { range: (_plot, first, last) => [first - HALF_DAY_S, last + HALF_DAY_S] },
      credits: fromZero,
      requests: fromZero,
    },
    series: [
      {
        label: 'day',
        value: (_plot, unixS) => (unixS === null ? '–' : new Date(unixS * 1_000).toISOString().slice(0, 10)),
      },
      series('credits', {
        fill: color('--series'),
        paths: UPlot.paths.bars({ size: [0.7, 60] }),
        points: { show: false },
      }),
      series('requests', {
        stroke: color('--good'),
        width: 2,
        points: { show: true, size: 5, fill: color('--panel') },
      }),
    ],
    axes: [axis({ values: days }), count('credits', {}), count('requests', { side: 1, grid: { show: false } })],
  };
}

/** Read at paint time. */
const color = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name);

/** Month and day, as in the table. */
const days = (_plot, unixS) => unixS.map((at) => new Date(at * 1_000).toISOString().slice(5, 10));

const compact = (_plot, values) =>
  values.map((value) => new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 2 }).format(value));
