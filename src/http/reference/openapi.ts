import { STATUS_CODES } from 'node:http';
import type { TObject, TSchema } from '@sinclair/typebox';
import type { ForwardedMethod } from '../../plugin/host.ts';
import { type ErrorShape, type Price, type Route, RPC_CODES, type RpcMethod, type Tag } from '../../plugin/plugin.ts';

/** Input of the interface documents. */
export interface DocumentOptions {
  readonly routes: readonly Route[];
  readonly methods: readonly RpcMethod[];
  readonly version: string;
  /** Methods that go upstream, and their prices. */
  readonly forwarded?: readonly ForwardedMethod[];
  readonly priceOf?: (method: string) => Price | undefined;
  /** Default: the description of the API. */
  readonly description?: string;
}

export const KEY_SECURITY = [{ keyInQuery: [] }, { keyInHeader: [] }, { keyAsBearer: [] }];
const KEY_SCHEMES = {
  keyInQuery: { type: 'apiKey', in: 'query', name: 'api-key', description: 'API key in the query' },
  keyInHeader: { type: 'apiKey', in: 'header', name: 'X-Api-Key', description: 'API key in a header' },
  keyAsBearer: { type: 'http', scheme: 'bearer', description: 'API key as a bearer token' },
  operatorToken: { type: 'http', scheme: 'bearer', description: 'Token of an operator' },
};
export const DESCRIPTION = `Data service for Solana: JSON-RPC, wallet and token data, compressed accounts and webhooks.

**Key.** Send the API key as \`?api-key=KEY\`, as the header \`X-Api-Key\`, or as \`Authorization: Bearer KEY\`.

**Errors.** Each route answers in one shape; the status says what went wrong. 429 and 503 have \`Retry-After\` where a retry helps.

**JSON-RPC.** Calls go to \`POST /\`, one at a time or as a batch. \`/openrpc.json\` describes each method.`;

const RPC_TAG: Tag = {
  name: 'JSON-RPC',
  description: 'Solana methods and those of this service, at one address',
};

export const tagsIn = (parts: readonly { readonly tag: Tag | string }[]): readonly (Tag | string)[] =>
  parts.map(({ tag }) => tag);

export const tagName = (tag: Tag | string): string => (typeof tag === 'string' ? tag : tag.name);

/** The OpenAPI 3.1 document. TypeBox schemas are JSON Schema, so they are used unchanged. */
export function openApiDocument(options: DocumentOptions): object {
  const { routes, methods } = options;
  const paths = { ...(methods.length > 0 ? { '/': { post: rpcOperation(methods) } } : {}), ...pathsOf(routes) };
  return {
    ...finishDocument(options, paths, tagsOf([...(methods.length > 0 ? [RPC_TAG] : []), ...tagsIn(routes)])),
    'x-rpc': asJsonSchema2020(Object.fromEntries(methods.map((method) => [method.name, rpcEntry(method)]))),
  };
}

const ownNames = (methods: readonly RpcMethod[]): readonly RpcMethod[] =>
  methods.filter(({ aliasOf }) => aliasOf === undefined);

export function pathsOf(routes: readonly Route[]): Record<string, Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = pathOf(route);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return paths;
}

/** Info, servers and components around the paths. */
export function finishDocument(options: DocumentOptions, paths: object, tags: readonly Tag[]): object {
  const { routes, version, description = DESCRIPTION } = options;
  const document = asJsonSchema2020({
    openapi: '3.1.0',
    info: {
      title: 'parhelion',
      version,
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      contact: { name: 'The operator of this daemon' },
    },
    servers: [{ url: '/', description: 'This daemon' }],
    tags,
    paths,
  });
  const named = nameSchemas(document);
  const used = JSON.stringify(named.document);
  return {
    ...named.document,
    components: {
      ...securitySchemes(routes, used),
      schemas: { ...errorSchemas(used), ...named.schemas },
    },
  };
}

