/**
 * The page `/docs`: shows `/docs/reference.json`, an OpenAPI document, one group of operations at a time. The fragment of the address names what is
 * shown: `#tag/GROUP`, or `#tag/GROUP/METHOD/PATH`. Texts become text nodes, so nothing in the document is run.
 */
const LANGUAGES = { shell: 'Shell', js: 'JavaScript', python: 'Python' };
const MAX_FOUND = 40;
/** Deeper members are shown when they are opened. */
const OPEN_DEPTH = 1;
const HIDDEN_KEY = '••••••••';

const state = { key: '', language: 'shell', document: null, operations: [], shown: null };

// ------------------------------------------------------------------------------------------------------------ elements

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.flat(Number.POSITIVE_INFINITY).filter((child) => child !== null && child !== undefined));
  return made;
}

/** Code, links, bold words, lists and paragraphs: what descriptions use of Markdown. */
function markdown(text) {
  const blocks = String(text ?? '')
    .split(/\n{2,}/)
    .filter((block) => block.trim() !== '');
  return blocks.map((block) => {
    const lines = block.split('\n');
    if (lines.every((line) => /^\s*[-*] /.test(line)))
      return make(
        'ul',
        {},
        lines.map((line) => make('li', {}, inline(line.replace(/^\s*[-*] /, '')))),
      );
    return make('p', {}, inline(block));
  });
}

