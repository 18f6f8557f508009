/**
 * Runs the tests that the method files of the standard of the Solana JSON-RPC declare (solana-rpc/specs: methods/http, schemas, errors/codes.yaml,
 * compatibility.yaml), over HTTP. Fixtures that a chain has to provide are given; tests that need a capture of another one are left out.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { encode } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';

type Json = Readonly<Record<string, unknown>>;

interface DeclaredTest {
  readonly name: string;
  readonly params?: readonly unknown[];
  readonly matrix?: Readonly<Record<string, readonly unknown[]>>;
  readonly requires?: readonly string[];
  readonly expect?: {
    readonly error?: string;
    readonly message?: string;
    readonly shape?: unknown;
    readonly available?: unknown;
    readonly result?: unknown;
    readonly assertions?: readonly Assertion[];
  };
}

interface Assertion {
  readonly path: string;
  readonly equalsPath?: string;
  readonly orderBy?: string;
  readonly direction?: 'ascending' | 'descending';
  readonly base64Bytes?: number;
}

interface MethodFile {
  readonly name: string;
  readonly result?: { readonly schema?: unknown };
  readonly tests?: readonly DeclaredTest[];
}

export type Verdict =
  | { readonly kind: 'pass' | 'skipped' | 'inconclusive' }
  | { readonly kind: 'fail'; readonly reason: string };

export interface SpecTest {
  /** Method, test and values of its matrix. */
  readonly name: string;
  run(ask: (method: string, params: readonly unknown[]) => Promise<Json>): Promise<Verdict>;
}

/** A value that the test needs is not there. */
class MissingFixture extends Error {}

const read = (path: string): unknown => parse(readFileSync(path, 'utf8'));
const filesOf = (folder: string): readonly string[] =>
  existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => name.endsWith('.yaml'))
        .toSorted()
        .map((name) => join(folder, name))
    : [];

/** `given`: fixtures by name. */
export function readSpecTests(folder: string, given: Json): readonly SpecTest[] {
  const ajv = new Ajv({ strict: false, allErrors: false, validateFormats: false });
  const components: Record<string, unknown> = {};
  for (const file of filesOf(join(folder, 'schemas'))) components[basename(file, '.yaml')] = read(file);
  const fixtures = fixturesOf(join(folder, 'compatibility.yaml'), given);
  const codes = read(join(folder, 'errors/codes.yaml')) as Readonly<Record<string, { readonly code: number }>>;
  /** Why the value does not match; null when it does. */
  const mismatch = (schema: unknown, value: unknown): string | null => {
    const validate = ajv.compile({ allOf: [fill(schema, fixtures, {})], components: { schemas: components } });
    return validate(value) ? null : ajv.errorsText(validate.errors);
  };

  function judge(method: MethodFile, { expect = {} }: DeclaredTest, answer: Json): Verdict {
    const error = answer['error'] as { readonly code: number; readonly message: string } | undefined;
    const fail = (reason: string): Verdict => ({ kind: 'fail', reason });
    if (expect.error !== undefined) {
      if (error?.code !== codes[expect.error]?.code)
        return fail(`${expect.error} expected, got ${JSON.stringify(answer)}`);
      const isSaid = expect.message === undefined || error?.message === expect.message;
      return isSaid ? { kind: 'pass' } : fail(`another message: ${error?.message}`);
    }
    if (error !== undefined) return fail(`an error: ${JSON.stringify(error)}`);
    const { result } = answer;
    for (const [what, schema] of [
      ['schema', method.result?.schema],
      ['shape', expect.shape],
      ['available', expect.available],
      ['result', expect.result],
    ] as const) {
      const reason = schema === undefined ? null : mismatch(schema, result);
      if (reason !== null) return what === 'available' ? { kind: 'inconclusive' } : fail(`${what}: ${reason}`);
    }
    const wrong = (expect.assertions ?? []).find((assertion) => !holds(assertion, result));
    return wrong === undefined ? { kind: 'pass' } : fail(`assertion ${JSON.stringify(wrong)}`);
  }

  return filesOf(join(folder, 'methods/http')).flatMap((file) => {
    const method = read(file) as MethodFile;
    return (method.tests ?? []).flatMap((test) =>
      combinations(test.matrix ?? {}).map(
        (matrix): SpecTest => ({
          name: [method.name, test.name, ...Object.values(matrix).map((value) => JSON.stringify(value))].join(' '),
          async run(ask) {
            try {
              for (const name of test.requires ?? []) if (!(name in fixtures)) throw new MissingFixture(name);
              const filled = { ...test, expect: fill(test.expect ?? {}, fixtures, matrix) } as DeclaredTest;
              const params = fill(test.params ?? [], fixtures, matrix) as readonly unknown[];
              return judge(method, filled, await ask(method.name, params));
            } catch (error) {
              if (error instanceof MissingFixture) return { kind: 'skipped' };
              throw error;
            }
          },
        }),
      ),
    );
  });
}