const pathOf = ({ path }: Pick<Route, 'path'>): string => path.replace(/:([A-Za-z0-9_]+)/g, '{$1}');

/** Groups in the order of their first route; a description belongs to all routes and methods of the group. */
export function tagsOf(all: readonly (Tag | string)[]): readonly Tag[] {
  const tags = new Map<string, Tag>();
  for (const tag of all) {
    const name = tagName(tag);
    if (typeof tag === 'object') tags.set(name, { name, description: tag.description });
    else if (!tags.has(name)) tags.set(name, { name, description: `Routes of the group ${name}` });
  }
  return [...tags.values()];
}

/**
 * TypeBox writes tuples as in an older draft: a list of `items` is `prefixItems` in OpenAPI 3.1. Descriptions begin with a capital letter.
 */
export function asJsonSchema2020<T extends object>(document: T): T {
  return mapObjects(JSON.parse(JSON.stringify(document)), (found) => {
    const { items, additionalItems, description, ...rest } = found;
    return {
      ...(typeof description === 'string'
        ? { description: description.charAt(0).toUpperCase() + description.slice(1) }
        : description === undefined
          ? {}
          : { description }),
      ...rest,
      ...(Array.isArray(items) ? { prefixItems: items, items: {} } : items === undefined ? {} : { items }),
      // Linters take `items: false` for no `items`.
      ...(additionalItems === false && Array.isArray(items)
        ? { maxItems: items.length }
        : additionalItems === undefined
          ? {}
          : { items: additionalItems }),
    };
  }) as T;
}

const SCHEMA_NAME = /^[A-Z][A-Za-z0-9]*$/;

/** Puts each schema whose title is a name into the components, once, so that generated clients have a type of that name. */
export function nameSchemas<T>(document: T): { readonly document: T; readonly schemas: Record<string, Schema> } {
  const schemas: Record<string, Schema> = {};
  const texts = new Map<string, string>();
  const named = mapObjects(document, (found) => {
    const { title } = found;
    if (typeof title !== 'string' || !SCHEMA_NAME.test(title)) return found;
    const text = JSON.stringify(found);
    if ((texts.get(title) ?? text) !== text) return found;
    texts.set(title, text);
    schemas[title] = found;
    return { $ref: `#/components/schemas/${title}` };
  });
  return { document: named as T, schemas };
}

/** Values that look like parts of the document but are not. */
const VALUES = new Set(['example', 'examples', 'default', 'const', 'enum', 'value']);

/** Replaces each object of a document, inner ones first, besides examples and other values. A map of members is not an object of it. */
function mapObjects(value: unknown, change: (found: Schema) => Schema, isMap = false): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => mapObjects(one, change));
  const inner = Object.entries(value).map(([key, one]) => [
    key,
    !isMap && VALUES.has(key) ? one : mapObjects(one, change, !isMap && key === 'properties'),
  ]);
  const found = Object.fromEntries(inner) as Schema;
  return isMap ? found : change(found);
}

/** Only what the document mentions. */
function securitySchemes(routes: readonly Route[], used: string): object {
  const keys = Object.entries(KEY_SCHEMES).filter(([name]) => used.includes(`"${name}"`));
  const sessions = sessionNames(routes).map((name) => [
    `session-${name}`,
    { type: 'apiKey', in: 'cookie', name, description: 'Session that a log-in opened' },
  ]);
  const all = [...keys, ...sessions];
  return all.length === 0 ? {} : { securitySchemes: Object.fromEntries(all) };
}

const sessionNames = (routes: readonly Route[]): readonly string[] => [
  ...new Set(routes.flatMap(({ session }) => session ?? [])),
];

