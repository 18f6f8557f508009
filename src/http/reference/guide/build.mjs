/**
 * Builds the guide: a static site from the Markdown of this repository. `build.mjs` of the project writes it into `dist`, compressed, and the
 * daemon serves it at `/docs/guide`; `npm run docs` writes plain files into `dist-docs`, for any web server. All links are relative and
 * the files of the site lie in one folder.
 */
import { readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, extname, join, normalize, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import hljs from 'highlight.js/lib/core';
import MarkdownIt from 'markdown-it';
import { contentsFor, SKILL_HEAD } from './for-agents.mjs';
import { KINDS } from './kinds.mjs';

const folder = import.meta.dirname;
const root = join(folder, '../../../..');

/** Shorter names for the navigation, where the title of the page is long. */
const LABELS = {
  'from-hosted': 'From the hosted service',
  'leave-hosted': 'Leave a hosted service',
  operators: 'Run the daemon',
  proxy: 'JSON-RPC and websockets',
  access: 'Keys, plans, usage',
  labels: 'Label files',
};

const LANGUAGES = {
  bash: ['sh', 'bash'],
  javascript: ['js', 'mjs'],
  typescript: ['ts'],
  python: ['py', 'python'],
  go: ['go'],
  rust: ['rust'],
  java: ['java'],
  json: ['json'],
  yaml: ['yaml'],
  xml: ['xml', 'html'],
  ini: ['toml', 'ini'],
};

/** Name of each language in captions, for those who listen. */
const SPOKEN = {
  sh: 'Shell',
  bash: 'Shell',
  js: 'JavaScript',
  ts: 'TypeScript',
  py: 'Python',
  go: 'Go',
  rust: 'Rust',
  java: 'Java',
  json: 'JSON',
  yaml: 'YAML',
  toml: 'TOML',
  html: 'HTML',
  xml: 'XML',
  text: 'Text',
};

/**
 * The bytes of each file of the site, by name. `api` is the address of the reference of routes, which only a daemon has; null leaves
 * the link out. Throws for a page of `docs/` without a place, and for a link to nothing.
 */
export async function buildGuide({ api = '/docs' } = {}) {
  await loadLanguages();
  const places = await place();
  const pages = places.map((page) => ({ ...page, ...render(page, places) }));
  checkFragments(pages);
  const files = new Map();
  pages.forEach((page, index) => {
    const around = { before: pages[index - 1], after: pages[index + 1] };
    files.set(`${page.name}.html`, Buffer.from(document(page, around, pages, api)));
    files.set(`${page.name}.md`, Buffer.from(page.markdown));
  });
  files.set('llms.txt', Buffer.from(contentsFor(pages, KINDS)));
  files.set('skill.md', Buffer.from(SKILL_HEAD + (await readFile(join(folder, 'skill.md'), 'utf8'))));
  files.set('search.json', Buffer.from(JSON.stringify(pages.flatMap(({ sections }) => sections))));
  for (const [name, bytes] of await bundle()) files.set(name, bytes);
  files.set('icon.svg', await readFile(join(root, 'plugins/dashboard/app/icon.svg')));
  return files;
}

async function loadLanguages() {
  for (const [name, aliases] of Object.entries(LANGUAGES)) {
    if (hljs.getLanguage(name) !== undefined) continue;
    const { default: language } = await import(`highlight.js/lib/languages/${name}`);
    hljs.registerLanguage(name, language);
    hljs.registerAliases(aliases, { languageName: name });
  }
}

/** All pages with their kind, the front page first. */
async function place() {
  const listed = KINDS.flatMap(({ title, pages }) => pages.map((page) => ({ ...page, kind: title })));
  const all = [{ source: 'docs/README.md', name: 'index', kind: null }, ...listed];
  const found = (await readdir(join(root, 'docs'), { recursive: true })).filter((path) => path.endsWith('.md'));
  const lost = found
    .map((path) => `docs/${path.split(sep).join('/')}`)
    .filter((path) => !all.some(({ source }) => source === path));
  if (lost.length > 0) throw new Error(`no place in the guide for ${lost.join(', ')}: add it to KINDS`);
  return all;
}

/** The page as HTML, with its title, its headings and the text of its sections for the search. */
function render(page, places) {
  const text = AS_MARKDOWN[extname(page.source)](page, readFileSync(join(root, page.source), 'utf8'));
  const md = new MarkdownIt({ html: false, linkify: false, typographer: false });
  const env = { page, places, slugs: new Map() };
  md.renderer.rules.fence = (tokens, index) => codeBlock(tokens[index]);
  md.renderer.rules.code_inline = (tokens, index) =>
    `<code>${escapeHtml(tokens[index].content).replaceAll(/(?<=\w)([/_.])(?=[\w{:])|(?<=\})\//g, '$&<wbr>')}</code>`;
  md.renderer.rules.table_open = () => '<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>';
  md.renderer.rules.table_close = () => '</table></div>';
  md.renderer.rules.link_close = (tokens, index, options, _env, self) =>
    tokens[index].meta === 'plain' ? '</span>' : self.renderToken(tokens, index, options);
  md.renderer.rules.heading_close = (tokens, index) => {
    const { tag, meta } = tokens[index];
    const anchor =
      meta === null
        ? ''
        : ` <a class="anchor" href="#${meta.slug}" aria-label="Link to “${escapeHtml(meta.text)}”">#</a>`;
    return `${anchor}</${tag}>\n`;
  };
  const tokens = md.parse(text, env);
  const headings = [];
  let title = '';
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'inline') resolveLinks(token.children, env);
    if (token.type !== 'heading_open') continue;
    const words = plainText(tokens[index + 1]);
    if (token.tag === 'h1') title = words;
    else {
      const slug = uniqueSlug(words, env.slugs);
      token.attrSet('id', slug);
      tokens[index + 2].meta = { slug, text: words };
      headings.push({ level: Number(token.tag.slice(1)), slug, text: words });
    }
  }
  const about = plainText(tokens[tokens.findIndex(({ type }) => type === 'paragraph_open') + 1]);
  // A corner of a table that names nothing is no heading.
  const html = md.renderer.render(tokens, md.options, env).replaceAll(/<th([^>]*)><\/th>/g, '<td$1></td>');
  const links = env.links ?? [];
  return {
    title,
    about,
    html,
    headings,
    links,
    markdown: asPublished(text, env),
    sections: sectionsOf(page, title, tokens),
  };
}

