/**
 * What the documents of a daemon say, in the form from which each language is written: types with names, operations of REST, methods of
 * JSON-RPC. The same documents give the same model in the same order.
 */
import { camel, pascal, uniqueNames } from './names.ts';

export interface Documents {
  readonly openapi: OpenApiDocument;
  readonly openrpc: OpenRpcDocument;
}

/** A JSON Schema. */
type Schema = Readonly<Record<string, unknown>>;

interface OpenApiDocument {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: {
    readonly schemas?: Readonly<Record<string, Schema>>;
    readonly securitySchemes?: Readonly<
      Record<string, { readonly type: string; readonly in?: string; readonly name?: string }>
    >;
  };
}
interface OpenApiOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly deprecated?: boolean;
  readonly security: readonly object[];
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly description?: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}
type Content = Readonly<Record<string, { readonly schema: Schema }>>;

interface OpenRpcDocument {
  readonly methods: readonly OpenRpcMethod[];
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> };
}
interface OpenRpcMethod {
  readonly name: string;
  readonly summary: string;
  readonly paramStructure: 'by-name' | 'by-position';
  readonly params: readonly {
    readonly name: string;
    readonly required: boolean;
    readonly description?: string;
    readonly schema: Schema;
  }[];
  readonly result: { readonly schema: Schema };
  readonly 'x-aliases'?: readonly string[];
  readonly 'x-transport'?: string;
}

export type Shape =
  | { readonly kind: 'any' | 'null' | 'boolean' | 'string' | 'number' }
  /** `isLong`: up to 64 bits, so beyond what a double holds; `isSigned`: may be negative. */
  | { readonly kind: 'integer'; readonly isLong: boolean; readonly isSigned: boolean }
  | { readonly kind: 'enum'; readonly values: readonly (string | number | boolean)[] }
  | { readonly kind: 'array' | 'map'; readonly of: Shape }
  | { readonly kind: 'tuple' | 'union'; readonly of: readonly Shape[] }
  | { readonly kind: 'named'; readonly name: string };

export interface Member {
  /** As JSON has it. */
  readonly name: string;
  readonly shape: Shape;
  readonly isRequired: boolean;
  readonly text: string | null;
}

/** An object with members. */
export interface NamedType {
  readonly name: string;
  readonly text: string | null;
  readonly members: readonly Member[];
}

export interface Operation {
  readonly id: string;
  readonly text: string;
  readonly method: string;
  /** `/v1/wallet/{wallet}/history` */
  readonly path: string;
  readonly needsKey: boolean;
  readonly pathParams: readonly Member[];
  /** The type of all parameters of the query; null: there are none. */
  readonly query: NamedType | null;
  readonly body: { readonly shape: Shape; readonly isRequired: boolean } | null;
  /** Null: the answer has no body. */
  readonly answer: Shape | null;
  /** The answer is a text, not JSON. */
  readonly isText: boolean;
}

export interface Method {
  readonly name: string;
  readonly text: string;
  readonly isByName: boolean;
  readonly params: readonly Member[];
  /** The type of all params of a call by name. */
  readonly paramsType: NamedType | null;
  readonly result: Shape;
}

export interface Model {
  readonly version: string;
  /** Header that carries the key. */
  readonly keyHeader: string;
  readonly types: readonly NamedType[];
  readonly operations: readonly Operation[];
  readonly methods: readonly Method[];
}

/** Documents and pages, and the protocol of agents, which has clients of its own. */
const LEFT_OUT_TAGS = new Set(['Documentation', 'Agents']);

export function modelOf({ openapi, openrpc }: Documents): Model {
  const types = createTypes();
  const ofRest = types.inDocument(openapi.components.schemas ?? {});
  const ofRpc = types.inDocument(openrpc.components?.schemas ?? {});
  const operations = Object.entries(openapi.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { tags }]) => path !== '/' && !tags.some((tag) => LEFT_OUT_TAGS.has(tag)))
      .map(([method, operation]) => operationOf(ofRest, path, method, operation)),
  );
  // Those of a websocket need a connection that lasts.
  const methods = openrpc.methods
    .filter((method) => method['x-transport'] !== 'websocket')
    .map((method) => methodOf(ofRpc, method));
  return {
    version: openapi.info.version,
    keyHeader: keyHeaderOf(openapi),
    types: types.all().sort((one, other) => (one.name < other.name ? -1 : 1)),
    operations,
    methods,
  };
}

/** A key in a header stays out of the logs of proxies, which have addresses. */
function keyHeaderOf({ components }: OpenApiDocument): string {
  const schemes = Object.values(components.securitySchemes ?? {});
  const found = schemes.find((scheme) => scheme.type === 'apiKey' && scheme.in === 'header')?.name;
  if (found === undefined) throw new Error('the document names no header for the key');
  return found;
}

