/** What all calls share: the request, its time limit, errors, and integers that a number cannot hold. */

/** An integer of 64 bits: a number where that is exact, else a bigint. */
export type Uint64 = number | bigint;

export interface ClientOptions {
  /** Address of the daemon, such as `http://127.0.0.1:8787`. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  /** Milliseconds for one attempt. Default 30,000. */
  readonly timeoutMs?: number;
  /** How often a read or a call is sent again when the daemon says when (`Retry-After` of 429 and 503). Default 2. */
  readonly retries?: number;
  /** Default: that of the platform. */
  readonly fetch?: typeof fetch;
}

/** For one call. */
export interface CallOptions {
  readonly timeoutMs?: number;
  readonly retries?: number;
  readonly signal?: AbortSignal;
}

/**
 * `rpc`: an error of a JSON-RPC call; `http`: a refusal of a route; `timeout`; `connection`: no answer came; `answer`: what came is no answer
 * of the daemon.
 */
export type ErrorKind = 'rpc' | 'http' | 'timeout' | 'connection' | 'answer';

export class ParhelionError extends Error {
  readonly kind: ErrorKind;
  /** HTTP status; null where no answer came. */
  readonly status: number | null;
  /** Code of a JSON-RPC error. */
  readonly code: number | null;
  /** The reason, as one sentence. */
  readonly details: string | null;
  /** `data` of a JSON-RPC error. */
  readonly data: unknown;
  /** Seconds after which a retry may help. */
  readonly retryAfter: number | null;
  /** The request in the log of the daemon. */
  readonly requestId: string | null;

  constructor(kind: ErrorKind, message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = 'ParhelionError';
    this.kind = kind;
    this.status = facts.status ?? null;
    this.code = facts.code ?? null;
    this.details = facts.details ?? null;
    this.data = facts.data;
    this.retryAfter = facts.retryAfter ?? null;
    this.requestId = facts.requestId ?? null;
  }
}

export interface ErrorFacts {
  readonly status?: number | null;
  readonly code?: number | null;
  readonly details?: string | null;
  readonly data?: unknown;
  readonly retryAfter?: number | null;
  readonly requestId?: string | null;
  readonly cause?: unknown;
}

export interface Request {
  readonly method: string;
  /** With its parameters filled in. */
  readonly path: string;
  readonly query?: object | undefined;
  readonly body?: unknown;
  readonly needsKey: boolean;
  /** The answer is a text. */
  readonly isText?: boolean;
}

type Json = Readonly<Record<string, unknown>>;

export class Client {
  readonly #options: ClientOptions;
  readonly #base: string;
  readonly #keyHeader: string;

  constructor(options: ClientOptions, keyHeader: string) {
    this.#options = options;
    this.#base = options.baseUrl.replace(/\/+$/, '');
    this.#keyHeader = keyHeader;
  }

  /** Calls any method of JSON-RPC, also one that this package does not know. */
  async call<Result = unknown>(
    method: string,
    params?: object | readonly unknown[],
    call?: CallOptions,
  ): Promise<Result> {
    const body = { jsonrpc: '2.0', id: 1, method, params };
    const answer = await this.#send({ method: 'POST', path: '/', body, needsKey: true }, true, call);
    if (!isObject(answer) || !('result' in answer)) throw new ParhelionError('answer', 'The answer has no result');
    return answer['result'] as Result;
  }

  /** Calls a route. */
  async request<Answer>(request: Request, call?: CallOptions): Promise<Answer> {
    return (await this.#send(request, request.method === 'GET', call)) as Answer;
  }

  async #send(request: Request, isRepeatable: boolean, call: CallOptions = {}): Promise<unknown> {
    const retries = isRepeatable ? (call.retries ?? this.#options.retries ?? 2) : 0;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#attempt(request, call);
      } catch (error) {
        if (!(error instanceof ParhelionError) || error.retryAfter === null || attempt >= retries) throw error;
        await pause(1_000 * error.retryAfter, call.signal);
      }
    }
  }

  async #attempt({ method, path, query, body, needsKey, isText }: Request, call: CallOptions): Promise<unknown> {
    const { apiKey, fetch: send = fetch, timeoutMs = 30_000 } = this.#options;
    const limit = AbortSignal.timeout(call.timeoutMs ?? timeoutMs);
    // Not AbortSignal.any: some browsers in use do not have it.
    const stop = new AbortController();
    const end = () => stop.abort();
    for (const signal of [limit, call.signal]) {
      if (signal?.aborted) end();
      signal?.addEventListener('abort', end, { once: true });
    }
    const headers: Record<string, string> = { accept: 'application/json' };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (needsKey && apiKey !== undefined) headers[this.#keyHeader] = apiKey;
    try {
      const response = await send(`${this.#base}${path}${queryText(query)}`, {
        method,
        headers,
        body: body === undefined ? null : encodeJson(body),
        // Another host must not get the key.
        redirect: 'error',
        signal: stop.signal,
      });
      return readAnswer(response.status, response.headers, await response.text(), isText === true);
    } catch (error) {
      if (error instanceof ParhelionError) throw error;
      if (call.signal?.aborted) throw call.signal.reason;
      if (limit.aborted) throw new ParhelionError('timeout', 'The daemon did not answer in time', { cause: error });
      throw new ParhelionError('connection', 'The daemon cannot be reached', { cause: error });
    } finally {
      call.signal?.removeEventListener('abort', end);
    }
  }
}

