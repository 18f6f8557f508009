import type { Static, TObject, TSchema } from '@sinclair/typebox';
import { AnswerError } from '../../src/lib/answer-error.ts';
import { Type } from '../../src/plugin/plugin.ts';

/** A tool of the server: one task, which it does with calls of the interface. */
export interface Tool<Input extends TObject = TObject> {
  readonly name: string;
  readonly title: string;
  /** When to use it, and what its views return. */
  readonly description: string;
  readonly input: Input;
  /** Schema of `data` in its answers. */
  readonly data: TSchema;
  /** Changes something, and only after a confirmation. */
  readonly isWrite?: boolean;
  /** Its data is written by this service, not by strangers. */
  readonly isOwnData?: boolean;
  /** Errors: ToolError. */
  run(input: Static<Input>, calls: Calls): Promise<ToolAnswer>;
}

export interface ToolAnswer {
  /** Our own words. Of what others wrote they contain only addresses, signatures and numbers. */
  readonly summary: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** Paths of `data` that are never cut. */
  readonly whole?: readonly string[];
  /** Later calls get this very object, so its result is written once. */
  readonly isLasting?: true;
}

/** Types a tool by its input. */
export function defineTool<Input extends TObject>(tool: Tool<Input>): Tool {
  return tool as unknown as Tool;
}

/** Calls of the interface with the key of the agent: each is checked and charged as over HTTP. Errors: ToolError. */
export interface Calls {
  readonly projectId: string;
  get(path: string, query?: Readonly<Record<string, unknown>>): Promise<unknown>;
  send(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<unknown>;
  rpc(method: string, params: unknown): Promise<unknown>;
  /** Content of another kind than JSON. */
  text(path: string): Promise<string>;
  /** Like `text`, as bytes. Content that the daemon keeps is the same object each time. */
  bytes(path: string): Promise<Uint8Array>;
}

/** Why a tool has no answer. The text is for the agent. */
export class ToolError extends AnswerError {
  /** HTTP status of the refused call, or null. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null) {
    super(message);
    this.name = 'ToolError';
    this.status = status;
  }
}

/** The value, or null if the call found nothing (404). */
export async function orMissing<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ToolError && error.status === 404) return null;
    throw error;
  }
}

/** Without the members that are undefined: the interface refuses them in bodies, and queries have none. */
export function given<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;
}

const open = { additionalProperties: true } as const;

/** An object of an answer, of which the schema names the members that agents read first. */
export const answered = (properties: Readonly<Record<string, TSchema>>, description?: string): TObject =>
  Type.Object(
    Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, Type.Optional(schema)])),
    description === undefined ? open : { ...open, description },
  );

export const anything = (description: string): TSchema => Type.Unknown({ description });
export const listOf = (description: string): TSchema => Type.Array(Type.Unknown(), { description });

/** Members of inputs that several tools have. */
export const INPUT = {
  address: (description: string) => Type.String({ minLength: 32, maxLength: 44, description }),
  signature: (description: string) => Type.String({ minLength: 64, maxLength: 88, description }),
  limit: (most: number, usual: number) =>
    Type.Optional(
      Type.Integer({ minimum: 1, maximum: most, description: `rows to return, at most ${most}; default ${usual}` }),
    ),
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 512, description: '`next` of the previous answer: the page after it' }),
  ),
  since: Type.Optional(
    Type.String({
      maxLength: 40,
      description: 'first moment: ISO 8601 (2026-11-28T00:00:00Z) or Unix seconds',
    }),
  ),
  until: Type.Optional(Type.String({ maxLength: 40, description: 'last moment, in the same forms' })),
};

/** One of several names, in the form that every client of the protocol reads. */
export const choice = <T extends string>(values: readonly T[], description: string) =>
  Type.Unsafe<T>({ type: 'string', enum: [...values], description });

/** Unix seconds of a moment in an input; undefined for an absent one. Errors: ToolError. */
export function secondsOf(moment: string | undefined, name: string): number | undefined {
  if (moment === undefined) return undefined;
  const seconds = /^\d{1,11}$/.test(moment) ? Number(moment) : Math.floor(Date.parse(moment) / 1_000);
  if (Number.isSafeInteger(seconds) && seconds >= 0) return seconds;
  throw new ToolError(`${name} is neither an ISO 8601 time nor Unix seconds`);
}

/** Requires an input that some views need. Errors: ToolError. */
export function required<T>(value: T | undefined, name: string, view: string): T {
  if (value === undefined) throw new ToolError(`${name} is required for ${view}`);
  return value;
}

export const count = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`;

const LAMPORTS_PER_SOL = 1_000_000_000n;

/** Lamports, as a number or as text, in SOL: `1.5 SOL`. */
export function solOf(lamports: unknown): string {
  const value =
    typeof lamports === 'bigint' ? lamports : BigInt(typeof lamports === 'string' ? lamports : Number(lamports));
  const rest = (value % LAMPORTS_PER_SOL).toString().padStart(9, '0').replace(/0+$/, '');
  return `${value / LAMPORTS_PER_SOL}${rest === '' ? '' : `.${rest}`} SOL`;
}

export const momentOf = (seconds: unknown): string =>
  typeof seconds === 'number' ? new Date(seconds * 1_000).toISOString() : 'an unknown time';
