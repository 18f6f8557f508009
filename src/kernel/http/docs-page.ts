import { createHash } from 'node:crypto';
import type { TSchema } from '@sinclair/typebox';
import type { Route, RpcMethod } from '../plugin.ts';
import { docsStyle } from './docs-style.ts';
import type { DocumentOptions } from './document-options.ts';
import { schemaText } from './schema-text.ts';

export interface DocsPage {
  readonly html: Buffer;
  /** Allows nothing but the page's own style sheet. */
  readonly contentSecurityPolicy: string;
}

interface Section {
  readonly anchor: string;
  readonly title: string;
  readonly tag: string;
  readonly html: string;
}

/** One static page without scripts or outside resources. */
export function docsPage({ routes, methods, version }: DocumentOptions): DocsPage {
  const sections = [...routes.map(routeSection), ...methods.map(methodSection)];
  const tags = [...new Set(sections.map((section) => section.tag))];
  const inTag = (tag: string) => sections.filter((section) => section.tag === tag);
  const navigation = tags
    .map((tag) => `<h2>${escapeHtml(tag)}</h2><ul>${inTag(tag).map(navigationItem).join('')}</ul>`)
    .join('');
  const content = tags
    .map(
      (tag) =>
        `<h2>${escapeHtml(tag)}</h2>${inTag(tag)
          .map((section) => section.html)
          .join('')}`,
    )
    .join('');
  const style = docsStyle();
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>parhelion ${escapeHtml(version)}: interface</title>
<style>${style}</style>
</head>
<body>
<nav aria-label="Endpoints"><p class="name">parhelion <small>${escapeHtml(version)}</small></p>${navigation}</nav>
<main>
<h1>Interface</h1>
${introduction()}
${content}
</main>
</body>
</html>
`;
  const hash = createHash('sha256').update(style).digest('base64');
  return {
    html: Buffer.from(html),
    contentSecurityPolicy: `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}

function introduction(): string {
  return `<p>An API key goes into the query as <code>?api-key=KEY</code> or into the header <code>X-Api-Key</code>.
The same description for machines: <a href="/openapi.json">/openapi.json</a>.</p>
<p>JSON-RPC calls are sent to <code>POST /</code>, one at a time or as a batch. Methods that are not listed here go to the
configured Solana upstream as they are.</p>`;
}

function navigationItem(section: Section): string {
  return `<li><a href="#${section.anchor}">${escapeHtml(section.title)}</a></li>`;
}

function routeSection(route: Route): Section {
  const title = `${route.method} ${route.path.replace(/:([A-Za-z0-9_]+)/g, '{$1}')}`;
  const anchor = anchorOf(title);
  const replies = Object.entries(route.replies).map(([status, schema]) => schemaBlock(`Answer ${status}`, schema));
  const html = `<section id="${anchor}"><h3><code>${escapeHtml(title)}</code></h3><p>${escapeHtml(route.summary)}</p>
${facts(authText(route.auth), route.price)}
${parameterTable('Path', route.params?.properties, route.params?.required)}
${parameterTable('Query', route.query?.properties, route.query?.required)}
${route.body === undefined ? '' : schemaBlock('Body', route.body)}${replies.join('')}</section>`;
  return { anchor, title, tag: route.tag, html };
}

function methodSection(method: RpcMethod): Section {
  const anchor = anchorOf(`rpc ${method.name}`);
  const html = `<section id="${anchor}"><h3><code>${escapeHtml(method.name)}</code></h3><p>${escapeHtml(method.summary)}</p>
${facts(authText(method.auth), method.price)}
${schemaBlock('params', method.params)}${schemaBlock('result', method.result)}</section>`;
  return { anchor, title: method.name, tag: method.tag, html };
}

function facts(auth: string, price: Route['price']): string {
  const cost = price === undefined ? '' : `, ${price.credits} credit${price.credits === 1 ? '' : 's'}`;
  return `<p class="facts">${escapeHtml(auth + cost)}</p>`;
}

function authText(auth: Route['auth']): string {
  if (auth === 'none') return 'no key';
  return auth === 'optional-key' ? 'key optional' : 'needs a key';
}

function parameterTable(
  caption: string,
  properties: Readonly<Record<string, TSchema>> | undefined,
  required: readonly string[] = [],
): string {
  const entries = Object.entries(properties ?? {});
  if (entries.length === 0) return '';
  const rows = entries.map(
    ([name, schema]) =>
      `<tr><th scope="row"><code>${escapeHtml(name)}</code></th><td><code>${escapeHtml(schemaText(schema))}</code></td>` +
      `<td>${required.includes(name) ? 'required' : ''}</td><td>${escapeHtml(schema.description ?? '')}</td></tr>`,
  );
  return `<div class="wide"><table><caption>${caption}</caption><tbody>${rows.join('')}</tbody></table></div>`;
}

function schemaBlock(label: string, schema: TSchema): string {
  return `<details><summary>${escapeHtml(label)}</summary><pre><code>${escapeHtml(schemaText(schema))}</code></pre></details>`;
}

function anchorOf(title: string): string {
  return title.replace(/[^A-Za-z0-9]+/g, '-').replace(/^-|-$/g, '');
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