function operation(route: Route): object {
  return {
    operationId: operationId(route),
    summary: route.summary,
    description: descriptionOf(route),
    tags: [tagName(route.tag)],
    ...(route.deprecated === true ? { deprecated: true } : {}),
    security: securityOf(route),
    parameters: [...parameters(pathSchema(route), 'path'), ...parameters(querySchema(route), 'query')],
    ...requestBody(route),
    responses: responses(route),
    ...(route.price === undefined ? {} : { 'x-price': route.price }),
  };
}

function securityOf({ auth, session, operatorToken }: Route): readonly object[] {
  if (session !== undefined) return [{ [`session-${session}`]: [] }];
  if (operatorToken === true) return [{ operatorToken: [] }];
  if (auth === 'key') return KEY_SECURITY;
  return auth === 'optional-key' ? [...KEY_SECURITY, {}] : [];
}

/** Description of the route, who may call it, and its price. */
function descriptionOf({ description, auth, session, operatorToken, price, permission }: Route): string {
  const facts = [
    ACCESS[session !== undefined ? 'session' : operatorToken === true ? 'operator' : auth],
    ...(permission == null ? [] : [`The key needs the permission \`${permission}\`.`]),
    ...(price === undefined ? [] : [priceText(price)]),
  ];
  return [...(description === undefined ? [] : [description]), facts.join(' ')].join('\n\n');
}

const ACCESS = {
  none: 'Needs no key.',
  key: 'Needs a key.',
  'optional-key': 'A key is optional; a wrong one is refused.',
  admin: 'On the admin listener; needs no key.',
  session: 'On the admin listener; needs a session.',
  operator: 'On the admin listener; needs the token of an operator, as `Authorization: Bearer TOKEN`.',
} as const;

export function priceText({ credits, groups, chargedStatuses = [] }: NonNullable<Route['price']>): string {
  const amount = credits === 0 ? 'Free' : `${credits} credit${credits === 1 ? '' : 's'}`;
  const also = chargedStatuses.length === 0 ? '' : `, also for an answer ${chargedStatuses.join(' or ')}`;
  const names = groups.map((group) => `\`${group}\``).join(' and ');
  const rate =
    groups.length === 0
      ? 'no rate of the project'
      : `the rate${groups.length === 1 ? '' : 's'} ${names} of the project`;
  return `Price: ${amount}${also}. It counts against ${rate}.`;
}

function requestBody({ body, rawBody, bodyOptional, documented }: Route): object {
  if (body === undefined && rawBody !== true) return {};
  const schema: Schema = documented?.body ?? body ?? {};
  const content = { 'application/json': { schema, example: exampleOf(schema) } };
  return { requestBody: { description: schema['description'] ?? 'JSON', required: bodyOptional !== true, content } };
}

/**
 * The name of the method that generators of clients make: `getWalletBalances`, `deleteWebhook`. A word before a parameter is about one of them, so
 * it is in the singular; versions are left out. A last parameter after a word without a plural is named.
 */
function operationId({ method, path }: Pick<Route, 'method' | 'path'>): string {
  const parts = path.split('/').filter((part) => part !== '' && !/^v\d+$/.test(part));
  const words = parts.flatMap((part, at) => {
    if (!part.startsWith(':')) return [parts[at + 1]?.startsWith(':') === true ? singular(part) : part];
    const isNamed = at === parts.length - 1 && singular(parts[at - 1] as string) === parts[at - 1];
    return isNamed ? ['by', part.slice(1)] : [];
  });
  return [method.toLowerCase(), ...words.flatMap((word) => word.split(/[^A-Za-z0-9]+/)).map(capital)].join('');
}

const singular = (word: string): string =>
  word
    .replace(/ies$/, 'y')
    .replace(/(ss|x|ch)es$/, '$1')
    .replace(/([^s])s$/, '$1');

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

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

function querySchema({ query, documented }: Route): Pick<TObject, 'properties' | 'required'> | undefined {
  if (query === undefined || documented?.required === undefined) return query;
  return { properties: query.properties, required: [...(query.required ?? []), ...documented.required] };
}

