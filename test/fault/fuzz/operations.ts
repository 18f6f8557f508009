/** Calls of the operations that a listener documents, and the shapes that their answers have to have. */
import assert from 'node:assert/strict';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import { near, oddText, type Schema, wild } from './values.ts';

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly schema: Schema;
}
export interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Schema } } };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}
export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
  readonly 'x-rpc': Readonly<Record<string, { readonly params?: Schema }>>;
}

/** What leads further into an operation than its schemas tell. */
export interface Hints {
  /** Values of parameters, by name. */
  readonly parameters?: Readonly<Record<string, fc.Arbitrary<unknown>>>;
  /** Bodies, by the end of the path. */
  readonly bodies?: Readonly<Record<string, fc.Arbitrary<unknown>>>;
}

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
  readonly target: string;
  readonly body: string | undefined;
  /** Whether it is sent as somebody who is let in. */
  readonly isKnown: boolean;
}

export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** Targets and bodies of all documented operations but JSON-RPC. */
export function callsOf(document: ApiDocument, hints: Hints): fc.Arbitrary<Call> {
  const all = Object.entries(document.paths)
    .filter(([path]) => path !== '/')
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => callsOfOne(path, method, operation, hints)),
    );
  assert.ok(all.length > 10);
  return fc.oneof(...all);
}

function callsOfOne(path: string, method: string, operation: Operation, hints: Hints): fc.Arbitrary<Call> {
  const parameters = operation.parameters ?? [];
  return fc
    .record({
      values: fc.tuple(...parameters.map((one) => fc.option(valuesOf(one, hints), { nil: undefined }))),
      body: fc.oneof(
        {
          weight: 6,
          arbitrary: bodiesOf(path, operation, hints).map((value) =>
            value === undefined ? undefined : JSON.stringify(value),
          ),
        },
        { weight: 1, arbitrary: oddText },
      ),
      extra: fc.option(fc.tuple(oddText, oddText), { nil: undefined }),
      isKnown: fc.integer({ min: 0, max: 4 }).map((dice) => dice > 0),
    })
    .map(({ values, body, extra, isKnown }) => {
      const query: string[] = [];
      let filled = path;
      parameters.forEach((one, i) => {
        const text = encode(values[i]);
        if (one.in === 'path') filled = filled.replace(`{${one.name}}`, text === '' ? 'x' : text);
        else if (values[i] !== undefined) query.push(`${one.name}=${text}`);
      });
      if (extra !== undefined) query.push(`${encode(extra[0])}=${encode(extra[1])}`);
      return { method: method.toUpperCase(), path, operation, target: `${filled}?${query.join('&')}`, body, isKnown };
    });
}

function valuesOf({ name, schema }: Parameter, { parameters = {} }: Hints): fc.Arbitrary<unknown> {
  const known = parameters[name];
  if (known === undefined) return near(schema);
  return fc.oneof({ weight: 4, arbitrary: known }, { weight: 1, arbitrary: near(schema) });
}

function bodiesOf(path: string, { requestBody }: Operation, { bodies = {} }: Hints): fc.Arbitrary<unknown> {
  const schema = requestBody?.content['application/json'].schema;
  if (schema === undefined) return fc.constant(undefined);
  const known = Object.entries(bodies).find(([end]) => path.endsWith(end))?.[1];
  const others = fc.oneof(near(schema), wild);
  return known === undefined ? others : fc.oneof({ weight: 3, arbitrary: known }, { weight: 2, arbitrary: others });
}

function encode(value: unknown): string {
  const text = value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  return encodeURIComponent(text.slice(0, 3_000).replace(/\p{Cs}/gu, '?')).replaceAll('.', '%2E');
}

/** Asserts the documented shape of an answer with its status. */
export type AssertShape = (operation: Operation, answer: Answer, what: string) => void;

export function createShapes({ components }: ApiDocument): AssertShape {
  const ajv = new Ajv({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: 'api:', components });
  const compiled = new Map<object, ReturnType<Ajv['compile']>>();
  const checkOf = (schema: object): ReturnType<Ajv['compile']> => {
    const known = compiled.get(schema);
    if (known !== undefined) return known;
    const check = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api:#/')) as object);
    compiled.set(schema, check);
    return check;
  };
  return (operation, answer, what) => {
    assert.notEqual(answer.status, 500, `${what}: ${answer.text}`);
    const { content } = operation.responses[answer.status] ?? operation.responses['default'] ?? {};
    const [[type, { schema }] = ['', { schema: {} }]] = Object.entries(content ?? {});
    if (answer.text === '' || type === '*/*') return;
    assert.ok(answer.type.startsWith(type), `${what}: ${answer.status} ${answer.type} instead of ${type}`);
    if (!type.startsWith('application/json')) return;
    const check = checkOf(schema);
    assert.ok(
      check(JSON.parse(answer.text)),
      `${what}: ${answer.status} ${answer.text.slice(0, 300)} ${ajv.errorsText(check.errors ?? null)}`,
    );
  };
}
