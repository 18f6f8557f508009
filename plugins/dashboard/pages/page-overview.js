import { h, number, table, time } from './dom.js';

const SCRAPE_MS = 5_000;

/** Live positions of the chains; readiness and counts from the same sources as monitoring. */
export async function overviewPage(place) {
  const tiles = h('dl', { class: 'tiles' });
  const checks = h('div', {});
  const upstreams = h('div', {});
  const counts = h('div', {});
  const freshness = h('p', { class: 'soft' }, 'connecting…');
  place.replaceChildren(
    freshness,
    tiles,
    h('h2', {}, 'Readiness'),
    checks,
    h('h2', {}, 'Upstreams'),
    upstreams,
    h('h2', {}, 'Requests'),
    counts,
  );

  const source = new EventSource('/dashboard/api/live');
  source.addEventListener('status', (event) => {
    const status = JSON.parse(event.data);
    freshness.textContent = `as of ${time(status.at)} UTC`;
    tiles.replaceChildren(...status.chains.flatMap(chainTiles));
    upstreams.replaceChildren(upstreamTable(status.upstreams));
  });
  source.addEventListener('error', () => {
    freshness.textContent = 'no connection to the daemon; trying again…';
  });

  const scrape = async () => {
    const [ready, metrics] = await Promise.all([fetch('/readyz'), fetch('/metrics')]);
    checks.replaceChildren(readinessTable(await ready.json()));
    counts.replaceChildren(requestTable(await metrics.text()));
  };
  await scrape();
  const timer = setInterval(() => void scrape().catch(() => {}), SCRAPE_MS);
  return () => {
    clearInterval(timer);
    source.close();
  };
}

function chainTiles(chain) {
  const tile = (name, value, isBad = false) =>
    h('div', { class: 'tile' }, h('dt', {}, name), h('dd', { class: isBad ? 'bad' : null }, value));
  const name = chain.chain === 'main' ? chain.cluster : `${chain.chain}: ${chain.cluster}`;
  return [
    tile('Chain', name),
    tile('Tip', number(chain.tipSlot)),
    tile('Followed to', number(chain.cursorSlot)),
    tile('Behind the tip', lagText(chain), chain.isLate),
    tile('Open gaps', number(chain.openGaps), chain.openGaps > 0),
    ...(chain.stalled === null ? [] : [tile('Stalled', chain.stalled, true)]),
  ];
}

/** `12 s (60 slots)` */
const lagText = ({ lagSlots, lagSeconds }) =>
  lagSlots === null ? number(null) : `${number(Math.round(lagSeconds))} s (${number(lagSlots)} slots)`;

function upstreamTable(states) {
  return table(
    'Upstreams',
    [
      { name: 'Name', show: (state) => `${state.chain} ${state.label}` },
      {
        name: 'Health',
        show: (state) =>
          h(
            'span',
            { class: state.healthy ? 'good' : 'bad' },
            state.healthy ? 'healthy' : `unwell: ${state.reason ?? ''}`,
          ),
      },
      { name: 'Slot', show: (state) => number(state.slot), isNumber: true },
      { name: 'In flight', show: (state) => number(state.inFlight), isNumber: true },
    ],
    states,
  );
}

function readinessTable(readiness) {
  const entries = Array.isArray(readiness.checks)
    ? readiness.checks
    : Object.entries(readiness.checks ?? {}).map(([name, check]) => ({ name, ...check }));
  return table(
    readiness.ready ? 'Ready' : 'Not ready',
    [
      { name: 'Check', show: (check) => check.name },
      { name: 'State', show: (check) => h('span', { class: check.ok ? 'good' : 'bad' }, check.ok ? 'ok' : 'not ok') },
      { name: 'Detail', show: (check) => check.detail ?? '' },
    ],
    entries,
  );
}

/** Requests since the start by route and status class. */
function requestTable(text) {
  const sums = new Map();
  for (const line of text.split('\n')) {
    const found = /^parhelion_http_requests_total\{(.*)\} (\S+)$/.exec(line);
    if (found === null) continue;
    const labels = Object.fromEntries([...found[1].matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value]));
    const route = `${labels.method ?? ''} ${labels.route ?? labels.path ?? ''}`.trim();
    const row = sums.get(route) ?? { route, all: 0, errors: 0 };
    row.all += Number(found[2]);
    if (/^[45]/.test(labels.status ?? '')) row.errors += Number(found[2]);
    sums.set(route, row);
  }
  const rows = [...sums.values()].filter(({ all }) => all > 0).sort((a, b) => b.all - a.all);
  return table(
    'Requests since the start',
    [
      { name: 'Route', show: ({ route }) => h('code', {}, route) },
      { name: 'All', show: ({ all }) => number(all), isNumber: true },
      { name: 'Errors (4xx, 5xx)', show: ({ errors }) => number(errors), isNumber: true },
    ],
    rows,
  );
}
