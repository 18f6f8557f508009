/** Exit codes of the process. `negative`: a command has checked something, and it is not as it should be. */
export const EXIT = { ok: 0, negative: 1, schemaNewer: 57, usage: 64, bug: 70, temporary: 75, config: 78 } as const;

/** Additional data of an error. No secrets: all of it can reach a log line or a client. */
export interface CodedErrorOptions {
  readonly cause?: unknown;
  /** Plain facts for the log and for `data.details`, such as a slot or a config path. */
  readonly facts?: Readonly<Record<string, unknown>>;
  /** When the error ends the process: one of `EXIT`. */
  readonly exitCode?: number;
  /** Whether the same call may succeed later without any change. */
  readonly retryable?: boolean;
}

/** An error with a stable `AREA_REASON` code. Compare `code`, never the message and never `instanceof` across packages. */
export class CodedError extends Error {
  readonly code: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly exitCode: number | undefined;
  readonly retryable: boolean;

  constructor(code: string, message: string, options: CodedErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CodedError';
    this.code = code;
    this.facts = options.facts ?? {};
    this.exitCode = options.exitCode;
    this.retryable = options.retryable ?? false;
  }
}

/** The code of any thrown value, or undefined. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const code = (error as { code?: unknown }).code;
  return typeof code === 'string' ? code : undefined;
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
