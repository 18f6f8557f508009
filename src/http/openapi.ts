import { createHash } from 'node:crypto';
import { type TObject, type TSchema, Type } from '@sinclair/typebox';
import { lazy } from '../lib/lru.ts';
import {
  defineRoute,
  type ErrorShape,
  JsonText,
  json,
  type Route,
  RPC_CODES,
  type RpcMethod,
} from '../plugin/plugin.ts';

const KEY_SECURITY = [{ keyInQuery: [] }, { keyInHeader: [] }];

/** The OpenAPI 3.1 document. TypeBox schemas are JSON Schema, so they are used unchanged. */
export function openApiDocument({ routes, methods, version, description }: DocumentOptions): object {
  const paths: Record<string, Record<string, unknown>> = {};
  if (methods.length > 0) paths['/'] = { post: rpcOperation(methods) };
  for (const route of routes) {
    const path = route.path.replace(/:([A-Za-z0-9_]+)/g, '{$1}');
    const entry = paths[path] ?? {};
    entry[route.method.toLowerCase()] = operation(route);
    paths[path] = entry;
  }
  return asJsonSchema2020({
    openapi: '3.1.0',
    info: {
      title: 'parhelion',
      version,
      description: description ?? 'Data service for Solana: JSON-RPC, wallet and token data, webhooks.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths,
    components: {
      securitySchemes: {
        keyInQuery: { type: 'apiKey', in: 'query', name: 'api-key' },
        keyInHeader: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
      },
      schemas: errorSchemas(),
    },
    'x-rpc': Object.fromEntries(methods.map((method) => [method.name, rpcEntry(method)])),
  });
}

/** TypeBox writes tuples as in an older draft: a list of `items` is `prefixItems` in OpenAPI 3.1. */
function asJsonSchema2020(document: object): object {
  const text = JSON.stringify(document, (_, value: unknown) => {
    const { items, additionalItems, ...rest } = (value ?? {}) as Record<string, unknown>;
    if (!Array.isArray(items)) return value;
    return { ...rest, prefixItems: items, ...(additionalItems === undefined ? {} : { items: additionalItems }) };
  });
  return JSON.parse(text) as object;
}

function operation(route: Route): object {
  return {
    operationId: operationId(route),
    summary: route.summary,
    tags: [route.tag],
    ...(route.auth === 'key' ? { security: KEY_SECURITY } : {}),
    ...(route.auth === 'optional-key' ? { security: [...KEY_SECURITY, {}] } : {}),
    parameters: [...parameters(pathSchema(route), 'path'), ...parameters(route.query, 'query')],
    ...requestBody(route),
    responses: responses(route),
    ...(route.price === undefined ? {} : { 'x-price': route.price }),
  };
}

function requestBody({ body, rawBody, bodyOptional, documented }: Route): object {
  if (body === undefined && rawBody !== true) return {};
  const schema = documented?.body ?? body ?? {};
  return { requestBody: { required: bodyOptional !== true, content: { 'application/json': { schema } } } };
}

function operationId(route: Route): string {
  const words = route.path.split('/').filter((word) => word !== '');
  return [route.method.toLowerCase(), ...words.map((word) => word.replace(/[^A-Za-z0-9]/g, ''))].join('_');
}

/** Path parameters without a schema are strings. */
function pathSchema(route: Route): Pick<TObject, 'properties' | 'required'> {
  const names = [...route.path.matchAll(/:([A-Za-z0-9_]+)/g)].map(([, name]) => name as string);
  const properties = Object.fromEntries(
    names.map((name) => {
      const schema = route.documented?.params?.[name] ?? route.params?.properties[name];
      return [name, schema ?? ({ type: 'string' } as unknown as TSchema)];
    }),
  );
  return { properties, required: names };
}

function parameters(schema: Pick<TObject, 'properties' | 'required'> | undefined, place: 'path' | 'query'): object[] {
  if (schema === undefined) return [];
  return Object.entries(schema.properties).map(([name, property]) => ({
    name,
    in: place,
    required: schema.required?.includes(name) ?? false,
    ...(property.description === undefined ? {} : { description: property.description }),
    schema: property,
  }));
}

function responses(route: Route): object {
  const entries: [string, object][] = Object.entries(route.replies).map(([status, schema]) => [
    status,
    // A reply without a value has no body.
    schema['type'] === 'undefined'
      ? { description: schema.description ?? 'Done; the answer has no body' }
      : { description: schema.description ?? 'Answer', content: contentOf(route, schema) },
  ]);
  const type = route.errors === 'text' ? 'text/plain' : 'application/json';
  entries.push([
    'default',
    { description: 'Refusal or failure', content: { [type]: { schema: { $ref: errorRef(route.errors) } } } },
  ]);
  return Object.fromEntries(entries);
}

/** The content type of answers: that of the errors, or the one named by their schema. */
function contentOf(route: Route, schema: TSchema): object {
  const type = schema['contentMediaType'] ?? (route.errors === 'text' ? 'text/plain' : 'application/json');
  return { [type]: { schema } };
}

function errorRef(shape: ErrorShape): string {
  return `#/components/schemas/error-${shape}`;
}

function rpcOperation(methods: readonly RpcMethod[]): object {
  // `anyOf`: results of several methods have the same shape, and other methods are forwarded, so more than one schema may match.
  const call = { anyOf: [...methods.map(rpcRequestSchema), forwardedRequest(methods)] };
  const answer = { anyOf: [...methods.map(rpcResultSchema), forwardedResult, { $ref: errorRef('rpc') }] };
  return {
    operationId: 'post_rpc',
    summary: 'JSON-RPC 2.0, single calls and batches',
    description: 'Methods that are not listed here are forwarded unchanged to the configured Solana upstream.',
    tags: ['JSON-RPC'],
    security: KEY_SECURITY,
    requestBody: {
      required: true,
      content: { 'application/json': { schema: { anyOf: [call, { type: 'array', items: call, minItems: 1 }] } } },
    },
    responses: {
      200: {
        description: 'Result or error of the call; for a batch those of its calls, in order',
        content: { 'application/json': { schema: { anyOf: [answer, { type: 'array', items: answer }] } } },
      },
      204: { description: 'The call, or every call of the batch, was a notification: it has no id' },
      default: {
        description: 'Refusal of the whole request',
        content: { 'application/json': { schema: { $ref: errorRef('rpc') } } },
      },
    },
  };
}

const rpcId = { type: ['string', 'number', 'null'] };

function rpcRequestSchema(method: RpcMethod): object {
  return {
    title: method.name,
    description: method.summary,
    type: 'object',
    required: ['jsonrpc', 'method'],
    properties: {
      jsonrpc: { const: '2.0' },
      id: rpcId,
      method: { const: method.name },
      params: method.params,
    },
  };
}

/** A call of a method that the daemon forwards. */
function forwardedRequest(methods: readonly RpcMethod[]): object {
  return {
    title: 'any other method',
    description: 'Forwarded unchanged to the configured Solana upstream',
    type: 'object',
    required: ['jsonrpc', 'method'],
    properties: {
      jsonrpc: { const: '2.0' },
      id: rpcId,
      method: { type: 'string', not: { enum: methods.map(({ name }) => name) } },
      params: { type: ['array', 'object', 'null'] },
    },
  };
}

const forwardedResult = {
  title: 'result of any other method',
  type: 'object',
  required: ['jsonrpc', 'result', 'id'],
  properties: { jsonrpc: { const: '2.0' }, result: {}, id: rpcId },
};

function rpcResultSchema(method: RpcMethod): object {
  return {
    title: `${method.name} result`,
    type: 'object',
    required: ['jsonrpc', 'result', 'id'],
    properties: { jsonrpc: { const: '2.0' }, result: method.result, id: rpcId },
  };
}

function rpcEntry(method: RpcMethod): object {
  const { summary, tag, auth, price, params, result } = method;
  return { summary, tag, auth, price, params, result };
}

function errorSchemas(): Record<string, object> {
  const text = { type: 'string' };
  const integer = { type: 'integer' };
  const object = (properties: Record<string, object>, required = Object.keys(properties)) => ({
    type: 'object',
    properties,
    required,
  });
  return {
    'error-plain': object({ error: text, code: integer }),
    'error-wallet': object({ error: text, code: integer, details: text }, ['error', 'code']),
    'error-admin': object({ statusCode: integer, message: text, error: text }),
    'error-text': text,
    'error-rpc': object({
      jsonrpc: { const: '2.0' },
      error: object(
        {
          code: {
            type: 'integer',
            description: `Our own: ${Object.values(RPC_CODES)
              .map(({ code, message }) => `${code} ${message}`)
              .join(', ')}; those of a node come as they are`,
          },
          message: text,
          data: { description: 'Errors of this service: an object with `details`, if there are any' },
        },
        ['code', 'message'],
      ),
      id: rpcId,
    }),
  };
}

/** Input of the interface documents. */
export interface DocumentOptions {
  readonly routes: readonly Route[];
  readonly methods: readonly RpcMethod[];
  readonly version: string;
  /** Default: the description of the API. */
  readonly description?: string;
}

interface DocsPage {
  readonly html: Buffer;
  /** Allows only the style sheet of the page. */
  readonly contentSecurityPolicy: string;
}

interface Section {
  readonly anchor: string;
  readonly title: string;
  readonly tag: string;
  readonly html: string;
}

/** One static page without scripts or outside resources. */
function docsPage({ routes, methods, version }: DocumentOptions): DocsPage {
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

/** Style sheet of the docs page; the content security policy contains its hash. */
function docsStyle(): string {
  return `
:root{--ink:#1d2129;--soft:#5b6472;--paper:#fff;--side:#f5f6f8;--line:#dfe3e8;--accent:#9a5b00;--code:#f0f2f5}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8ec;--soft:#a0a8b4;--paper:#15181d;--side:#1b1f26;--line:#2e343d;--accent:#f0b45a;--code:#22272f}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;display:grid;grid-template-columns:18rem minmax(0,1fr);color:var(--ink);background:var(--paper);font:16px/1.55 system-ui,sans-serif}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1rem 1.25rem;background:var(--side);border-right:1px solid var(--line)}
nav .name{font-weight:700;font-size:1.1rem;margin:.25rem 0 1rem}
nav small{color:var(--soft);font-weight:400}
nav h2{font-size:.78rem;letter-spacing:.04em;color:var(--soft);margin:1.2rem 0 .3rem}
nav ul{list-style:none;margin:0;padding:0}
nav li{overflow-wrap:anywhere}
nav a{display:block;padding:.15rem 0;font:13px/1.4 ui-monospace,monospace;text-decoration:none}
main{padding:1.5rem 2.5rem 6rem;max-width:62rem}
h1{margin:.2rem 0 1rem;font-size:1.8rem}
main>h2{margin:2.5rem 0 .5rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
section{padding:.4rem 0 1rem}
section:target h3{color:var(--accent)}
h3{margin:1.2rem 0 .3rem;font-size:1.05rem;overflow-wrap:anywhere}
a{color:var(--accent)}
a:focus-visible,summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
p{margin:.3rem 0}
.facts{color:var(--soft);font-size:.9rem}
code{font-family:ui-monospace,monospace;font-size:.92em}
pre{background:var(--code);padding:.8rem 1rem;border-radius:6px;overflow:auto;margin:.4rem 0}
details{margin:.35rem 0}
summary{cursor:pointer}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.6rem 0;font-size:.93rem}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{text-align:left;vertical-align:top;padding:.3rem .9rem .3rem 0;border-top:1px solid var(--line);font-weight:400}
@media (max-width:48rem){body{display:block}nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}main{padding:1rem 1.25rem 4rem}}
`;
}

const MAX_DEPTH = 8;

/** A schema in readable form: `{ name: string, limit?: integer 1..100 = 10 }`. */
function schemaText(schema: TSchema, indent = '', depth = 0): string {
  if (depth > MAX_DEPTH) return '…';
  const text = bareText(schema, indent, depth);
  return schema.default === undefined ? text : `${text} = ${JSON.stringify(schema.default)}`;
}

function bareText(schema: TSchema, indent: string, depth: number): string {
  const inner = (part: unknown) => schemaText(part as TSchema, indent, depth + 1);
  if (schema['const'] !== undefined) return JSON.stringify(schema['const']);
  if (Array.isArray(schema['enum'])) return schema['enum'].map((value) => JSON.stringify(value)).join(' | ');
  if (Array.isArray(schema['anyOf'])) return schema['anyOf'].map(inner).join(' | ');
  if (Array.isArray(schema['allOf'])) return schema['allOf'].map(inner).join(' & ');
  const type: unknown = schema['type'];
  if (type === 'object') return objectText(schema, indent, depth);
  if (type === 'array') return arrayText(schema, inner);
  const range = rangeText(schema['minimum'], schema['maximum']) + rangeText(schema['minLength'], schema['maxLength']);
  if (Array.isArray(type)) return `${type.join(' | ')}${range}`;
  return `${typeof type === 'string' ? type : 'any'}${range}`;
}

function objectText(schema: TSchema, indent: string, depth: number): string {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, TSchema>);
  const required = new Set((schema['required'] ?? []) as string[]);
  if (properties.length === 0) return 'object';
  const deeper = `${indent}  `;
  const lines = properties.map(([name, property]) => {
    const note = property.description === undefined ? '' : `  // ${property.description}`;
    return `${deeper}${name}${required.has(name) ? '' : '?'}: ${schemaText(property, deeper, depth + 1)}${note}`;
  });
  return `{\n${lines.join('\n')}\n${indent}}`;
}

function arrayText(schema: TSchema, inner: (part: unknown) => string): string {
  const items: unknown = schema['items'];
  if (Array.isArray(items)) return `[${items.map(inner).join(', ')}]`;
  const range = rangeText(schema['minItems'], schema['maxItems']);
  return `array of ${items === undefined ? 'any' : inner(items)}${range === '' ? '' : ` (${range.trim()} items)`}`;
}

function rangeText(minimum: unknown, maximum: unknown): string {
  if (minimum === undefined && maximum === undefined) return '';
  return ` ${minimum ?? ''}..${maximum ?? ''}`;
}

/** `/openapi.json`, generated from the declarations of routes and methods at the first request. */
export function documentRoute(options: DocumentOptions, auth: 'none' | 'admin'): Route {
  const document = lazy(() => new JsonText(JSON.stringify(openApiDocument(options))));
  return defineRoute({
    method: 'GET',
    path: '/openapi.json',
    summary: 'This interface as an OpenAPI 3.1 document',
    tag: 'Documentation',
    auth,
    errors: 'plain',
    replies: { 200: Type.Unknown() },
    handler: () => json(document()),
  });
}

/** `/openapi.json` and `/docs`. */
export function documentRoutes(options: DocumentOptions): readonly Route[] {
  const page = lazy(() => docsPage(options));
  return [
    documentRoute(options, 'none'),
    defineRoute({
      method: 'GET',
      path: '/docs',
      summary: 'This interface as an HTML page',
      tag: 'Documentation',
      auth: 'none',
      errors: 'plain',
      replies: { 200: Type.String({ contentMediaType: 'text/html' }) },
      handler: () => ({
        status: 200,
        bytes: page().html,
        contentType: 'text/html; charset=utf-8',
        headers: { 'Content-Security-Policy': page().contentSecurityPolicy, 'Referrer-Policy': 'no-referrer' },
      }),
    }),
  ];
}
