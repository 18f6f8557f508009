import type { TObject, TSchema } from '@sinclair/typebox';
import type { ErrorShape, Route, RpcMethod } from '../plugin.ts';
import { RPC_CODES } from '../plugin.ts';
import type { DocumentOptions } from './document-options.ts';

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
  return {
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
  };
}

function operation(route: Route): object {
  return {
    operationId: operationId(route),
    summary: route.summary,
    tags: [route.tag],
    ...(route.auth === 'key' ? { security: KEY_SECURITY } : {}),
    ...(route.auth === 'optional-key' ? { security: [...KEY_SECURITY, {}] } : {}),
    parameters: [...parameters(pathSchema(route), 'path'), ...parameters(route.query, 'query')],
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: route.bodyOptional !== true,
            content: { 'application/json': { schema: route.body } },
          },
        }),
    responses: responses(route),
    ...(route.price === undefined ? {} : { 'x-price': route.price }),
  };
}

function operationId(route: Route): string {
  const words = route.path.split('/').filter((word) => word !== '');
  return [route.method.toLowerCase(), ...words.map((word) => word.replace(/[^A-Za-z0-9]/g, ''))].join('_');
}

/** Path parameters without a schema are strings. */
function pathSchema(route: Route): Pick<TObject, 'properties' | 'required'> {
  const names = [...route.path.matchAll(/:([A-Za-z0-9_]+)/g)].map(([, name]) => name as string);
  const properties = Object.fromEntries(
    names.map((name) => [name, route.params?.properties[name] ?? ({ type: 'string' } as unknown as TSchema)]),
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
    { description: schema.description ?? 'Answer', content: contentOf(route, schema) },
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
  return {
    operationId: 'post_rpc',
    summary: 'JSON-RPC 2.0, single calls and batches',
    description: 'Methods that are not listed here go to the configured Solana upstream as they are.',
    tags: ['JSON-RPC'],
    security: KEY_SECURITY,
    requestBody: {
      required: true,
      content: { 'application/json': { schema: { oneOf: methods.map(rpcRequestSchema) } } },
    },
    responses: {
      200: {
        description: 'Result or error of the call',
        content: {
          'application/json': {
            schema: { oneOf: [...methods.map(rpcResultSchema), { $ref: errorRef('rpc') }] },
          },
        },
      },
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
          code: { type: 'integer', enum: Object.values(RPC_CODES).map((entry) => entry.code) },
          message: text,
          data: object({ details: text }),
        },
        ['code', 'message'],
      ),
      id: rpcId,
    }),
  };
}
