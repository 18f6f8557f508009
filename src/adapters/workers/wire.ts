import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';

/** To the worker: a duty to do. */
export interface Ask {
  readonly id: number;
  readonly duty: string;
  readonly args: readonly unknown[];
}

/** To the worker: so many bytes of its log lines were taken. */
export interface Taken {
  readonly taken: number;
}

/** From the worker. */
export type Told =
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'error'; readonly id: number; readonly error: ErrorData }
  /** It cannot go on. */
  | { readonly kind: 'fatal'; readonly error: ErrorData }
  /** Whole lines of its log. */
  | { readonly kind: 'log'; readonly lines: string };

/** An error as plain data: an instance would lose its code on the way. */
export interface ErrorData {
  readonly code: string | null;
  readonly message: string;
  readonly exitCode: number | null;
  readonly retryable: boolean;
  readonly facts: Readonly<Record<string, unknown>>;
}

export function toErrorData(error: unknown): ErrorData {
  const coded = error instanceof CodedError ? error : null;
  return {
    code: codeOf(error) ?? null,
    message: messageOf(error),
    exitCode: coded?.exitCode ?? null,
    retryable: coded?.retryable ?? false,
    facts: coded === null ? {} : (JSON.parse(JSON.stringify(coded.facts)) as Record<string, unknown>),
  };
}

/** An error without a code is a bug of the other thread. */
export function fromErrorData(data: ErrorData): Error {
  if (data.code === null) return new Error(data.message);
  const { exitCode, retryable, facts } = data;
  return new CodedError(data.code, data.message, { retryable, facts, ...(exitCode === null ? {} : { exitCode }) });
}