/** Percent-encodes a parameter of a path. */
export const segment = (value: string | Uint64): string => encodeURIComponent(String(value));

/** Params by position: what is absent at the end is left out, what is absent before it is null. */
export function given(...values: readonly unknown[]): readonly unknown[] | undefined {
  const count = values.findLastIndex((value) => value !== undefined) + 1;
  return count === 0 ? undefined : values.slice(0, count);
}

function queryText(query: object = {}): string {
  const parts = Object.entries(query).flatMap(([name, value]: [string, unknown]) =>
    (Array.isArray(value) ? (value as unknown[]) : [value])
      .filter((one) => one !== undefined && one !== null)
      .map((one) => `${encodeURIComponent(name)}=${encodeURIComponent(String(one))}`),
  );
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}

function readAnswer(status: number, headers: Headers, text: string, isText: boolean): unknown {
  const isFailure = status < 200 || status > 299;
  const value = isText && !isFailure ? text : parsed(status, text, isFailure);
  const isRpc = isObject(value) && value['jsonrpc'] === '2.0' && isObject(value['error']);
  if (!isFailure && !isRpc) return value;
  const after = headers.get('retry-after');
  const facts = {
    status,
    retryAfter: after === null || !/^\d+$/.test(after) ? null : Number(after),
    requestId: headers.get('x-request-id'),
  };
  throw failureOf(value, text, facts);
}

function parsed(status: number, text: string, isFailure: boolean): unknown {
  if (text === '') return null;
  try {
    return decodeJson(text);
  } catch (cause) {
    if (isFailure) return null;
    throw new ParhelionError('answer', 'The answer is not JSON', { status, cause });
  }
}

/** The shapes of errors: `{jsonrpc, error: {code, message, data}}`, `{error, details}`, `{message, error}`, or a text. */
function failureOf(value: unknown, text: string, facts: ErrorFacts): ParhelionError {
  const { error, message, details } = (isObject(value) ? value : {}) as Json;
  if (isObject(error)) {
    const { data } = error;
    const reason = isObject(data) ? data['details'] : undefined;
    const { status, retryAfter, requestId } = facts;
    const code = typeof error['code'] === 'number' ? error['code'] : null;
    const more = { status, retryAfter, requestId, code, data, details: typeof reason === 'string' ? reason : null };
    return new ParhelionError('rpc', String(error['message']), more as ErrorFacts);
  }
  const { status, retryAfter, requestId } = facts;
  const said = [message, error].find((one) => typeof one === 'string');
  const reason = typeof details === 'string' ? details : null;
  const words = (said as string | undefined) ?? (text.slice(0, 200) || `HTTP ${status}`);
  return new ParhelionError('http', words, { status, retryAfter, requestId, details: reason } as ErrorFacts);
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', end);
      resolve();
    }, ms);
    if (signal?.aborted) end();
    signal?.addEventListener('abort', end, { once: true });
  });
}

// ---------------------------------------------------------------------------------------------------------- exact integers

/** JSON with bigints as digits. */
export function encodeJson(value: unknown): string {
  if (typeof value === 'bigint') return String(value);
  if (Array.isArray(value)) return `[${value.map((one) => (one === undefined ? 'null' : encodeJson(one))).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, one]) => one !== undefined);
  return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${encodeJson(one)}`).join()}}`;
}

/** JSON in which integers that a number cannot hold become bigints. */
export function decodeJson(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  let mark = 'integer:';
  while (text.includes(mark)) mark += ':';
  const marked = markIntegers(text, mark);
  if (marked === text) return JSON.parse(text);
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

/** Puts the mark and quotes around the digits of each such integer. What stands in a string is skipped. */
function markIntegers(text: string, mark: string): string {
  const token = /"|-?\d{16,}(?![\d.eE])|[\d.eE+-]+/g;
  let marked = '';
  let copied = 0;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    const [word] = found;
    if (word === '"') token.lastIndex = endOfString(text, token.lastIndex);
    else if (/^-?\d{16,}$/.test(word) && !Number.isSafeInteger(Number(word))) {
      marked += `${text.slice(copied, found.index)}"${mark}${word}"`;
      copied = token.lastIndex;
    }
  }
  return marked + text.slice(copied);
}

/** Behind the quote that ends the string. */
function endOfString(text: string, start: number): number {
  let at = start;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}
