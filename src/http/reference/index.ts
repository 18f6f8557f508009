import { Type } from '@sinclair/typebox';
import { lazy } from '../../lib/lazy.ts';
import { defineRoute, type Reply, RequestError, type Route } from '../../plugin/plugin.ts';
import { agentRoutes, referenceMarkdown } from './agents.ts';
import {
  asJsonSchema2020,
  callExampleOf,
  DESCRIPTION,
  type DocumentOptions,
  errorExample,
  errorRef,
  exampleOf,
  finishDocument,
  KEY_SECURITY,
  nameSchema,
  openApiDocument,
  pathsOf,
  rpcId,
  tagName,
  tagsIn,
  tagsOf,
} from './openapi.ts';
import { type DescribedMethod, describeMethods, errorsOf, openRpcDocument } from './openrpc.ts';
import {
  DOCUMENTS,
  fileOf,
  fileReply,
  guideRoutes,
  POLICY,
  pageFiles,
  type StaticFile,
  variedByAccept,
  wantsMarkdown,
} from './pages.ts';

export { openApiDocument } from './openapi.ts';

/** `/openapi.json`, `/openrpc.json` where there are methods, `/docs` and the guide, all made at the first request. */
export function documentRoutes(options: DocumentOptions, auth: 'none' | 'admin'): readonly Route[] {
  const common = { method: 'GET', tag: DOCUMENTS, auth, errors: 'plain' } as const;
  const documents: readonly Route[] = [
    { path: '/openapi.json', summary: 'This interface as an OpenAPI 3.1 document', make: openApiDocument },
    ...(options.methods.length === 0
      ? []
      : [{ path: '/openrpc.json', summary: 'The JSON-RPC methods as an OpenRPC document', make: openRpcDocument }]),
  ].map(({ path, summary, make }) => {
    const file = lazy(() => fileOf(path, JSON.stringify(make({ ...options, routes: described }))));
    const replies = { 200: Type.Object({}, { additionalProperties: true, description: 'The document' }) };
    return defineRoute({ ...common, path, summary, replies, handler: ({ headers }) => fileReply(file(), headers) });
  });
  const page = defineRoute({
    ...common,
    path: '/docs',
    summary: 'This interface as a page, with search and a form to try each call',
    description: 'With `Accept: text/markdown`, the same as Markdown.',
    replies: { 200: Type.String({ contentMediaType: 'text/html', description: 'The page' }) },
    handler({ headers }) {
      const markdown = wantsMarkdown(headers['accept']) ? files().get(REFERENCE_MARKDOWN) : undefined;
      const reply = markdown === undefined ? pageReply(options.version) : fileReply(markdown, headers);
      return { ...reply, headers: variedByAccept(reply.headers ?? {}) };
    },
  });
  // Operators have the guide on their listener, and no agents.
  const ofAgents = auth === 'none' ? agentRoutes(options) : [];
  const described: readonly Route[] = [...options.routes, ...documents, page, ...ofAgents];
  const files = lazy(() => readFiles(docsDocument({ ...options, routes: described })));
  const file = defineRoute({
    ...common,
    path: '/docs/:file',
    summary: 'A file of the page',
    params: Type.Object({ file: Type.String() }),
    replies: { 200: Type.String({ contentMediaType: '*/*' }) },
    handler({ params, headers }) {
      const found = files().get(params.file);
      if (found === undefined) throw new RequestError(404, 'invalid path');
      return fileReply(found, headers);
    },
  });
  return [...documents, page, file, ...ofAgents, ...guideRoutes(auth)];
}

// ---------------------------------------------------------------------------------------------------------- the document

const TO_GUIDE = 'Tutorials, how-to and explanations are in the [guide](/docs/guide).';

/**
 * What the page shows: the OpenAPI document with each JSON-RPC method as an operation of its own. Paths are unique in OpenAPI, so a method
 * is told apart by the fragment of the path, which no client sends.
 */
function docsDocument(options: DocumentOptions): object {
  const { routes } = options;
  const methods = describeMethods(options);
  const calls = methods.map((method) => [`/#${method.name}`, { post: methodOperation(method) }] as const);
  const groups = [
    { name: 'JSON-RPC', tags: tagsOf(tagsIn(methods)) },
    { name: 'REST', tags: tagsOf(tagsIn(routes)) },
  ].filter(({ tags }) => tags.length > 0);
  const ofRoutes = Object.entries(pathsOf(routes)).map(([path, methods]) => [
    path,
    Object.fromEntries(
      Object.entries(methods).map(([method, operation]) => [method, shownOperation(operation as Operation)]),
    ),
  ]);
  const paths = { ...Object.fromEntries(calls), ...Object.fromEntries(ofRoutes) };
  const tags = tagsOf([...tagsIn(methods), ...tagsIn(routes)]);
  const document = finishDocument(
    { ...options, description: `${options.description ?? DESCRIPTION}\n\n${TO_GUIDE}` },
    asJsonSchema2020(paths),
    tags,
  ) as { readonly info: Readonly<Record<string, unknown>> };
  // The page shows no contact.
  const { contact: _, ...info } = document.info;
  return {
    ...document,
    info,
    ...(groups.length < 2
      ? {}
      : { 'x-tagGroups': groups.map((group) => ({ name: group.name, tags: group.tags.map(({ name }) => name) })) }),
  };
}