function inline(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(/`([^`]+)`|\[([^\]]+)\]\(([^)\s]+)\)|\*\*([^*]+)\*\*/g)) {
    parts.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    const [, code, words, target, bold] = match;
    if (code !== undefined) parts.push(make('code', {}, code));
    else if (bold !== undefined) parts.push(make('strong', {}, bold));
    else if (/^(https?:\/\/|\/|#)/.test(target)) parts.push(make('a', { href: target }, words));
    else parts.push(words);
  }
  return [...parts, text.slice(from)];
}

/** Code that scrolls within itself, with a button that copies it. `copied` has the key in it, where the shown text hides it. */
function codeBlock(label, text, copied = () => text) {
  const button = make('button', { type: 'button', class: 'copy', 'aria-label': `Copy: ${label}` }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(copied());
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not allowed';
    }
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1_500);
  });
  return make(
    'div',
    { class: 'code' },
    make('pre', { tabindex: '0', 'aria-label': label, role: 'group' }, make('code', {}, text)),
    button,
  );
}

const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

// ------------------------------------------------------------------------------------------------------------- schemas

function resolved(schema) {
  let found = schema ?? {};
  for (let depth = 0; found.$ref !== undefined && depth < 20; depth += 1) {
    const { $ref, ...rest } = found;
    const target = $ref
      .replace(/^#\//, '')
      .split('/')
      .reduce((at, part) => at?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], state.document);
    found = { ...target, ...rest };
  }
  return found;
}

function typeOf(schema) {
  const { type, format, enum: values, const: value, items, anyOf, oneOf, allOf, prefixItems } = resolved(schema);
  if (value !== undefined) return JSON.stringify(value);
  if (values !== undefined) return values.map((one) => JSON.stringify(one)).join(' | ');
  const choices = anyOf ?? oneOf;
  if (choices !== undefined) return [...new Set(choices.map(typeOf))].join(' | ');
  if (prefixItems !== undefined) return `[${prefixItems.map(typeOf).join(', ')}]`;
  if (type === 'array') return `list of ${items === undefined ? 'anything' : typeOf(items)}`;
  const names = Array.isArray(type) ? type.join(' | ') : type;
  return `${names ?? (allOf === undefined ? 'anything' : 'object')}${format === undefined ? '' : ` (${format})`}`;
}

const BOUNDS = {
  default: 'default',
  minimum: '>=',
  maximum: '<=',
  exclusiveMinimum: '>',
  exclusiveMaximum: '<',
  minLength: 'length >=',
  maxLength: 'length <=',
  minItems: 'items >=',
  maxItems: 'items <=',
  pattern: 'pattern',
};
function boundsOf(schema) {
  const found = resolved(schema);
  return Object.entries(BOUNDS)
    .filter(([name]) => found[name] !== undefined)
    .map(([name, words]) => `${words} ${JSON.stringify(found[name])}`)
    .join(', ');
}

/** The members of an object, of the items of a list, or of the choices of a value; null where there are none. */
function membersOf(schema, depth) {
  const found = resolved(schema);
  const { properties, required = [], items, anyOf, oneOf, allOf, additionalProperties, prefixItems } = found;
  const parts = [];
  if (properties !== undefined && Object.keys(properties).length > 0)
    parts.push(
      make(
        'ul',
        { class: 'members' },
        Object.entries(properties).map(([name, inner]) =>
          make('li', {}, member(name, inner, required.includes(name), depth)),
        ),
      ),
    );
  if (typeof additionalProperties === 'object' && Object.keys(additionalProperties).length > 0)
    parts.push(
      make('ul', { class: 'members' }, make('li', {}, member('any other name', additionalProperties, false, depth))),
    );
  for (const inner of allOf ?? []) parts.push(membersOf(inner, depth));
  const choices = (anyOf ?? oneOf ?? []).filter((inner) => hasMembers(inner));
  for (const [index, inner] of choices.entries())
    parts.push(
      ...(choices.length > 1
        ? [make('p', { class: 'choice' }, inline(resolved(inner).title ?? `Form ${index + 1} of ${choices.length}`))]
        : []),
      membersOf(inner, depth),
    );
  for (const inner of [items, ...(prefixItems ?? [])])
    if (inner !== undefined && hasMembers(inner)) parts.push(membersOf(inner, depth));
  const made = parts.filter((part) => part !== null);
  return made.length === 0 ? null : make('div', {}, made);
}

function hasMembers(schema, depth = 0) {
  if (depth > 6) return false;
  const { properties = {}, items, anyOf, oneOf, allOf, additionalProperties, prefixItems } = resolved(schema);
  if (Object.keys(properties).length > 0) return true;
  if (typeof additionalProperties === 'object' && Object.keys(additionalProperties).length > 0) return true;
  return [items, ...(anyOf ?? []), ...(oneOf ?? []), ...(allOf ?? []), ...(prefixItems ?? [])].some(
    (inner) => inner !== undefined && hasMembers(inner, depth + 1),
  );
}

function member(name, schema, isRequired, depth) {
  const { description, deprecated } = resolved(schema);
  const head = [
    make('code', { class: 'name' }, name),
    make('span', { class: 'type' }, ` ${typeOf(schema)}`),
    isRequired ? make('span', { class: 'required' }, ' required') : null,
    deprecated ? make('span', { class: 'type' }, ' deprecated') : null,
    make('span', { class: 'type' }, boundsOf(schema) === '' ? '' : ` ${boundsOf(schema)}`),
  ];
  const words = description === undefined ? [] : markdown(description);
  if (!hasMembers(schema)) return [make('div', {}, head), ...words];
  const inside = make('details', {}, make('summary', {}, head));
  const fill = () => {
    if (inside.childElementCount === 1) inside.append(membersOf(schema, depth + 1) ?? '');
  };
  if (depth < OPEN_DEPTH) {
    inside.open = true;
    fill();
  } else inside.addEventListener('toggle', fill);
  return [inside, ...words];
}

// ------------------------------------------------------------------------------------------------------------- samples

/** Where the key goes: the first scheme of the operation that a form can fill in. Null: none is needed. */
function keyPlace({ operation }) {
  const schemes = state.document.components?.securitySchemes ?? {};
  const names = (operation.security ?? []).flatMap((choice) => Object.keys(choice));
  const usable = names.map((name) => schemes[name]).filter((scheme) => scheme !== undefined && scheme.in !== 'cookie');
  const scheme = usable.find((one) => one.in === 'header' || one.type === 'http') ?? usable[0];
  if (scheme === undefined) return null;
  if (scheme.type === 'http') return { place: 'header', name: 'Authorization', prefix: 'Bearer ' };
  return { place: scheme.in, name: scheme.name, prefix: '' };
}

/** A call of the operation: `values` of its parameters by name, with examples for those that are required. */
function callOf(one, key, values = null, body = null) {
  const { method, path, operation } = one;
  const query = new URLSearchParams();
  let target = path.replace(/#.*$/, '');
  for (const parameter of operation.parameters ?? []) {
    const example = parameter.example ?? resolved(parameter.schema).examples?.[0] ?? resolved(parameter.schema).default;
    const value =
      values === null ? (parameter.required ? (example ?? parameter.name) : undefined) : values[parameter.name];
    if (value === undefined || value === '') continue;
    if (parameter.in === 'path') target = target.replace(`{${parameter.name}}`, encodeURIComponent(asText(value)));
    else if (parameter.in === 'query') query.append(parameter.name, asText(value));
  }
  const headers = {};
  const place = keyPlace(one);
  if (place !== null && key !== '') {
    if (place.place === 'header') headers[place.name] = `${place.prefix}${key}`;
    else query.append(place.name, key);
  }
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const content = body ?? (media === undefined ? null : asText(media.example ?? ''));
  if (content !== null) headers['Content-Type'] = type ?? 'application/json';
  const text = query.toString();
  return { method, url: `${target}${text === '' ? '' : `?${text}`}`, headers, body: content === '' ? null : content };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const SAMPLES = {
  shell({ method, url, headers, body }) {
    const parts = [`curl ${method === 'GET' ? '' : `--request ${method} `}${quoted(location.origin + url)}`];
    for (const [name, value] of Object.entries(headers)) parts.push(`--header ${quoted(`${name}: ${value}`)}`);
    if (body !== null) parts.push(`--data ${quoted(body)}`);
    return parts.join(' \\\n  ');
  },
  js({ method, url, headers, body }) {
    const lines = [
      `const response = await fetch(${JSON.stringify(location.origin + url)}, {`,
      `  method: '${method}',`,
    ];
    lines.push(`  headers: ${JSON.stringify(headers, null, 2).replaceAll('\n', '\n  ')},`);
    if (body !== null) lines.push(`  body: JSON.stringify(${body.replaceAll('\n', '\n  ')}),`);
    return [...lines, '});', 'console.log(await response.json());'].join('\n');
  },
  python({ method, url, headers, body }) {
    const lines = [
      'import requests',
      '',
      `response = requests.request(`,
      `    "${method}",`,
      `    ${JSON.stringify(location.origin + url)},`,
    ];
    lines.push(`    headers=${JSON.stringify(headers, null, 4).replaceAll('\n', '\n    ')},`);
    if (body !== null) lines.push(`    data=${JSON.stringify(body)},`);
    return [...lines, ')', 'print(response.json())'].join('\n');
  },
};

function sample(one) {
  const box = make('div', { class: 'sample' });
  const fill = () => {
    const write = SAMPLES[state.language];
    const shown = write(callOf(one, state.key === '' ? 'YOUR_API_KEY' : HIDDEN_KEY));
    const choice = make(
      'select',
      { 'aria-label': `Language of the sample of ${one.operation.summary}` },
      Object.entries(LANGUAGES).map(([name, words]) =>
        make('option', { value: name, selected: name === state.language }, words),
      ),
    );
    choice.addEventListener('change', () => {
      state.language = choice.value;
      refillSamples();
    });
    box.replaceChildren(
      choice,
      codeBlock('Sample', shown, () => write(callOf(one, state.key || 'YOUR_API_KEY'))),
    );
  };
  box.refill = fill;
  fill();
  return box;
}

function refillSamples() {
  for (const box of document.querySelectorAll('.sample')) box.refill();
}

// ---------------------------------------------------------------------------------------------------------- operations

const slugOf = (tag) =>
  tag
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');

/** The document has a path `/#getAsset` for each method of JSON-RPC, whose calls all go to `/`. */
const rpcNameOf = (path) => (path.startsWith('/#') ? path.slice(2) : null);

/** Where an operation is called: its path, or `/` and the name of its method. */
function placeLine({ method, path }) {
  const name = rpcNameOf(path);
  return make(
    'p',
    { class: 'path' },
    make('span', { class: `method ${method.toLowerCase()}` }, method),
    ' ',
    make('code', {}, name === null ? path : '/'),
    ...(name === null ? [] : [' method ', make('code', {}, name)]),
  );
}

function readOperations({ paths }) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([name, operation]) => {
      const method = name.toUpperCase();
      const tag = operation.tags?.[0] ?? 'Other';
      const place = `tag/${slugOf(tag)}/${method}${path}`;
      const words = `${operation.summary} ${path} ${operation.description ?? ''} ${tag}`.toLowerCase();
      return { path, method, operation, tag, place, words, name: operation.summary.toLowerCase() };
    }),
  );
}

