import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync, gzipSync } from 'node:zlib';
import { Type } from '@sinclair/typebox';
import { CodedError } from '../../lib/coded-error.ts';
import { lazy } from '../../lib/lru.ts';
import { defineRoute, type Reply, RequestError, type Route, type Tag } from '../../plugin/plugin.ts';

/** A file that is the same for everybody, with a validator. */
export interface StaticFile {
  bytes(): Buffer;
  /** The same compressed; null: it is not. */
  readonly brotli: Buffer | null;
  /** The same for clients without Brotli, made once: strangers ask for these files. */
  gzip(): Buffer;
  readonly contentType: string;
  readonly etag: string;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const common = (name: string, content: Buffer) => ({
  contentType: TYPES[extname(name)] ?? 'application/octet-stream',
  etag: `"${createHash('sha256').update(content).digest('base64url').slice(0, 27)}"`,
});

export function fileOf(name: string, content: string | Buffer): StaticFile {
  const bytes = Buffer.from(content as string);
  return { ...common(name, bytes), bytes: () => bytes, brotli: null, gzip: lazy(() => gzipSync(bytes)) };
}

/** A file that a build has only compressed with Brotli, which every browser takes; it is unpacked for others. */
export function compressedFileOf(name: string, brotli: Buffer): StaticFile {
  const bytes = lazy(() => brotliDecompressSync(brotli));
  return { ...common(name, brotli), bytes, brotli, gzip: lazy(() => gzipSync(bytes())) };
}

export function fileReply(file: StaticFile, headers: Readonly<Record<string, string | string[] | undefined>>): Reply {
  const shared = {
    ...{ ETag: file.etag, 'Cache-Control': 'no-cache', 'X-Content-Type-Options': 'nosniff' },
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
  if (headers['if-none-match'] === file.etag) return { status: 304, headers: shared };
  const accepted = String(headers['accept-encoding'] ?? '');
  const encoding =
    file.brotli !== null && accepts(accepted, 'br') ? 'br' : accepts(accepted, 'gzip') && isText(file) ? 'gzip' : null;
  const reply = { status: 200, contentType: file.contentType };
  if (encoding === null) return { ...reply, bytes: file.bytes(), headers: { ...shared, ...IDENTITY } };
  const encoded = { ...shared, 'Content-Encoding': encoding, Vary: 'Accept-Encoding' };
  return { ...reply, bytes: encoding === 'br' ? (file.brotli as Buffer) : file.gzip(), headers: encoded };
}

/** Nothing is compressed anew for a client that takes neither form. */
const IDENTITY = { 'Cache-Control': 'no-cache, no-transform', Vary: 'Accept-Encoding' };
const isText = ({ contentType }: StaticFile) => contentType !== 'application/octet-stream';
const accepts = (header: string, coding: string) =>
  new RegExp(`\\b${coding}\\b(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$))`).test(header);

/** The guide: the pages of `docs/` as a site at `/docs/guide`. [guide/build.mjs](guide/build.mjs) makes it. */

export const DOCUMENTS: Tag = { name: 'Documentation', description: 'The interface as documents and as a page' };

/** Nothing inline and nothing from another host. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Files = ReadonlyMap<string, StaticFile>;

/** `/docs/guide` and its files. Links of the pages are relative, so the site starts at a file. */
export function guideRoutes(auth: 'none' | 'admin'): readonly Route[] {
  const common = { method: 'GET', tag: DOCUMENTS, auth, errors: 'plain' } as const;
  return [
    defineRoute({
      ...common,
      path: '/docs/guide',
      summary: 'The guide: tutorials, how-to, reference and explanation, with search',
      replies: { 302: Type.Null({ description: 'The first page' }) },
      handler: () => ({ status: 302, headers: { Location: '/docs/guide/index.html' } }),
    }),
    defineRoute({
      ...common,
      path: '/docs/guide/:file',
      summary: 'A page or file of the guide',
      params: Type.Object({ file: Type.String({ description: 'Name of the file', examples: ['index.html'] }) }),
      replies: { 200: Type.String({ contentMediaType: '*/*', description: 'The file' }) },
      async handler({ params, headers }) {
        const found = (await files()).get(params.file);
        if (found === undefined) throw new RequestError(404, 'invalid path');
        const reply = fileReply(found, headers);
        const policy = { 'Content-Security-Policy': POLICY, 'Referrer-Policy': 'no-referrer' };
        return { ...reply, headers: { ...reply.headers, ...policy, 'Cross-Origin-Opener-Policy': 'same-origin' } };
      },
    }),
  ];
}

/** Both listeners serve one copy. */
const files = lazy(readFiles);

/** A build has the files, compressed; beside the sources they are made now. */
async function readFiles(): Promise<Files> {
  const built = fileURLToPath(new URL('./guide/pages/', import.meta.url));
  if (existsSync(built)) {
    const names = readdirSync(built).map((name) => name.replace(/\.br$/, ''));
    return new Map(names.map((name) => [name, compressedFileOf(name, readFileSync(join(built, `${name}.br`)))]));
  }
  const builder = new URL('./guide/build.mjs', import.meta.url);
  if (!existsSync(builder))
    throw new CodedError('HTTP_DOCS_MISSING', 'the files of /docs/guide are missing: build the program');
  const { buildGuide } = (await import(builder.href)) as { buildGuide: () => Promise<ReadonlyMap<string, Buffer>> };
  return new Map([...(await buildGuide())].map(([name, bytes]) => [name, fileOf(name, bytes)]));
}

/**
 * The files of `/docs` besides the renderer. The script gives the nonce of the page to the style elements that the renderer makes, so that
 * the policy of the page needs no exception for inline styles, and mends what the renderer leaves out.
 */
const script = `(() => {
  const { nonce } = document.currentScript;
  const create = Document.prototype.createElement;
  Document.prototype.createElement = function (name, options) {
    const made = create.call(this, name, options);
    if (String(name).toLowerCase() === 'style') made.nonce = nonce;
    return made;
  };
  const start = () =>
    window.Scalar.createApiReference('#reference', {
      url: '/docs/reference.json',
      theme: 'none',
      layout: 'modern',
      withDefaultFonts: false,
      telemetry: false,
      agent: { disabled: true },
      mcp: { disabled: true },
      hideClientButton: true,
      showDeveloperTools: 'never',
      documentDownloadType: 'none',
      persistAuth: false,
      hideModels: true,
      authentication: { preferredSecurityScheme: 'keyInHeader' },
      defaultOpenAllTags: false,
      operationTitleSource: 'summary',
      defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
      hiddenClients: {
        shell: ['httpie', 'wget'],
        js: ['axios', 'jquery', 'xhr', 'ofetch'],
        node: ['axios', 'ofetch', 'undici', 'fetch'],
        python: ['python3', 'httpx_sync', 'httpx_async', 'aiohttp'],
        ruby: true, php: true, c: true, clojure: true, csharp: true, dart: true, fsharp: true, http: true, java: true,
        julia: true, kotlin: true, objc: true, ocaml: true, powershell: true, r: true, swift: true,
      },
    });
  // What the renderer leaves out for those who do not see the page: names, states, and the keyboard's way into lists that scroll.
  const set = (selector, name, value) => {
    for (const one of document.querySelectorAll(selector + ':not([' + name + '])')) one.setAttribute(name, value(one));
  };
  const mend = () => {
    set('button.scalar-code-copy', 'aria-label', () => 'Copy');
    set('ul.endpoints', 'tabindex', () => '0');
    set('[role=combobox][contenteditable]', 'aria-label', (one) => one.dataset.placeholder || 'Value');
    set('[role=combobox][contenteditable]', 'aria-expanded', () => 'false');
    for (const one of document.querySelectorAll('input[placeholder^=QUxM]')) one.placeholder = 'your API key';
    // Their text is their name.
    for (const one of document.querySelectorAll('button.show-more[aria-label]')) one.removeAttribute('aria-label');
    // A page has dozens of these: they are groups, not landmarks.
    for (const one of document.querySelectorAll('.response-card[role=region]')) one.setAttribute('role', 'group');
  };
  let isDue = false;
  const watch = new MutationObserver(() => {
    if (isDue) return;
    isDue = true;
    setTimeout(() => {
      isDue = false;
      mend();
    }, 100);
  });
  watch.observe(document.documentElement, { childList: true, subtree: true });
  const renderer = document.createElement('script');
  renderer.src = '/docs/renderer.js';
  renderer.addEventListener('load', start);
  document.head.append(renderer);
})();
`;

const style = `
:root { color-scheme: light dark; }
section:focus { outline: none; }
body { margin: 0; font-family: system-ui, sans-serif; background: #fff; color: #1d2129; }
noscript p { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; }
.home main { max-width: 34rem; margin: 12vh auto 0; padding: 0 1.5rem; line-height: 1.5; }
.home h1 { display: flex; align-items: center; gap: 0.6rem; margin: 0; font-size: 1.6rem; }
.home h1 img { width: 2rem; height: 2rem; }
.home p { margin: 0.4rem 0 1.5rem; color: #4b5361; }
.home ul { margin: 0; padding: 0; list-style: none; border: 1px solid #dfe3e8; border-radius: 10px; overflow: hidden; }
.home li + li { border-top: 1px solid #dfe3e8; }
.home a { display: block; padding: 0.8rem 1.1rem; color: inherit; text-decoration: none; }
.home a:is(:hover, :focus-visible) { background: #f5f6f8; }
.home a b { color: #8a5000; font-weight: 600; }
.home a span { display: block; color: #4b5361; font-size: 0.9rem; }
@media (prefers-color-scheme: dark) {
  .home :is(p, a span) { color: #b7bec9; }
  .home :is(ul, li + li) { border-color: #2e343d; }
  .home a b { color: #f0b45a; }
  .home a:is(:hover, :focus-visible) { background: #1b1f26; }
}
@media (prefers-color-scheme: dark) { body { background: #15181d; color: #e6e8ec; } }
:root {
  --scalar-font: system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif;
  --scalar-font-code: ui-monospace, 'SF Mono', Menlo, Consolas, monospace;
}
.light-mode {
  --scalar-color-1: #1d2129; --scalar-color-2: #4b5361; --scalar-color-3: #5b6472; --scalar-color-accent: #8a5000;
  --scalar-background-1: #fff; --scalar-background-2: #f5f6f8; --scalar-background-3: #e9ecf0; --scalar-background-accent: #9a5b0014;
  --scalar-border-color: #dfe3e8; --scalar-code-language-color-supersede: var(--scalar-color-3);
  --scalar-color-green: #0a6b46; --scalar-color-red: #b3261e; --scalar-color-yellow: #7a5200; --scalar-color-blue: #0b5cad;
  --scalar-color-orange: #99470a; --scalar-color-purple: #5f3dc4;
  --scalar-button-1: #1d2129; --scalar-button-1-hover: #000; --scalar-button-1-color: #fff;
}
.dark-mode {
  --scalar-color-1: #e6e8ec; --scalar-color-2: #b7bec9; --scalar-color-3: #a0a8b4; --scalar-color-accent: #f0b45a;
  --scalar-background-1: #15181d; --scalar-background-2: #1b1f26; --scalar-background-3: #262c35; --scalar-background-accent: #f0b45a1a;
  --scalar-border-color: #2e343d; --scalar-code-language-color-supersede: var(--scalar-color-3);
  --scalar-color-green: #4ed6a0; --scalar-color-red: #ff8a80; --scalar-color-yellow: #ffd166; --scalar-color-blue: #7cb8ff;
  --scalar-color-orange: #ffb074; --scalar-color-purple: #bda5ff;
  --scalar-button-1: #f0f2f5; --scalar-button-1-hover: #fff; --scalar-button-1-color: #15181d;
}
.light-mode .t-doc__sidebar, .dark-mode .t-doc__sidebar {
  --scalar-sidebar-background-1: var(--scalar-background-2);
  --scalar-sidebar-color-1: var(--scalar-color-1); --scalar-sidebar-color-2: var(--scalar-color-2);
  --scalar-sidebar-color-active: var(--scalar-color-accent);
  --scalar-sidebar-border-color: var(--scalar-border-color);
  --scalar-sidebar-item-hover-background: var(--scalar-background-3); --scalar-sidebar-item-hover-color: currentColor;
  --scalar-sidebar-item-active-background: var(--scalar-background-accent);
  --scalar-sidebar-search-background: var(--scalar-background-1); --scalar-sidebar-search-color: var(--scalar-color-3);
  --scalar-sidebar-search-border-color: var(--scalar-border-color);
}
`;

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="6" fill="#e8930c"/><path d="M3 16a13 13 0 0 1 26 0M3 16a13 13 0 0 0 26 0" fill="none" stroke="#e8930c" stroke-width="2" stroke-dasharray="4 4"/></svg>
`;

export const SOURCES = { 'docs.js': script, 'docs.css': style, 'icon.svg': icon } as const;
