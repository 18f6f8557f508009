import type { TObject, TSchema } from '@sinclair/typebox';
import { type ErrorShape, type Route, RPC_CODES, type RpcMethod } from '../plugin/plugin.ts';

const KEY_SECURITY = [{ keyInQuery: [] }, { keyInHeader: [] }];

/** The OpenAPI 3.1 document. TypeBox schemas are JSON Schema already, so they stand in it as they are. */
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

/** TypeBox writes tuples in the words of an older draft: a list of `items` is `prefixItems` in the one of OpenAPI 3.1. */
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

/** Answers are in the form of the errors, or in the one that their schema names. */
function contentOf(route: Route, schema: TSchema): object {
  const type = schema['contentMediaType'] ?? (route.errors === 'text' ? 'text/plain' : 'application/json');
  return { [type]: { schema } };
}

function errorRef(shape: ErrorShape): string {
  return `#/components/schemas/error-${shape}`;
}

function rpcOperation(methods: readonly RpcMethod[]): object {
  // Results of several methods have one shape, and a call that no schema names is passed on: more than one of them may fit.
  const call = { anyOf: [...methods.map(rpcRequestSchema), forwardedRequest(methods)] };
  const answer = { anyOf: [...methods.map(rpcResultSchema), forwardedResult, { $ref: errorRef('rpc') }] };
  return {
    operationId: 'post_rpc',
    summary: 'JSON-RPC 2.0, single calls and batches',
    description: 'Methods that are not listed here go to the configured Solana upstream as they are.',
    tags: ['JSON-RPC'],
    security: KEY_SECURITY,
    requestBody: {
      required: true,
      content: { 'application/json': { schema: { anyOf: [call, { type: 'array', items: call, minItems: 1 }] } } },
    },
    responses: {
      200: {
        description: 'Result or error of the call; of a batch those of its calls, in their order',
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

/** A call of a method that the daemon does not answer itself. */
function forwardedRequest(methods: readonly RpcMethod[]): object {
  return {
    title: 'any other method',
    description: 'Goes to the configured Solana upstream as it is',
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
          data: { description: 'Our own errors: an object with `details`, where there is more to say' },
        },
        ['code', 'message'],
      ),
      id: rpcId,
    }),
  };
}

/** What the interface documents are written from. */
export interface DocumentOptions {
  readonly routes: readonly Route[];
  readonly methods: readonly RpcMethod[];
  readonly version: string;
  /** Default: that of the API. */
  readonly description?: string;
}
