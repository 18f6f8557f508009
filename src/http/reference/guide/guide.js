/** The pages work without this: it adds the search, the menu of narrow screens, buttons that copy code, and where one is on a page. */
import MiniSearch from 'minisearch';

const MOST = 12;
const one = (selector, from = document) => from.querySelector(selector);
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

// -------------------------------------------------------------------------------------------------------------- search

const dialog = one('dialog.search');
const input = one('input', dialog);
const list = one('#found');
const state = one('.state', dialog);
let index = null;
let chosen = -1;

/** `maxConcurrent`, `max_concurrent` and `max-concurrent` are found by their parts too. */
const tokenize = (text) => {
  const words = text.split(/[^\p{L}\p{N}_$-]+/u).filter((word) => word !== '');
  const parts = words.flatMap((word) => word.split(/[_-]+|(?<=\p{Ll})(?=\p{Lu})/u)).filter((part) => part !== '');
  return [...new Set([...words, ...parts])];
};

async function load() {
  const response = await fetch('search.json');
  if (!response.ok) throw new Error(String(response.status));
  const sections = await response.json();
  const engine = new MiniSearch({
    fields: ['title', 'page', 'text'],
    storeFields: ['title', 'page', 'text'],
    tokenize,
  });
  engine.addAll(sections);
  return engine;
}

function open() {
  if (dialog.open) return;
  dialog.showModal();
  input.select();
  index ??= load();
  search();
}

async function search() {
  const query = input.value.trim();
  try {
    const engine = await index;
    if (query !== input.value.trim()) return;
    const options = {
      boost: { title: 4, page: 2 },
      prefix: true,
      fuzzy: (word) => (word.length > 4 ? 0.2 : false),
      combineWith: 'AND',
    };
    show(query === '' ? [] : engine.search(query, options).slice(0, MOST), query);
  } catch {
    index = null;
    state.textContent = 'The search cannot be loaded: it needs a web server.';
  }
}

function show(results, query) {
  const options = results.map(({ id, title, page, text, terms }, number) => {
    const where = page === title ? [] : [make('span', { class: 'page' }, page)];
    const option = make(
      'li',
      { role: 'option', id: `found-${number}`, 'aria-selected': 'false', 'data-href': id },
      make('strong', {}, ...marked(title, terms)),
      ...where,
      make('span', { class: 'text' }, ...marked(excerpt(text, terms), terms)),
    );
    option.addEventListener('mousemove', () => choose(number));
    option.addEventListener('click', () => go(option));
    return option;
  });
  list.replaceChildren(...options);
  input.setAttribute('aria-expanded', String(options.length > 0));
  state.textContent =
    query === ''
      ? ''
      : options.length === 0
        ? `Nothing about “${query}”.`
        : `${options.length === MOST ? 'The best ' : ''}${options.length} found`;
  choose(options.length > 0 ? 0 : -1);
}

function choose(number) {
  const options = [...list.children];
  chosen = number;
  for (const [at, option] of options.entries()) option.setAttribute('aria-selected', String(at === number));
  if (options[number] === undefined) return input.removeAttribute('aria-activedescendant');
  input.setAttribute('aria-activedescendant', options[number].id);
  options[number].scrollIntoView({ block: 'nearest' });
}

function go(option) {
  dialog.close();
  location.href = option.dataset.href;
}

/** The part of a text in which the first word that was found stands. */
function excerpt(text, terms) {
  const flat = text.replaceAll(/\s+/g, ' ');
  const places = terms.map((term) => flat.toLowerCase().indexOf(term)).filter((at) => at >= 0);
  const first = Math.min(...(places.length > 0 ? places : [0]));
  const from = first < 40 ? 0 : flat.lastIndexOf(' ', first - 30) + 1;
  return `${from > 0 ? '… ' : ''}${flat.slice(from, from + 140)}${from + 140 < flat.length ? ' …' : ''}`;
}

function marked(text, terms) {
  const escaped = terms
    .map((term) => term.replaceAll(/[$.*+?^{}()|[\]\\]/g, '\\$&'))
    .sort((a, b) => b.length - a.length);
  if (escaped.length === 0) return [text];
  const parts = text.split(new RegExp(`(${escaped.join('|')})`, 'gi'));
  return parts.map((part, at) => (at % 2 === 1 ? make('mark', {}, part) : part));
}

input.addEventListener('input', search);
input.addEventListener('keydown', (event) => {
  const count = list.children.length;
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves && count > 0) {
    event.preventDefault();
    choose((chosen + moves[event.key] + count) % count);
  } else if (event.key === 'Enter' && chosen >= 0) {
    event.preventDefault();
    go(list.children[chosen]);
  }
});
dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
one('.close', dialog).addEventListener('click', () => dialog.close());
one('button.find').addEventListener('click', open);
document.addEventListener('keydown', (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  const isAsked =
    (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) ||
    (event.key === 'k' && (event.ctrlKey || event.metaKey));
  if (!isAsked) return;
  event.preventDefault();
  open();
});

// ---------------------------------------------------------------------------------------------------- the menu, the code

const menu = one('button.menu');
const pages = one('#pages');
function setMenu(isOpen) {
  menu.setAttribute('aria-expanded', String(isOpen));
  document.body.classList.toggle('menu-open', isOpen);
}
menu.addEventListener('click', () => setMenu(menu.getAttribute('aria-expanded') !== 'true'));
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || !document.body.classList.contains('menu-open')) return;
  setMenu(false);
  menu.focus();
});
const current = one('[aria-current]', pages);
if (current !== null) pages.scrollTop = current.offsetTop - pages.clientHeight / 2;

for (const block of document.querySelectorAll('figure.code:not(.output)')) {
  const button = make('button', { type: 'button', class: 'copy' }, 'Copy');
  button.addEventListener('click', async () => {
    const done = await navigator.clipboard?.writeText(one('code', block).textContent).then(
      () => true,
      () => false,
    );
    button.textContent = done ? 'Copied' : 'Not copied';
    setTimeout(() => (button.textContent = 'Copy'), 1_500);
  });
  block.append(button);
}

const links = new Map([...document.querySelectorAll('.toc a')].map((link) => [link.hash.slice(1), link]));
if (links.size > 0) {
  const headings = [...links.keys()].map((id) => document.getElementById(id));
  const mark = () => {
    const passed = headings.filter((heading) => heading.getBoundingClientRect().top < 120);
    const here = passed.at(-1)?.id ?? headings[0].id;
    for (const [id, link] of links) link.toggleAttribute('data-here', id === here);
  };
  document.addEventListener('scroll', mark, { passive: true });
  mark();
}
