import { call, get, post } from './api.js';
import { button, field, form, h, note, number, secretBox, table, when } from './dom.js';
import { projectChoice } from './project-choice.js';

/** Projects, their keys and the secrets of their owners. */
export async function projectsPage(place, { who }) {
  const list = h('div', {});
  const held = h('div', {});
  const made = h('div', {});
  const choice = await projectChoice(() => void showKeys());
  const isOperator = who.role === 'operator';
  place.replaceChildren(
    ...(isOperator ? [projectTable(choice.projects, made), newProject(choice.plans, place, who)] : []),
    h('h2', {}, 'Keys'),
    h('div', { class: 'actions' }, choice.control),
    made,
    newKey(choice.chosen, made, () => showKeys()),
    list,
    held,
  );

  async function showKeys() {
    if (choice.chosen() === '') return;
    const path = `/projects/${choice.chosen()}`;
    const [{ keys }, { budgets }] = await Promise.all([get(`${path}/keys`), get(`${path}/budgets`)]);
    list.replaceChildren(keyTable(keys, choice.chosen(), showKeys));
    held.replaceChildren(h('h2', {}, 'Budgets held now'), budgetTable(budgets));
  }
  await showKeys();
}

function projectTable(projects, made) {
  const renew = (project) => async () => {
    if (!confirm(`Create a new dashboard secret for ${project.name}? An earlier one stops working.`)) return;
    const { secret } = await post(`/projects/${project.id}/secret`);
    made.replaceChildren(secretBox(`Dashboard secret of ${project.name}`, secret));
  };
  return table(
    'Projects',
    [
      { name: 'Name', show: ({ name }) => name },
      { name: 'Id', show: ({ id }) => h('code', {}, id) },
      { name: 'Plan', show: ({ plan }) => plan },
      { name: 'Made (UTC)', show: ({ createdAt }) => when(createdAt) },
      { name: 'Owner', show: (project) => button('New dashboard secret', renew(project)) },
    ],
    projects,
  );
}

function budgetTable(budgets) {
  const words = (name) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return table(
    'Budgets',
    [
      { name: 'Budget', show: ({ budget }) => words(budget) },
      { name: 'Used', show: ({ used }) => number(used), isNumber: true },
      { name: 'Limit of the plan', show: ({ limit }) => (limit === null ? 'none' : number(limit)), isNumber: true },
      { name: 'Refused since the start', show: ({ refused }) => number(refused), isNumber: true },
    ],
    budgets,
  );
}

function newProject(plans, place, who) {
  const select = h(
    'select',
    { name: 'plan' },
    plans.map((plan) => h('option', { value: plan }, plan)),
  );
  return form(
    'row',
    async ({ name, plan }) => {
      await post('/projects', { name, plan });
      note(`Project ${name} is made`);
      await projectsPage(place, { who });
    },
    field('Name of a new project', h('input', { name: 'name', required: true, maxlength: 128 })),
    field('Plan', select),
    h('button', { type: 'submit' }, 'Create project'),
  );
}

const listOf = (text) => {
  const items = text.split(/[\s,]+/).filter(Boolean);
  return items.length === 0 ? null : items;
};

function newKey(project, made, changed) {
  return form(
    'row',
    async ({ name, ips, expires }, element) => {
      const expiresAt = expires === '' ? null : Date.parse(`${expires}T00:00:00Z`);
      const { key } = await post(`/projects/${project()}/keys`, { name, ips: listOf(ips), expiresAt });
      made.replaceChildren(secretBox(`New key ${name}`, key));
      element.reset();
      await changed();
    },
    field('Name of a new key', h('input', { name: 'name', maxlength: 128 })),
    field('Only from (addresses, networks)', h('input', { name: 'ips', spellcheck: 'false' })),
    field('Ends on', h('input', { name: 'expires', type: 'date' })),
    h('button', { type: 'submit' }, 'Create key'),
  );
}

function keyTable(keys, project, changed) {
  const revoke = (key) => async () => {
    if (!confirm(`Revoke the key ${key.prefix}… permanently?`)) return;
    await post(`/projects/${project}/keys/${key.id}/revoke`);
    note(`Key ${key.prefix}… is revoked`);
    await changed();
  };
  const limit = (key) => async () => {
    const given = prompt('Addresses and networks that may use this key; empty: all', key.ips?.join(' ') ?? '');
    if (given === null) return;
    await call('PUT', `/projects/${project}/keys/${key.id}/ips`, { ips: listOf(given) });
    await changed();
  };
  return table(
    'Keys',
    [
      { name: 'Key', show: ({ prefix }) => h('code', {}, `${prefix}…`) },
      { name: 'Name', show: ({ name }) => name },
      { name: 'State', show: ({ state }) => h('span', { class: state === 'active' ? 'good' : 'soft' }, state) },
      { name: 'Made (UTC)', show: ({ createdAt }) => when(createdAt) },
      { name: 'Ends (UTC)', show: ({ expiresAt }) => (expiresAt === null ? 'never' : when(expiresAt)) },
      { name: 'From', show: ({ ips }) => ips?.join(' ') ?? 'everywhere' },
      {
        name: 'Change',
        show: (key) =>
          key.state === 'active'
            ? h('span', { class: 'actions' }, button('Limit', limit(key)), button('Revoke', revoke(key), 'danger'))
            : '',
      },
    ],
    keys,
  );
}
