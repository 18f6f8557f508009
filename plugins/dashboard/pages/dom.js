/**
 * Creates an element. Attributes that begin with `on` are listeners, `class` is the class; children are elements, texts or null. Texts are
 * set as text: data of a server is never parsed as markup.
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'value') {
      element.value = value;
      // The value after a reset of the form.
      if ('defaultValue' in element) element.defaultValue = value;
    } else element.setAttribute(key, value === true ? '' : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** A table with a caption. `columns`: name, how to show a row, and whether it is a number. */
export function table(caption, columns, rows, whenEmpty = 'nothing yet') {
  if (rows.length === 0) return h('p', { class: 'soft' }, `${caption}: ${whenEmpty}`);
  const head = columns.map(({ name, isNumber }) => h('th', { scope: 'col', class: isNumber ? 'number' : null }, name));
  const body = rows.map((row) =>
    h(
      'tr',
      {},
      columns.map(({ show, isNumber }) => h('td', { class: isNumber ? 'number' : null }, show(row))),
    ),
  );
  return h(
    'div',
    { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, head)), h('tbody', {}, body)),
  );
}

/** A labelled control. */
export function field(label, control) {
  return h('label', {}, label, control);
}

/** A button that is disabled while its work runs, and shows errors. */
export function button(text, work, kind = '') {
  const element = h('button', { type: 'button', class: kind }, text);
  element.addEventListener('click', () => busy(element, work));
  return element;
}

/** A form that passes its values, by control name, to its work. */
export function form(className, work, ...children) {
  const element = h('form', { class: className }, ...children);
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(element));
    busy(element.querySelector('button[type=submit]'), () => work(values, element));
  });
  return element;
}

async function busy(control, work) {
  control.disabled = true;
  try {
    await work();
  } catch (error) {
    note(error.message);
  } finally {
    control.disabled = false;
  }
}

const NOTE_MS = 8_000;

/** Shows a message that screen readers announce. */
export function note(text) {
  const element = h('p', {}, text);
  document.getElementById('notes').append(element);
  setTimeout(() => element.remove(), NOTE_MS);
}

/** A secret that is shown only once. */
export function secretBox(what, secret) {
  const copy = button('Copy', async () => {
    await navigator.clipboard.writeText(secret);
    note('Copied');
  });
  const box = h(
    'div',
    { class: 'secret', role: 'alert', tabindex: '-1' },
    h('p', {}, `${what}. It is shown only once: store it now.`),
    h('p', {}, h('code', {}, secret)),
    copy,
  );
  queueMicrotask(() => box.focus());
  return box;
}

export const time = (unixMs) =>
  unixMs === null || unixMs === undefined ? '–' : new Date(unixMs).toISOString().replace('T', ' ').slice(0, 19);

/** A time in a table, on one line. */
export const when = (unixMs) => h('time', {}, time(unixMs));

export const number = (value) =>
  value === null || value === undefined ? '–' : new Intl.NumberFormat('en').format(value);
