import { get } from './api.js';
import { button, h, number, table, when } from './dom.js';

const TREE_TYPES = { 1: 'state V1', 2: 'address V1', 3: 'state V2', 4: 'address V2', 5: 'compressed NFTs' };

/** Styles of states; all others are shown as bad. */
const TREE_STATES = { ok: 'good', unverified: 'soft' };

/** Merkle trees of compressed accounts. */
export async function treesPage(place) {
  const { slot, trees } = await get('/trees');
  place.replaceChildren(
    h('p', { class: 'soft' }, `as of slot ${number(slot)}`),
    table(
      'Trees',
      [
        { name: 'Tree', show: ({ tree }) => h('code', {}, tree) },
        { name: 'Type', show: ({ type }) => TREE_TYPES[type] ?? String(type) },
        { name: 'Leaves', show: ({ size }) => number(size), isNumber: true },
        { name: 'State', show: ({ state }) => h('span', { class: TREE_STATES[state] ?? 'bad' }, state) },
        { name: 'Why', show: ({ reason }) => reason ?? '' },
        { name: 'Slots since checked', show: ({ lag }) => number(lag), isNumber: true },
      ],
      trees,
    ),
  );
}

/** Indexed wallets. */
export async function walletsPage(place, how, cursor = null) {
  const { wallets, nextCursor } = await get(`/wallets${cursor === null ? '' : `?cursor=${cursor}`}`);
  place.replaceChildren(
    table(
      'Indexed wallets',
      [
        { name: 'Wallet', show: ({ address }) => h('code', {}, address) },
        { name: 'State', show: ({ state, trouble }) => h('span', { class: trouble === null ? null : 'bad' }, state) },
        { name: 'Followed', show: ({ followed, pinned }) => (pinned ? 'always' : followed ? 'yes' : 'no') },
        { name: 'From slot', show: ({ fromSlot }) => number(fromSlot), isNumber: true },
        { name: 'To slot', show: ({ toSlot }) => number(toSlot), isNumber: true },
        { name: 'Transactions', show: ({ transactions }) => number(transactions), isNumber: true },
      ],
      wallets,
    ),
    ...(nextCursor === null ? [] : [button('More', () => walletsPage(place, how, nextCursor))]),
  );
}

export async function pluginsPage(place) {
  const { plugins } = await get('/plugins');
  const texts = (list) =>
    list.length === 0
      ? '–'
      : h('details', {}, h('summary', {}, String(list.length)), h('pre', { tabindex: '0' }, list.join('\n')));
  place.replaceChildren(
    table(
      'Running plugins',
      [
        { name: 'Plugin', show: ({ id }) => h('code', {}, id) },
        { name: 'What it does', show: ({ summary }) => summary },
        { name: 'Routes', show: ({ routes }) => texts(routes) },
        { name: 'JSON-RPC', show: ({ rpcMethods }) => texts(rpcMethods) },
        { name: 'Follows', show: ({ processors }) => processors.join(' ') || '–' },
        { name: 'Jobs', show: ({ jobs }) => jobs.join(' ') || '–' },
      ],
      plugins,
    ),
  );
}

export async function configPage(place) {
  const { config } = await get('/config');
  const sections = Object.entries(config).map(([name, value]) =>
    h(
      'details',
      {},
      h('summary', {}, h('code', {}, name)),
      h('pre', { tabindex: '0' }, JSON.stringify(value, null, 2)),
    ),
  );
  place.replaceChildren(h('p', { class: 'soft' }, 'Effective configuration, with secrets masked.'), ...sections);
}

/** The audit log. */
export async function auditPage(place, how, cursor = null) {
  const { entries, nextCursor } = await get(`/audit?limit=50${cursor === null ? '' : `&cursor=${cursor}`}`);
  place.replaceChildren(
    table(
      'Actions, newest first',
      [
        { name: 'Time (UTC)', show: ({ at }) => when(at) },
        { name: 'Who', show: ({ actor }) => actor },
        { name: 'From', show: ({ address }) => address },
        { name: 'Action', show: ({ action }) => h('code', {}, action) },
        { name: 'What', show: ({ target }) => target },
        { name: 'Outcome', show: ({ outcome }) => h('span', { class: outcome === 'done' ? 'good' : 'bad' }, outcome) },
      ],
      entries,
    ),
    ...(nextCursor === null ? [] : [button('Older', () => auditPage(place, how, nextCursor))]),
  );
}