function parameters(schema: Pick<TObject, 'properties' | 'required'> | undefined, place: 'path' | 'query'): object[] {
  if (schema === undefined) return [];
  return Object.entries(schema.properties).map(([name, property]) => ({
    name,
    in: place,
    required: schema.required?.includes(name) === true && property.default === undefined,
    description: property.description ?? `The ${name} of the request`,
    schema: property,
    ...(place === 'path' || Array.isArray(property['examples']) ? { example: exampleOf(property) } : {}),
  }));
}

// ------------------------------------------------------------------------------------------------------------ responses

/** Responses that every route of a kind may have besides its own. */
function impliedStatuses({ auth, body, rawBody, query, params }: Route): readonly number[] {
  const isKeyed = auth === 'key' || auth === 'optional-key';
  const takesBody = body !== undefined || rawBody === true;
  return [
    ...(isKeyed || takesBody || query !== undefined || params !== undefined || auth === 'none' ? [400] : []),
    ...(isKeyed ? [401, 403, 429] : []),
    ...(auth === 'admin' ? [403] : []),
    ...(takesBody ? [413] : []),
    503,
  ];
}

function responses(route: Route): object {
  const own = Object.entries(route.replies).map(([status, schema]) => [Number(status), schema] as const);
  const entries: [string, object][] = own
    .filter(([status, schema]) => status < 400 || !isErrorOfShape(route, schema))
    .map(([status, schema]) => [String(status), success(route, status, schema)]);
  const errors = own.filter(([status, schema]) => status >= 400 && isErrorOfShape(route, schema));
  const own503 = entries.map(([status]) => Number(status));
  const statuses = [...new Set([...errors.map(([status]) => status), ...impliedStatuses(route)])];
  for (const status of statuses.filter((one) => !own503.includes(one)).sort((a, b) => a - b))
    entries.push([String(status), failure(route, status)]);
  const type = route.errors === 'text' ? 'text/plain' : 'application/json';
  const content = { [type]: { schema: { $ref: errorRef(route.errors) }, example: errorExample(route.errors, 500) } };
  entries.push(['default', { description: 'Any other failure, in the same shape', content }]);
  return Object.fromEntries(entries);
}

/** Errors that are declared with their shape are the ones of the route's shape. */
function isErrorOfShape({ errors }: Route, schema: TSchema): boolean {
  const properties = (schema['properties'] ?? {}) as object;
  if (errors === 'admin') return 'statusCode' in properties;
  if (errors === 'rpc') return 'jsonrpc' in properties;
  return errors !== 'text' && 'error' in properties;
}

function success(route: Route, status: number, schema: TSchema): object {
  const description = schema.description ?? ANSWERS[status] ?? STATUS_CODES[status] ?? 'Answer';
  // A reply without a value has no body.
  if (schema['type'] === 'undefined') return { description };
  return { description, content: contentOf(route, schema) };
}

const ANSWERS: Readonly<Record<number, string>> = {
  200: 'The request succeeded',
  201: 'It was created',
  202: 'It was accepted and is being done',
  204: 'The call was a notification: it has no answer',
};

/** The content type of answers: that of the errors, or the one named by their schema. */
function contentOf(route: Route, schema: TSchema): object {
  const type = schema['contentMediaType'] ?? (route.errors === 'text' ? 'text/plain' : 'application/json');
  if (type !== 'application/json' && schema['examples'] === undefined) return { [type]: { schema } };
  return { [type]: { schema, example: exampleOf(schema) } };
}

const FAILURES: Readonly<Record<number, string>> = {
  400: 'The request is not valid: the error names what is wrong',
  401: 'The key is missing, wrong, expired or revoked',
  402: 'A payment is missing',
  403: 'The key, its plan, its permissions or the address of the client do not allow the call',
  404: 'It does not exist',
  405: 'The path has no such method',
  409: 'It is in a state that does not allow the call',
  413: 'The body is too large',
  429: 'Too many calls, or no credits are left',
  503: 'Not available at this moment',
  504: 'The upstream did not answer in time',
};
const RETRIED = new Set([429, 503]);
const RETRY_AFTER = {
  'Retry-After': { description: 'Seconds to wait', schema: { type: 'integer', minimum: 1 }, example: 1 },
};