function operationOf(types: DocumentTypes, path: string, method: string, operation: OpenApiOperation): Operation {
  const { operationId, summary, deprecated, security, parameters, requestBody, responses } = operation;
  const base = pascal(operationId);
  const members = (place: string) =>
    parameters
      .filter((one) => one.in === place)
      .map(
        ({ name, required, description, schema }): Member => ({
          name,
          shape: types.shape(schema, `${base}${pascal(name)}`),
          isRequired: required,
          text: description ?? null,
        }),
      );
  const query = members('query');
  const body = requestBody === undefined ? undefined : Object.values(requestBody.content)[0]?.schema;
  return {
    id: camel(operationId),
    text: deprecated === true ? `${summary} (deprecated)` : summary,
    method: method.toUpperCase(),
    path,
    needsKey: security.length > 0,
    pathParams: members('path'),
    query: query.length === 0 ? null : types.add(`${base}Query`, `Parameters of ${operationId}`, query),
    body: body === undefined ? null : { shape: types.shape(body, `${base}Body`), isRequired: requestBody!.required },
    ...answerOf(types, `${base}Answer`, responses),
  };
}

/** The body of a success. Where another success has none, it may be null. */
function answerOf(
  types: DocumentTypes,
  name: string,
  responses: OpenApiOperation['responses'],
): Pick<Operation, 'answer' | 'isText'> {
  const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'));
  const contents = successes.flatMap(([, { content }]) =>
    content === undefined ? [] : Object.entries(content).slice(0, 1),
  );
  const [first] = contents;
  if (first === undefined) return { answer: null, isText: false };
  const [type, { schema }] = first;
  const isText = !type.endsWith('json');
  const shape: Shape = isText ? { kind: 'string' } : types.shape(schema, name);
  return { answer: contents.length < successes.length ? union([shape, { kind: 'null' }]) : shape, isText };
}

function methodOf(types: DocumentTypes, method: OpenRpcMethod): Method {
  const { name, summary, paramStructure, result } = method;
  const base = pascal(name);
  const params = method.params.flatMap((param): Member[] => {
    const shape = types.shape(param.schema, `${base}${pascal(param.name)}`);
    // What may only be null is for clients that send all they know.
    if (shape.kind === 'null') return [];
    const text = param.description ?? textOf(param.schema);
    return [{ name: param.name, shape, isRequired: param.required, text }];
  });
  const isByName = paramStructure === 'by-name';
  const others = method['x-aliases'] ?? [];
  return {
    name,
    text: others.length === 0 ? summary : `${summary}. Also: ${others.join(', ')}`,
    isByName,
    params,
    paramsType: isByName && params.length > 0 ? types.add(`${base}Params`, `Params of ${name}`, params) : null,
    result: types.shape(result.schema, `${base}Result`),
  };
}

// ----------------------------------------------------------------------------------------------------------------- types

/** Reads the schemas of one document. */
interface DocumentTypes {
  shape(schema: Schema, name: string): Shape;
  add(name: string, text: string | null, members: readonly Member[]): NamedType;
}

function createTypes() {
  const types = new Map<string, NamedType>();
  const unique = uniqueNames();
  /** Of components of all documents: the same text is the same type. */
  const byText = new Map<string, Shape>();

  function add(wanted: string, text: string | null, members: readonly Member[]): NamedType {
    const type = { name: unique(wanted), text, members };
    types.set(type.name, type);
    return type;
  }

  function inDocument(components: Readonly<Record<string, Schema>>): DocumentTypes {
    function shape(schema: Schema, name: string): Shape {
      const { $ref } = schema;
      if (typeof $ref === 'string') return component($ref.slice($ref.lastIndexOf('/') + 1));
      if ('const' in schema) return literal([schema['const']]);
      if (Array.isArray(schema['enum'])) return literal(schema['enum']);
      const variants = (schema['anyOf'] ?? schema['oneOf']) as readonly Schema[] | undefined;
      // Members beside variants: these only say which of the members go together.
      if (variants !== undefined && schema['properties'] === undefined) return ofVariants(variants, name);
      if (Array.isArray(schema['allOf']))
        return shape(Object.assign({}, ...schema['allOf'], schema, { allOf: undefined }), name);
      const kinds = [schema['type'] ?? (schema['properties'] === undefined ? 'any' : 'object')].flat();
      return union(kinds.map((kind) => ofKind(String(kind), schema, name)));
    }

    function component(name: string): Shape {
      const schema = components[name];
      if (schema === undefined) throw new Error(`the document has no schema ${name}`);
      const text = `${name} ${JSON.stringify(schema)}`;
      const known = byText.get(text);
      if (known !== undefined) return known;
      const found = shape(schema, pascal(name));
      byText.set(text, found);
      return found;
    }

    function ofVariants(variants: readonly Schema[], name: string): Shape {
      const real = variants.filter((one) => !isNull(one));
      return union(
        variants.map((one, at) =>
          isNull(one) ? { kind: 'null' } : shape(one, real.length === 1 ? name : `${name}${at + 1}`),
        ),
      );
    }

    function ofKind(kind: string, schema: Schema, name: string): Shape {
      if (kind === 'null' || kind === 'boolean' || kind === 'string' || kind === 'number') return { kind };
      if (kind === 'integer') {
        const { format, minimum } = schema;
        return {
          kind,
          isLong: format === 'uint64' || format === 'int64',
          isSigned: !(typeof minimum === 'number' && minimum >= 0),
        };
      }
      if (kind === 'array') return ofList(schema, name);
      return kind === 'object' ? ofObject(schema, name) : { kind: 'any' };
    }

    function ofList({ items, prefixItems }: Schema, name: string): Shape {
      if (Array.isArray(prefixItems))
        return {
          kind: 'tuple',
          of: (prefixItems as readonly Schema[]).map((one, at) => shape(one, `${name}${at + 1}`)),
        };
      return { kind: 'array', of: items === undefined ? { kind: 'any' } : shape(items as Schema, itemName(name)) };
    }

    function ofObject(schema: Schema, name: string): Shape {
      const { properties, required, patternProperties, additionalProperties, title } = schema;
      const entries = Object.entries((properties ?? {}) as Record<string, Schema>).filter(([, one]) => !isNever(one));
      if (entries.length === 0) {
        const values =
          patternProperties === undefined ? additionalProperties : Object.values(patternProperties as object)[0];
        const of = typeof values === 'object' ? shape(values as Schema, itemName(name)) : ({ kind: 'any' } as const);
        return { kind: 'map', of };
      }
      const own = typeof title === 'string' && /^[A-Z][A-Za-z0-9]*$/.test(title) ? title : name;
      const needed = new Set((required ?? []) as readonly string[]);
      const members = entries.map(
        ([member, one]): Member => ({
          name: member,
          shape: shape(one, `${own}${pascal(member)}`),
          isRequired: needed.has(member),
          text: textOf(one),
        }),
      );
      return { kind: 'named', name: add(own, textOf(schema), members).name };
    }

    return { shape, add };
  }

  return { inDocument, all: () => [...types.values()] };
}