function operationSection(one) {
  const { method, path, operation, place } = one;
  const [type, body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  return make(
    'section',
    { id: `api-1/${place}`, class: 'operation', tabindex: '-1', 'aria-label': rpcNameOf(path) ?? `${method} ${path}` },
    make('h2', {}, operation.summary),
    placeLine(one),
    operation.deprecated ? make('p', {}, make('strong', {}, 'Deprecated.')) : null,
    ...markdown(operation.description),
    make(
      'p',
      {},
      make(
        'button',
        { type: 'button', class: 'try', onclick: () => openTry(one) },
        'Test Request',
        make('span', { class: 'unseen' }, ` of ${operation.summary}`),
      ),
    ),
    ...((operation.parameters ?? []).length === 0
      ? []
      : [
          make('h3', {}, 'Parameters'),
          make(
            'ul',
            { class: 'members' },
            operation.parameters.map((parameter) =>
              make(
                'li',
                {},
                member(
                  parameter.name,
                  { ...parameter.schema, description: parameter.description },
                  parameter.required === true,
                  0,
                ),
                make('p', { class: 'type' }, `in the ${parameter.in}`),
              ),
            ),
          ),
        ]),
    ...(body === undefined
      ? []
      : [
          make('h3', {}, `Body: ${type}`),
          ...markdown(operation.requestBody.description),
          ...media(`Example of the body`, body),
        ]),
    make('h3', {}, 'Sample'),
    sample(one),
    make('h3', {}, 'Answers'),
    ...Object.entries(operation.responses ?? {}).map(([status, answer], index) => {
      const { description, content = {} } = resolved(answer);
      return make(
        'details',
        { class: 'answer', open: index === 0 },
        make('summary', {}, make('strong', {}, status), ' ', ...inline(description ?? '')),
        ...Object.entries(content).flatMap(([kind, one]) => [
          make('p', { class: 'type' }, kind),
          ...media(`Example of ${status}`, one),
        ]),
      );
    }),
  );
}

function media(label, { schema, example }) {
  const members = schema === undefined ? null : membersOf(schema, 0);
  return [
    schema === undefined ? null : make('p', { class: 'type' }, typeOf(schema)),
    members,
    example === undefined ? null : codeBlock(label, asText(example)),
  ];
}

// ----------------------------------------------------------------------------------------------------------------- try

function openTry(one) {
  const { operation, method } = one;
  const dialog = make('dialog', { class: 'call', 'aria-label': `Test ${operation.summary}` });
  const inputs = (operation.parameters ?? [])
    .filter((parameter) => parameter.in !== 'header' && parameter.in !== 'cookie')
    .map((parameter) => {
      const example = parameter.required ? (parameter.example ?? resolved(parameter.schema).examples?.[0] ?? '') : '';
      return make(
        'label',
        {},
        parameter.name,
        make('input', { name: parameter.name, value: asText(example), required: parameter.required === true }),
      );
    });
  const first = Object.values(operation.requestBody?.content ?? {})[0];
  const body =
    first === undefined ? null : make('textarea', { rows: '12', spellcheck: 'false' }, asText(first.example ?? ''));
  const result = make('div', { class: 'result', role: 'status' });
  const send = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(inputs.map((label) => [label.lastChild.name, label.lastChild.value]));
    const { url, headers, body: content } = callOf(one, state.key, values, body === null ? null : body.value);
    const startedMs = performance.now();
    result.replaceChildren('…');
    try {
      const response = await fetch(url, { method, headers, ...(content === null ? {} : { body: content }) });
      const text = await response.text();
      const took = `${(performance.now() - startedMs).toFixed(0)} ms`;
      result.replaceChildren(
        make('p', {}, make('strong', {}, String(response.status)), ` ${response.statusText}, ${took}`),
        codeBlock('Answer', readable(text)),
      );
    } catch (error) {
      result.replaceChildren(make('p', {}, String(error)));
    }
  };
  dialog.append(
    make(
      'form',
      { onsubmit: send },
      make('h2', {}, operation.summary),
      placeLine(one),
      state.key === '' && keyPlace(one) !== null
        ? make('p', {}, 'No API key is filled in: the answer will be a refusal.')
        : null,
      ...inputs,
      body === null ? null : make('label', {}, 'Body', body),
      make(
        'p',
        { class: 'buttons' },
        make('button', { type: 'submit', class: 'try' }, 'Send'),
        make('button', { type: 'button', onclick: () => dialog.close() }, 'Close'),
      ),
    ),
    result,
  );
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// -------------------------------------------------------------------------------------------------------------- search

/** Best first: names that are the text, that begin with it, that contain it; then those where every word is found. */
function find(text) {
  const asked = text.trim().toLowerCase();
  if (asked === '') return [];
  const words = asked.split(/\s+/);
  const rankOf = ({ name, path, words: all }) => {
    if (name === asked) return 0;
    if (name.startsWith(asked)) return 1;
    if (name.includes(asked) || path.toLowerCase().includes(asked)) return 2;
    return words.every((word) => all.includes(word)) ? 3 : null;
  };
  return state.operations
    .map((one) => ({ one, rank: rankOf(one) }))
    .filter(({ rank }) => rank !== null)
    .sort((left, right) => left.rank - right.rank)
    .slice(0, MAX_FOUND)
    .map(({ one }) => one);
}

function openSearch() {
  if (document.querySelector('dialog[open]') !== null) return;
  const list = make('ul', { role: 'listbox', id: 'found', 'aria-label': 'Found' });
  const input = make('input', {
    type: 'search',
    role: 'combobox',
    placeholder: 'Search',
    'aria-label': 'Search',
    autocomplete: 'off',
    'aria-controls': 'found',
    'aria-expanded': 'false',
    'aria-autocomplete': 'list',
  });
  const dialog = make('dialog', { class: 'search', 'aria-label': 'Search' }, input, list);
  let found = [];
  let at = 0;
  const go = (one) => {
    dialog.close();
    location.hash = one.place;
  };
  const mark = () => {
    [...list.children].forEach((option, index) => {
      option.setAttribute('aria-selected', String(index === at));
      if (index === at) option.scrollIntoView({ block: 'nearest' });
    });
    if (found.length > 0) input.setAttribute('aria-activedescendant', `found-${at}`);
    else input.removeAttribute('aria-activedescendant');
  };
  input.addEventListener('input', () => {
    found = find(input.value);
    at = 0;
    list.replaceChildren(
      ...found.map((one, index) =>
        make(
          'li',
          { role: 'option', id: `found-${index}`, onclick: () => go(one) },
          make('span', { class: `method ${one.method.toLowerCase()}` }, one.method),
          ` ${one.operation.summary} `,
          make('small', {}, rpcNameOf(one.path) === null ? one.path : one.tag),
        ),
      ),
    );
    input.setAttribute('aria-expanded', String(found.length > 0));
    mark();
  });
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      mark();
    } else if (event.key === 'Enter' && found[at] !== undefined) go(found[at]);
  });
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
}

