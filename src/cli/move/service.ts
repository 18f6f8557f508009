import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError, codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';
import { callPeer } from '../../runtime/call-peer.ts';
import { backoffMs, retryAfterMs } from '../../runtime/waiting.ts';
import { isSafeAddress } from '../safe-address.ts';

export const moveUsage = (text: string) => new CodedError('MOVE_USAGE', text, { exitCode: EXIT.usage });

/** A JSON API with a key. */
export interface Service {
  /** For messages; without path, query and key. */
  readonly host: string;
  /** Errors: MOVE_SERVICE (exit 75) after some attempts; MOVE_REFUSED with the status and the text of the service. */
  ask(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<unknown>;
}

export interface ServiceOptions {
  /** Name of the option, for messages. */
  readonly option: string;
  readonly url: string;
  readonly key: string;
  /** Header of the key; null: it goes into the query as `api-key`, as the service documents. */
  readonly keyHeader: string | null;
}

const ATTEMPTS = 6;
const TIMEOUT_MS = 30_000;
const MAX_PAUSE_MS = 30_000;
const MAX_TEXT_CHARS = 300;

export function createService({ option, url, key, keyHeader }: ServiceOptions): Service {
  if (!isSafeAddress(url))
    throw moveUsage(`${option} must begin with https://; http:// is for services on this machine only`);
  const { host } = new URL(url);

  async function once(method: string, path: string, body: unknown) {
    const address = new URL(`${url.replace(/\/+$/, '')}${path}`);
    if (keyHeader === null) address.searchParams.set('api-key', key);
    const response = await callPeer(address, {
      method,
      headers: {
        accept: 'application/json',
        ...(keyHeader === null ? {} : { [keyHeader]: key }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { response, text: await response.text() };
  }

  return {
    host,
    async ask(method, path, body) {
      // Creating is not repeated after a failure on the way: it may have happened, which the next run finds out.
      const attempts = method === 'POST' ? 1 : ATTEMPTS;
      let limits = 0;
      for (let failures = 1; ; failures += 1) {
        let answer: Awaited<ReturnType<typeof once>>;
        try {
          answer = await once(method, path, body);
        } catch (error) {
          if (failures >= attempts) throw unreachable(host, reasonOf(error));
          await sleep(backoffMs(failures, null));
          continue;
        }
        const { response, text } = answer;
        if (response.ok) return parse(text, host);
        const said = said_(text, key);
        const isFull = response.status === 429 || response.status === 503;
        if (isFull && limits < ATTEMPTS) {
          limits += 1;
          await sleep(
            retryAfterMs(response.headers.get('retry-after') ?? undefined, Date.now(), MAX_PAUSE_MS) ??
              backoffMs(limits, null),
          );
          continue;
        }
        if (isFull || response.status >= 500) {
          if (failures >= attempts || isFull) throw unreachable(host, `status ${response.status} ${said}`);
          await sleep(backoffMs(failures, null));
          continue;
        }
        throw new CodedError('MOVE_REFUSED', `${host} refuses: ${response.status} ${said}`, {
          exitCode: EXIT.usage,
          facts: { status: response.status, said },
        });
      }
    },
  };
}

const unreachable = (host: string, reason: string) =>
  new CodedError('MOVE_SERVICE', `${host} does not answer: ${reason}`, { exitCode: EXIT.temporary, retryable: true });

/** The text of an error without the key, which a service may repeat. */
const said_ = (text: string, key: string): string => text.replaceAll(key, '***').slice(0, MAX_TEXT_CHARS);

/** Never a message, which may quote the address with its key. */
const reasonOf = (error: unknown): string => codeOf(error) ?? (error instanceof Error ? error.name : 'error');

function parse(text: string, host: string): unknown {
  if (text.trim() === '') return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw unreachable(host, 'the answer is not JSON');
  }
}

/** A key from a file (alone in it, or the file of a sign-up) or from the environment. Error: MOVE_USAGE. */
export function readKeyOfService(
  file: string | null,
  fromEnvironment: string | undefined,
  names: { readonly option: string; readonly variable: string },
): string {
  if (file === null && fromEnvironment === undefined)
    throw moveUsage(`${names.option} or ${names.variable} is needed: keys are not read from the command line`);
  let text = fromEnvironment ?? '';
  try {
    if (file !== null) text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw moveUsage(`cannot read the key: ${messageOf(error)}`);
  }
  const key = text.startsWith('{') ? ((JSON.parse(text) as { key?: string }).key ?? '') : text;
  if (/^[\x21-\x7e]{1,512}$/.test(key)) return key;
  throw moveUsage(`${file ?? names.variable} has no key`);
}
