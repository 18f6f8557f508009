import { endSessions, login, logout, onLost, session } from './api.js';
import { button, field, form, h, note } from './dom.js';
import { auditPage, configPage, pluginsPage, treesPage, walletsPage } from './page-operation.js';
import { overviewPage } from './page-overview.js';
import { projectsPage } from './page-projects.js';
import { usagePage } from './page-usage.js';
import { webhooksPage } from './page-webhooks.js';

/** Path in the hash, name, page, and whether project owners see it too. */
const PAGES = [
  ['overview', 'Overview', overviewPage, true],
  ['projects', 'Projects and keys', projectsPage, true],
  ['usage', 'Usage', usagePage, true],
  ['webhooks', 'Webhooks', webhooksPage, true],
  ['trees', 'Trees', treesPage, false],
  ['wallets', 'Wallets', walletsPage, false],
  ['plugins', 'Plugins', pluginsPage, false],
  ['config', 'Configuration', configPage, false],
  ['audit', 'Audit log', auditPage, false],
];

const head = document.getElementById('head');
const main = document.getElementById('main');
let who = null;
let leave = () => {};

function showHead() {
  const current = location.hash.slice(2).split('/')[0];
  const items = PAGES.filter(([, , , forAll]) => forAll || who.role === 'operator').map(([path, name]) =>
    h('li', {}, h('a', { href: `#/${path}`, 'aria-current': path === current ? 'page' : null }, name)),
  );
  const out = button('Log out', async () => {
    await logout();
    await begin();
  });
  const endAll = button('End all sessions', async () => {
    const whose = who.role === 'operator' ? 'all users' : 'this project';
    if (!confirm(`End all sessions of ${whose}, including this one?`)) return;
    await endSessions();
    await begin();
  });
  head.replaceChildren(
    h('strong', {}, 'Parhelion'),
    h('nav', { 'aria-label': 'Pages' }, h('ul', {}, items)),
    h('div', { class: 'right' }, h('span', { class: 'soft' }, `${who.role} · ${who.version}`), endAll, out),
  );
}

async function showPage() {
  leave();
  leave = () => {};
  const [path, ...rest] = location.hash.slice(2).split('/');
  const page = PAGES.find(([name, , , forAll]) => name === path && (forAll || who.role === 'operator')) ?? PAGES[0];
  document.title = `${page[1]} – Parhelion`;
  showHead();
  const place = h('div', {});
  main.replaceChildren(h('h1', {}, page[1]), place);
  main.focus();
  try {
    leave = (await page[2](place, { who, rest })) ?? (() => {});
  } catch (error) {
    place.replaceChildren(h('p', { class: 'bad', role: 'alert' }, error.message));
  }
}

function showLogin() {
  leave();
  document.title = 'Log in – Parhelion';
  head.replaceChildren(h('strong', {}, 'Parhelion'));
  const secret = (name, id) =>
    h('input', { name, id, type: 'password', required: true, autocomplete: 'current-password' });
  const send = (text) => h('button', { type: 'submit', class: 'main' }, text);
  const operator = form(
    '',
    async ({ token }) => enter(await login({ token })),
    h('h2', {}, 'Operator'),
    field('Operator token', secret('token', 'token')),
    h('p', { class: 'soft' }, 'Shown at the first start, or dashboard.operatorToken of the configuration.'),
    send('Log in as operator'),
  );
  const project = form(
    '',
    async (values) => enter(await login(values)),
    h('h2', {}, 'Project'),
    field('Project id', h('input', { name: 'project', required: true, autocomplete: 'username', spellcheck: 'false' })),
    field('Dashboard secret', secret('secret', 'secret')),
    send('Log in for a project'),
  );
  main.replaceChildren(h('div', { class: 'login' }, h('h1', {}, 'Log in'), operator, project));
}

async function enter(found) {
  who = found;
  if (!location.hash) location.hash = '#/overview';
  await showPage();
}

async function begin() {
  const found = await session();
  if (found === null) showLogin();
  else await enter(found);
}

onLost(() => {
  note('The session has ended');
  showLogin();
});
addEventListener('hashchange', () => who && void showPage());
void begin();