const isNull = ({ type }: Schema): boolean => type === 'null';
const isNever = ({ not }: Schema): boolean => typeof not === 'object' && not !== null && Object.keys(not).length === 0;

/** The items of `…Balances` are called `…Balance`. */
function itemName(name: string): string {
  const one = name.replace(/ies$/, 'y').replace(/([^s])s$/, '$1');
  return one === name ? `${name}Item` : one;
}

function literal(values: readonly unknown[]): Shape {
  const real = values.filter((value) => value !== null) as (string | number | boolean)[];
  const found: Shape[] = real.length === 0 ? [] : [{ kind: 'enum', values: [...new Set(real)] }];
  return union(real.length < values.length ? [...found, { kind: 'null' }] : found);
}

/** Without repetitions; words of several lists are one list, and whatever anything may be is anything. */
function union(shapes: readonly Shape[]): Shape {
  const flat = shapes.flatMap((shape) => (shape.kind === 'union' ? shape.of : [shape]));
  if (flat.some(({ kind }) => kind === 'any')) return { kind: 'any' };
  const values = flat.flatMap((shape) => (shape.kind === 'enum' ? shape.values : []));
  const at = flat.findIndex(({ kind }) => kind === 'enum');
  const merged = flat.flatMap((shape, index): Shape[] => {
    if (shape.kind !== 'enum') return [shape];
    return index === at ? [{ kind: 'enum', values: [...new Set(values)] }] : [];
  });
  const texts = merged.map((shape) => JSON.stringify(shape));
  const different = merged.filter((_, index) => texts.indexOf(texts[index]!) === index);
  return different.length === 1 ? different[0]! : { kind: 'union', of: different };
}

/** The description of a schema, or of what it may be besides null. */
function textOf({ description, anyOf }: Schema): string | null {
  if (typeof description === 'string') return description;
  const first = ((anyOf ?? []) as readonly Schema[]).find((one) => typeof one['description'] === 'string');
  return first === undefined ? null : (first['description'] as string);
}

// ----------------------------------------------------------------------------------------------------- help for the writers

/** The shape without null, and whether it may be null. */
export function withoutNull(shape: Shape): { readonly shape: Shape; readonly isNullable: boolean } {
  if (shape.kind !== 'union') return { shape, isNullable: shape.kind === 'null' };
  const of = shape.of.filter(({ kind }) => kind !== 'null');
  return { shape: of.length === 1 ? of[0]! : { kind: 'union', of }, isNullable: of.length < shape.of.length };
}

/** `/v1/wallet/{wallet}/history` as its texts and the names of its parameters. */
export const pathParts = (path: string): readonly { readonly text: string; readonly param: string | null }[] =>
  path
    .split(/(\{[^}]+\})/)
    .filter((part) => part !== '')
    .map((part) => (part.startsWith('{') ? { text: '', param: part.slice(1, -1) } : { text: part, param: null }));

/** A text on one line. */
export const line = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();
