import type { TSchema } from '@sinclair/typebox';
import type { ForwardedMethod } from '../../plugin/host.ts';
import { type Price, RPC_CODES, type RpcCodeName, type RpcMethod, type Tag } from '../../plugin/plugin.ts';
import {
  asJsonSchema2020,
  callExampleOf,
  type DocumentOptions,
  exampleOf,
  nameSchemas,
  priceText,
  type Schema,
  tagName,
  tagsIn,
  tagsOf,
} from './openapi.ts';

/** A method in the form that both documents are made from. */
export interface DescribedMethod {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly tag: Tag | string;
  readonly params: readonly Param[];
  readonly isByName: boolean;
  /** Schema of the whole `params` value. */
  readonly whole: Schema;
  readonly result: TSchema;
  readonly price: Price | undefined;
  readonly isForwarded: boolean;
  readonly isSubscription: boolean;
  readonly aliases: readonly string[];
  readonly errors: readonly RpcCodeName[];
}

interface Param {
  readonly name: string;
  readonly required: boolean;
  readonly schema: Schema;
}

/** The methods of the plugins, each with its other names, then those that go upstream. */
export function describeMethods({ methods, forwarded = [], priceOf }: DocumentOptions): readonly DescribedMethod[] {
  const own = new Set(methods.map(({ name }) => name));
  return [
    ...methods.filter(({ aliasOf }) => aliasOf === undefined).map(ownMethod),
    ...forwarded.filter(({ name }) => !own.has(name)).map((method) => forwardedMethod(method, priceOf?.(method.name))),
  ];
}

/** What a call may answer whatever its method is: of the gate, and of the service. */
const OF_THE_GATE = ['unauthorized', 'paymentRequired', 'forbidden', 'tooManyRequests'] as const;
const OF_THE_SERVICE = ['unavailable', 'timeout', 'internal'] as const;

function ownMethod(method: RpcMethod): DescribedMethod {
  const { name, summary, tag, result, price, auth, aliases = [], errors = [] } = method;
  const facts = [auth === 'none' ? 'Needs no key.' : 'Needs a key.', priceText(price), ...otherNames(aliases)].join(
    ' ',
  );
  return {
    name,
    summary,
    tag,
    result,
    price,
    isForwarded: false,
    isSubscription: false,
    aliases,
    errors: ['invalidParams', ...errors, ...(auth === 'none' ? [] : OF_THE_GATE), ...OF_THE_SERVICE],
    description: method.description === undefined ? facts : `${method.description}\n\n${facts}`,
    whole: method.params,
    ...paramsOf(method.params),
  };
}