/** Given ones first, then values of the file, then random ones. */
function fixturesOf(file: string, given: Json): Json {
  const declared = existsSync(file)
    ? ((read(file) as { fixtures?: Readonly<Record<string, { value?: unknown; generate?: { bytes: number } }>> })
        .fixtures ?? {})
    : {};
  const made = Object.entries(declared).flatMap(([name, { value, generate }]) => {
    if (value !== undefined) return [[name, value]];
    return generate === undefined ? [] : [[name, encode(crypto.getRandomValues(new Uint8Array(generate.bytes)))]];
  });
  return { ...Object.fromEntries(made), ...given };
}

/** Puts fixtures and values of the matrix in their places. Throws MissingFixture. */
function fill(value: unknown, fixtures: Json, matrix: Json): unknown {
  if (Array.isArray(value)) return value.map((item) => fill(item, fixtures, matrix));
  if (!isPlainObject(value)) return value;
  if ('$matrix' in value) return matrix[String(value['$matrix'])];
  if ('$fixture' in value) {
    const found = fixtures[String(value['$fixture'])];
    if (found === undefined && 'default' in value) return fill(value['default'], fixtures, matrix);
    if (found === undefined) throw new MissingFixture(String(value['$fixture']));
    return typeof found === 'number' ? found + Number(value['offset'] ?? 0) : found;
  }
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, fill(member, fixtures, matrix)]));
}

function combinations(matrix: Readonly<Record<string, readonly unknown[]>>): readonly Json[] {
  return Object.entries(matrix).reduce<readonly Json[]>(
    (made, [name, values]) => made.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  );
}

/** The values at a JSON pointer; `*` is each item. */
function valuesAt(value: unknown, path: string): readonly unknown[] {
  const steps = path.split('/').slice(1);
  return steps.reduce<readonly unknown[]>(
    (found, step) =>
      found.flatMap((one) => {
        if (step === '*') return Array.isArray(one) ? one : [];
        return [(one as Json | null | undefined)?.[step.replaceAll('~1', '/').replaceAll('~0', '~')]];
      }),
    [value],
  );
}

function holds({ path, equalsPath, orderBy, direction, base64Bytes }: Assertion, result: unknown): boolean {
  const found = valuesAt(result, path);
  if (equalsPath !== undefined && !isDeepStrictEqual(found, valuesAt(result, equalsPath))) return false;
  if (base64Bytes !== undefined && found.some((text) => Buffer.from(String(text), 'base64').length !== base64Bytes))
    return false;
  if (orderBy === undefined) return true;
  const keys = (found[0] as readonly unknown[]).map((item) => Number(valuesAt(item, orderBy)[0]));
  return keys.every(
    (key, at) => at === 0 || (direction === 'descending' ? key <= keys[at - 1]! : key >= keys[at - 1]!),
  );
}