function failure({ errors, auth, operatorToken }: Route, status: number): object {
  const type = errors === 'text' ? 'text/plain' : 'application/json';
  const description =
    auth === 'admin' && status === 403
      ? 'The Host, the Origin or the session does not allow the call'
      : operatorToken === true && status === 401
        ? 'The token of an operator is missing or wrong'
        : (FAILURES[status] ?? STATUS_CODES[status] ?? 'Failure');
  return {
    description,
    ...(RETRIED.has(status) ? { headers: RETRY_AFTER } : {}),
    content: { [type]: { schema: { $ref: errorRef(errors) }, example: errorExample(errors, status) } },
  };
}

const MESSAGES: Readonly<Record<number, readonly [message: string, details: string]>> = {
  400: ['Invalid query parameter', 'limit must be at most 100'],
  401: ['Invalid API key', 'Key missing or invalid'],
  403: ['Forbidden', 'The key does not permit this call'],
  404: ['not found', 'It does not exist'],
  409: ['webhook is inactive', 'It is in another state'],
  413: ['Request body too large', 'At most 10485760 bytes'],
  429: ['Too many requests', 'Rate limit exceeded'],
  500: ['Internal server error', 'See the log of the daemon'],
  503: ['Service unavailable', 'The service is shutting down'],
  504: ['Gateway timeout', 'The upstream did not answer'],
};

export function errorExample(shape: ErrorShape, status: number): unknown {
  const [message, details] = MESSAGES[status] ?? [STATUS_CODES[status] ?? 'Failure', ''];
  if (shape === 'text') return message.toLowerCase();
  if (shape === 'admin') return { statusCode: status, message, error: STATUS_CODES[status] };
  if (shape === 'plain') return { error: message, code: status };
  if (shape === 'wallet') return { error: message, code: status, details };
  const found = Object.values(RPC_CODES).find((one) => one.status === status) ?? RPC_CODES.invalidParams;
  return { jsonrpc: '2.0', error: { code: found.code, message: found.message, data: { details } }, id: 1 };
}

export function errorRef(shape: ErrorShape): string {
  return `#/components/schemas/error-${shape}`;
}

// ------------------------------------------------------------------------------------------------------------- JSON-RPC

function rpcOperation(methods: readonly RpcMethod[]): object {
  // `anyOf`: results of several methods have the same shape, and other methods are forwarded, so more than one schema may match.
  const own = ownNames(methods);
  const call = { anyOf: [...own.map(rpcRequestSchema), forwardedRequest(methods)] };
  const answer = { anyOf: [...own.map(rpcResultSchema), forwardedResult, { $ref: errorRef('rpc') }] };
  const error = { schema: { $ref: errorRef('rpc') } };
  const refusal = (status: number) => ({
    description: FAILURES[status],
    ...(RETRIED.has(status) ? { headers: RETRY_AFTER } : {}),
    content: { 'application/json': { ...error, example: errorExample('rpc', status) } },
  });
  return {
    operationId: 'callRpc',
    summary: 'JSON-RPC 2.0, single calls and batches',
    description:
      'Each method is described in `/openrpc.json`. Methods that are not listed there are forwarded unchanged to the configured Solana upstream.',
    tags: [RPC_TAG.name],
    security: KEY_SECURITY,
    parameters: [],
    requestBody: {
      description: 'One call, or a list of calls',
      required: true,
      content: {
        'application/json': {
          schema: { anyOf: [call, { type: 'array', items: call, minItems: 1 }] },
          example: { jsonrpc: '2.0', id: 1, method: 'getSlot' },
        },
      },
    },
    responses: {
      200: {
        description: 'Result or error of the call; for a batch those of its calls, in order',
        content: {
          'application/json': {
            schema: { anyOf: [answer, { type: 'array', items: answer }] },
            example: { jsonrpc: '2.0', result: 381_204_511, id: 1 },
          },
        },
      },
      204: { description: 'The call, or every call of the batch, was a notification: it has no id' },
      ...Object.fromEntries([400, 401, 403, 413, 429, 503, 504].map((status) => [status, refusal(status)])),
      default: {
        description: 'Refusal of the whole request',
        content: { 'application/json': { ...error, example: errorExample('rpc', 500) } },
      },
    },
  };
}

