import { hooks } from './api.js';
import { button, field, form, h, note, secretBox, table, when } from './dom.js';
import { projectChoice } from './project-choice.js';

const TYPES = ['enhanced', 'raw', 'discord', 'enhancedDevnet', 'rawDevnet', 'discordDevnet'];
const BASE = '/v0/webhooks';
const WATCH_MS = 2_000;

/** Webhooks of a project and their deliveries. */
export async function webhooksPage(place) {
  const list = h('div', {});
  const made = h('div', {});
  const deliveries = h('div', {});
  const choice = await projectChoice(() => void show());
  const api = (method, path, body) => hooks(choice.chosen(), method, `${BASE}${path}`, body);
  let watched = null;
  const newHook = creation(api, made, () => show());
  place.replaceChildren(h('div', { class: 'actions' }, choice.control), newHook, made, list, deliveries);

  async function show() {
    if (choice.chosen() === '') return;
    watched = null;
    deliveries.replaceChildren();
    list.replaceChildren(hookTable(await api('GET', ''), api, show, showDeliveries));
  }
  async function showDeliveries(hook, cursor = null) {
    const path = `/${hook.webhookID}/deliveries?limit=25${cursor === null ? '' : `&cursor=${cursor}`}`;
    const page = await api('GET', path);
    const more = page.pagination.nextCursor;
    const rows = h('div', {});
    const fill = (data) => rows.replaceChildren(deliveryTable(data, hook, api, () => showDeliveries(hook, cursor)));
    fill(page.data);
    deliveries.replaceChildren(
      h('h2', { tabindex: '-1' }, `Deliveries of ${hook.webhookURL}`),
      rows,
      ...page.missed.map(missedLine),
      ...(more === null ? [] : [button('Older', () => showDeliveries(hook, more))]),
    );
    deliveries.querySelector('h2').focus();
    watched = { path, rows, fill, text: JSON.stringify(page.data) };
  }
  /** Refreshes the table, unless the user is reading or using a row. */
  async function watch() {
    const mine = watched;
    if (mine === null || document.hidden) return;
    const { data } = await api('GET', mine.path);
    const text = JSON.stringify(data);
    const isInUse = mine.rows.contains(document.activeElement) || mine.rows.querySelector('details[open]') !== null;
    if (mine !== watched || text === mine.text || isInUse) return;
    mine.text = text;
    mine.fill(data);
  }
  await show();
  const timer = setInterval(() => void watch().catch(() => {}), WATCH_MS);
  return () => clearInterval(timer);
}

function creation(api, made, changed) {
  return form(
    'row',
    async ({ url, type, addresses, transactionTypes, authHeader }, element) => {
      const hook = await api('POST', '', {
        webhookURL: url,
        webhookType: type,
        accountAddresses: addresses.split(/[\s,]+/).filter(Boolean),
        transactionTypes: transactionTypes.split(/[\s,]+/).filter(Boolean),
        ...(authHeader === '' ? {} : { authHeader }),
      });
      made.replaceChildren(secretBox('The signing secret of the new webhook', hook.signingSecret));
      element.reset();
      await changed();
    },
    field('Address to deliver to', h('input', { name: 'url', type: 'url', required: true })),
    field(
      'Type',
      h(
        'select',
        { name: 'type' },
        TYPES.map((type) => h('option', {}, type)),
      ),
    ),
    field('Accounts', h('textarea', { name: 'addresses', required: true, rows: 1, spellcheck: 'false' })),
    field('Transaction types', h('input', { name: 'transactionTypes', value: 'ANY', required: true })),
    field('Authorization header', h('input', { name: 'authHeader', autocomplete: 'off' })),
    h('button', { type: 'submit' }, 'Create webhook'),
  );
}

function hookTable(found, api, changed, showDeliveries) {
  const act = (hook, text, work) => async () => {
    await work(`/${hook.webhookID}`);
    note(text);
    await changed();
  };
  const toggle = (hook) =>
    act(hook, hook.active ? 'Switched off' : 'Switched on', (path) => api('PATCH', path, { active: !hook.active }));
  const remove = (hook) => async () => {
    if (confirm(`Delete the webhook to ${hook.webhookURL}?`))
      await act(hook, 'Deleted', (path) => api('DELETE', path))();
  };
  const test = (hook) => async () => {
    const result = await api('POST', `/${hook.webhookID}/test`, {});
    note(`Test event: ${result.statusCode ?? result.status ?? result.error ?? 'sent'}`);
  };
  return table(
    'Webhooks',
    [
      { name: 'Address', show: ({ webhookURL }) => h('span', { class: 'mono' }, webhookURL) },
      { name: 'Type', show: ({ webhookType }) => webhookType },
      { name: 'State', show: ({ active }) => h('span', { class: active ? 'good' : 'bad' }, active ? 'on' : 'off') },
      { name: 'Accounts', show: (hook) => String(hook.addressCount ?? hook.accountAddresses.length), isNumber: true },
      {
        name: 'Change',
        show: (hook) =>
          h(
            'span',
            { class: 'actions' },
            button(hook.active ? 'Switch off' : 'Switch on', toggle(hook)),
            button('Test', test(hook)),
            button('Deliveries', () => showDeliveries(hook)),
            button('Delete', remove(hook), 'danger'),
          ),
      },
    ],
    found,
  );
}

function missedLine({ fromSlot, toSlot, events, reason }) {
  const why = reason === 'queue_full' ? 'too many wait' : 'the plan has no room for more';
  return h(
    'p',
    {},
    `${events} events of slots ${fromSlot} to ${toSlot} were not stored: ${why}. A replay reads them again.`,
  );
}

function deliveryTable(deliveries, hook, api, changed) {
  const resend = (delivery) => async () => {
    await api('POST', `/${hook.webhookID}/deliveries/${delivery.deliveryId}/resend`, {});
    note('The delivery is sent again');
    await changed();
  };
  const attempts = ({ attempts = [] }) =>
    h(
      'details',
      {},
      h('summary', {}, `${attempts.length} attempt${attempts.length === 1 ? '' : 's'}`),
      h('pre', { tabindex: '0' }, JSON.stringify(attempts, null, 2)),
    );
  return table(
    'Deliveries, newest first',
    [
      { name: 'Made (UTC)', show: (delivery) => when(Date.parse(delivery.createdAt) || delivery.createdAt) },
      { name: 'Signature', show: ({ signature = '' }) => h('code', {}, `${signature.slice(0, 16)}…`) },
      { name: 'State', show: ({ status }) => status },
      { name: 'Attempts', show: attempts },
      {
        name: 'Change',
        show: (delivery) => (delivery.status === 'pending' ? '' : button('Send again', resend(delivery))),
      },
    ],
    deliveries,
  );
}