const otherNames = (aliases: readonly string[]): readonly string[] =>
  aliases.length === 0
    ? []
    : [`${aliases.length === 1 ? 'Another name' : 'Other names'}: ${aliases.map((name) => `\`${name}\``).join(', ')}.`];

function forwardedMethod(method: ForwardedMethod, price: Price | undefined): DescribedMethod {
  const { name, summary, tag, params, result, isSubscription = false } = method;
  const where = isSubscription ? 'Sent on a websocket, to the same address.' : 'Answered by the Solana upstream.';
  const required = params.filter((param) => param.required).length;
  return {
    name,
    summary,
    tag,
    params,
    result,
    price,
    isForwarded: true,
    isSubscription,
    aliases: [],
    errors: ['invalidParams', 'methodNotFound', ...OF_THE_GATE, ...OF_THE_SERVICE],
    isByName: false,
    description: [where, 'Needs a key.', ...(price === undefined ? [] : [priceText(price)])].join(' '),
    whole: {
      type: 'array',
      prefixItems: params.map(({ schema }) => schema),
      minItems: required,
      examples: [
        params.filter((param) => param.required || hasExample(param.schema)).map(({ schema }) => exampleOf(schema)),
      ],
    },
  };
}

const hasExample = ({ examples }: Schema): boolean => Array.isArray(examples);

/** Params for the documents. If there are several forms, the first one that is an object or a list of positions. */
function paramsOf(schema: Schema): Pick<DescribedMethod, 'params' | 'isByName'> {
  const forms = (schema['anyOf'] ?? [schema]) as readonly Schema[];
  const form = forms.find(({ items, type }) => Array.isArray(items) || type === 'object');
  if (form === undefined) return { params: [], isByName: false };
  if (form['type'] !== 'object') {
    const items = form['items'] as readonly Schema[];
    const least = (form['minItems'] as number | undefined) ?? items.length;
    const params = items.map((item, at) => ({ name: paramName(item, at), required: at < least, schema: item }));
    return { params, isByName: false };
  }
  const required = new Set((form['required'] ?? []) as readonly string[]);
  const params = Object.entries((form['properties'] ?? {}) as Record<string, Schema>).map(([name, inner]) => ({
    name,
    required: required.has(name),
    schema: inner,
  }));
  return { params, isByName: true };
}

const paramName = ({ title }: Schema, at: number): string => (typeof title === 'string' ? title : `params[${at}]`);

/** The OpenRPC 1.3 document of `POST /`: the methods of this service and the known ones of the upstream. */
export function openRpcDocument(options: DocumentOptions): object {
  const methods = describeMethods(options);
  const tags = new Map(tagsOf(tagsIn(methods)).map((tag) => [tag.name, tag]));
  const document = asJsonSchema2020({
    openrpc: '1.3.2',
    info: {
      title: 'parhelion JSON-RPC',
      version: options.version,
      description:
        'Calls go to `POST /` with an API key, one at a time or as a batch, or over a websocket. Other methods than these are forwarded to the upstream as well.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [{ name: 'This daemon', url: '/' }],
    methods: methods.map((method) => methodObject(method, tags)),
  });
  const named = nameSchemas(document);
  return { ...named.document, components: { schemas: named.schemas } };
}

/** As clients see them: a code stands once, with the text of the table. */
export function errorsOf({ errors }: DescribedMethod): readonly { readonly code: number; readonly message: string }[] {
  return [...new Set(errors)].map((name) => ({ code: RPC_CODES[name].code, message: RPC_CODES[name].message }));
}

function methodObject(method: DescribedMethod, tags: ReadonlyMap<string, Tag>): object {
  const { name, summary, description, params, isByName, result, price, isForwarded, isSubscription, whole } = method;
  return {
    name,
    summary,
    description,
    tags: [tags.get(tagName(method.tag))],
    paramStructure: isByName ? 'by-name' : 'by-position',
    // Required ones come first.
    params: [...params]
      .sort((a, b) => Number(b.required) - Number(a.required))
      .map(({ schema, ...param }) => ({
        ...param,
        ...(typeof schema['description'] === 'string' ? { description: schema['description'] } : {}),
        schema,
      })),
    result: {
      name: 'result',
      ...(result.description === undefined ? {} : { description: result.description }),
      schema: result,
    },
    errors: errorsOf(method),
    examples: [
      {
        name: 'example',
        description: `A call of ${name}`,
        params: exampleParams(method),
        result: { name: 'result', value: exampleOf(result) },
      },
    ],
    ...(method.aliases.length === 0 ? {} : { 'x-aliases': method.aliases }),
    ...(isForwarded ? { 'x-forwarded': true } : { 'x-params': whole }),
    ...(isSubscription ? { 'x-transport': 'websocket' } : {}),
    ...(price === undefined ? {} : { 'x-price': price }),
  };
}

/** What the example of `params` gives to each param. */
function exampleParams({ params, isByName, whole }: DescribedMethod): readonly object[] {
  const example = callExampleOf(whole);
  return params.flatMap(({ name }, at) => {
    const value = isByName ? (example as Record<string, unknown>)[name] : (example as readonly unknown[])[at];
    return value === undefined ? [] : [{ name, value }];
  });
}