// ---------------------------------------------------------------------------------------------------------------- page

function groupsOf({ 'x-tagGroups': groups, tags }) {
  return groups ?? [{ name: 'Reference', tags: tags.map(({ name }) => name) }];
}

/** A tag may be in two groups: its JSON-RPC methods in one, its routes in the other. */
const inGroup = (group, one) => group.name !== 'JSON-RPC' || one.path.startsWith('/#');

function sidebar() {
  const groups = groupsOf(state.document);
  const isMethod = (one) => one.path.startsWith('/#');
  return make(
    'nav',
    { 'aria-label': 'Operations' },
    groups.map((group) => [
      make('h2', {}, group.name),
      group.tags.map((tag) => {
        const members = state.operations.filter(
          (one) =>
            one.tag === tag && inGroup(group, one) && !(groups.length > 1 && group.name === 'REST' && isMethod(one)),
        );
        if (members.length === 0) return [];
        return make(
          'details',
          { 'data-tag': slugOf(tag) },
          make('summary', {}, tag),
          make(
            'ul',
            {},
            members.map((one) => make('li', {}, make('a', { href: `#${one.place}` }, one.operation.summary))),
          ),
        );
      }),
    ]),
  );
}

function keyForm() {
  const input = make('input', {
    placeholder: 'your API key',
    'aria-label': 'API key',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  input.value = state.key;
  input.addEventListener('input', () => {
    state.key = input.value.trim();
    refillSamples();
  });
  return make('label', { class: 'key' }, 'API key ', input);
}

function intro() {
  const { info, tags = [] } = state.document;
  return [
    make('h1', {}, info.title),
    make('p', { class: 'type' }, `Version ${info.version}`),
    ...markdown(info.description),
    make(
      'ul',
      { class: 'tags' },
      tags
        .filter(({ name }) => state.operations.some(({ tag }) => tag === name))
        .map(({ name, description }) =>
          make('li', {}, make('a', { href: `#tag/${slugOf(name)}` }, name), ' ', ...inline(description ?? '')),
        ),
    ),
  ];
}

function tagPage(name) {
  const description = state.document.tags?.find((one) => one.name === name)?.description;
  const members = state.operations.filter(({ tag }) => tag === name);
  return [make('h1', {}, name), ...markdown(description), ...members.map(operationSection)];
}

/** Shows what the address names, and goes there. */
function show() {
  let place = location.hash.slice(1);
  try {
    place = decodeURI(place);
  } catch {
    // A broken escape: keep the text.
  }
  const one = state.operations.find((candidate) => candidate.place === place);
  const tag = one?.tag ?? state.operations.find((candidate) => place === `tag/${slugOf(candidate.tag)}`)?.tag ?? null;
  const main = document.querySelector('main');
  if (state.shown !== tag || main.childElementCount === 0) {
    main.replaceChildren(...(tag === null ? intro() : tagPage(tag)));
    state.shown = tag;
  }
  main.classList.add('references-rendered');
  for (const link of document.querySelectorAll('nav a'))
    if (link.getAttribute('href') === `#${place}`) {
      link.setAttribute('aria-current', 'true');
      link.closest('details').open = true;
    } else link.removeAttribute('aria-current');
  const target = one === undefined ? null : document.getElementById(`api-1/${one.place}`);
  if (target === null) scrollTo(0, 0);
  else {
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  }
}

async function start() {
  const box = document.getElementById('reference');
  try {
    const response = await fetch('/docs/reference.json');
    if (!response.ok) throw new Error(`/docs/reference.json: ${response.status}`);
    state.document = await response.json();
  } catch (error) {
    box.replaceChildren(
      make('main', {}, make('p', { role: 'alert' }, `The description could not be loaded: ${error}`)),
    );
    return;
  }
  state.operations = readOperations(state.document);
  const menu = make('button', { type: 'button', class: 'menu', 'aria-expanded': 'false' }, 'Menu');
  const side = make('div', { class: 'side' }, sidebar());
  menu.addEventListener('click', () => menu.setAttribute('aria-expanded', String(side.classList.toggle('open'))));
  side.addEventListener('click', (event) => {
    if (event.target.closest('a') === null) return;
    side.classList.remove('open');
    menu.setAttribute('aria-expanded', 'false');
  });
  box.replaceChildren(
    make(
      'header',
      {},
      menu,
      make('button', { type: 'button', class: 'find', onclick: openSearch }, 'Search ', make('kbd', {}, 'Ctrl K')),
      keyForm(),
    ),
    side,
    make('main', {}),
  );
  addEventListener('hashchange', show);
  addEventListener('keydown', (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'k') return;
    event.preventDefault();
    openSearch();
  });
  show();
}

await start();