export const rpcId = { type: ['string', 'number', 'null'] };

/** Members of every call. */
const envelope = {
  jsonrpc: { const: '2.0', description: 'Version of JSON-RPC' },
  id: { ...rpcId, description: 'Id of the call; its answer has the same' },
};

function rpcRequestSchema(method: RpcMethod): object {
  return {
    title: method.name,
    description: method.summary,
    type: 'object',
    required: ['jsonrpc', 'method'],
    properties: {
      ...envelope,
      method: { ...nameSchema(method), description: 'Name of the method' },
      params: { description: 'Its parameters', ...method.params },
    },
  };
}

/** The name of a method, or one of its others. */
export const nameSchema = ({ name, aliases = [] }: Pick<RpcMethod, 'name' | 'aliases'>): object =>
  aliases.length === 0 ? { const: name } : { enum: [name, ...aliases] };

/** A call of a method that the daemon forwards. */
function forwardedRequest(methods: readonly RpcMethod[]): object {
  return {
    title: 'any other method',
    description: 'Forwarded unchanged to the configured Solana upstream',
    type: 'object',
    required: ['jsonrpc', 'method'],
    properties: {
      ...envelope,
      method: { type: 'string', not: { enum: methods.map(({ name }) => name) }, description: 'Name of the method' },
      params: { type: ['array', 'object', 'null'], items: {}, description: 'Its parameters' },
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
  const { summary, tag, auth, price, params, result, aliasOf } = method;
  return { summary, tag: tagName(tag), auth, price, params, result, aliasOf };
}

/** The error shapes that the document uses. */
function errorSchemas(used: string): Record<string, object> {
  const text = (description: string) => ({ type: 'string', description });
  const integer = (description: string) => ({ type: 'integer', description });
  const object = (properties: Record<string, object>, required = Object.keys(properties)) => ({
    type: 'object',
    properties,
    required,
  });
  const status = integer('HTTP status');
  const what = text('What is wrong');
  const details = text('More about it');
  const all = {
    'error-plain': object({ error: what, code: status }),
    'error-wallet': object({ error: what, code: status, details }, ['error', 'code']),
    'error-admin': object({ statusCode: status, message: what, error: text('Name of the status') }),
    'error-text': what,
    'error-rpc': object({
      jsonrpc: { const: '2.0' },
      error: {
        description: 'The error',
        ...object(
          {
            code: integer(
              `Our own: ${Object.values(RPC_CODES)
                .map(({ code, message }) => `${code} ${message}`)
                .join(', ')}; those of a node come as they are`,
            ),
            message: what,
            data: { description: 'Errors of this service: an object with `details`, if there are any' },
          },
          ['code', 'message'],
        ),
      },
      id: { ...rpcId, description: 'Id of the call; null when it is unknown' },
    }),
  };
  return Object.fromEntries(Object.entries(all).filter(([name]) => used.includes(`"#/components/schemas/${name}"`)));
}

/** A JSON Schema as the documents have it. */
export type Schema = Readonly<Record<string, unknown>>;

const STRINGS: Readonly<Record<string, string>> = {
  uuid: '5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11',
  'date-time': '2026-11-23T18:40:00.000Z',
  date: '2026-11-23',
  uri: 'https://example.org/hook',
};

/**
 * An example of a schema: its own, or one assembled from those of its parts. Plugins declare examples for values whose form cannot be
 * derived.
 */
export function exampleOf(schema: Schema): unknown {
  const { examples, type, enum: values, anyOf, allOf } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  if ('const' in schema) return schema['const'];
  if ('default' in schema) return schema['default'];
  if (Array.isArray(values)) return values[0];
  const [first] = (anyOf ?? schema['oneOf'] ?? []) as readonly Schema[];
  if (first !== undefined) return exampleOf(first);
  if (Array.isArray(allOf)) return Object.assign({}, ...(allOf as readonly Schema[]).map(exampleOf));
  const [kind] = [type].flat();
  if (kind === 'object') return objectExample(schema);
  if (kind === 'array') return arrayExample(schema);
  if (kind === 'string') return STRINGS[String(schema['format'])] ?? textExample(schema['pattern']);
  if (kind === 'integer' || kind === 'number') return schema['minimum'] ?? 1;
  if (kind === 'boolean') return true;
  return kind === 'null' ? null : {};
}

/** The smallest params of a call: those of its own examples, else the first form with what it requires. */
export function callExampleOf(schema: Schema): unknown {
  const { examples, type, anyOf, items, prefixItems, minItems } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  const [first] = (anyOf ?? schema['oneOf'] ?? []) as readonly Schema[];
  if (first !== undefined) return callExampleOf(first);
  const tuple = Array.isArray(items) ? items : prefixItems;
  if (Array.isArray(tuple))
    return (tuple as readonly Schema[]).slice(0, (minItems as number | undefined) ?? tuple.length).map(callExampleOf);
  if (type !== 'object') return exampleOf(schema);
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, Schema>);
  const required = new Set((schema['required'] ?? []) as readonly string[]);
  // Where one of several is needed and none is required, the first key says what the call is about.
  const [key] = required.size > 0 ? [] : properties.filter(([, value]) => isKey(value));
  if (key !== undefined) required.add(key[0]);
  return Object.fromEntries(
    properties.flatMap(([name, value]) => (required.has(name) ? [[name, callExampleOf(value)]] : [])),
  );
}

/** Whether a value is an address or a hash, or a list of them. */
function isKey({ format, anyOf, items }: Schema): boolean {
  if (format === 'base58-32') return true;
  if (Array.isArray(anyOf)) return (anyOf as readonly Schema[]).some(isKey);
  return typeof items === 'object' && items !== null && !Array.isArray(items) && isKey(items as Schema);
}

/** A text that matches the pattern: its literal beginning, or one of the usual forms. */
function textExample(pattern: unknown): string {
  if (typeof pattern !== 'string') return 'text';
  const [, beginning = ''] = /^\^([\w/ -]+)/.exec(pattern) ?? [];
  return ['text', beginning, '1', '1-1', '2026-11-23'].find((one) => new RegExp(pattern, 'u').test(one)) ?? 'text';
}

function objectExample({ properties = {}, patternProperties }: Schema): Record<string, unknown> {
  const own = Object.entries(properties as Record<string, Schema>)
    .filter(([, { deprecated }]) => deprecated !== true)
    .map(([name, value]) => [name, exampleOf(value)]);
  if (own.length > 0 || patternProperties === undefined) return Object.fromEntries(own);
  const [value] = Object.values(patternProperties as Record<string, Schema>);
  return value === undefined ? {} : { name: exampleOf(value) };
}

function arrayExample({ items, prefixItems, minItems = 1 }: Schema): unknown[] {
  const tuple = Array.isArray(items) ? items : prefixItems;
  if (Array.isArray(tuple)) return (tuple as readonly Schema[]).map(exampleOf);
  if (items === undefined) return [];
  return Array.from({ length: Math.max(1, minItems as number) }, () => exampleOf(items as Schema));
}
