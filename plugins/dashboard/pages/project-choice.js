import { get } from './api.js';
import { field, h } from './dom.js';

/** The projects of the session, and a control to select one; `changed` receives the id, initially too. */
export async function projectChoice(changed) {
  const { projects, plans } = await get('/projects');
  const select = h(
    'select',
    { name: 'project' },
    projects.map(({ id, name }) => h('option', { value: id }, `${name} (${id.slice(0, 8)}…)`)),
  );
  const remembered = sessionStorage.getItem('project');
  if (projects.some(({ id }) => id === remembered)) select.value = remembered;
  select.addEventListener('change', () => {
    sessionStorage.setItem('project', select.value);
    changed(select.value);
  });
  return { control: field('Project', select), projects, plans, chosen: () => select.value };
}
