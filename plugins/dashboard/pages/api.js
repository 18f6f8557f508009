const BASE = '/dashboard/api';
let csrfToken = '';
let lost = () => {};

/** Called when the session has ended. */
export function onLost(listener) {
  lost = listener;
}

export async function call(method, path, body) {
  const response = await fetch(BASE + path, {
    method,
    credentials: 'same-origin',
    headers: {
      ...(method === 'GET' ? {} : { 'X-CSRF-Token': csrfToken }),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const value = text === '' ? null : JSON.parse(text);
  if (response.ok) return value;
  if (response.status === 401 && path !== '/login') lost();
  throw new Error([value?.error ?? `Error ${response.status}`, value?.details].filter(Boolean).join(': '));
}

export const get = (path) => call('GET', path);
export const post = (path, body) => call('POST', path, body);

/** The logged-in user, or null. */
export async function session() {
  const response = await fetch(`${BASE}/session`, { credentials: 'same-origin' });
  if (!response.ok) return null;
  return keep(await response.json());
}

export async function login(body) {
  return keep(await post('/login', body));
}

export async function logout() {
  await post('/logout');
  csrfToken = '';
}

/** Ends all sessions, including this one: as operator those of all users, as owner those of the project. */
export async function endSessions() {
  await post('/sessions/end');
  csrfToken = '';
}

function keep(found) {
  csrfToken = found.csrfToken;
  return found;
}

/** A webhook endpoint on behalf of a project. */
export const hooks = (project, method, path, body) => post(`/projects/${project}/webhooks`, { method, path, body });