/** The Markdown of a page with links that lead to pages of the site; a file that only the repository has is named without a link. */
function asPublished(text, env) {
  const fences = /(^```[\s\S]*?^```)/m;
  return text
    .split(fences)
    .map((part) =>
      fences.test(part)
        ? part
        : part.replaceAll(/(?<!!)\[([^\]]*)\]\(([^)\s]+)\)/g, (_, words, href) => {
            const target = linkTarget(href, env);
            return target.plain === undefined ? `[${words}](${target.href.replace(/\.html(?=#|$)/, '.md')})` : words;
          }),
    )
    .join('');
}

/** A file of the repository as Markdown. */
const AS_MARKDOWN = { '.md': (_page, text) => text, '.yaml': configurationPage, '.txt': metricsPage };

/** Its sections, each below a heading. */
function configurationPage({ title, about }, text) {
  const [preamble, ...parts] = text.trim().split('\n\n');
  const isProse = (part) => part.split('\n').every((line) => line.startsWith('#'));
  const prose = [preamble.replace(/^.*\n#\n/, ''), ...parts.filter(isProse)].map((part) =>
    part.replaceAll(/^# ?/gm, ''),
  );
  const sections = parts
    .filter((part) => !isProse(part))
    .map((part) => {
      const [, key] = /^([a-z][\w-]*):/im.exec(part);
      return `## ${key}\n\n\`\`\`yaml\n${part}\n\`\`\`\n`;
    });
  return `# ${title}\n\n${about}\n\n${prose.join('\n\n')}\n\n${sections.join('\n')}`;
}

/** A table for each plugin or part of the daemon. */
function metricsPage({ title, about }, text) {
  const groups = new Map();
  for (const line of text.split('\n').filter((one) => one !== '' && !one.startsWith('#'))) {
    const [name, kind, ...meaning] = line.split(' ');
    const [, group] = /^parhelion_(token_metadata|[a-z0-9]+)/.exec(name);
    groups.set(group, [
      ...(groups.get(group) ?? []),
      `| \`${name}\` | ${kind} | ${meaning.join(' ').replaceAll('|', '\\|')} |`,
    ]);
  }
  const tables = [...groups].map(
    ([group, rows]) => `## ${group}\n\n| metric | kind | meaning |\n|---|---|---|\n${rows.join('\n')}\n`,
  );
  return `# ${title}\n\n${about}\n\n${tables.join('\n')}`;
}

function resolveLinks(children, env) {
  let isPlain = false;
  for (const token of children) {
    if (token.type === 'link_open') {
      const target = linkTarget(token.attrGet('href'), env);
      isPlain = target.plain !== undefined;
      if (isPlain) {
        token.tag = 'span';
        token.attrs = [
          ['class', 'file'],
          ['title', `${target.plain} in the repository`],
        ];
      } else {
        token.attrSet('href', target.href);
        env.links = [...(env.links ?? []), target.href];
      }
    }
    if (token.type === 'link_close' && isPlain) token.meta = 'plain';
  }
}

/** Where a link of the Markdown leads on the site: a page, an address, or a file that only the repository has. */
function linkTarget(href, { page, places }) {
  if (/^[a-z]+:/.test(href) || href.startsWith('#')) return { href };
  const [path, fragment] = href.split('#');
  const source = normalize(join(dirname(page.source), path))
    .split(sep)
    .join('/');
  const found = places.find((one) => one.source === source);
  if (found !== undefined) return { href: `${found.name}.html${fragment === undefined ? '' : `#${fragment}`}` };
  // A package is built from a part of the repository; that the file exists is for the tests.
  return { plain: source };
}

function checkFragments(pages) {
  for (const page of pages) {
    for (const href of page.links.filter((link) => link.includes('#') && !/^[a-z]+:/.test(link))) {
      const [file, slug] = href.split('#');
      const target = file === '' ? page : pages.find(({ name }) => `${name}.html` === file);
      if (!target.headings.some((heading) => heading.slug === slug))
        throw new Error(`${page.source}: no heading for ${href}`);
    }
  }
}

function plainText(inline) {
  return (inline?.children ?? []).map(({ type, content }) => (type === 'softbreak' ? ' ' : content)).join('');
}

function uniqueSlug(text, seen) {
  const slug = text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');
  const count = seen.get(slug) ?? 0;
  seen.set(slug, count + 1);
  return count === 0 ? slug : `${slug}-${count}`;
}

/** The page in parts, one for each heading: what the search looks through. */
function sectionsOf({ name }, page, tokens) {
  const sections = [{ id: `${name}.html`, page, title: page, text: '' }];
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'heading_open' && token.tag !== 'h1')
      sections.push({ id: `${name}.html#${token.attrGet('id')}`, page, title: plainText(tokens[index + 1]), text: '' });
    else if (token.type === 'inline' && tokens[index - 1].type !== 'heading_open')
      sections.at(-1).text += `${plainText(token)} `;
    else if (token.type === 'fence') sections.at(-1).text += `${token.content} `;
  }
  return sections;
}

function codeBlock({ info, content }) {
  const [language = '', ...words] = info.trim().split(/\s+/);
  const file = words.find((word) => /^(title|from)=/.test(word))?.replace(/^\w+=/, '');
  const isOutput = words.includes('output');
  const known = hljs.getLanguage(language) !== undefined;
  const code = known ? hljs.highlight(content, { language, ignoreIllegals: true }).value : escapeHtml(content);
  const shown = file ?? (isOutput ? 'Output' : null);
  const caption = shown === null ? '' : `<figcaption>${escapeHtml(shown)}</figcaption>`;
  const spoken = `${SPOKEN[language] ?? 'Text'}${shown === null ? '' : `: ${shown}`}`;
  return `<figure class="code${isOutput ? ' output' : ''}">${caption}<pre tabindex="0" role="group" aria-label="${escapeHtml(spoken)}"><code>${code}</code></pre></figure>\n`;
}

function escapeHtml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

// ------------------------------------------------------------------------------------------------------------- the page

const MARK =
  '<svg class="mark" viewBox="0 0 32 32" width="26" height="26" aria-hidden="true"><circle cx="16" cy="16" r="6" fill="#e8930c"/><path d="M3 16a13 13 0 0 1 26 0M3 16a13 13 0 0 0 26 0" fill="none" stroke="#e8930c" stroke-width="2" stroke-dasharray="4 4"/></svg>';
const GLASS =
  '<svg viewBox="0 0 20 20" width="16" height="16" aria-hidden="true"><circle cx="9" cy="9" r="6" fill="none" stroke="currentColor" stroke-width="1.8"/><path d="m13.5 13.5 4 4" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/></svg>';

const labelOf = ({ name, label, title }) => label ?? LABELS[name] ?? title;

function document(page, { before, after }, pages, api) {
  const { name, title, about, html, headings, kind } = page;
  const isFront = name === 'index';
  const toc = headings.filter(({ level }) => level <= 3);
  const step = (target, word) =>
    target === undefined
      ? '<span></span>'
      : `<a class="${word.toLowerCase()}" href="${target.name}.html" rel="${word === 'Next' ? 'next' : 'prev'}"><span>${word}</span> <strong>${escapeHtml(labelOf(target))}</strong></a>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${escapeHtml(about).slice(0, 240)}">
<title>${isFront ? 'Parhelion guide' : `${escapeHtml(title)} · Parhelion guide`}</title>
<link rel="icon" href="icon.svg">
<link rel="stylesheet" href="style.css">
<script type="module" src="guide.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header class="top">
<button class="menu" type="button" aria-label="Menu" aria-expanded="false" aria-controls="pages"><span aria-hidden="true">☰</span></button>
<a class="brand" href="index.html">${MARK} Parhelion <span class="soft">guide</span></a>
<button class="find" type="button" aria-label="Search" aria-haspopup="dialog">${GLASS} <span>Search</span> <kbd>/</kbd></button>
${api === null ? '' : `<a class="api" href="${api}">API reference</a>`}
</header>
<div class="shell">
<nav id="pages" aria-label="Pages">
${navigation(page, pages)}
</nav>
<main id="main" tabindex="-1"${isFront ? ' class="front"' : ''}>
<article>
${kind === null ? '' : `<p class="kind">${kind}</p>`}
${html}
</article>
<nav class="steps" aria-label="Previous and next page">${step(before, 'Previous')}${step(after, 'Next')}</nav>
</main>
${toc.length < 2 || isFront ? '' : `<aside class="toc"><nav aria-label="On this page"><p>On this page</p><ul>${toc.map(({ level, slug, text }) => `<li${level === 3 ? ' class="sub"' : ''}><a href="#${slug}">${escapeHtml(text)}</a></li>`).join('')}</ul></nav></aside>`}
</div>
<dialog class="search" aria-label="Search">
<div class="ask">${GLASS}<input type="text" role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list" aria-label="Search the guide" placeholder="Search the guide" autocomplete="off" spellcheck="false"><button type="button" class="close">Esc</button></div>
<ul id="found" role="listbox" aria-label="Results"></ul>
<p class="state" role="status"></p>
</dialog>
</body>
</html>
`;
}

function navigation(current, pages) {
  const link = (page) =>
    `<li><a href="${page.name}.html"${page.name === current.name ? ' aria-current="page"' : ''}>${escapeHtml(labelOf(page))}</a></li>`;
  const groups = KINDS.map(({ title, purpose }) => {
    const links = pages.filter(({ kind }) => kind === title).map(link);
    return `<p class="group" title="${escapeHtml(purpose)}">${title}</p>\n<ul>${links.join('')}</ul>`;
  });
  return groups.join('\n');
}

/** Style and script; the script contains the engine of the search, with its licence. */
async function bundle() {
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: { guide: 'guide.js', style: 'style.css' },
    outdir: 'out',
    bundle: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    legalComments: 'inline',
    write: false,
    logLevel: 'warning',
  });
  const licence = readFileSync(join(root, 'node_modules/minisearch/LICENSE.txt'), 'utf8').trim();
  return outputFiles.map(({ path, contents }) => {
    const name = path.slice(path.lastIndexOf(sep) + 1);
    const notice = name === 'guide.js' ? `/*! minisearch\n${licence}\n*/\n` : '';
    return [name, Buffer.concat([Buffer.from(notice), contents])];
  });
}

/** `npm run docs [FOLDER]`: the site as plain files. */
async function writeGuide(to) {
  const files = await buildGuide({ api: null });
  await rm(to, { recursive: true, force: true });
  await mkdir(to, { recursive: true });
  for (const [name, bytes] of files) await writeFile(join(to, name), bytes);
  console.log(`wrote ${files.size} files: ${join(relative(process.cwd(), to), 'index.html')}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await writeGuide(join(process.cwd(), process.argv[2] ?? 'dist-docs'));
