import { get } from './api.js';
import { loadPlots } from './chart.js';
import { field, h, number, table } from './dom.js';
import { projectChoice } from './project-choice.js';

const DAY_MS = 86_400_000;
/** From this number of credits on, a plan counts as unlimited. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;
const PLOT_TITLE = 'Credits and requests by day; the table below contains the same numbers';
const dayOf = (unixMs) => new Date(unixMs).toISOString().slice(0, 10);

/** Credits over time, as a plot, a table and a file. */
export async function usagePage(place) {
  const from = h('input', { type: 'date', value: dayOf(Date.now() - 29 * DAY_MS), required: true });
  const to = h('input', { type: 'date', value: dayOf(Date.now()), required: true });
  const product = h('select', {}, h('option', { value: '' }, 'all products'));
  const shown = h('div', {});
  let endPlot = () => {};
  let asked = 0;
  const choice = await projectChoice(() => void show());
  for (const control of [from, to, product]) control.addEventListener('change', () => void show());
  const controls = [choice.control, field('From', from), field('To', to), field('Product', product)];
  place.replaceChildren(h('div', { class: 'actions' }, controls), shown);

  async function show() {
    if (choice.chosen() === '' || from.value === '' || to.value === '') return;
    const query = `?from=${from.value}&to=${to.value}`;
    asked += 1;
    const mine = asked;
    const [drawUsage, { cycle, days }] = await Promise.all([
      loadPlots(),
      get(`/projects/${choice.chosen()}/usage${query}`),
    ]);
    // The selection has changed during the request.
    if (mine !== asked) return;
    const products = [...new Set(days.map((day) => day.product))].sort();
    const wanted = product.value;
    product.replaceChildren(
      h('option', { value: '' }, 'all products'),
      ...products.map((name) => h('option', { value: name, selected: name === wanted }, name)),
    );
    const rows = days.filter((day) => wanted === '' || day.product === wanted);
    const csv = `/dashboard/api/projects/${choice.chosen()}/usage.csv${query}`;
    const picture = h('div', {});
    shown.replaceChildren(
      cycleTiles(cycle),
      h('h2', {}, 'Credits and requests by day'),
      picture,
      h('p', {}, h('a', { href: csv, download: '' }, 'Download all days as CSV')),
      dayTable(rows),
    );
    endPlot();
    endPlot = drawUsage(picture, PLOT_TITLE, sums(rows, from.value, to.value));
  }
  await show();
  return () => endPlot();
}

function sums(rows, from, to) {
  const byDay = new Map();
  for (let at = Date.parse(from); at <= Date.parse(to) && byDay.size < 400; at += DAY_MS) {
    const day = dayOf(at);
    byDay.set(day, { day, credits: 0, requests: 0 });
  }
  for (const { day, credits, requests } of rows) {
    const sum = byDay.get(day);
    if (sum === undefined) continue;
    sum.credits += credits;
    sum.requests += requests;
  }
  return [...byDay.values()];
}

function cycleTiles(cycle) {
  const tile = (name, value) => h('div', { class: 'tile' }, h('dt', {}, name), h('dd', {}, value));
  return h(
    'dl',
    { class: 'tiles' },
    tile('Plan', cycle.subscriptionDetails.plan),
    tile('Credits used', number(cycle.creditsUsed)),
    tile(
      'Credits left',
      cycle.subscriptionDetails.creditsLimit >= UNLIMITED ? 'unlimited' : number(cycle.creditsRemaining),
    ),
    tile('Prepaid left', number(cycle.prepaidCreditsRemaining)),
    tile('Cycle', `${cycle.creditCycle.start} to ${cycle.creditCycle.end}`),
  );
}

function dayTable(rows) {
  return table(
    'Days',
    [
      { name: 'Day (UTC)', show: ({ day }) => h('time', {}, day) },
      { name: 'Product', show: ({ product }) => product },
      { name: 'Credits', show: ({ credits }) => number(credits), isNumber: true },
      { name: 'Requests', show: ({ requests }) => number(requests), isNumber: true },
      { name: 'Bytes', show: ({ bytes }) => number(bytes), isNumber: true },
    ],
    rows,
  );
}