interface Operation {
  readonly security: readonly object[];
  readonly requestBody?: {
    /** Undefined is left out of the JSON text. */
    readonly description?: string | undefined;
    readonly content: Readonly<Record<string, { readonly schema: { readonly description?: string } }>>;
  };
}

/**
 * An operation of the OpenAPI document as the page shows it: samples have the key where the form takes it, in the header, and the
 * description of a body is not there twice, as its own and as that of its schema.
 */
function shownOperation(operation: Operation): Operation {
  const { security, requestBody } = operation;
  const inHeader = (scheme: object) => Number('keyInHeader' in scheme);
  return {
    ...operation,
    security: [...security].sort((one, other) => inHeader(other) - inHeader(one)),
    ...(requestBody?.content['application/json']?.schema.description === undefined
      ? {}
      : { requestBody: { ...requestBody, description: undefined } }),
  };
}

function methodOperation(method: DescribedMethod): object {
  const { name, summary, description, whole, result, isSubscription, aliases } = method;
  const params = method.params.length === 0 && !('anyOf' in whole) ? {} : { params: callExampleOf(whole) };
  const call = { jsonrpc: '2.0', id: 1, method: name, ...params };
  const version = { const: '2.0' };
  return {
    operationId: `rpc_${name}`,
    summary: name,
    description: `${summary}.\n\n${description}`,
    tags: [tagName(method.tag)],
    // What follows a fragment is not sent, so the key cannot be in the query here.
    security: KEY_SECURITY.filter((scheme) => !('keyInQuery' in scheme)),
    parameters: [],
    requestBody: {
      description: isSubscription ? 'The message' : 'The call',
      required: true,
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['jsonrpc', 'id', 'method'],
            properties: { jsonrpc: version, id: rpcId, method: nameSchema({ name, aliases }), params: whole },
          },
          example: call,
        },
      },
    },
    responses: {
      200: {
        description: `The result, or an error of the call:\n\n${errorTable(method)}`,
        content: {
          'application/json': {
            schema: {
              type: 'object',
              required: ['jsonrpc', 'result', 'id'],
              properties: { jsonrpc: version, result, id: rpcId },
            },
            example: { jsonrpc: '2.0', result: exampleOf(result), id: 1 },
          },
        },
      },
      default: {
        description: 'Refusal of the request',
        content: { 'application/json': { schema: { $ref: errorRef('rpc') }, example: errorExample('rpc', 401) } },
      },
    },
  };
}

/** The errors of a method as a table of Markdown. */
function errorTable(method: DescribedMethod): string {
  const rows = errorsOf(method).map(({ code, message }) => `| ${code} | ${message} |`);
  const ofNode = method.isForwarded ? ['', 'Errors of the node come as they are.'] : [];
  return ['| code | message |', '|---|---|', ...rows, ...ofNode].join('\n');
}

// -------------------------------------------------------------------------------------------------------------- the page

const html = (version: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>parhelion ${version.replaceAll(/[^\w.+-]/g, '')}: API reference</title>
<link rel="icon" href="/docs/icon.svg">
<link rel="stylesheet" href="/docs/docs.css">
</head>
<body>
<noscript><p>This page needs JavaScript. The same description for machines: <a href="/openapi.json">/openapi.json</a>.</p></noscript>
<div id="reference"></div>
<script type="module" src="/docs/docs.js"></script>
</body>
</html>
`;

/** Nothing inline and nothing from another host. */
function pageReply(version: string): Reply {
  return {
    status: 200,
    bytes: Buffer.from(html(version)),
    contentType: 'text/html; charset=utf-8',
    headers: {
      'Content-Security-Policy': POLICY,
      'Referrer-Policy': 'no-referrer',
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cache-Control': 'no-cache',
    },
  };
}

const REFERENCE_MARKDOWN = 'reference.md';

function readFiles(reference: object): ReadonlyMap<string, StaticFile> {
  return new Map([
    ...pageFiles(),
    ['reference.json', fileOf('reference.json', JSON.stringify(reference))],
    [REFERENCE_MARKDOWN, fileOf(REFERENCE_MARKDOWN, referenceMarkdown(reference))],
  ]);
}
